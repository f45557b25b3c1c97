"""Statistics from a trace: counted rates, and selectivities from a sample of the pairs that can meet.

What the model needs (5.3.1) and what is measured here:

- The rate of a type is its number of events, times the window, divided by the time from first to last event.
- For two positions in order (SEQ), the pairs that can meet have the first event before the second, at most a window
  apart: r(A) r(B) of them per window. For positions without order (AND) there are twice as many, since either may come
  first. The rate formulas count these pairs, and so does the engine (one comparison per pair, made by the later of the
  two). So time belongs to the rate; the *selectivity* is the share of exactly these pairs that fulfils the conditions.
- For members of a KL group, pairs are two events of the type at most a window apart, the earlier one on the left.

Rates say how many pairs meet if events come evenly. In bursts or with a daily rhythm that types share it is more, so
pairs of types that meet are counted as well (`Statistics.meetings`). What pairs do not tell is measured by
`costmodel.sampling.joint`: sub-queries of three and more positions, the groups of KL positions, what NOTs block.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.sampling.events import EventColumns, Ints
from costmodel.sampling.joins import JoinSpace
from costmodel.sampling.joint import JointMeasurement, is_joint
from costmodel.sampling.meeting import Mask, MeetingPairs, Relation, fulfilling, meeting_pairs
from costmodel.statistics import (
    Pair,
    PairSelectivity,
    Statistics,
    connected_pairs,
    deciding_alone,
    neighbouring_positions,
    pair_conditions,
    pair_of,
    query_text,
)
from costmodel.sub_queries import GroupRate, NegationShare, SubQuerySelectivity
from decopa.errors import StatisticsError, did_you_mean
from decopa.query.analysis import Position
from decopa.query.binding import BoundQuery, bind
from decopa.query.conditions.members import between_members, of_neighbours
from decopa.query.conditions.predicate import Predicate, aliases_of, compares_neighbours, renamed
from decopa.query.names import duration_text
from decopa.query.pattern import ANY_TYPE
from decopa.query.query import Query

#: Pairs that are looked at for one selectivity: a share of 1 % is then known to 5 % (one standard error).
DEFAULT_PAIRS = 40_000
#: So few pairs more or less are chance.
_CHANCE = 10
#: The two sides of a pair, as conditions on it call them.
_FIRST, _SECOND = "first", "second"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Statistics of a trace, and lines that the user should see."""

    statistics: Statistics
    notices: tuple[str, ...] = ()


def estimate_statistics(query: Query, events: EventColumns, *, pairs: int = DEFAULT_PAIRS, seed: int = 0) -> Estimate:
    """What the planner needs to know about the events for this query; the same seed gives the same statistics.

    At most `pairs` pairs are looked at for each pair of positions that a condition connects; if there are fewer, all.
    A share of which no example was found counts as half an example, since never cannot be told from rarely.
    """
    if pairs < 1:
        raise StatisticsError(f"a selectivity needs at least one pair to look at, got {pairs}")
    return Estimator(query, events, pairs, np.random.default_rng(seed)).estimate()


