"""The largest rate that a running system sustains: offered rates grow until queues do, then close in (7.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from decopa.errors import StatisticsError

#: The first step up from a rate that is sustained; each further step is twice as large (as a logarithm).
FIRST_STEP = 1.1
#: Moments of each half of a window at which delays are compared.
_MOMENTS = 100


@dataclass(frozen=True, slots=True)
class Trial:
    """An offered rate (events/s), whether it was sustained, and the rate at which the work was done in the end."""

    rate: float
    sustained: bool
    achieved: float


@dataclass(frozen=True)
class SearchResult:
    """`rate` is the largest that was sustained (0 if none was), `failed` the smallest that was not, if any."""

    rate: float
    failed: float | None
    trials: tuple[Trial, ...]

    @property
    def precise(self) -> bool:
        """Whether both ends were seen."""
        return self.rate > 0 and self.failed is not None


def largest_sustainable(
    offer: Callable[[float], Trial], first: float, *, precision: float = 0.05, most_trials: int = 10
) -> SearchResult:
    """Offers `first`, brackets the limit geometrically, and bisects until the ends are `precision` apart.

    What was achieved under too high a rate is a good guess of the limit, so it is what is offered next.
    """
    if not (first > 0 and math.isfinite(first)):
        raise StatisticsError(f"the first rate to offer must be a positive number, got {first:g}")
    if precision <= 0 or most_trials < 1:
        raise StatisticsError("a search needs a positive precision and at least one trial")
    low, high, rate, step = 0.0, math.inf, first, FIRST_STEP
    trials: list[Trial] = []
    while len(trials) < most_trials:
        trial = offer(rate)
        trials.append(trial)
        if trial.sustained:
            low = max(low, rate)
        else:
            high = min(high, rate)
        if high <= low * (1 + precision):
            break
        if math.isinf(high):
            rate, step = low * step, step**2
        elif not trial.sustained and low < trial.achieved < high:
            rate = _inside(trial.achieved * (1 - precision / 2), low, high, precision)
        elif low == 0:
            rate, step = high / step, step**2
        else:
            rate = math.sqrt(low * high)
    return SearchResult(low, None if math.isinf(high) else high, tuple(trials))


def delay_growth(samples: Sequence[tuple[float, float]], begin_s: float, end_s: float) -> float:
    """Seconds by which delays grow in a second of a window: 0 if queues are stable, 1 - 1/r if r times as much work
    comes as is done. `samples` are (moment, delay) pairs in order of time.

    The mean delay of the second half is compared with that of the first, so that a load that repeats itself every half
    window (a trace with busy hours) cancels out. Infinite where there is nothing to compare.
    """
    middle_s = (begin_s + end_s) / 2
    moments = np.array([moment for moment, _ in samples if begin_s <= moment <= end_s])
    delays = np.array([delay for moment, delay in samples if begin_s <= moment <= end_s])
    if not (moments < middle_s).any() or not (moments >= middle_s).any():
        return math.inf
    halves = (np.linspace(begin_s, middle_s, _MOMENTS), np.linspace(middle_s, end_s, _MOMENTS))
    first, second = (float(np.interp(half, moments, delays).mean()) for half in halves)
    return (second - first) / (middle_s - begin_s)


def _inside(rate: float, low: float, high: float, precision: float) -> float:
    """A rate that differs from both ends, so that every trial tells something."""
    smallest = low * (1 + precision / 2)
    largest = high / (1 + precision / 2)
    return min(max(rate, smallest), largest) if smallest < largest else math.sqrt(low * high)
