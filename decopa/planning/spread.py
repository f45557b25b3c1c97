"""Gives the operators of a plan more than one unit each, without a cost model."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx

from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.planning.roles import BOTH


def spread_units(plan: QueryPlan, units: int) -> QueryPlan:
    """The plan on `units` units, dealt out evenly, later operators first.

    With fewer units than operators, neighbouring operators share one. An operator with several units gets one input
    partitioned: of a join the first, of a binary Kleene split the one without the Kleene position, of a negation the
    positive one, of a NEXT the first or, if FILTER has a key, both (by hash); that is valid for left-deep plans, in
    which every operator has one successor.
    """
    working = [operator for operator in plan.operators if operator.inputs]
    if units < len(working):
        return _sharing_units(plan, units)
    share, extra = divmod(units - len(working), len(working) or 1)
    given = {operator.name: 1 + share + (1 if place < extra else 0) for place, operator in enumerate(reversed(working))}
    dealt_out = {name for operator in working if given[operator.name] > 1 for name in _dealt_inputs(plan, operator)}
    return replace(
        plan,
        operators=tuple(
            replace(operator, units=given.get(operator.name, 1), partitioned=operator.name in dealt_out, hosts=())
            for operator in plan.operators
        ),
    )


def _dealt_inputs(plan: QueryPlan, operator: PlanOperator) -> tuple[str, ...]:
    roles = plan.roles(operator)
    return operator.inputs if BOTH in roles.may_deal else (operator.inputs[roles.main],)


def _sharing_units(plan: QueryPlan, units: int) -> QueryPlan:
    """Operators on one unit each, several of them on the same: runs of a topological order, so that units never feed
    each other in a circle."""
    order = [name for name in nx.lexicographical_topological_sort(plan.graph) if plan.operator(name).inputs]
    hosts = {name: (place * units // len(order),) for place, name in enumerate(order)}
    return replace(
        plan,
        operators=tuple(
            replace(operator, units=1, partitioned=False, hosts=hosts.get(operator.name, ()))
            for operator in plan.operators
        ),
    )
