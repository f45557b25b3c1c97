"""Actors that outlive their run or plan: in a session the next one with the same processes takes them over.

Starting a process takes a second of a processor and more, most of it imports; in one that is there a run begins at
once.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray

from cluster.deploy.placement import Places
from cluster.deploy.spares import Spares


@dataclass(frozen=True)
class Ensemble:
    """The actors of a run that has ended, by name, with their places. Another run fits if its `shape` is equal."""

    shape: Hashable
    places: Places
    sinks: Mapping[str, Any]
    units: Mapping[str, Any]
    shufflers: Mapping[str, Any]
    #: The number of the run; whoever takes over has a higher one.
    attempt: int

    def stop(self) -> None:
        for actor in (*self.sinks.values(), *self.units.values(), *self.shufflers.values()):
            ray.kill(actor, no_restart=True)
        self.places.release()


class KeptActors:
    """Those of the last run, until the next one begins, and spare ones."""

    def __init__(self) -> None:
        self._ensemble: Ensemble | None = None
        self._lock = threading.Lock()
        self.spares = Spares()

    def put(self, ensemble: Ensemble | None) -> None:
        """Keeps these in place of those before, which are stopped."""
        with self._lock:
            before, self._ensemble = self._ensemble, ensemble
        if before is not None:
            before.stop()

    def take(self, shape: Hashable) -> Ensemble | None:
        """The actors that are kept, if they fit and all their places are still there; else they are stopped, so that
        their places are free."""
        with self._lock:
            kept, self._ensemble = self._ensemble, None
        if kept is None or (kept.shape == shape and kept.places.intact):
            return kept
        kept.stop()
        return None

    def stop(self) -> None:
        self.put(None)
        self.spares.stop()


_sessions: list[KeptActors] = []


def kept_actors() -> KeptActors | None:
    """Those of the session that this program is in; None outside of any."""
    return _sessions[-1] if _sessions else None


@contextmanager
def keeping_actors() -> Iterator[None]:
    """Inside, the actors of a run that has ended well are kept for the next."""
    mine = KeptActors()
    _sessions.append(mine)
    try:
        yield
    finally:
        _sessions.remove(mine)
        mine.stop()


@contextmanager
def keeping_replaced_actors(*, alone: bool) -> Iterator[None]:
    """Inside, the actors of a plan that was replaced are kept for its return if this program is `alone` on its Ray, so
    that nobody else wants their places. On a cluster they end, unless a session keeps actors anyway."""
    if _sessions or not alone:
        yield
        return
    with keeping_actors():
        yield
