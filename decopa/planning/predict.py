"""What a plan's operators should do over a whole run, from statistics, to be held against what they did.

Rates per window times the number of windows in the trace's time span, with the model that is nearest to the engine
(`costmodel.formulas.ENGINE`). Matches that the ends of the trace cut off are taken away. Where sub-queries were not
measured, conditions count as independent of each other: what the model does not know shows up as its error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from costmodel.formulas import ENGINE
from costmodel.rates import QueryRates
from costmodel.statistics import Statistics
from costmodel.sub_queries import CONFIDENCE
from costmodel.time_order import inside_share
from decopa.planning.keys import Keys
from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.planning.price import operator_prices
from decopa.planning.roles import Rule

#: A copy of a sliced plan gets each of its windows together with the next one.
_WINDOWS_PER_SLICE = 2


@dataclass(frozen=True, slots=True)
class Total:
    """A predicted count; `rough` where the model leaves something out that makes it too large: NOT, keys that only
    follow from other keys, matches that slices do not share. `relative_error` is the standard error of
    what was sampled."""

    value: float
    rough: bool = False
    relative_error: float = 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Where the count lies with a confidence of 95 %, as far as sampling goes; counts are known to 1 % at best."""
        spread = math.sqrt(math.log1p(self.relative_error**2) + 0.01**2)
        factor = math.exp(CONFIDENCE * spread)
        return self.value / factor, self.value * factor

    def error(self, measured: float) -> float | None:
        """(predicted - measured) / measured; None where nothing was measured."""
        if measured <= 0:
            return None
        return (self.value - measured) / measured


@dataclass(frozen=True, slots=True)
class Prediction:
    """Totals of all units of an operator over the run; a leaf takes nothing in and compares nothing."""

    ingested: Total
    comparisons: Total
    emitted: Total


def predict(plan: QueryPlan, statistics: Statistics, span_us: int) -> dict[str, Prediction]:
    """Predictions for every operator of a plan, by name, for a trace that spans `span_us` of event time."""
    return _Predictor(plan, statistics, span_us).totals()


class _Predictor:
    def __init__(self, plan: QueryPlan, statistics: Statistics, span_us: int) -> None:
        self._plan, self._query, self._statistics = plan, plan.query, statistics
        self._rates = QueryRates(plan.query, statistics, ENGINE)
        self._prices = operator_prices(plan, self._rates)
        self._windows = span_us / plan.query.window_us
        #: Copies of a sliced plan see events, and find matches, more than once; how often is at most this.
        self._copies = min(plan.slices, _WINDOWS_PER_SLICE)
        self._keys = Keys(plan.query, statistics)

    def totals(self) -> dict[str, Prediction]:
        return {operator.name: self._prediction(operator) for operator in self._plan.operators}

    def _prediction(self, operator: PlanOperator) -> Prediction:
        emitted = self._emitted(operator)
        if not operator.inputs:
            return Prediction(Total(0.0), Total(0.0), emitted)
        return Prediction(self._ingested(operator), self._comparisons(operator, emitted), emitted)

    def _emitted(self, operator: PlanOperator) -> Total:
        sub_query = operator.sub_query
        positive = sub_query.positive(self._query)
        unknown = [one for one in sub_query.negations(self._query) if self._rates.negation(one, positive) is None]
        loose = bool(unknown) or self._keys.unknown_within(positive)
        total = self._total(self._rates.rate(sub_query.aliases, sub_query.closed), len(positive), rough=loose)
        return replace(total, relative_error=self._rates.relative_error(sub_query.aliases, sub_query.closed))

    def _ingested(self, operator: PlanOperator) -> Total:
        """What comes in, as often as it comes: a broadcast input goes to each of the units that work."""
        roles = self._plan.roles(operator)
        inputs = [self._emitted(source) for source in self._plan.inputs(operator)]
        value = sum(one.value * roles.receivers(side) for side, one in enumerate(inputs))
        return Total(value, any(one.rough for one in inputs))

    def _comparisons(self, operator: PlanOperator, emitted: Total) -> Total:
        match self._plan.rule(operator):
            case Rule.KLEENE_UNARY:
                return self._tried(operator, emitted)
            case Rule.KLEENE_BINARY:
                pairs, tried = self._pairs(operator), self._tried(operator, emitted)
                return Total(pairs.value + tried.value, pairs.rough or tried.rough)
            case Rule.NEGATION:
                return self._looked_up(operator)
            case Rule.NEXT:  # the first match that comes next ends the search
                load = self._prices[operator.name].load().comparisons
                compared = load.per_unit(operator.units) * self._plan.roles(operator).active_units
                return self._total(compared, len(operator.sub_query.positive(self._query)), rough=True)
            case _:
                return self._pairs(operator)

    def _tried(self, operator: PlanOperator, emitted: Total) -> Total:
        """Members held against groups: once for each group found, more often where members must fit each other."""
        formed = self._plan.roles(operator).formed
        times = self._rates.tries(operator.sub_query.aliases, min(formed)) if formed else 1.0
        return Total(emitted.value * times, emitted.rough)

    def _looked_up(self, operator: PlanOperator) -> Total:
        """Negated matches compared with positive ones; the first that blocks ends the search."""
        inputs = self._plan.inputs(operator)
        side = self._plan.roles(operator).main
        positive, negated = inputs[side], inputs[1 - side]
        negation = next(one for one in self._query.negations if one.aliases == negated.sub_query.aliases)
        known = self._rates.negation(negation, positive.sub_query.positive(self._query))
        if known is not None:
            arriving = self._emitted(positive)
            return Total(arriving.value * known.compared, arriving.rough)
        load = self._prices[operator.name].load().comparisons
        positions = len(operator.sub_query.positive(self._query)) + 1
        return self._total(
            load.per_unit(operator.units) * self._plan.roles(operator).active_units, positions, rough=True
        )

    def _pairs(self, operator: PlanOperator) -> Total:
        """Pairs of the two inputs' matches that meet: within the window, in order, and with equal keys."""
        left, right = (source.sub_query for source in self._plan.inputs(operator))
        met = self._rates.candidates(left.aliases, right.aliases, left.closed | right.closed)
        share, known = self._keys.share(left, right)
        inputs = [self._emitted(source) for source in self._plan.inputs(operator)]
        positions = len((left.aliases | right.aliases) & operator.sub_query.positive(self._query))
        return self._total(met.at() * share, positions, rough=not known or any(one.rough for one in inputs))

    def _total(self, per_window: float, positions: int, *, rough: bool = False) -> Total:
        inside = inside_share(positions, self._windows)
        return Total(per_window * self._windows * inside * self._copies, rough or self._copies > 1)
