"""Gives the operators of a plan more than one unit each, without a cost model."""

from __future__ import annotations

from dataclasses import replace

from decopa.planning.plan import PlanOperator, QueryPlan, Rule
from decopa.planning.succession import hash_key


def spread_units(plan: QueryPlan, units: int) -> QueryPlan:
    """The plan on `units` units (at least one per operator), dealt out evenly, later operators first.

    An operator with several units gets one input partitioned: of a join the first, of a binary Kleene split the one
    without the Kleene position, of a negation the positive one, of a NEXT the first or, if FILTER has a key, both (by
    hash); that is valid for left-deep plans, in which every
    operator has one successor.
    """
    working = [operator for operator in plan.operators if operator.inputs]
    share, extra = divmod(max(units - len(working), 0), len(working) or 1)
    given = {operator.name: 1 + share + (1 if place < extra else 0) for place, operator in enumerate(reversed(working))}
    dealt_out = {
        name for operator in working if given[operator.name] > 1 for name in _partitioned_inputs(plan, operator)
    }
    return replace(
        plan,
        operators=tuple(
            replace(operator, units=given.get(operator.name, 1), partitioned=operator.name in dealt_out)
            for operator in plan.operators
        ),
    )


def _partitioned_inputs(plan: QueryPlan, operator: PlanOperator) -> tuple[str, ...]:
    inputs = plan.inputs(operator)
    rule = plan.rule(operator)
    if rule is Rule.KLEENE_BINARY:
        (formed,) = operator.sub_query.closed - inputs[0].sub_query.closed - inputs[1].sub_query.closed
        return (next(source.name for source in inputs if formed not in source.sub_query.aliases),)
    if rule is Rule.NEGATION:
        return (min(inputs, key=lambda source: len(source.sub_query.scope(plan.query))).name,)
    step = plan.succession(operator)
    if step is not None:
        keyed = hash_key(plan.query, inputs[step.left].sub_query, step) is not None
        return operator.inputs if keyed else (inputs[step.left].name,)
    return (inputs[0].name,)
