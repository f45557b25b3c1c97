"""Measures what pairs and means do not tell: sub-queries of three and more positions, KL groups, NOTs.

Everything comes from samples of joins (`costmodel.sampling.joins`) in which combinations of events really meet. Numbers
of combinations are turned into numbers per window of an endless stream: the ends of a trace cut combinations off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from costmodel.logarithms import MAX_VALUE
from costmodel.sampling.blocking import measure_negation
from costmodel.sampling.groups import count_groups
from costmodel.sampling.joins import JoinSample, JoinSpace, position_sets
from costmodel.sub_queries import GroupRate, NegationShare, SubQuerySelectivity
from costmodel.time_order import TimeOrder, inside_share, log_time_factor
from decopa.query.analysis import Position, project, strip_kleene
from decopa.query.pattern import ANY_TYPE, EventRef, Kleene, Next, Pattern, children_of

#: Sub-queries of single events, and sets of partners of one KL, that are measured at most: smaller ones first.
MOST_SUB_QUERIES = 64
MOST_PARTNER_SETS = 40
#: So few combinations more or less are chance.
_CHANCE = 10


def is_joint(pattern: Pattern) -> bool:
    """Whether sub-queries of a pattern are measured: of SEQ, AND, KL and NOT over moments of one type each. A NEXT and
    events of several types are left to formulas."""
    match pattern:
        case EventRef():
            return not pattern.others and pattern.type != ANY_TYPE and not pattern.delay_us
        case Kleene():
            return not pattern.runs and len(pattern.aliases) == 1 and is_joint(pattern.child)
        case Next():
            return False
        case _:
            return all(map(is_joint, children_of(pattern)))


@dataclass(frozen=True)
class Joint:
    """What was measured of sub-queries."""

    sub_queries: tuple[SubQuerySelectivity, ...] = ()
    groups: tuple[GroupRate, ...] = ()
    negations: tuple[NegationShare, ...] = ()


@dataclass(frozen=True)
class JointMeasurement:
    """A measurement of one OR-free query: the combinations of `space` are those of `span_us` of event time.

    `scale(rarest, aliases)` is how many combinations of the whole trace one stands for that was found among the events
    kept, if these are its positions and the first the rarest of them: 1 if all events were kept.
    """

    space: JoinSpace
    rate_of: Callable[[str], float]
    span_us: int
    scale: Callable[[str, Iterable[str]], float]

    def measure(self) -> Joint:
        positions = self.space.query.positions
        scopes = dict.fromkeys(position.scope for position in positions)
        groups = [[position for position in positions if position.scope == scope] for scope in scopes]
        return Joint(
            tuple(found for alike in groups for found in self._sub_queries(alike)),
            tuple(found for alike in groups for one in alike if one.kleene for found in self._groups(one, alike)),
            tuple(self._negations()),
        )

    @property
    def _windows(self) -> float:
        return self.span_us / self.space.query.window_us

    def _sub_queries(self, positions: list[Position]) -> Iterable[SubQuerySelectivity]:
        """Every set of three and more positions as single events; of many, the smaller sets and the whole."""
        aliases = [position.alias for position in positions]
        sets = list(position_sets(aliases, least=3, most=len(aliases)))
        for chosen in _first_and_last(sets, MOST_SUB_QUERIES):
            met, found = self.space.meetings(chosen), self.space.matches(chosen)
            if not met.total:
                continue
            pattern = self._pattern(chosen, closed=frozenset())
            share = max(found.total, 0.5 * min(found.weight, met.total)) / met.total
            error = share * math.hypot(found.relative_error, met.relative_error)
            yield SubQuerySelectivity(
                str(pattern), min(1.0, share), min(1.0, error), self._meeting(chosen, pattern, met)
            )

    def _meeting(self, aliases: frozenset[str], pattern: Pattern, met: JoinSample) -> float:
        """How many times as often events for all these positions meet as at even rates."""
        scale = self.scale(self.space.rarest(aliases), aliases)
        per_window = math.exp(log_time_factor(pattern, TimeOrder.COUNTED))
        for alias in aliases:
            per_window *= self.rate_of(alias)
        expected = per_window * self._windows * inside_share(len(aliases), self._windows)
        return (met.total * scale + _CHANCE) / (expected + _CHANCE)

    def _groups(self, kleene: Position, positions: list[Position]) -> Iterable[GroupRate]:
        """The KL position alone, and beside every set of other positions; of many, smaller sets and all others."""
        others = [position.alias for position in positions if position.alias != kleene.alias]
        sets = [frozenset[str](), *position_sets(others, least=1, most=len(others))]
        for chosen in _first_and_last(sets, MOST_PARTNER_SETS):
            rest = self.space.matches(chosen) if chosen else None
            counted = count_groups(self.space, kleene.alias, rest)
            pattern = self._pattern(chosen | {kleene.alias}, closed=frozenset([kleene.alias]))
            rarest = self.space.rarest(chosen or {kleene.alias})
            size = len(chosen) + 1
            per_group = self.scale(rarest, chosen) / self._windows
            per_group /= inside_share(size, self._windows)
            seen = 0.5 * (rest.weight if rest is not None else 1.0)
            yield GroupRate(
                str(pattern),
                min(max(counted.groups, seen) * per_group, MAX_VALUE),
                min(max(counted.standard_error, seen if not counted.groups else 0.0) * per_group, MAX_VALUE),
                counted.members,
                counted.largest,
                max(1.0, counted.tried / counted.groups) if counted.groups else 1.0,
            )

    def _negations(self) -> Iterable[NegationShare]:
        """Every NOT beside the whole match around it, and beside the positions that it depends on."""
        query = self.space.query
        for negation in query.negations:
            outer = frozenset(one.alias for one in query.positions if one.scope == negation.scope[:-1])
            for beside in dict.fromkeys((outer, query.context_of(negation))):
                found = measure_negation(self.space, negation, self.space.matches(beside)) if beside else None
                if found is not None:
                    pattern = project(query.pattern, beside | negation.aliases)
                    never = 0.5 / max(1.0, self.space.matches(beside).total)  # all blocked cannot be told from most
                    share = min(found.share, 1 - never)
                    yield NegationShare(str(pattern), share, found.standard_error, found.compared, found.waiting)

    def _pattern(self, aliases: frozenset[str], *, closed: frozenset[str]) -> Pattern:
        pattern = project(self.space.query.pattern, aliases)
        assert pattern is not None, f"positions of one scope form a sub-query, got {sorted(aliases)}"
        return strip_kleene(pattern, self.space.query.kleene_aliases - closed)


def _first_and_last(sets: list[frozenset[str]], most: int) -> list[frozenset[str]]:
    return sets if len(sets) <= most else [*sets[: most - 1], sets[-1]]
