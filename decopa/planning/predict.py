"""What a plan's operators should do over a whole run, from statistics, to be held against what they did.

Rates per window times the number of windows in the trace's time span, with the model that is nearest to the engine
(`costmodel.rates.ENGINE`). Matches that the ends of the trace cut off are not taken away, and conditions count as
independent of each other: what the model does not know shows up as its error.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from costmodel.rates import ENGINE, QueryRates
from costmodel.statistics import Statistics
from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.planning.price import operator_prices
from decopa.planning.roles import Rule
from decopa.planning.subquery import SubQuery
from decopa.query.implied import implied_comparisons
from decopa.query.predicate import Attr, Compare, Predicate, aliases_of
from decopa.query.query import Query

#: A copy of a sliced plan gets each of its windows together with the next one.
_WINDOWS_PER_SLICE = 2


@dataclass(frozen=True, slots=True)
class Total:
    """A predicted count; `rough` where the model leaves something out that makes it too large: NOT, keys that only
    follow from other keys, matches that slices do not share."""

    value: float
    rough: bool = False

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
        self._keys = _Keys(plan.query, statistics)

    def totals(self) -> dict[str, Prediction]:
        return {operator.name: self._prediction(operator) for operator in self._plan.operators}

    def _prediction(self, operator: PlanOperator) -> Prediction:
        emitted = self._emitted(operator)
        if not operator.inputs:
            return Prediction(Total(0.0), Total(0.0), emitted)
        return Prediction(self._ingested(operator), self._comparisons(operator, emitted), emitted)

    def _emitted(self, operator: PlanOperator) -> Total:
        sub_query = operator.sub_query
        loose = bool(sub_query.negations(self._query)) or self._keys.unknown_within(sub_query.positive(self._query))
        return self._total(self._rates.rate(sub_query.aliases, sub_query.closed), rough=loose)

    def _ingested(self, operator: PlanOperator) -> Total:
        """What comes in, as often as it comes: a broadcast input goes to each of the units that work."""
        roles = self._plan.roles(operator)
        inputs = [self._emitted(source) for source in self._plan.inputs(operator)]
        value = sum(one.value * (1 if side == roles.dealt else roles.active_units) for side, one in enumerate(inputs))
        return Total(value, any(one.rough for one in inputs))

    def _comparisons(self, operator: PlanOperator, emitted: Total) -> Total:
        match self._plan.rule(operator):
            case Rule.KLEENE_UNARY:  # forming groups takes one comparison for each that is found, and few for others
                return emitted
            case Rule.KLEENE_BINARY:
                pairs = self._pairs(operator)
                return Total(pairs.value + emitted.value, pairs.rough or emitted.rough)
            case Rule.NEGATION | Rule.NEXT:  # the first match that blocks, or comes next, ends the search
                load = self._prices[operator.name].load().comparisons
                return self._total(load.per_unit(operator.units) * self._plan.roles(operator).active_units, rough=True)
            case _:
                return self._pairs(operator)

    def _pairs(self, operator: PlanOperator) -> Total:
        """Pairs of the two inputs' matches that meet: within the window, in order, and with equal keys."""
        left, right = (source.sub_query for source in self._plan.inputs(operator))
        met = self._rates.candidates(left.aliases, right.aliases, left.closed | right.closed)
        share, known = self._keys.share(left, right)
        inputs = [self._emitted(source) for source in self._plan.inputs(operator)]
        return self._total(met.at() * share, rough=not known or any(one.rough for one in inputs))

    def _total(self, per_window: float, *, rough: bool = False) -> Total:
        return Total(per_window * self._windows * self._copies, rough or self._copies > 1)


class _Keys:
    """Equalities between two positions, which the engine looks up in an index: pairs that differ are never met."""

    def __init__(self, query: Query, statistics: Statistics) -> None:
        self._query = query
        #: Pair of aliases -> share of pairs with equal keys; None where statistics do not tell it.
        self._shares: dict[frozenset[str], float | None] = {}
        conditions = _between_two(query)
        for pair, predicates in conditions.items():
            if any(map(_is_key, predicates)):
                alone = all(map(_is_key, predicates))
                self._shares[pair] = _selectivity(query, statistics, pair) if alone else None
        implied = implied_comparisons(query.where, lambda one, other: True)
        #: Keys that follow from others: the engine uses them, the rate model does not know of them.
        self._implied = {
            aliases: found.through for found in implied if found.predicate.op == "="
            and (aliases := frozenset(aliases_of(found.predicate))) not in self._shares
        }  # fmt: skip

    def unknown_within(self, aliases: frozenset[str]) -> bool:
        """Whether an implied key makes the matches on these positions fewer than their rate says."""
        return any(pair <= aliases and not through <= aliases for pair, through in self._implied.items())

    def share(self, left: SubQuery, right: SubQuery) -> tuple[float, bool]:
        """Of the pairs of a left and a right match: the share with equal keys, and whether that is all of it.

        Groups are not looked up by key.
        """
        share, known = 1.0, True
        both = left.aliases | right.aliases
        sides = (left.aliases - right.aliases - left.closed, right.aliases - left.aliases - right.closed)
        for one, other in itertools.product(*map(sorted, sides)):
            pair = frozenset((one, other))
            if pair in self._shares:
                one_share = self._shares[pair]
                share, known = share * (1.0 if one_share is None else one_share), known and one_share is not None
            elif pair in self._implied and not self._implied[pair] <= both:
                known = False
        return share, known


def _between_two(query: Query) -> Mapping[frozenset[str], list[Predicate]]:
    found: dict[frozenset[str], list[Predicate]] = {}
    for predicate in query.where:
        aliases = frozenset(aliases_of(predicate))
        if len(aliases) == 2:
            found.setdefault(aliases, []).append(predicate)
    return found


def _is_key(predicate: Predicate) -> bool:
    return (
        isinstance(predicate, Compare)
        and predicate.op == "="
        and isinstance(predicate.left, Attr)
        and isinstance(predicate.right, Attr)
    )


def _selectivity(query: Query, statistics: Statistics, pair: frozenset[str]) -> float | None:
    one, other = (query.position(alias) for alias in sorted(pair))
    if one.scope != other.scope:  # between a NOT and what is outside of it: not part of statistics
        return None
    return statistics.selectivity(one, other, connected=True)
