"""plan -> who sends what to whom, with which partitioner."""

from __future__ import annotations

from dataclasses import dataclass

from decopa.planning.plan import PlanOperator, QueryPlan, Rule
from decopa.planning.subquery import SubQuery
from decopa.query.query import Query
from shuffler.batch import key_of
from shuffler.partitioner import Broadcast, HashByEventIds, Partitioner, RoundRobin


@dataclass(frozen=True, slots=True)
class Edge:
    """Matches of `source` go to side `side` of `target`; `hashed` is set for a unary Kleene split."""

    source: PlanOperator
    target: PlanOperator
    side: int
    units: int
    partitioned: bool
    hashed: tuple[str, ...] | None

    def partitioner(self) -> Partitioner:
        """A fresh partitioner; every sender has its own, so that each deals out its matches in turn."""
        if not self.partitioned:
            return Broadcast(self.units)
        return RoundRobin(self.units) if self.hashed is None else HashByEventIds(self.units, self.hashed)


@dataclass(frozen=True)
class RoutingTable:
    plan: QueryPlan

    def active_units(self, operator: PlanOperator) -> int:
        """How many of an operator's units get input.

        If none of its inputs is partitioned, every unit would find the same matches, so only the first one works.
        """
        inputs = self.plan.inputs(operator)
        return operator.units if any(source.partitioned for source in inputs) else 1

    def edges_from(self, operator: PlanOperator) -> tuple[Edge, ...]:
        return tuple(
            Edge(
                operator,
                target,
                target.inputs.index(operator.name),
                self.active_units(target),
                operator.partitioned,
                self._hashed(operator, target),
            )
            for target in self.plan.successors(operator)
        )

    def senders(self, operator: PlanOperator) -> tuple[str, ...]:
        """Names of the processes that send an operator's matches: its active units, or the shuffler for a leaf."""
        if not operator.inputs:
            return (f"{operator.name}/shuffler",)
        return tuple(f"{operator.name}/{unit}" for unit in range(self.active_units(operator)))

    def _hashed(self, source: PlanOperator, target: PlanOperator) -> tuple[str, ...] | None:
        if self.plan.rule(target) is not Rule.KLEENE_UNARY:
            return None
        (alias,) = target.sub_query.closed - source.sub_query.closed
        return identity_columns(self.plan.query, source.sub_query, alias)


def identity_columns(query: Query, sub_query: SubQuery, kleene_alias: str) -> tuple[str, ...]:
    """The columns in which strip matches of one family agree: the ids of everything but the Kleene position."""
    rest = sorted(sub_query.positive(query) - {kleene_alias})
    return tuple(key_of(alias) if alias in sub_query.closed else f"{alias}.id" for alias in rest)
