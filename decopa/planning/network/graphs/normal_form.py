"""Normal forms (MuSE 5.5, Defs. 11 and 14): two graphs are equivalent if their collapsed forms are equal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from decopa.planning.network.graphs.graph import NetworkPlan, Vertex
from decopa.planning.subquery import SubQuery

#: The direct predecessors of each projection in the underlying combination.
Combination = Mapping[frozenset[str], tuple[frozenset[str], ...]]


def collapsed(plan: NetworkPlan) -> NetworkPlan:
    """Without composite vertices that only vertices of their own node read: those read their inputs instead."""
    while (vertex := _local_only(plan)) is not None:
        kept = []
        for one in plan.vertices:
            if one.name == vertex.name:
                continue
            if vertex.name in one.inputs:
                inputs = [name for name in one.inputs if name != vertex.name]
                one = replace(one, inputs=tuple(dict.fromkeys((*inputs, *vertex.inputs))))
            kept.append(one)
        plan = replace(plan, vertices=tuple(kept))
    return plan


def unfolded(plan: NetworkPlan, combination: Combination) -> NetworkPlan:
    """With a vertex for each direct predecessor that the combination names, at the node of its reader where there is
    none yet."""
    vertices = {vertex.name: vertex for vertex in plan.vertices}

    def below(vertex: Vertex) -> Vertex:
        inputs = [vertices[name] for name in vertex.inputs]
        read: list[Vertex] = []
        for part in combination.get(vertex.sub_query.aliases, ()):
            direct = [one for one in inputs if one.sub_query.aliases == part]
            if direct:
                read += direct
                continue
            name = f"{'+'.join(sorted(part))}@{vertex.node}"
            made_of = tuple(one.name for one in inputs if one.sub_query.aliases <= part)
            vertices[name] = below(Vertex(name, vertex.part, SubQuery(part), vertex.node, made_of))
            read.append(vertices[name])
        return replace(vertex, inputs=tuple(one.name for one in read)) if read else vertex

    for vertex in plan.ordered:
        if vertex.inputs:
            vertices[vertex.name] = below(vertex)
    return replace(plan, vertices=tuple(vertices.values()))


def are_equivalent(one: NetworkPlan, other: NetworkPlan) -> bool:
    """Property 5; names of vertices do not matter."""
    return _shape(collapsed(one)) == _shape(collapsed(other))


def _local_only(plan: NetworkPlan) -> Vertex | None:
    for vertex in plan.ordered:
        readers = plan.readers(vertex)
        alone = all(
            reader.node == vertex.node
            and not any(
                source.name != vertex.name and source.sub_query == vertex.sub_query for source in plan.inputs(reader)
            )
            for reader in readers
        )  # beside the same projection from elsewhere its inputs would mean something else
        if vertex.inputs and vertex.forwards is None and readers and alone:
            return vertex
    return None


def _shape(plan: NetworkPlan) -> frozenset[object]:
    """The graph as a set of nested values, without names."""
    shapes: dict[str, object] = {}
    for vertex in plan.ordered:
        below = frozenset(shapes[name] for name in vertex.inputs)
        shapes[vertex.name] = (vertex.part, vertex.sub_query, vertex.node, vertex.forwards, below)
    return frozenset(shapes.values())