class Estimator:
    """Collects what the alternatives of a query show; two positions are measured where they first meet."""

    def __init__(self, query: Query, events: EventColumns, pairs: int, rng: np.random.Generator) -> None:
        self._joins = pairs
        self._query, self._events, self._pairs, self._rng = query, events, pairs, rng
        self._measured: dict[Pair, PairSelectivity] = {}
        #: By alias: the share of events that follow in a NEXT and pass what decides about them alone.
        self._alone: dict[str, PairSelectivity] = {}
        self._types: dict[Pair, Pair] = {}  # pair of aliases -> pair of types
        self.filter_shares: dict[str, float] = {}
        self.joint: dict[str, SubQuerySelectivity | GroupRate | NegationShare] = {}  # by the sub-query's pattern
        self.notices: list[str] = []
        self._joins_rng = rng.spawn(1)[0]

    def estimate(self) -> Estimate:
        rates = self.rates()
        for branch in self._query.branches:
            self.measure(branch, rates)
        by_type, by_alias = self.selectivities()
        statistics = Statistics(
            window_us=self._query.window_us,
            rates=rates,
            type_pairs=by_type,
            alias_pairs=by_alias,
            filter_shares=self.filter_shares,
            meetings=self.meetings(),
            sub_queries=tuple(one for one in self.joint.values() if isinstance(one, SubQuerySelectivity)),
            groups=tuple(one for one in self.joint.values() if isinstance(one, GroupRate)),
            negations=tuple(one for one in self.joint.values() if isinstance(one, NegationShare)),
            measured_for=tuple(dict.fromkeys(map(query_text, (self._query, *self._query.branches)))),
        )
        return Estimate(statistics, tuple(dict.fromkeys(self.notices)))

    def rates(self) -> dict[str, float]:
        """Events per window of each type of the query."""
        window_us, ts = self._query.window_us, self._events.ts
        span_us = int(ts[-1] - ts[0]) if len(ts) else 0
        if span_us <= 0:
            raise StatisticsError("rates cannot be measured: the trace needs events at two different times at least")
        if span_us < window_us:
            self.notices.append(
                f"the trace spans {duration_text(span_us)}, less than the window of {duration_text(window_us)}: "
                "rates are extrapolated"
            )
        counts = {event_type: len(self._events.rows_of(event_type)) for event_type in measured_types(self._query)}
        for event_type, count in counts.items():
            if not count:
                raise StatisticsError(
                    f"the trace has no event of type '{event_type}', so its rate cannot be measured"
                    f"{did_you_mean(event_type, self._events.type_names)}"
                )
        return {event_type: count * window_us / span_us for event_type, count in counts.items()}

    def meetings(self) -> dict[Pair, float]:
        """Of the types of any two positions that can stand in one match, in either order."""
        events, window_us, ordered = self._events, self._query.window_us, _ordered_types(self._query)
        found = {}
        for pair in type_pairs(self._query):
            first, second = map(events.rows_of, pair)
            found[pair] = meeting_ratio(events.ts, first, second, window_us, ties=pair not in ordered)
        return found

    def measure(self, branch: Query, rates: Mapping[str, float]) -> None:
        """Adds the selectivities of an OR-free query, and what its sub-queries, KLs and NOTs do."""
        bound = bind(branch, self._events.schema)
        rows = {position.alias: self._passing(bound, position) for position in branch.positions}
        connected = connected_pairs(branch)
        for one, other in neighbouring_positions(branch):
            pair = pair_of(one.alias, other.alias)
            self._types[pair] = pair_of(one.label, other.label)
            if pair in connected and pair not in self._measured:
                self._measured[pair] = self._selectivity(branch, one, other, rows)
        for alias, deciding in deciding_alone(branch).items():
            mask = fulfilling(self._events, deciding, {alias: rows[alias]})
            share = share_of(int(np.count_nonzero(mask)), len(mask))
            self._alone[alias] = PairSelectivity(alias, alias, share)
        for predicate in branch.conditions:
            if len(aliases_of(predicate)) > 2:
                self.notices.append(
                    f"'{predicate}' is on more than two events: selectivities are of pairs, so it is left out of them"
                )
        for alias in sorted(branch.run_aliases):
            self._measure_runs(branch, alias, rows[alias])
        if is_joint(branch.pattern) and all(len(numbers) for numbers in rows.values()):
            self._measure_joint(bound, rows, rates)

    def _measure_runs(self, branch: Query, alias: str, rows: Ints) -> None:
        """Adds the number of runs of an ITER: from each event as far as neighbours fit, as often as they do, and as the
        window reaches."""
        times = self._events.ts[rows]
        reach_us = min(branch.window_us, self._span_us)
        later = np.searchsorted(times, times + reach_us, side="right") - np.arange(1, len(times) + 1)
        known = self._measured.get(pair_of(alias, alias))
        share = 1.0 if known is None else known.selectivity
        lengths = later + 1 if share >= 1 else (1 - share ** (later + 1.0)) / (1 - share)
        per_window = float(lengths.sum()) * branch.window_us / self._span_us
        pattern = str(branch.project([alias]).pattern)
        self.joint.setdefault(
            pattern, GroupRate(pattern, per_window, 0.0, float(later.mean()) + 1, int(later.max()) + 1)
        )

    def _measure_joint(self, bound: BoundQuery, rows: Mapping[str, Ints], rates: Mapping[str, float]) -> None:
        types = {position.alias: position.type for position in bound.query.positions}
        measurement = JointMeasurement(
            self._join_space(bound, rows),
            lambda alias: rates[types[alias]] * self.filter_shares.get(alias, 1.0),
            self._span_us,
            lambda rarest, aliases: self._scale(types[rarest], [types[alias] for alias in aliases]),
        )
        found = measurement.measure()
        measured: list[SubQuerySelectivity | GroupRate | NegationShare] = [*found.sub_queries]
        for one in [*measured, *found.groups, *found.negations]:
            self.joint.setdefault(one.pattern, one)

    @property
    def _span_us(self) -> int:
        return int(self._events.ts[-1] - self._events.ts[0])

    def _join_space(self, bound: BoundQuery, rows: Mapping[str, Ints]) -> JoinSpace:
        everything = np.ones(len(self._events), dtype=np.bool_)
        return JoinSpace(
            bound, self._events, self._events.ts, rows, rows.__getitem__, everything, self._joins_rng, self._joins
        )

    def _scale(self, rarest: str, types: Sequence[str]) -> float:
        """Combinations of the trace that each one found here stands for; here all events are there."""
        return 1.0

    def selectivities(self) -> tuple[tuple[PairSelectivity, ...], tuple[PairSelectivity, ...]]:
        """By types where that says which positions are meant, by aliases where a type appears several times."""
        meant = Counter(self._types.values())
        by_type, by_alias = [], []
        for pair, measured in self._measured.items():
            types = self._types[pair]
            if meant[types] == 1:
                by_type.append(replace(measured, first=types[0], second=types[1]))
            else:
                by_alias.append(measured)
        return tuple(by_type), (*by_alias, *self._alone.values())

    def _passing(self, bound: BoundQuery, position: Position) -> Ints:
        """The events that pass the conditions on this position alone; all of them if none does."""
        rows = self._events.rows_of(ANY_TYPE if position.strict else position.label)
        filters = bound.filters.get(position.alias, ())
        if not filters:
            return rows
        mask = fulfilling(self._events, filters, {position.alias: rows})
        counted = self._counted(rows)
        passed, total = int(np.count_nonzero(mask & counted)), int(np.count_nonzero(counted))
        self.filter_shares[position.alias] = share_of(passed, total)
        return rows[mask] if mask.any() else rows

    def _counted(self, rows: Ints) -> Mask:
        """Which of these events stand for the stream when shares of events are counted; here all do."""
        return np.ones(len(rows), dtype=np.bool_)

    def _selectivity(self, branch: Query, one: Position, other: Position, rows: Mapping[str, Ints]) -> PairSelectivity:
        relation = Relation.MEMBERS if one is other else Relation.ANY
        if (one.alias, other.alias) in branch.order_constraints:
            relation = Relation.BEFORE
        elif (other.alias, one.alias) in branch.order_constraints:
            one, other, relation = other, one, Relation.BEFORE
        found = self._draw(rows[one.alias], rows[other.alias], relation, branch.window_us)
        if not len(found):
            found = self._distant_pairs(one, other, relation, rows)
        conditions = list(_conditions_between(branch, one.alias, other.alias))
        mask = fulfilling(self._events, conditions, {_FIRST: found.first, _SECOND: found.second})
        share = share_of(int(np.count_nonzero(mask)), len(found))
        return PairSelectivity(one.alias, other.alias, share, self._standard_error(found, mask, share))

    def _standard_error(self, found: MeetingPairs, mask: Mask, share: float) -> float:
        return 0.0 if found.complete else math.sqrt(share * (1 - share) / len(found))

    def _draw(self, first: Ints, second: Ints, relation: Relation, window_us: int) -> MeetingPairs:
        return meeting_pairs(self._events.ts, first, second, window_us, relation, self._pairs, self._rng)

    def _distant_pairs(
        self, one: Position, other: Position, relation: Relation, rows: Mapping[str, Ints]
    ) -> MeetingPairs:
        """Pairs at any distance, for positions whose events never come within a window of each other."""
        names = f"'{one.label} {one.alias}' and '{other.label} {other.alias}'"
        everything_us = int(self._events.ts[-1] - self._events.ts[0])
        for wider in (relation, Relation.ANY):
            found = self._draw(rows[one.alias], rows[other.alias], wider, everything_us)
            if len(found):
                self.notices.append(f"no events of {names} meet within the window: pairs farther apart were measured")
                return found
        raise StatisticsError(
            f"the trace has no two events for {names}, so their selectivity cannot be measured; use a longer trace"
        )


