"""Deviations: whether a count differs from its reference by more than chance, and by how much."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Fewer matches or comparisons than this say nothing about how many there are per row.
LEAST_COUNT = 100


@dataclass(frozen=True, slots=True)
class Deviation:
    """Something per something, before and now: its ratio, and how many standard errors `z` the two are apart."""

    before: float
    now: float
    z: float

    @property
    def ratio(self) -> float:
        """How many times as much it is now; 1 if it is and was nothing, infinite if it was nothing."""
        if self.before == self.now:
            return 1.0
        return math.inf if self.before == 0 else self.now / self.before

    def exceeds(self, ratio: float, z: float) -> bool:
        """Whether it lies outside of [1/ratio, ratio], and so by more than chance. Equality does not count."""
        return (self.ratio > ratio or self.ratio < 1 / ratio) and abs(self.z) >= z


def rate_deviation(count_before: int, span_before: float, count_now: int, span_now: float) -> Deviation:
    """Of a Poisson rate, from counts over two spans of time.

    z compares square roots of the counts, whose variance hardly depends on the rate, so that it holds for small counts,
    too (Gu et al. 2008, Testing the ratio of two Poisson rates).
    """
    if span_before <= 0 or span_now <= 0:
        return Deviation(0.0, 0.0, 0.0)
    share = span_now / span_before
    apart = math.sqrt(count_now + 0.375) - math.sqrt(share * (count_before + 0.375))
    return Deviation(count_before / span_before, count_now / span_now, 2 * apart / math.sqrt(1 + share))


@dataclass(frozen=True, slots=True)
class PerRow:
    """So many matches (or comparisons) of so many rows; `rarest` are the events of the rarest type that took part."""

    count: int
    rows: int
    rarest: int

    @property
    def relative_variance(self) -> float:
        """Matches that share an event come and go together: their number varies at least as much as the number of the
        rarest events."""
        return 1 / self.count + 1 / self.rarest if self.count > 0 and self.rarest > 0 else math.inf


def per_row_deviation(before: PerRow, now: PerRow) -> Deviation:
    """Of matches or comparisons per row; z is 0 while either side has too few to say."""
    if not (before.rows and now.rows):
        return Deviation(0.0, 0.0, 0.0)
    was, is_now = before.count / before.rows, now.count / now.rows
    if min(before.count, now.count) < LEAST_COUNT:
        return Deviation(was, is_now, 0.0)
    spread = math.sqrt(before.relative_variance + now.relative_variance)
    return Deviation(was, is_now, math.log(is_now / was) / spread if math.isfinite(spread) else 0.0)
