"""Overload: a unit that works all the time while the sinks fall behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from costmodel.drift.readings import Reading, Stretch
from costmodel.sustainable import delay_growth

#: Delays that grow faster than this tell that much more comes than is done, but not how much.
_MOST_GROWTH = 0.8


@dataclass(frozen=True, slots=True)
class Overload:
    """The share of its time that the busiest process works, and the seconds by which delays grow in a second."""

    busiest: float
    growth: float

    @property
    def offered(self) -> float:
        """How many times as much comes as is done; a growth near 1 says no more than that it is a lot."""
        return 1 / (1 - min(max(0.0, self.growth), _MOST_GROWTH))

    def exceeds(self, busiest: float = 0.95, growth: float = 0.02) -> bool:
        """Whether work piles up: a busy unit alone is well used, and a growing delay alone may have other causes."""
        return self.busiest > busiest and self.growth > growth


def overload_of(readings: Sequence[Reading]) -> Overload | None:
    """Over some readings in order of time; None if no process tells how busy it was or no sink how far behind it is."""
    delays = [(reading.at_s, reading.delay_s) for reading in readings if reading.delay_s is not None]
    if len(delays) < 2 or not readings[-1].busy_s:
        return None
    growth = delay_growth(delays, delays[0][0], delays[-1][0])
    return Overload(Stretch.between(readings[0], readings[-1]).busiest, growth)