def _conditions_between(branch: Query, one: str, other: str) -> Iterator[Predicate]:
    """The conditions on a pair of aliases, or between members of one KL alias, on the sides of a pair."""
    for predicate in branch.conditions if one == other else ():
        pair = between_members(predicate, one, earlier=_FIRST, later=_SECOND)
        if pair is not None:
            yield pair
        elif compares_neighbours(predicate) and aliases_of(predicate) == {one}:
            yield of_neighbours(predicate, earlier=_FIRST, later=_SECOND)
    for predicate in pair_conditions(branch, one, other) if one != other else ():
        yield renamed(predicate, {one: _FIRST, other: _SECOND})  # type: ignore[misc]


def type_pairs(query: Query) -> list[Pair]:
    """The types of any two positions that can stand in one match, in either order."""
    pairs = [pair for branch in query.branches for pair in neighbouring_positions(branch) if pair[0] is not pair[1]]
    either = ((one.label, other.label) for ends in pairs for one, other in (ends, ends[::-1]))
    return list(dict.fromkeys(either))


def measured_types(query: Query) -> tuple[str, ...]:
    """The types whose rates a plan needs; '*' stands for all events together, the candidates of STRICT and of `* a`."""
    anything = any(p.strict or ANY_TYPE in p.types for branch in query.branches for p in branch.positions)
    return (*query.event_types, ANY_TYPE) if anything else query.event_types


