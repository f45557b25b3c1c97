"""Keys: attributes that conditions require to be equal, so that rows with different values never meet.

Both inputs of an operator can then be hashed by them: each unit gets the rows of its keys and nothing else. The two
attributes have one name, so one kind of column, and equal values hash equally.
"""

from __future__ import annotations

import networkx as nx

from decopa.planning.subquery import SubQuery
from decopa.query.conditions.implied import implied_comparisons
from decopa.query.conditions.predicate import Attr, Compare, Predicate
from decopa.query.query import Query


def equal_attributes(predicate: Predicate) -> tuple[Attr, Attr] | None:
    """The two sides of a condition that is the equality of one attribute of two events; None for any other."""
    if not (isinstance(predicate, Compare) and predicate.op == "="):
        return None
    one, other = predicate.left, predicate.right
    if not (isinstance(one, Attr) and isinstance(other, Attr)) or one.name in ("id", "ts"):
        return None
    return (one, other) if one.name == other.name and one.alias != other.alias else None


def join_key(query: Query, left: SubQuery, right: SubQuery) -> tuple[Attr, Attr] | None:
    """(attribute of the left, attribute of the right input) that must be equal; None if no condition says so.

    What follows from conditions over a position that is in neither input counts, too: the operator compares it.
    """
    inside = left.aliases | right.aliases
    # A condition within one input was decided there, and its attributes are not carried any further.
    mine = left.positive(query) - left.closed - right.aliases
    others = right.positive(query) - right.closed - left.aliases

    def comparable(one: Attr, other: Attr) -> bool:
        """Of one name and on one side of every NOT: what a negated event equals says nothing about others."""
        return one.name == other.name and query.scope_of(one.alias) == query.scope_of(other.alias)

    implied = (one.predicate for one in implied_comparisons(query.where, comparable) if not one.through & inside)
    for predicate in (*query.where, *implied):
        pair = equal_attributes(predicate)
        for one, other in (pair, pair[::-1]) if pair is not None else ():
            if one.alias in mine and other.alias in others:
                return one, other
    return None


def are_equal(query: Query, sub_query: SubQuery, one: Attr, other: Attr) -> bool:
    """Whether two attributes are equal in every match of a sub-query, by conditions between events of it."""
    bound = sub_query.positive(query)
    pairs = [pair for pair in map(equal_attributes, query.conditions) if pair is not None]
    equalities = nx.Graph(pair for pair in pairs if {side.alias for side in pair} <= bound)
    return one == other or (one in equalities and other in nx.node_connected_component(equalities, one))
