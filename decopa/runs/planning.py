"""Which plan, made from which statistics: decided here and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from costmodel.rates import PAPER, RateModel
from costmodel.statistics import Statistics
from decopa.errors import PlanError, StatisticsError
from decopa.planning.left_deep import left_deep
from decopa.planning.plan import Plan, QueryPlan
from decopa.planning.planner import plan_workload
from decopa.planning.spread import spread_units
from decopa.query.query import Query
from decopa.runs.spec import Planning

DEFAULT_STRATEGY = "decopa"
LEFT_DEEP = "left-deep"
#: What `PlanChoice.strategy` says of a plan that the user gave.
GIVEN = "given"


@dataclass(frozen=True)
class PlanChoice:
    """A plan, the strategy that made it, and what the user should know about it."""

    plan: Plan
    strategy: str
    notices: tuple[str, ...] = ()


def choose_plan(
    planning: Planning,
    queries: Sequence[Query],
    statistics: Sequence[Statistics | None] = (),
    *,
    model: RateModel = PAPER,
) -> PlanChoice:
    """The plan given, or the one that the strategy makes for the units.

    Queries without statistics are planned left-deep; every plan finds the same matches.
    """
    if planning.plan is not None:
        notices = [line for query, one in zip(queries, statistics) if one is not None for line in one.check_fits(query)]
        return PlanChoice(fitting_plan(planning.plan, queries), GIVEN, tuple(notices))
    known = {query: one for query, one in zip(queries, statistics) if one is not None}
    strategy = planning.strategy or (DEFAULT_STRATEGY if known else LEFT_DEEP)
    units = planning.units or 1
    if strategy == LEFT_DEEP or not known:
        return PlanChoice(left_deep_plan(queries, units), LEFT_DEEP)
    informed = [query for query in queries if query in known]
    planned = plan_workload(
        informed,
        [known[query] for query in informed],
        planning.capacity,
        units=max(1, units - (len(queries) - len(informed))),
        strategy=strategy,
        reading=planning.reading,
        model=model,
    )
    made = iter(planned.plan.parts)
    parts: list[QueryPlan] = []
    for query in queries:
        for branch in query.branches:
            parts.append(next(made) if query in known else spread_units(left_deep(branch), 1))
    return PlanChoice(Plan(tuple(parts)), strategy, planned.notices)


def left_deep_plan(queries: Sequence[Query], units: int = 1) -> Plan:
    """A plan that needs no statistics: left-deep in query order, the units dealt out evenly among queries."""
    if units < 1:
        raise PlanError(f"a plan needs at least one unit, got {units}")
    branches = [branch for query in queries for branch in query.branches]
    return Plan(tuple(map(spread_units, map(left_deep, branches), _even_shares(units, len(branches)))))


def spread_plan(plan: Plan, units: int) -> Plan:
    """The same operators on another number of units, dealt out evenly among the parts."""
    return Plan(tuple(map(spread_units, plan.parts, _even_shares(units, len(plan.parts)))))


def _even_shares(units: int, parts: int) -> list[int]:
    """Units for each of the parts, one at least."""
    share, extra = divmod(units, max(parts, 1))
    return [max(1, share + (place < extra)) for place in range(parts)]


def fitting_plan(plan: Plan, queries: Sequence[Query]) -> Plan:
    """The plan, if it is one for these queries."""
    wanted = [branch for query in queries for branch in query.branches]
    planned = [part.query for part in plan.parts]
    if planned != wanted:
        odd = next((q for q in planned if q not in wanted), planned[-1] if planned else None)
        named = f" (it has {odd.pattern} WITHIN {odd.window_us} us)" if odd is not None else ""
        raise PlanError(f"the plan was made for another query{named}; make one for this query with `decopa plan`")
    return plan


def needs_statistics(planning: Planning) -> bool:
    """Whether the user asked for a plan that cannot be made without statistics, and gave none."""
    return (
        planning.plan is None
        and planning.statistics is None
        and planning.strategy is not None
        and planning.strategy != LEFT_DEEP
    )


def check_measurable(planning: Planning) -> None:
    """Refuses a strategy that needs statistics on a stream that cannot be measured."""
    if needs_statistics(planning):
        raise StatisticsError("a live stream cannot be measured before it runs; give statistics or a plan")


def per_part(queries: Sequence[Query], statistics: Sequence[Statistics | None]) -> list[Statistics | None]:
    """One for each query -> one for each part of a plan: OR makes several parts of one query."""
    known = statistics or [None] * len(queries)
    return [one for query, one in zip(queries, known, strict=True) for _ in query.branches]
