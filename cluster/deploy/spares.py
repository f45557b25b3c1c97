"""Spares: processes that are started ahead, for plans that take over while a run is going.

Starting a process takes more than a second of a processor, most of it imports, and several at once beside a plan that
is busy take ten times as long. A spare has all that behind it: it is reset to whatever the new plan needs.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

import ray
from ray.exceptions import RayError

from actors.ray_unit import Sink, UnitShell
from shuffler.exchange.ray_shell import Shell, as_actor
from shuffler.exchange.ray_shuffler import Shuffler
from shuffler.routing.topology import Topology

#: How long a run is left alone before processes are started beside it.
_CALM_S = 2.0


class _Spare:
    """Mixed into the class of an actor: without a setup it has everything loaded, and waits."""

    def __init__(self, setup: Any = None) -> None:
        if setup is None:
            assert isinstance(self, Shell)
            Shell.__init__(self, "spare", "a spare process")
        else:
            super().__init__(setup)  # type: ignore[call-arg]  # the actor's class, whose setup this is


class SpareUnit(_Spare, UnitShell):
    """Becomes a unit, of whichever operator."""


class SpareSink(_Spare, Sink):
    """Becomes a sink."""


class SpareShuffler(_Spare, Shuffler):
    """Becomes a shuffler."""


def kinds_of(topology: Topology) -> dict[str, type[Shell]]:
    """The kind of spare that each process of a plan could be, by its name."""
    kinds: dict[str, type[Shell]] = {process.name: SpareUnit for process in topology.units}
    return kinds | dict.fromkeys(topology.sink_names, SpareSink) | dict.fromkeys(topology.shuffler_names, SpareShuffler)


def _rests(actor: Any) -> bool:
    """Has an actor let go of all that it holds; False if it is gone."""
    try:
        ray.get(actor.rest.remote())
    except RayError:
        return False
    return True


class Spares:
    """Processes that wait; a thread starts them one after the other, so that a run beside them is hardly disturbed."""

    def __init__(self) -> None:
        self._ready: dict[type[Shell], list[Any]] = {SpareUnit: [], SpareSink: [], SpareShuffler: []}
        self._wanted: Counter[type[Shell]] = Counter()
        self._lock = threading.Lock()
        self._filling: threading.Thread | None = None
        self._starting: Any = None
        self._stopped = threading.Event()
        self._may_start = threading.Event()
        self._may_start.set()

    def want(self, topology: Topology, *, units: int = 0) -> None:
        """From some time on there are to be as many as this plan has processes, and at least so many units."""
        wanted = Counter(kinds_of(topology).values())
        wanted[SpareUnit] = max(wanted[SpareUnit], units)
        with self._lock:
            self._wanted |= wanted
            if self._filling is None and not self._stopped.is_set():
                self._filling = threading.Thread(target=self._fill, name="decopa-spares", daemon=True)
                self._filling.start()

    def pause(self) -> None:
        """No further one is started for the time being: another plan starts its own, and wants the processors."""
        self._may_start.clear()

    def resume(self) -> None:
        self._may_start.set()

    @property
    def are_wanted(self) -> bool:
        """Whether some run has its next plan begin in processes that wait."""
        return bool(self._wanted)

    def take(self, topology: Topology) -> dict[str, Any]:
        """Actors for some of the processes of a plan, or all, by their names."""
        with self._lock:
            return {name: self._ready[kind].pop() for name, kind in kinds_of(topology).items() if self._ready[kind]}

    def give_back(self, topology: Topology, actors: Mapping[str, Any]) -> None:
        """Actors that were taken, by their names in a plan that is over: they wait for the next one, as far as so many
        are wanted."""
        kinds, surplus = kinds_of(topology), []
        # Nothing is on its way between them any more; once all are at rest they know nothing of that plan.
        rested = {name: actor for name, actor in actors.items() if _rests(actor)}
        with self._lock:
            for name, actor in rested.items():
                ready = self._ready[kinds[name]]
                if self._stopped.is_set() or len(ready) >= self._wanted[kinds[name]]:
                    surplus.append(actor)
                else:
                    ready.append(actor)
        for actor in surplus:
            ray.kill(actor, no_restart=True)

    @property
    def ready(self) -> Mapping[str, int]:
        """How many there are, by their class."""
        with self._lock:
            return {kind.__name__: len(actors) for kind, actors in self._ready.items()}

    def stop(self) -> None:
        self._stopped.set()
        self.resume()
        with self._lock:
            actors = [*(one for ready in self._ready.values() for one in ready), self._starting]
            for ready in self._ready.values():
                ready.clear()
        for actor in actors:
            if actor is not None:
                ray.kill(actor, no_restart=True)
        if self._filling is not None:
            self._filling.join()

    def _fill(self) -> None:
        self._stopped.wait(_CALM_S)
        self._may_start.wait()
        while (actor := self._next()) is not None:
            kind, handle = actor
            try:
                ray.get(handle.born.remote())
            except RayError:  # stopped, or the machine is short of something: plans start processes of their own
                break
            with self._lock:
                self._starting = None
                self._ready[kind].append(handle)
            self._may_start.wait()
        with self._lock:
            self._starting = self._filling = None

    def _next(self) -> tuple[type[Shell], Any] | None:
        """Another one that has begun to start; None if none is missing."""
        with self._lock:
            missing = (kind for kind, count in self._wanted.items() if len(self._ready[kind]) < count)
            kind = None if self._stopped.is_set() else next(missing, None)
            if kind is None:
                return None
            self._starting = as_actor(kind).options(num_cpus=0).remote()
            return kind, self._starting
