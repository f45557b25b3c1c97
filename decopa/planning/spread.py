"""Gives the operators of a plan more than one unit each, without a cost model."""

from __future__ import annotations

from dataclasses import replace

from decopa.planning.plan import QueryPlan


def spread_units(plan: QueryPlan, units: int) -> QueryPlan:
    """The plan on `units` units (at least one per operator), dealt out evenly, later operators first.

    An operator with several units gets one input partitioned: of a join the first, of a binary Kleene split the one
    without the Kleene position, of a negation the positive one; that is valid for left-deep plans, in which every
    operator has one successor.
    """
    working = [operator for operator in plan.operators if operator.inputs]
    share, extra = divmod(max(units - len(working), 0), len(working) or 1)
    given = {operator.name: 1 + share + (1 if place < extra else 0) for place, operator in enumerate(reversed(working))}
    dealt_out = {operator.inputs[plan.roles(operator).main] for operator in working if given[operator.name] > 1}
    return replace(
        plan,
        operators=tuple(
            replace(operator, units=given.get(operator.name, 1), partitioned=operator.name in dealt_out)
            for operator in plan.operators
        ),
    )
