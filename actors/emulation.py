"""Emulated capacity: a unit takes as long as one with a declared iota and kappa (and epsilon) would, as the DecoPa
authors did.

So a plan with twenty units runs honestly on two cores: the work is done for real, the rest of its time is slept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from actors.reports import UnitReport
from costmodel.capacity import Capacity

#: Sleeping less than this is not exact; what is owed waits until it is worth it.
_LEAST_SLEEP_S = 0.002
#: Work that took longer than declared is made up for by sleeping less, up to this: compiling a kernel is no credit.
_MOST_CREDIT_S = 0.25
#: Time between two messages, up to this, is what the machinery takes to hand over the next one, which a busy unit of
#: the declared capacity would not wait for. (A unit that has nothing to do gains nothing by it that lasts.)
_MOST_GAP_S = 0.1


class Emulation:
    """Declared `capacity` per second of one processing unit."""

    def __init__(
        self,
        capacity: Capacity,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._capacity, self._sleep, self._clock = capacity, sleep, clock
        self._ended: float | None = None
        self._ingested = self._comparisons = self._emitted = 0
        self._owed_s = 0.0

    def begin(self, reports: Sequence[UnitReport]) -> None:
        """What has been counted before, by the units of the checkpoint that a run goes on from, is not spent again."""
        self._ingested = sum(report.ingested for report in reports)
        self._comparisons = sum(report.comparisons for report in reports)
        self._emitted = sum(report.emitted for report in reports)

    def spend(self, reports: Sequence[UnitReport], worked_s: float) -> float:
        """Sleeps for what the work since the last call takes at the declared capacity; returns that time."""
        ingested = sum(report.ingested for report in reports)
        comparisons = sum(report.comparisons for report in reports)
        emitted = sum(report.emitted for report in reports)
        declared_s = self._capacity.busy(
            ingested - self._ingested, comparisons - self._comparisons, emitted - self._emitted
        )
        self._ingested, self._comparisons, self._emitted = ingested, comparisons, emitted
        gap_s = 0.0 if self._ended is None else self._clock() - worked_s - self._ended
        spent_s = worked_s + min(max(gap_s, 0.0), _MOST_GAP_S)
        self._owed_s = max(self._owed_s + declared_s - spent_s, -_MOST_CREDIT_S)
        if self._owed_s >= _LEAST_SLEEP_S:
            started = self._clock()
            self._sleep(self._owed_s)
            self._owed_s -= self._clock() - started
        self._ended = self._clock()
        return declared_s
