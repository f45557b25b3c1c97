"""What all actors of a run share: they know their failure, and whoever watches them learns of it at once."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import pyarrow as pa
import ray

from decopa.errors import DecoPaError, DeployError
from decopa.lean import load_lean
from shuffler.exchange.ray_links import PeerFailed
from shuffler.exchange.ray_metrics import Publisher
from shuffler.exchange.wall_clock import WallClock, machine_time_s

#: Watching and asking for reports must not wait behind messages.
CONTROL = "control"
CONCURRENCY_GROUPS = {CONTROL: 4}


def as_actor(shell: type[Shell]) -> Any:
    """The actor class of a shell; actors are not typed, and Ray's stubs do not know concurrency groups."""
    return ray.remote(concurrency_groups=CONCURRENCY_GROUPS)(shell)  # type: ignore[call-overload]


T = TypeVar("T")


class KeptResults(Generic[T]):
    """Results by number, for whoever asks for them from another thread; each is handed out once."""

    def __init__(self) -> None:
        self._results: dict[int, T] = {}
        self._arrived = threading.Condition()

    def put(self, number: int, result: T) -> None:
        with self._arrived:
            self._results[number] = result
            self._arrived.notify_all()

    def wait(self, number: int, ended: threading.Event) -> T:
        """Waits for a result, or for the end: then none will come."""
        with self._arrived:
            while number not in self._results:
                if ended.is_set():
                    raise PeerFailed(f"the run ended before checkpoint {number} came here")
                self._arrived.wait(0.2)
            return self._results.pop(number)


class Shell:
    """Base of the actors. A failure is kept: later messages meet it again, and `watch` ends with it."""

    _metrics: Publisher | None = None

    def __init__(self, name: str, title: str) -> None:
        load_lean()
        #: When the process was there, with all that it imports.
        self._born = time.time()
        self._clock = WallClock()
        self.name, self._title = name, title
        self._ended = threading.Event()
        self._failure: DecoPaError | None = None

    def __repr__(self) -> str:
        return self.name

    @contextmanager
    def working(self) -> Iterator[None]:
        """Around everything that can fail: names the process in what went wrong."""
        if self._failure is not None:
            raise self._failure
        try:
            yield
        except PeerFailed as err:
            self._fail(err)
            raise
        except DecoPaError as err:  # says what is wrong and where already
            self._fail(err)
            raise
        except Exception as err:
            failure = DeployError(f"{self._title} failed: {type(err).__name__}: {err}")
            self._fail(failure)
            raise failure from err

    def _fail(self, failure: DecoPaError) -> None:
        self._failure = failure
        self._ended.set()

    def watch_until_end(self) -> None:
        """Returns when the run is over for this actor; raises what made it fail."""
        self._ended.wait()
        if self._failure is not None:
            raise self._failure

    def reset(self, setup: Any) -> None:
        """Begins anew with this setup, as another attempt would that starts a process for it.

        What is still on its way from the attempt before carries that one's number and is dropped.
        """
        self._leave()
        type(self).__init__(self, setup)  # type: ignore[call-arg]  # every actor is made of its setup alone

    def rest(self) -> None:
        """Nobody wants what is held here any more, but perhaps the process: it holds nothing until it is `reset`."""
        self._leave()
        resting = vars(Shell(self.name, self._title))
        for attribute in vars(self).keys() - resting.keys():
            delattr(self, attribute)
        vars(self).update(resting)
        _let_go()
        pa.default_memory_pool().release_unused()

    def _leave(self) -> None:
        self._ended.set()  # whoever waits for something of this attempt learns that it will not come
        if self._metrics is not None:
            self._metrics.stop()

    def greet(self) -> None:
        """The last thing before the run: what is in memory now, above all what was imported, is there to stay.

        Python would go through all of it again and again in search of garbage, for some 60 ms each time.
        """
        _let_go()  # a process that has begun anew has what is left of the attempt before
        gc.freeze()

    def born(self) -> float:
        return self._born

    def idle(self) -> None:
        """Returns when everything that came before is done."""

    @ray.method(concurrency_group=CONTROL)
    def clock(self) -> float:
        """What the clock of this machine says."""
        return machine_time_s()

    def set_clock(self, ahead_s: float) -> None:
        """From now on this process subtracts this from what the clock of its machine says."""
        self._clock.set_right(ahead_s)

    @ray.method(concurrency_group=CONTROL)
    def pid(self) -> int:
        """The process that this actor runs in."""
        return os.getpid()

    def node_id(self) -> str:
        """The node of the cluster that it runs on."""
        return str(ray.get_runtime_context().get_node_id())

    def end(self) -> None:
        self._ended.set()


def _let_go() -> None:
    """Frees what nobody holds any more, if objects were kept from being looked at, see `Shell.greet`."""
    if gc.get_freeze_count():
        gc.unfreeze()
        gc.collect()
