"""What a strategy sustains: the one question that all experiments ask of the planner."""

from __future__ import annotations

import math
from dataclasses import dataclass

from costmodel.capacity import Capacity
from costmodel.rates import PAPER, RateModel
from costmodel.statistics import Statistics
from decopa.choices import Reading
from decopa.planning.plan import QueryPlan
from decopa.planning.planner import plan_workload
from decopa.planning.price import PricedPlan, price_plan
from decopa.query.query import Query

#: The most that a logarithm may be for `exp` to give a number.
_LOG_MAX = 700.0


@dataclass(frozen=True)
class Case:
    """A query with all that its plans depend on but their strategy."""

    query: Query
    statistics: Statistics
    capacity: Capacity
    model: RateModel = PAPER

    def plan(self, strategy: str, units: int, reading: Reading = Reading.LINEAR) -> QueryPlan:
        result = plan_workload(
            [self.query],
            self.statistics,
            self.capacity,
            units=units,
            strategy=strategy,
            reading=reading,
            model=self.model,
        )
        return result.plan.parts[0]

    def priced(self, plan: QueryPlan, reading: Reading = Reading.LINEAR) -> PricedPlan:
        return price_plan(plan, self.statistics, self.capacity, reading=reading, model=self.model)

    def log_scaling(self, strategy: str, units: int, reading: Reading = Reading.LINEAR) -> float:
        """The logarithm of the largest c of a strategy's plan."""
        return self.priced(self.plan(strategy, units, reading), reading).scaling.log_scaling

    def scaling(self, strategy: str, units: int, reading: Reading = Reading.LINEAR) -> float:
        return bounded_exp(self.log_scaling(strategy, units, reading))


def bounded_exp(logarithm: float) -> float:
    return math.exp(max(-_LOG_MAX, min(_LOG_MAX, logarithm)))
