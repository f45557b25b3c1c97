"""Which joins of a plan need not look for matches while it is built from events that another plan has worked on.

Whatever the plan finds in these events has been reported. A partial match matters if a later event can complete it. One
that holds the last event of its SEQ cannot be completed: all others come before. So joins that bind this event only
store their rows, as does the root, whose matches are whole. Where a NOT or a NEXT may still decide about matches, all
of them are looked for.
"""

from __future__ import annotations

import networkx as nx

from decopa.planning.plan import QueryPlan
from decopa.planning.roles import Rule
from decopa.query.query import Query


def absorbing(part: QueryPlan) -> frozenset[str]:
    """The names of these joins. None in a fragment: others build on its matches."""
    query = part.query
    if part.fragment or part.slices > 1 or query.negations or query.chosen_in_order:
        return frozenset()
    last = last_alias(query)
    return frozenset(
        operator.name
        for operator in part.operators
        if operator.inputs
        and part.rule(operator) is Rule.JOIN
        and (operator == part.root or last in operator.sub_query.aliases)
    )


def last_alias(query: Query) -> str | None:
    """The alias of a single event that comes after all others of a match, if there is one."""
    order = nx.DiGraph()
    order.add_nodes_from(query.positive_aliases)
    order.add_edges_from(query.order_constraints)
    everything = set(query.positive_aliases)
    for alias in everything - query.kleene_aliases:
        if nx.ancestors(order, alias) | {alias} >= everything:
            return alias
    return None
