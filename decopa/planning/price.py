"""Plan + statistics -> what every operator has to do, what the whole sustains, and what stands in the way of more."""

from __future__ import annotations

import math
from dataclasses import dataclass

from costmodel.capacity import Capacity
from costmodel.costs import OperatorLoad
from costmodel.formulas import RateModel
from costmodel.logarithms import value_of
from costmodel.pricing import PricedOperator, Together
from costmodel.rates import QueryRates, model_for
from costmodel.statistics import Statistics
from costmodel.throughput import AssignedOperator, Limit, Scaling, largest_scaling, load_at
from decopa.choices import Reading
from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.roles import Rule
from decopa.planning.split import SplitSpace, Step


@dataclass(frozen=True, slots=True)
class OperatorFigures:
    """Predictions for one operator, per window; loads are those of each of its units.

    Shares are of a unit's capacity. `limit` is set at the operator that binds.
    """

    operator: PlanOperator
    rule: Rule
    sub_query: str
    output_rate: float
    ingestion: float = 0.0
    comparisons: float = 0.0
    ingestion_share: float = 0.0
    comparison_share: float = 0.0
    limit: Limit | None = None
    emission: float = 0.0
    emission_share: float = 0.0

    @property
    def busy_share(self) -> float:
        """The share of a unit's time that all of it takes, if time is what limits (see `Objective.BUSY`)."""
        return self.ingestion_share + self.comparison_share + self.emission_share


@dataclass(frozen=True)
class PricedPlan:
    """A plan with its figures at scaling factor `at` and the largest scaling factor it sustains."""

    plan: QueryPlan
    capacity: Capacity
    reading: Reading
    at: float
    scaling: Scaling
    operators: tuple[OperatorFigures, ...]

    @property
    def units(self) -> int:
        """Processing units that the plan takes."""
        return units_of(self.plan)


def units_of(plan: QueryPlan) -> int:
    """Processing units of a plan: operators on the same hosts share them, and every slice has its own."""
    hosts = {host for operator in plan.operators for host in operator.hosts}
    own = sum(operator.units for operator in plan.operators if operator.inputs and not operator.hosts)
    return (len(hosts) + own) * plan.slices


def plan_units(plan: Plan) -> int:
    """Processing units that all parts of a plan take together."""
    if not plan.hosts:
        return sum(map(units_of, plan.parts))
    return len({host for part in plan.parts for operator in part.operators for host in operator.hosts})


def price_plan(
    plan: QueryPlan,
    statistics: Statistics,
    capacity: Capacity,
    *,
    reading: Reading = Reading.LINEAR,
    model: RateModel | None = None,
    at: float = 1.0,
) -> PricedPlan:
    """Prices a plan; `at` is the scaling factor its loads are given for."""
    capacity = capacity.for_window(plan.query.window_us)
    rates = QueryRates(plan.query, statistics, model or model_for(statistics))
    prices = operator_prices(plan, rates)
    assigned = _assigned(plan, prices)
    scaling = largest_scaling([one for one, _ in assigned], capacity, reading)
    binding = next((names for one, names in assigned if one.name == scaling.operator), ())
    figures = []
    for operator in plan.operators:
        rate = rates.formula(operator.sub_query.aliases, operator.sub_query.closed)
        log_at = math.log(at)
        figure = OperatorFigures(
            operator, plan.rule(operator), operator.sub_query.text(plan.query), value_of(rate.log_at(log_at))
        )
        if operator.name in prices:
            load = load_at(prices[operator.name], log_at, reading)
            parts = (load.ingestion, load.comparisons, load.emission)
            taken, compared, emitted = (part.per_unit(operator.units) for part in parts)
            binds = operator.name in binding
            figure = OperatorFigures(
                operator,
                figure.rule,
                figure.sub_query,
                figure.output_rate,
                taken,
                compared,
                taken / capacity.max_ingestion,
                compared / capacity.max_comparisons,
                scaling.limit if binds else None,
                emitted,
                0.0 if capacity.max_emission is None else emitted / capacity.max_emission,
            )
        figures.append(figure)
    return PricedPlan(plan, capacity, reading, at, scaling, tuple(figures))


def operator_prices(plan: QueryPlan, rates: QueryRates) -> dict[str, PricedOperator]:
    """The price of every operator that takes inputs, with the partition flags of the plan."""
    space = SplitSpace(plan.query, rates)
    prices: dict[str, PricedOperator] = {}
    for operator in plan.operators:
        inputs = plan.inputs(operator)
        if inputs:
            step = Step(operator.sub_query, tuple(source.sub_query for source in inputs))
            dealt = plan.roles(operator).dealt
            price = space.price(step, -1 if dealt is None else dealt)
            prices[operator.name] = price if plan.slices == 1 else _Sliced(price, plan.slices)
    return prices


def _assigned(plan: QueryPlan, prices: dict[str, PricedOperator]) -> list[tuple[AssignedOperator, tuple[str, ...]]]:
    """Operators on their units, with their names; those that share hosts count as one."""
    together: dict[tuple[int, ...], list[str]] = {}
    assigned: list[tuple[AssignedOperator, tuple[str, ...]]] = []
    for name in prices:
        operator = plan.operator(name)
        if operator.hosts:
            together.setdefault(operator.hosts, []).append(name)
        else:
            assigned.append((AssignedOperator(name, prices[name], operator.units), (name,)))
    for hosts, names in together.items():
        joint = Together(tuple(prices[name] for name in names))
        assigned.append((AssignedOperator("+".join(names), joint, len(hosts)), tuple(names)))
    return assigned


@dataclass(frozen=True, slots=True)
class _Sliced:
    """An operator in one of n copies: it gets two of every n windows (at least everything, of course)."""

    operator: PricedOperator
    slices: int

    def load(self, log_scaling: float = 0.0) -> OperatorLoad:
        return self.operator.load(log_scaling).times(math.log(min(1.0, 2 / self.slices)))
