"""EarlyRay: a Ray that starts beside what a run does before it needs one, such as measuring the trace."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from types import TracebackType

from decopa.errors import DeployError

#: Places for actors, before the plan says how many it takes; they cost nothing.
_PLACES = 64


class EarlyRay:
    """A Ray for one run; what is started here is stopped at the end of `with`. Ray is imported when it is needed."""

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._holder: threading.Thread | None = None
        self._started, self._released = threading.Event(), threading.Event()

    def __enter__(self) -> EarlyRay:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def begin(self) -> None:
        """Starts a Ray, unless there is one or a cluster was named: to connect takes no time."""
        if self._address is None and not os.environ.get("RAY_ADDRESS") and not _has_ray():
            self._holder = threading.Thread(target=self._hold, name="decopa-ray", daemon=True)
            self._holder.start()

    @contextlib.contextmanager
    def session(self, cpus: int) -> Iterator[str | None]:
        """Waits until Ray has places for that many actors; yields the address of the dashboard, as `ray_session`."""
        from cluster.ray_session import ray_session

        if cpus > _PLACES:
            self._stop()
        elif self._holder is not None:
            self._started.wait()
        with ray_session(address=self._address, cpus=cpus) as dashboard:
            yield dashboard

    def _hold(self) -> None:
        """Starts Ray and stays: Linux ends Ray's processes with the thread that has started them."""
        from cluster.ray_session import start_ray

        with contextlib.suppress(DeployError):  # tried again, and told, where Ray is needed
            start_ray(_PLACES)
        self._started.set()
        self._released.wait()

    def _stop(self) -> None:
        if self._holder is not None:
            from cluster.ray_session import stop_ray

            self._started.wait()
            stop_ray()
            self._released.set()
            self._holder.join()
            self._holder = None


def _has_ray() -> bool:
    """Whether this program is connected to a Ray already."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())
