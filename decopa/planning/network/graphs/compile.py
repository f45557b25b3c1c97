"""Vertex -> local operators: a chain of binary joins on its own node, whose leaves are what the vertex reads.

Inputs of equal projection come from several vertices but feed one leaf: their covers do not overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from decopa.planning.network.graphs.graph import NetworkPlan, Vertex
from decopa.planning.plan import QueryPlan
from decopa.planning.strategies.left_deep import joined_parts
from decopa.planning.subquery import SubQuery

#: Matches per window of a set of positions.
Rate = Callable[[frozenset[str]], float]


@dataclass(frozen=True)
class LocalPlan:
    """The operators of one vertex, and which leaf each vertex that it reads feeds."""

    vertex: Vertex
    plan: QueryPlan
    leaf_of: dict[str, str]


def local_plan(plan: NetworkPlan, vertex: Vertex, rate: Rate | None = None) -> LocalPlan:
    """Compiles a vertex; with rates known, small inputs are joined first and such that little comes of it."""
    query = plan.queries[vertex.part]
    if not vertex.inputs:  # a query of one event: its events are its matches
        part = joined_parts(query, [vertex.sub_query])
        return LocalPlan(vertex, part, {vertex.name: part.root.name})
    read = {source.name: provided(source) for source in plan.inputs(vertex)}
    parts = _ordered(list(dict.fromkeys(read.values())), rate)
    compiled = joined_parts(query, parts)
    leaf_of = {leaf.sub_query: leaf.name for leaf in compiled.leaves}
    # A negated position that another input has decided already has no leaf.
    return LocalPlan(vertex, compiled, {name: leaf_of[part] for name, part in read.items() if part in leaf_of})


def provided(vertex: Vertex) -> SubQuery:
    """What a reader gets from a vertex: its matches, or single events of the position that it forwards."""
    return vertex.sub_query if vertex.forwards is None else SubQuery(frozenset({vertex.forwards}))


def _ordered(parts: list[SubQuery], rate: Rate | None) -> list[SubQuery]:
    if rate is None:
        return sorted(parts, key=lambda part: part.sort_key)
    order = [min(parts, key=lambda part: (rate(part.aliases), part.sort_key))]
    left = [part for part in parts if part is not order[0]]
    bound = order[0].aliases
    while left:
        following = min(left, key=lambda part: (rate(bound | part.aliases), part.sort_key))
        left.remove(following)
        order.append(following)
        bound |= following.aliases
    return order
