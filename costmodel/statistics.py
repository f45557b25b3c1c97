"""Statistics: rates and pairwise selectivities, measured or loaded, never guessed (4.2, 5.3.1).

Rates are events per window. A selectivity is the share of pairs of events that fulfil all conditions between the two,
*among the pairs that lie within the window and, in SEQ, in the right order*: time is not part of it, since the rate
formulas count it already (r(A) r(B) pairs in order per window for SEQ, twice as many for AND). `estimate` measures
exactly this.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from costmodel.sub_queries import CONFIDENCE, GroupRate, NegationShare, SubQuerySelectivity, check_share
from decopa.errors import StatisticsError, did_you_mean
from decopa.query.analysis import Position
from decopa.query.conditions.members import is_between_members
from decopa.query.conditions.predicate import Predicate, aliases_of
from decopa.query.names import duration_text
from decopa.query.pattern import ANY_TYPE, Pattern
from decopa.query.query import MAX_WINDOW_US, Query

#: More events in one window than this are a mistake in the unit.
MAX_RATE = 1e15
_MEASURE = "run `decopa stats`"

Pair = tuple[str, str]


def pair_of(one: str, other: str) -> Pair:
    """The unordered pair of two names: selectivities do not depend on which is named first."""
    return (one, other) if one <= other else (other, one)


@dataclass(frozen=True, slots=True)
class PairSelectivity:
    """The share of pairs that fulfil all conditions between two types or aliases; a name with itself is a pair of
    events of one type (repeated, or members of one KL group). The standard error is 0 for what was not sampled.
    """

    first: str
    second: str
    selectivity: float
    standard_error: float = 0.0

    def __post_init__(self) -> None:
        check_share(self.selectivity, f"the selectivity of ({self.first}, {self.second})")
        check_share(self.standard_error, f"the standard error of ({self.first}, {self.second})")

    @property
    def pair(self) -> Pair:
        return pair_of(self.first, self.second)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the selectivity lies with a confidence of 95 %."""
        margin = CONFIDENCE * self.standard_error
        return max(0.0, self.selectivity - margin), min(1.0, self.selectivity + margin)


@dataclass(frozen=True, slots=True)
class RateProfile:
    """How the rate of a type varies: what the mean, which plans are made for, does not say.

    `peak_rate` is the largest number of events in one window, windows laid end to end from the first event on;
    `variation` is the standard deviation of these numbers divided by their mean (0 if events come evenly; about
    1 / sqrt(mean) if they come at random). `share` is the type's share of all events of the trace.
    """

    peak_rate: float
    variation: float
    share: float

    def __post_init__(self) -> None:
        check_rate(self.peak_rate, "a peak rate")
        check_share(self.share, "a type's share of all events")
        if not (math.isfinite(self.variation) and self.variation >= 0):
            raise StatisticsError(f"the variation of a rate must be 0 or more, got {self.variation:g}")


