"""Readings: all counters of a run at one moment, and what happened between two of them.

Rates are per window of *event time*: a replay at twice the speed brings the same rates and twice the load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: Part of the plan and name of the operator.
OperatorKey = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Counts:
    """What the units of one operator did: rows taken in, candidate pairs examined, matches put out."""

    ingested: int = 0
    comparisons: int = 0
    emitted: int = 0

    def __sub__(self, earlier: Counts) -> Counts:
        return Counts(
            self.ingested - earlier.ingested,
            self.comparisons - earlier.comparisons,
            self.emitted - earlier.emitted,
        )

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.ingested + other.ingested, self.comparisons + other.comparisons, self.emitted + other.emitted
        )


@dataclass(frozen=True)
class Reading:
    """The counters of a run at the time `at_s` of the reader's clock; all of them only grow.

    `ts_us` is the time of the last event that was dealt out. `types` are events by type, `leaves` rows by leaf after
    the conditions on that event alone. `busy_s` are seconds of work by process, empty where nobody measures them.
    `delay_s` is how far the sinks are behind the stream, None if that is not known.
    """

    at_s: float
    ts_us: int
    types: Mapping[str, int]
    leaves: Mapping[OperatorKey, int] = field(default_factory=dict)
    operators: Mapping[OperatorKey, Counts] = field(default_factory=dict)
    busy_s: Mapping[str, float] = field(default_factory=dict)
    delay_s: float | None = None

    @property
    def rows_sent(self) -> int:
        """Rows that went to units: what each of them took in."""
        return sum(counts.ingested for counts in self.operators.values())


@dataclass(frozen=True)
class Stretch:
    """What happened between two readings; names that the earlier one lacks began at 0."""

    seconds: float
    span_us: int
    types: Mapping[str, int]
    leaves: Mapping[OperatorKey, int]
    operators: Mapping[OperatorKey, Counts]
    busy_s: Mapping[str, float]

    @classmethod
    def between(cls, earlier: Reading, later: Reading) -> Stretch:
        nothing = Counts()
        return cls(
            later.at_s - earlier.at_s,
            later.ts_us - earlier.ts_us,
            {name: count - earlier.types.get(name, 0) for name, count in later.types.items()},
            {leaf: count - earlier.leaves.get(leaf, 0) for leaf, count in later.leaves.items()},
            {key: counts - earlier.operators.get(key, nothing) for key, counts in later.operators.items()},
            {name: busy - earlier.busy_s.get(name, 0.0) for name, busy in later.busy_s.items()},
        )

    def windows(self, window_us: int) -> float:
        """How many windows of event time it spans."""
        return self.span_us / window_us

    def rates(self, window_us: int) -> dict[str, float]:
        """Events of each type per window; none are known if no event time has passed."""
        windows = self.windows(window_us)
        return {name: count / windows for name, count in self.types.items()} if windows > 0 else {}

    @property
    def speed(self) -> float:
        """Seconds of event time that passed in a second; 0 if the clock stood still."""
        return self.span_us / 1e6 / self.seconds if self.seconds > 0 else 0.0

    @property
    def busiest(self) -> float:
        """The largest share of the time that a process was at work; 0 if nobody measured it."""
        return max(self.busy_s.values(), default=0.0) / self.seconds if self.seconds > 0 else 0.0

    @property
    def rows_sent(self) -> int:
        return sum(counts.ingested for counts in self.operators.values())
