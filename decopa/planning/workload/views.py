"""What a view needs of the operator that it takes matches from, and what an operator's matches carry."""

from __future__ import annotations

from collections.abc import Collection

from decopa.planning.plan import Plan, PlanOperator, QueryPlan, View
from decopa.planning.subquery import SubQuery
from decopa.planning.times import needed_times
from decopa.query.canonical import Residue, residue
from decopa.query.conditions.predicate import Attr, aliases_of, attributes
from decopa.query.query import Query


def source_of(plan: Plan, view: View) -> tuple[QueryPlan, PlanOperator]:
    """The part and the operator that a view takes matches from."""
    part = plan.parts[plan.place_of[view.part]]
    return part, part.operator(view.operator)


def residue_of(plan: Plan, part: QueryPlan, operator: PlanOperator) -> Residue:
    """What a view of `part` decides on the matches that it takes."""
    assert operator.view is not None
    other, source = source_of(plan, operator.view)
    return residue(other.query, source.sub_query.aliases, part.query, operator.view.names)


def needed_attributes(query: Query, sub_query: SubQuery, left: Residue) -> frozenset[Attr]:
    """The attributes that matches of a sub-query must come with: for what is left to decide on them, for later
    conditions, for RETURN, and times where a later order or NOT looks at them. Ids come in any case."""
    aliases = sub_query.aliases
    needed = {attr for predicate in left.conditions for attr in attributes(predicate)}
    needed |= {Attr(alias, "ts") for pair in left.order for alias in pair}
    for predicate in query.conditions:
        if not aliases_of(predicate) <= aliases:
            needed |= {attr for attr in attributes(predicate) if attr.alias in aliases}
    needed |= {attr for one in query.having for attr in attributes(one) if attr.alias in aliases}
    needed |= {attr for attr in query.returns if attr.alias in aliases}
    needed |= {Attr(logical.rpartition(".")[0], "ts") for logical in needed_times(query, sub_query)}
    return frozenset(Attr(attr.alias, attr.name) for attr in needed if attr.name != "id")


def carried_attributes(query: Query, sub_query: SubQuery) -> frozenset[Attr]:
    """The attributes that matches of an operator certainly come with: what RETURN names, and the times of the events
    that begin and end every match."""
    aliases, order = sub_query.aliases, query.order_constraints
    carried = {Attr(attr.alias, attr.name) for attr in query.returns if attr.alias in aliases}
    for alias in aliases:
        others = aliases - {alias}
        if all((alias, other) in order for other in others) or all((other, alias) in order for other in others):
            carried.add(Attr(alias, "ts"))
    return frozenset(carried)


def missing_attributes(plan: Plan, part: QueryPlan, operator: PlanOperator) -> Collection[Attr]:
    """What a view needs and its source does not carry, in the names of the source."""
    assert operator.view is not None
    other, source = source_of(plan, operator.view)
    names = operator.view.names
    needed = needed_attributes(part.query, operator.sub_query, residue_of(plan, part, operator))
    wanted = {Attr(names[attr.alias], attr.name) for attr in needed}
    return sorted(wanted - carried_attributes(other.query, source.sub_query), key=str)
