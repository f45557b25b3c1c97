"""Sampling joins: combinations of events that lie in one window and in order, drawn evenly, position after position.

A sample of a sub-query is extended by one position at a time. All partners of all its rows are counted; up to `draws`
of these (row, partner) pairs are all taken, of more that many are drawn evenly. Then conditions throw out what does
not fit. So all rows of a sample stand for the same number of combinations (`weight`), the total is unbiased, and small
sub-queries are counted exactly. Frequent positions come last, so that what survives the rare ones is looked at often.

How far a sample can be trusted is seen from its parts: the first draw deals rows out to `PARTS` parts, their
descendants stay there, and the parts' totals differ by chance alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from costmodel.sampling.conditions import EventConditions
from costmodel.sampling.events import EventColumns, Ints
from costmodel.sampling.meeting import Mask
from decopa.query.binding import BoundQuery, Condition
from decopa.query.query import Query

#: Pairs of a row and a partner that are looked at in one step; a step of which little survives looks at more.
DEFAULT_DRAWS = 40_000
_MOST_DRAWS = 400_000
#: So few survivors say little about their number.
_FEW = 1_000
#: Parts that a sample is dealt out to.
PARTS = 16


@dataclass(frozen=True)
class JoinSample:
    """Combinations of events by number, one array per alias; each stands for `weight` combinations.

    `part` numbers the parts that the sample was dealt out to; empty if it is complete. Of rows that are not `counted`
    others tell (see `costmodel.sampling.slices`); they are there to be extended.
    """

    rows: Mapping[str, Ints]
    weight: float
    part: Ints
    counted: Mask
    complete: bool

    def __len__(self) -> int:
        return len(self.counted)

    @property
    def total(self) -> float:
        """How many combinations there are."""
        return self.weight * int(np.count_nonzero(self.counted))

    @property
    def relative_error(self) -> float:
        """The standard error of the total as a share of it; of a total of nothing seen, 1."""
        if self.complete:
            return 0.0
        found = np.bincount(self.part[self.counted], minlength=PARTS).astype(np.float64)
        if not found.sum():
            return 1.0
        return math.sqrt(PARTS * float(found.var(ddof=1))) / float(found.sum())

    def taken(self, chosen: Ints | Mask) -> JoinSample:
        rows = {alias: numbers[chosen] for alias, numbers in self.rows.items()}
        part = self.part[chosen] if len(self.part) else self.part
        return JoinSample(rows, self.weight, part, self.counted[chosen], self.complete)


@dataclass(frozen=True)
class JoinSpace:
    """The events of an OR-free query's positions, as they can meet.

    `times` are ascending with the events' numbers; `rows` are the events of each alias that pass their own conditions;
    `starts` are those to begin with. `anchored` says which events a combination may have as its earliest to be counted.
    Unless `complete`, the events are themselves a sample.
    """

    bound: BoundQuery
    events: EventColumns
    times: Ints
    rows: Mapping[str, Ints]
    starts: Callable[[str], Ints]
    anchored: Mask
    rng: np.random.Generator
    draws: int = DEFAULT_DRAWS
    complete: bool = True
    _samples: dict[tuple[frozenset[str], bool], JoinSample] = field(default_factory=dict)

    @property
    def query(self) -> Query:
        return self.bound.query

    @cached_property
    def evaluator(self) -> EventConditions:
        return EventConditions(self.bound, self.events)

    @property
    def window_us(self) -> int:
        """The window, cut to what the events span, which keeps sums of times within 64 bits."""
        return min(self.query.window_us, int(self.times[-1] - self.times[0]) if len(self.times) else 0)

    def matches(self, aliases: Iterable[str]) -> JoinSample:
        """Combinations that meet and fulfil all conditions between these positions, each taken as a single event."""
        return self._sample(frozenset(aliases), fulfilled=True)

    def meetings(self, aliases: Iterable[str]) -> JoinSample:
        """Combinations that meet: within the window and in order."""
        return self._sample(frozenset(aliases), fulfilled=False)

    def rarest(self, aliases: Iterable[str]) -> str:
        return min(aliases, key=self._frequency)

    def _frequency(self, alias: str) -> tuple[int, str]:
        return len(self.rows[alias]), alias

    def _sample(self, aliases: frozenset[str], *, fulfilled: bool) -> JoinSample:
        key = aliases, fulfilled
        if key not in self._samples:
            if len(aliases) == 1:
                (alias,) = aliases
                starts = self.starts(alias)
                part = np.empty(0, dtype=np.int64) if self.complete else self._parts_of(starts)
                self._samples[key] = JoinSample({alias: starts}, 1.0, part, self.anchored[starts], self.complete)
            else:
                last = max(aliases, key=self._frequency)
                before = self._sample(aliases - {last}, fulfilled=fulfilled)
                self._samples[key] = self.extended(before, last, self.conditions(aliases, last) if fulfilled else ())
        return self._samples[key]

    def _parts_of(self, starts: Ints) -> Ints:
        """Parts of a sample of events: stretches of time, since neighbours resemble each other."""
        stretch = (self.times[starts] - self.times[0]) // max(1, 3 * self.query.window_us)
        return np.asarray(stretch % PARTS)

    def conditions(self, aliases: frozenset[str], last: str) -> tuple[Condition, ...]:
        """The conditions that name `last` and another of the aliases, and nothing else, as written."""
        return tuple(
            one for one in self.bound.conditions if last in one.aliases and one.aliases <= aliases and not one.through
        )

    def extended(self, sample: JoinSample, alias: str, conditions: Iterable[Condition]) -> JoinSample:
        """The sample with an event of another position in each row."""
        low, high = self.reach(sample.rows, alias)
        ends = np.cumsum(high - low)
        total = int(ends[-1]) if len(ends) else 0
        draws = self.draws
        while True:
            complete = sample.complete and total <= draws
            chosen = np.arange(total) if total <= draws else self.rng.integers(0, total, draws)
            owner = np.searchsorted(ends, chosen, side="right")
            partner = self.rows[alias][low[owner] + chosen - (ends[owner] - (high - low)[owner])]
            weight = sample.weight * max(1.0, total / draws)
            part = sample.part[owner] if len(sample.part) else np.arange(len(owner), dtype=np.int64) % PARTS
            rows = {name: numbers[owner] for name, numbers in sample.rows.items()} | {alias: partner}
            earliest = np.minimum.reduce(list(rows.values()))
            nobody = np.empty(0, dtype=np.int64)
            found = JoinSample(rows, weight, nobody if complete else part, self.anchored[earliest], complete)
            found = self.fulfilling(self._distinct(found, alias), conditions)
            if len(found) >= _FEW or total <= draws or draws >= _MOST_DRAWS:
                return found
            draws = min(_MOST_DRAWS, draws * 5)

    def fulfilling(self, sample: JoinSample, conditions: Iterable[Condition]) -> JoinSample:
        for condition in conditions:
            if len(sample):
                named = {name: sample.rows[name] for name in condition.aliases}
                sample = sample.taken(self.evaluator.mask(condition.predicate, named))
        return sample

    def reach(self, rows: Mapping[str, Ints], alias: str) -> tuple[Ints, Ints]:
        """For each combination the events of another position that it can meet, as a range of `self.rows[alias]`."""
        order, window_us = self.query.order_constraints, self.window_us
        times = {name: self.times[numbers] for name, numbers in rows.items()}
        lowest = np.maximum.reduce(list(times.values())) - window_us
        highest = np.minimum.reduce(list(times.values())) + window_us
        for name, moments in times.items():
            if (name, alias) in order:
                lowest = np.maximum(lowest, moments + 1)
            if (alias, name) in order:
                highest = np.minimum(highest, moments - 1)
        partners = self.times[self.rows[alias]]
        low = np.searchsorted(partners, lowest, side="left")
        return low, np.maximum(low, np.searchsorted(partners, highest, side="right"))

    def _distinct(self, sample: JoinSample, alias: str) -> JoinSample:
        """No event fills two positions."""
        position = self.query.position
        alike = [name for name in sample.rows if name != alias and position(alias).may_share_with(position(name))]
        for name in alike:
            sample = sample.taken(sample.rows[name] != sample.rows[alias])
        return sample


def position_sets(aliases: Iterable[str], *, least: int, most: int) -> Iterable[frozenset[str]]:
    """Sets of positions, smaller ones first."""
    names = sorted(aliases)
    for size in range(least, min(most, len(names)) + 1):
        yield from map(frozenset, itertools.combinations(names, size))