def _ordered_types(query: Query) -> set[Pair]:
    """The types of positions that a match has in some order: equal times do not count for them."""
    return {
        types
        for branch in query.branches
        for first, second in branch.order_constraints
        for one, other in [(branch.position(first).label, branch.position(second).label)]
        for types in ((one, other), (other, one))
    }


def meeting_ratio(ts: Ints, first: Ints, second: Ints, window_us: int, *, ties: bool = False) -> float:
    """How many times as often a second event is later than a first, by a window at most, as at even rates.

    `ties` at the same time count half: for pairs in any order, of which there are those of both directions. Pairs that
    the ends of the trace leave out are left out of the comparison, too.
    """
    span_us = int(ts[-1] - ts[0])
    reach_us = min(window_us, span_us)
    times, partners = ts[first], ts[second]
    same = np.searchsorted(partners, times, side="right")
    met = float((np.searchsorted(partners, times + reach_us, side="right") - same).sum())
    itself = int(np.array_equal(first, second))  # whom no event meets
    if ties:
        met += float((same - np.searchsorted(partners, times) - itself).sum()) / 2
    share = reach_us / span_us
    return tempered(met, len(first) * (len(second) - itself) * (share - share**2 / 2))


def tempered(found: float, expected: float) -> float:
    """The ratio of two counts; of few pairs, which chance decides, nearly 1."""
    return (found + _CHANCE) / (expected + _CHANCE)


def share_of(found: int, total: int) -> float:
    """A share of which no example was found counts as half an example."""
    return (found or 0.5) / total
