"""Plans that a running one might become, for statistics as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from costmodel.rates import QueryRates, model_for
from costmodel.statistics import Statistics
from decopa.planning.change.elastic import UnitRange, smallest_units
from decopa.planning.change.pricing import Pricing, statistics_of_parts
from decopa.planning.change.repair import on_one_unit
from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.planner import PlanningResult, plan_workload
from decopa.planning.price import plan_units
from decopa.planning.roles import Rule


def candidate_plans(
    running: Plan,
    known: Sequence[Statistics],
    pricing: Pricing,
    *,
    units: int | UnitRange,
    strategy: str = "decopa",
    speed: float = 1.0,
) -> list[Plan]:
    """The plans that the strategy makes for these statistics (one for each OR-free query) and units, the running plan
    with its larger inputs dealt out, and each of them with one unit for every operator, which broadcasts nothing.

    Of a range of units the smallest number is taken that sustains the stream at its speed, and no other plan
    has fewer than the fewest.
    """
    fewest = 1
    if isinstance(units, UnitRange):
        fewest = units.fewest
        best = {n: _planned(running, known, pricing, n, strategy, speed) for n in (units.fewest,)}

        def scaling_factor(number: int) -> float:
            if number not in best:
                best[number] = _planned(running, known, pricing, number, strategy, speed)
            return pricing.value(best[number].plan, known, speed=speed).scaling_factor

        number = smallest_units(units, scaling_factor)
        planned = best.get(number) or _planned(running, known, pricing, number, strategy, speed)
    else:
        planned = _planned(running, known, pricing, units, strategy, speed)
    found = [planned.plan, *planned.candidates]
    if plan_units(running) == plan_units(planned.plan):
        found.append(dealt_by_rate(running, known, pricing))
    alone = [on_one_unit(plan) for plan in found if not plan.hosts]
    found += [plan for plan in alone if plan_units(plan) >= fewest]
    return [plan for plan in dict.fromkeys(found) if plan != running]


def dealt_by_rate(plan: Plan, known: Sequence[Statistics], pricing: Pricing) -> Plan:
    """The same operators on the same units, with the larger input of each join dealt out among its units."""
    statistics = statistics_of_parts(plan, known)
    return replace(plan, parts=tuple(_dealt(part, one, pricing) for part, one in zip(plan.parts, statistics)))


def _dealt(part: QueryPlan, statistics: Statistics, pricing: Pricing) -> QueryPlan:
    rates = QueryRates(part.query, statistics, pricing.model or model_for(statistics))
    flags = {one.name: one.partitioned for one in part.operators}
    for operator in part.operators:
        sources = part.inputs(operator)
        # A flag holds for all successors of an input, so inputs with several stay as they are.
        own = all(len(part.successors(source)) == 1 for source in sources)
        if part.rule(operator) is Rule.JOIN and own and any(source.partitioned for source in sources):
            larger = max(sources, key=lambda one: rates.rate(one.sub_query.aliases, one.sub_query.closed))
            flags |= {source.name: source is larger for source in sources}
    operators: list[PlanOperator] = [replace(one, partitioned=flags[one.name]) for one in part.operators]
    return replace(part, operators=tuple(operators))


def _planned(
    running: Plan, known: Sequence[Statistics], pricing: Pricing, units: int, strategy: str, speed: float
) -> PlanningResult:
    capacity = pricing.capacity
    if capacity.window_us is not None and speed > 0:
        capacity = capacity.times(1 / speed)
    return plan_workload(
        running.queries,
        list(known),
        capacity,
        units=units,
        strategy=strategy,
        reading=pricing.reading,
        model=pricing.model,
    )
