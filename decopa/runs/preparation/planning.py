"""Which plan, made from which statistics: decided here and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from costmodel.formulas import RateModel
from costmodel.statistics import Statistics
from decopa.choices import WORKLOAD_STRATEGIES
from decopa.errors import PlanError, StatisticsError
from decopa.planning.plan import Plan, QueryPlan
from decopa.planning.planner import MORE_UNITS, plan_workload
from decopa.planning.price import plan_units
from decopa.planning.spread import spread_units
from decopa.planning.strategies.left_deep import left_deep
from decopa.planning.validate import check_structure
from decopa.planning.workload.packing import packed
from decopa.planning.workload.statistics import part_statistics
from decopa.query.query import Query
from decopa.runs.spec import Planning

DEFAULT_STRATEGY = "decopa"
LEFT_DEEP = "left-deep"
#: What `PlanChoice.strategy` says of a plan that the user gave.
GIVEN = "given"


@dataclass(frozen=True)
class PlanChoice:
    """A plan, the strategy that made it, what the user should know about it, and the best candidates for it."""

    plan: Plan
    strategy: str
    notices: tuple[str, ...] = ()
    candidates: tuple[Plan, ...] = ()


def choose_plan(
    planning: Planning,
    queries: Sequence[Query],
    statistics: Sequence[Statistics | None] = (),
    *,
    model: RateModel | None = None,
    processors: int | None = None,
    lasting: bool = False,
) -> PlanChoice:
    """The plan given, or the one that the strategy makes for the units.

    Queries without statistics are planned left-deep; every plan finds the same matches. `processors` is how many the
    units share; by default each has its own. Events that are `lasting` have an end besides their start; queries over
    them share nothing.
    """
    if planning.plan is not None:
        check_structure(planning.plan)
        notices = [line for query, one in zip(queries, statistics) if one is not None for line in one.check_fits(query)]
        return PlanChoice(fitting_plan(planning.plan, queries), GIVEN, tuple(notices))
    known = {query: one for query, one in zip(queries, statistics) if one is not None}
    several = sum(len(query.branches) for query in queries) > 1 and not lasting
    strategy = planning.strategy or (
        LEFT_DEEP if not known else WORKLOAD_STRATEGIES[0] if several else DEFAULT_STRATEGY
    )
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
        processors=processors,
        seconds=planning.planning_time_s,
    )
    plan = planned.plan
    if len(informed) < len(queries):
        made = iter(part for part in plan.parts if not part.fragment)
        parts: list[QueryPlan] = [part for part in plan.parts if part.fragment]
        for query in queries:
            for branch in query.branches:
                parts.append(next(made) if query in known else spread_units(left_deep(branch), 1))
        plan = within_units(Plan(tuple(parts)), units) if not plan.hosts else packed(Plan(tuple(parts)), units)
    told = planned.notices
    if planning.units is None:  # one unit is what somebody who asks for none expects
        told = tuple(line for line in told if not line.endswith(MORE_UNITS))
    return PlanChoice(plan, strategy, told, planned.candidates if len(queries) == 1 else ())


def left_deep_plan(queries: Sequence[Query], units: int = 1) -> Plan:
    """A plan that needs no statistics: left-deep in query order, the units dealt out evenly among queries."""
    if units < 1:
        raise PlanError(f"a plan needs at least one unit, got {units}")
    return spread_plan(Plan(tuple(left_deep(branch) for query in queries for branch in query.branches)), units)


def spread_plan(plan: Plan, units: int) -> Plan:
    """The same operators on another number of units, dealt out evenly among the parts; parts share units if there are
    more of them than units."""
    if plan.hosts or len(plan.parts) > units:
        return packed(plan, units)
    return replace(plan, parts=tuple(map(spread_units, plan.parts, _even_shares(units, len(plan.parts)))))


def within_units(plan: Plan, units: int) -> Plan:
    """The plan, if it takes no more than the units; else its operators packed on them."""
    return plan if plan_units(plan) <= units else packed(plan, units)


def _even_shares(units: int, parts: int) -> list[int]:
    """Units for each of the parts, one at least."""
    share, extra = divmod(units, max(parts, 1))
    return [max(1, share + (place < extra)) for place in range(parts)]


def fitting_plan(plan: Plan, queries: Sequence[Query]) -> Plan:
    """The plan, if it is one for these queries."""
    wanted = [branch for query in queries for branch in query.branches]
    planned = list(plan.queries)
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


def per_part(plan: Plan, queries: Sequence[Query], statistics: Sequence[Statistics | None]) -> list[Statistics | None]:
    """One for each query -> one for each part of a plan: OR makes several parts of one query, and queries may share
    fragments."""
    known = statistics or [None] * len(queries)
    return part_statistics(plan, [one for query, one in zip(queries, known, strict=True) for _ in query.branches])