@dataclass(frozen=True)
class Statistics:
    """What a planner knows about a stream and the conditions of a query.

    A pair of aliases overrides the pair of their types. `filter_shares` says which share of its type's events passes
    the conditions on one alias alone (1 if not given). `default_selectivity` stands in for missing pairs, and
    `check_fits` tells which. `measured_for` holds the queries (see `query_text`) that the selectivities belong to;
    empty if that is not known. `profiles` say of types how their rates vary; planning does without. `meetings` say of
    (first, second) how many times as often an event of the second type follows one of the first within a window as it
    would at even rates: more if they share bursts or hours, fewer if they avoid each other; 1 where nothing is said.
    `sub_queries`, `groups` and `negations` were measured where pairs and means mislead: on three and more positions, on
    KL and on NOT.
    `name` is how messages call these statistics.
    """

    window_us: int
    rates: Mapping[str, float]
    type_pairs: tuple[PairSelectivity, ...] = ()
    alias_pairs: tuple[PairSelectivity, ...] = ()
    sub_queries: tuple[SubQuerySelectivity, ...] = ()
    filter_shares: Mapping[str, float] = field(default_factory=dict)
    default_selectivity: float | None = None
    measured_for: tuple[str, ...] = ()
    profiles: Mapping[str, RateProfile] = field(default_factory=dict)
    meetings: Mapping[Pair, float] = field(default_factory=dict)
    groups: tuple[GroupRate, ...] = ()
    negations: tuple[NegationShare, ...] = ()
    name: str = field(default="the statistics", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", dict(self.rates))
        object.__setattr__(self, "filter_shares", dict(self.filter_shares))
        object.__setattr__(self, "profiles", dict(self.profiles))
        object.__setattr__(self, "meetings", dict(self.meetings))
        for (first, second), value in self.meetings.items():
            if not (math.isfinite(value) and value > 0):
                raise StatisticsError(f"how often {second} follows {first} must be a positive number, got {value:g}")
        if not 0 < self.window_us <= MAX_WINDOW_US:
            raise StatisticsError(f"the window of {self.name} must be positive microseconds, got {self.window_us}")
        for event_type, rate in self.rates.items():
            check_rate(rate, f"the rate of '{event_type}' in {self.name}")
        for alias, share in self.filter_shares.items():
            check_share(share, f"the share of events that pass the conditions on '{alias}'")
            if not share:
                raise StatisticsError(
                    f"no event passes the conditions on '{alias}'; leave it out or give a small share"
                )
        if self.default_selectivity is not None:
            check_share(self.default_selectivity, f"the default selectivity of {self.name}")
        _check_distinct(
            [(f"selectivities for the types {' and '.join(one.pair)}", one.selectivity) for one in self.type_pairs]
            + [(f"selectivities for the aliases {' and '.join(one.pair)}", one.selectivity) for one in self.alias_pairs]
            + [(f"selectivities for the sub-query {one.pattern}", one.selectivity) for one in self.sub_queries]
            + [(f"numbers of groups for {one.pattern}", one.per_window) for one in self.groups]
            + [(f"shares for the NOT of {one.pattern}", one.blocked) for one in self.negations]
        )

    @classmethod
    def of(cls, window_us: int, rates: Mapping[str, float], selectivities: Mapping[Pair, float]) -> Statistics:
        """Statistics with selectivities between types only, as the paper gives them."""
        return cls(window_us, rates, tuple(PairSelectivity(*pair, value) for pair, value in selectivities.items()))

    def scaled(self, scaling_factor: float) -> Statistics:
        """All primitive rates multiplied by c (4.2); selectivities stay, and groups are not known."""
        return replace(
            self,
            groups=self.groups if scaling_factor == 1 else (),
            rates={name: rate * scaling_factor for name, rate in self.rates.items()},
            profiles={
                name: replace(one, peak_rate=one.peak_rate * scaling_factor) for name, one in self.profiles.items()
            },
        )

    def rescaled(self, window_us: int) -> Statistics:
        """The same stream and conditions seen through another window; how rates vary there is not known."""
        selectivities = tuple(replace(one, meeting=None) for one in self.sub_queries)
        scaled = self.scaled(window_us / self.window_us)
        return replace(
            scaled, window_us=window_us, profiles={}, meetings={}, sub_queries=selectivities, groups=(), negations=()
        )

    def drawn(self, rng: np.random.Generator) -> Statistics:
        """The same with every number that was sampled drawn from where it may lie."""
        return replace(
            self,
            type_pairs=tuple(_drawn_share(one, rng) for one in self.type_pairs),
            alias_pairs=tuple(_drawn_share(one, rng) for one in self.alias_pairs),
            sub_queries=tuple(_drawn_share(one, rng) for one in self.sub_queries),
            groups=tuple(
                replace(one, per_window=one.per_window * _drawn_factor(one.per_window, one.standard_error, rng))
                for one in self.groups
            ),
            negations=tuple(
                replace(one, blocked=float(np.clip(rng.normal(one.blocked, one.standard_error), 0.0, 1 - 1e-9)))
                for one in self.negations
            ),
        )

    def rate(self, position: Position) -> float:
        """Events per window that pass the conditions on this position alone."""
        types = (ANY_TYPE,) if position.strict else position.types
        return sum(map(self._rate_of, types)) * self.filter_shares.get(position.alias, 1.0)

    def right_types(self, position: Position) -> float:
        """The share of the candidates of a position that are of its types: all, unless it is a STRICT one."""
        if not position.strict:
            return 1.0
        return min(1.0, sum(map(self._rate_of, position.types)) / self._rate_of(ANY_TYPE))

    def _rate_of(self, event_type: str) -> float:
        rate = self.rates.get(event_type)
        if rate is None and event_type == ANY_TYPE:  # not measured, so at least that of the types that are known
            return sum(self.rates.values())
        if rate is None:
            raise StatisticsError(
                f"no rate for event type '{event_type}' in {self.name}"
                f"{did_you_mean(event_type, self.rates)}; {_MEASURE} or add its events per window"
            )
        return rate

    def selectivity(self, one: Position, other: Position, *, connected: bool) -> float:
        """Of all conditions between two positions (of a KL position with itself: between members of its group).

        Taken from the pair of aliases, else from the pair of types; 1 if no condition connects the two.
        """
        known = self._given(one, other)
        if known is not None:
            return known
        if not connected:
            return 1.0
        if self.default_selectivity is not None:
            return self.default_selectivity
        raise StatisticsError(
            f"no selectivity for ({one.label}, {other.label}) in {self.name}, which a condition between '{one.alias}' "
            f"and '{other.alias}' needs; {_MEASURE} or add it"
        )

    def meeting(self, one: Position, other: Position, *, ordered: bool) -> float:
        """How many times as often events of the two types meet as they would at even rates; the first before the second
        if they are `ordered`."""
        follows = self.meetings.get((one.label, other.label), 1.0)
        return follows if ordered else (follows + self.meetings.get((other.label, one.label), 1.0)) / 2

    @property
    def measured(self) -> bool:
        """Whether a trace was looked at, so that rates are those of the engine rather than the paper's."""
        return bool(self.meetings or self.groups or self.negations)

    def sub_query(self, pattern: Pattern) -> SubQuerySelectivity | None:
        """What was measured of a sub-query without KL and NOT, if anything."""
        return self._sub_query_values.get(str(pattern)) if self.sub_queries else None

    def group_rate(self, pattern: Pattern) -> GroupRate | None:
        """What was measured of a sub-query with one KL, if anything."""
        return self._group_values.get(str(pattern)) if self.groups else None

    def negation_share(self, pattern: Pattern) -> NegationShare | None:
        """What was measured of a sub-query with one NOT, if anything."""
        return self._negation_values.get(str(pattern)) if self.negations else None

    def check_fits(self, query: Query) -> tuple[str, ...]:
        """Raises StatisticsError unless these are the query's statistics and complete; returns notices on defaults."""
        if self.measured_for and query_text(query) not in self.measured_for:
            raise StatisticsError(
                f"{self.name} was measured for another query, {_one_line(self.measured_for[0])}; {_MEASURE} for this "
                'one, or delete "measured_for" from the file if its selectivities hold here, too'
            )
        if query.window_us != self.window_us:
            raise StatisticsError(
                f"{self.name} counts events per {duration_text(self.window_us)}, but the query's window is "
                f"{duration_text(query.window_us)}; {_MEASURE} for this query"
            )
        notices = []
        for branch in query.branches:
            connected = connected_pairs(branch)
            for position in branch.positions:
                self.rate(position)
            for one, other in neighbouring_positions(branch):
                joined = pair_of(one.alias, other.alias) in connected
                value = self.selectivity(one, other, connected=joined)
                if joined and self._given(one, other) is None:
                    pair = f"({one.label}, {other.label})"
                    notices.append(f"no selectivity for {pair} in {self.name}: assumed its default, {value:g}")
        return tuple(dict.fromkeys(notices))

    def _given(self, one: Position, other: Position) -> float | None:
        by_alias = self._alias_values.get(pair_of(one.alias, other.alias))
        return by_alias if by_alias is not None else self._type_values.get(pair_of(one.label, other.label))

    @cached_property
    def _type_values(self) -> dict[Pair, float]:
        return {one.pair: one.selectivity for one in self.type_pairs}

    @cached_property
    def _alias_values(self) -> dict[Pair, float]:
        return {one.pair: one.selectivity for one in self.alias_pairs}

    @cached_property
    def _sub_query_values(self) -> dict[str, SubQuerySelectivity]:
        return {one.pattern: one for one in self.sub_queries}

    @cached_property
    def _group_values(self) -> dict[str, GroupRate]:
        return {one.pattern: one for one in self.groups}

    @cached_property
    def _negation_values(self) -> dict[str, NegationShare]:
        return {one.pattern: one for one in self.negations}


def query_text(query: Query) -> str:
    """What a query's statistics depend on: its text without name and RETURN."""
    return str(replace(query, name="q", returns=(), summary=None, output=(), ranking=None))


def connected_pairs(query: Query) -> frozenset[Pair]:
    """The pairs of aliases that a condition connects; a KL alias with itself if one compares its members.

    A condition on three or more events connects none: the model knows pairs only (3.1), and leaving such a condition
    out makes rates too high rather than too low. A measured sub-query selectivity can take it into account.
    """
    pairs = set()
    for predicate in query.conditions:
        named = sorted(aliases_of(predicate))
        if len(named) == 2:
            pairs.add(pair_of(*named))
        elif len(named) == 1 and named[0] in query.kleene_aliases and is_between_members(predicate, named[0]):
            pairs.add(pair_of(named[0], named[0]))
    for alias in deciding_alone(query):
        pairs.add(pair_of(alias, alias))
    return frozenset(pairs)


def deciding_alone(query: Query) -> dict[str, tuple[Predicate, ...]]:
    """The conditions on one event that follows in a NEXT: they decide once it is chosen, so they are no filters.

    Their selectivity is that of the alias with itself.
    """
    found: dict[str, tuple[Predicate, ...]] = {}
    for predicate in query.where:
        (alias, *more) = aliases_of(predicate)
        if not more and alias in query.followers:
            found[alias] = (*found.get(alias, ()), predicate)
    return found


def pair_conditions(query: Query, one: str, other: str) -> tuple[Predicate, ...]:
    """The conditions on exactly two aliases that their selectivity stands for. If FILTER ties the two, it is the share
    of candidates that FILTER lets pass, and deciding conditions between the same two count as always true."""
    skips = tuple(predicate for predicate in query.skips if aliases_of(predicate) == {one, other})
    return skips or tuple(predicate for predicate in query.where if aliases_of(predicate) == {one, other})


def neighbouring_positions(query: Query) -> Iterator[tuple[Position, Position]]:
    """The pairs of positions that can stand in one match: inside or outside of the same NOTs; KL ones with themselves.

    A negated position and a positive one do not: negation is left out of rates (MuSE 4.4), which then are bounds.
    """
    for one, other in itertools.combinations(query.positions, 2):
        if one.scope == other.scope:
            yield one, other
    yield from ((position, position) for position in query.positions if position.kleene)


def check_rate(rate: float, what: str) -> None:
    """Raises StatisticsError for anything that is no positive rate."""
    if not (math.isfinite(rate) and 0 < rate <= MAX_RATE):
        raise StatisticsError(
            f"{what} must be above 0 and at most {MAX_RATE:g} events per window, got {rate:g}; leave the type out of "
            "the query if it never occurs"
        )


_Share = TypeVar("_Share", PairSelectivity, SubQuerySelectivity)


def _drawn_share(one: _Share, rng: np.random.Generator) -> _Share:
    drawn = one.selectivity * _drawn_factor(one.selectivity, one.standard_error, rng)
    return replace(one, selectivity=min(1.0, drawn))


def _drawn_factor(value: float, standard_error: float, rng: np.random.Generator) -> float:
    """Errors are factors: what is sampled is a count, and large errors come from rare and large cases."""
    if not standard_error or not value:
        return 1.0
    spread = math.sqrt(math.log1p((standard_error / value) ** 2))
    return float(np.exp(rng.normal(0.0, spread)))


def _check_distinct(selectivities: Iterable[tuple[str, float]]) -> None:
    seen: dict[str, float] = {}
    for subject, value in selectivities:
        if subject in seen:
            raise StatisticsError(f"two {subject}, {seen[subject]:g} and {value:g}; keep one (order means nothing)")
        seen[subject] = value


def _one_line(text: str) -> str:
    return " ".join(text.split())
