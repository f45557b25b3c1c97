"""Remembered: match rates that running plans have shown, kept across switches.

A plan's counters tell the rates of its own sub-queries exactly; those of others are estimates, and often too low where
conditions depend on each other. Without a memory every sub-query that was never run looks better than every one that
was, and plans swing for ever.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from costmodel.drift.readings import Stretch
from costmodel.formulas import RateModel
from costmodel.rates import QueryRates, model_for
from costmodel.statistics import Statistics
from costmodel.sub_queries import SubQuerySelectivity
from decopa.planning.change.pricing import statistics_of_parts
from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.roles import Rule
from decopa.query.analysis import project

#: Fewer matches than this say too little about a rate.
_LEAST_MATCHES = 100

#: The place of a query in the workload, and the pattern of one of its sub-queries.
_Key = tuple[int, str]


@dataclass(frozen=True)
class Remembered:
    """Selectivities of sub-queries with the event time at which they were last seen."""

    seen: Mapping[_Key, tuple[SubQuerySelectivity, int]] = field(default_factory=dict)

    def noting(self, found: Mapping[_Key, SubQuerySelectivity], ts_us: int) -> Remembered:
        """The memory with what has just been seen."""
        return Remembered({**self.seen, **{key: (one, ts_us) for key, one in found.items()}})

    def informed(self, known: Sequence[Statistics], ts_us: int, *, longest_us: int) -> list[Statistics]:
        """Statistics with what is remembered of sub-queries. What was seen just now beats a sample, a sample beats what
        is older, and what is older than `longest_us` is forgotten."""
        result = []
        for place, statistics in enumerate(known):
            merged = {one.pattern: one for one in statistics.sub_queries}
            for (query, pattern), (one, when_us) in self.seen.items():
                fresh = when_us == ts_us
                if query == place and (fresh or (pattern not in merged and ts_us - when_us <= longest_us)):
                    merged[pattern] = one
            result.append(replace(statistics, sub_queries=tuple(merged.values())))
        return result


def seen_by(
    plan: Plan, stretch: Stretch, known: Sequence[Statistics], model: RateModel | None = None
) -> dict[_Key, SubQuerySelectivity]:
    """The selectivities that a plan's counters show over a stretch of time, for joins that found enough."""
    found: dict[_Key, SubQuerySelectivity] = {}
    statistics = statistics_of_parts(plan, known)
    for query, place in enumerate(plan.reported):
        part = plan.parts[place]
        windows = stretch.windows(part.query.window_us)
        for operator in _plain_joins(part):
            counts = stretch.operators.get((place, operator.name))
            if counts is None or counts.emitted < _LEAST_MATCHES or windows <= 0:
                continue
            rarest = min(stretch.leaves.get((place, leaf.name), 0) for leaf in _leaves_under(part, operator))
            error = math.sqrt(1 / counts.emitted + 1 / max(rarest, 1))
            one = _selectivity(part, operator, counts.emitted / windows, error, statistics[place], model)
            found[query, one.pattern] = one
    return found


def _plain_joins(part: QueryPlan) -> Iterator[PlanOperator]:
    """Joins of single events: the sub-queries whose rates are products. A sliced plan finds some matches twice."""
    for operator in part.operators if part.slices == 1 else ():
        sub_query = operator.sub_query
        plain = not sub_query.closed and not sub_query.negations(part.query) and not sub_query.scope(part.query)
        if plain and part.rule(operator) is Rule.JOIN:
            yield operator


def _leaves_under(part: QueryPlan, operator: PlanOperator) -> list[PlanOperator]:
    return [leaf for leaf in part.leaves if leaf.sub_query.aliases <= operator.sub_query.aliases]


def _selectivity(
    part: QueryPlan,
    operator: PlanOperator,
    per_window: float,
    relative_error: float,
    statistics: Statistics,
    model: RateModel | None,
) -> SubQuerySelectivity:
    """The selectivity that makes the model's rate what was counted."""
    aliases = operator.sub_query.aliases
    pattern = str(project(part.query.pattern, aliases))
    several = len(aliases) > 2  # how often pairs meet is known to the statistics; of more, only together
    certain = SubQuerySelectivity(pattern, 1.0, meeting=1.0 if several else None)
    others = tuple(one for one in statistics.sub_queries if one.pattern != certain.pattern)
    assumed = replace(statistics, sub_queries=(*others, certain))
    chosen = model or model_for(statistics)
    share = per_window / QueryRates(part.query, assumed, chosen).rate(aliases, frozenset())
    meeting = max(1.0, share) if several else None
    selectivity = min(1.0, share)
    return SubQuerySelectivity(pattern, selectivity, min(1.0, selectivity * relative_error), meeting)
