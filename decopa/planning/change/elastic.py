"""How many units: the fewest that sustain the stream with room to spare, in one step (as DS2 does, by true work)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum

from costmodel.drift.alarm import Alarm
from decopa.errors import PlanError


@dataclass(frozen=True, slots=True)
class UnitRange:
    """`--units 2:8`: the fewest and the most units that a run may take."""

    fewest: int
    most: int

    def __post_init__(self) -> None:
        if not 1 <= self.fewest <= self.most:
            raise PlanError(
                f"units {self.fewest}:{self.most} name no number of units; write the smaller number first, as in 2:8"
            )


def smallest_units(units: UnitRange, scaling_factor: Callable[[int], float], *, headroom: float = 0.7) -> int:
    """The smallest number of units whose plan sustains the load at `headroom` of what it could; the largest allowed if
    none does. `scaling_factor` plans for a number of units; more units sustain at least as much."""
    numbers = range(units.fewest, units.most + 1)
    at = bisect_left(numbers, 1 / headroom, key=scaling_factor)
    return numbers[min(at, len(numbers) - 1)]


class Load(Enum):
    """Why another number of units may be right."""

    HIGH = "high"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class LoadWatch:
    """Looks at the busiest unit: above `high` in three looks in a row, or below `low` for `calm_s`. Steps are data:
    `after` returns the watch for the next look. A load that comes and goes is held by the cool-down after each change,
    which doubles when a plan returns."""

    high: float = 0.85
    low: float = 0.4
    calm_s: float = 8.0
    alarm: Alarm = field(default_factory=lambda: Alarm(3))
    #: Since when the load has been low.
    low_since_s: float | None = None
    now_s: float = 0.0

    def after(self, at_s: float, busiest: float, lately: float | None = None) -> LoadWatch:
        """`busiest` is the load since the look before, `lately` that of the last few looks, if it is known: more units
        are needed soon, and fewer ones are let go of after some thought."""
        calm = busiest if lately is None else lately
        since = (at_s if self.low_since_s is None else self.low_since_s) if calm < self.low else None
        return replace(self, alarm=self.alarm.after(violated=busiest > self.high), low_since_s=since, now_s=at_s)

    @property
    def load(self) -> Load | None:
        if self.alarm.raised:
            return Load.HIGH
        calm = self.low_since_s is not None and self.now_s - self.low_since_s >= self.calm_s
        return Load.LOW if calm else None
