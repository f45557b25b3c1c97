"""WorkClock: how long a process has worked, without the time it waited."""

from __future__ import annotations

import time
from collections.abc import Callable


class WorkClock:
    """`waited` tells the time waited so far. What is at work counts, too, since a block that is played slowly takes
    minutes; the time can be read from another thread."""

    def __init__(self, waited: Callable[[], float], clock: Callable[[], float] = time.perf_counter) -> None:
        self._waited, self._clock = waited, clock
        #: Time spent on what is done; when that at work began, and the time waited until then. One value, replaced as
        #: a whole, so that a reader never meets half of a change.
        self._state: tuple[float, float | None, float] = (0.0, None, 0.0)

    def begin(self) -> None:
        self._state = self._state[0], self._clock(), self._waited()

    def end(self, worked_s: float | None = None) -> None:
        """Books the work since `begin` as it was measured, or as `worked_s`."""
        done_s = self._state[0]
        self._state = done_s + (self.at_work_s if worked_s is None else worked_s), None, 0.0

    @property
    def at_work_s(self) -> float:
        """Since `begin`."""
        _, began, waited_s = self._state
        return 0.0 if began is None else self._clock() - began - (self._waited() - waited_s)

    @property
    def busy_s(self) -> float:
        done_s, began, waited_s = self._state
        return done_s if began is None else done_s + self._clock() - began - (self._waited() - waited_s)
