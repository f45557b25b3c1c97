"""What a plan is worth under given statistics: how much it sustains, what it sends, how busy it keeps its units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from costmodel.capacity import Capacity
from costmodel.formulas import RateModel
from costmodel.logarithms import value_of
from costmodel.statistics import Statistics
from decopa.choices import Reading
from decopa.errors import StatisticsError
from decopa.planning.change.traffic import rows_per_second
from decopa.planning.plan import Plan
from decopa.planning.price import PricedPlan, plan_units, price_plan, workload_log_scaling
from decopa.planning.workload.statistics import part_statistics


@dataclass(frozen=True, slots=True)
class PlanValue:
    """`scaling_factor` is c at the speed of the stream; `rows_per_s` are rows sent per second of event time. `load` is
    the share of its time that the busiest unit below the roots needs: these must work through history before a plan can
    take over, while roots need only store it."""

    scaling_factor: float
    rows_per_s: float
    load: float
    units: int


@dataclass(frozen=True, slots=True)
class Pricing:
    """How plans are priced: the same for the plan that runs and for those that might."""

    capacity: Capacity
    reading: Reading = Reading.LINEAR
    model: RateModel | None = None

    def value(self, plan: Plan, known: Sequence[Statistics], *, speed: float = 1.0) -> PlanValue:
        """Prices a plan; `known` are statistics of the parts that report matches. `speed` is event time per time: a
        stream that is played twice as fast leaves a unit half as long for each window. It counts for capacities that
        name their window; others mean the window of the query, however long it lasts."""
        statistics = statistics_of_parts(plan, known)
        capacity = self.capacity
        if capacity.window_us is not None and speed > 0:
            capacity = capacity.times(1 / speed)
        priced = [
            price_plan(part, one, capacity, reading=self.reading, model=self.model)
            for part, one in zip(plan.parts, statistics, strict=True)
        ]
        log_scaling = workload_log_scaling(priced, plan.hosts)
        rows = rows_per_second(plan, statistics, self.model)
        return PlanValue(value_of(log_scaling), rows, max(map(_load_below_root, priced)), plan_units(plan))


def statistics_of_parts(plan: Plan, known: Sequence[Statistics]) -> list[Statistics]:
    """One for each part of a plan, from those of the parts that report matches."""
    found = [one for one in part_statistics(plan, list(known)) if one is not None]
    if len(found) < len(plan.parts):
        raise StatisticsError("a fragment of the plan has no statistics, since no query that uses it has any")
    return found


def _load_below_root(priced: PricedPlan) -> float:
    root = priced.plan.root.name
    return max((one.busy_share for one in priced.operators if one.operator.name != root), default=0.0)
