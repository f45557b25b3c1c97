"""The thesis' repair of a multi-sink placement: one sink takes over, tables lead there, others give way (4, 5.1)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import networkx as nx

from decopa.planning.plan import Plan, QueryPlan

Edge = tuple[Hashable, Hashable]


@dataclass(frozen=True, slots=True)
class SinkNode:
    """One of the nodes that evaluate the same projection: whether it also evaluates one of its complex inputs or its
    parent, and how many entries its forwarding table has."""

    name: str
    evaluates_input: bool
    evaluates_parent: bool
    table_size: int


def fallback_nodes(sinks: Sequence[SinkNode]) -> list[str]:
    """The sinks among which the fallback node is drawn (Algorithm 2): those that evaluate a neighbour of the
    projection, if any; of these, the ones with the largest forwarding tables."""
    near = [sink for sink in sinks if sink.evaluates_input or sink.evaluates_parent] or list(sinks)
    largest = max(sink.table_size for sink in near)
    return sorted(sink.name for sink in near if sink.table_size == largest)


def repaired_tables(
    edges: Iterable[Edge], producers: Mapping[str, Collection[int]], fallback: int
) -> dict[int, dict[str, list[int]]]:
    """Forwarding tables after the repair: every input travels to the fallback node on a shortest way, over the smallest
    next node where several are as short.

    Algorithm 3 as printed would delete the rules of the other inputs, so that the fallback node starves.
    """
    graph = nx.Graph(list(edges))
    away = nx.shortest_path_length(graph, target=fallback)
    tables: dict[int, dict[str, list[int]]] = {node: {} for node in sorted(graph)}
    for event_type, nodes in producers.items():
        for producer in nodes:
            at = producer
            while at != fallback:
                hop = min(graph[at], key=lambda node: (away[node], node))
                targets = tables[at].setdefault(event_type, [])
                if hop not in targets:
                    targets.append(hop)
                at = hop
    return tables


def repaired_graph(edges: Iterable[Edge], dropped: Collection[Hashable], fallback: Hashable) -> set[Edge]:
    """The INEv graph after the repair: what led to a dropped vertex leads to the fallback vertex, and what left one
    does not exist any more, since the fallback vertex sends the same matches."""
    kept = [(source, fallback if target in dropped else target) for source, target in edges if source not in dropped]
    return set(kept)


def on_one_unit(plan: Plan) -> Plan:
    """The same operators, each on one unit: nothing is broadcast any more (the fallback node, in our words)."""
    return replace(plan, parts=tuple(map(_narrow, plan.parts)))


def _narrow(part: QueryPlan) -> QueryPlan:
    operators = tuple(replace(one, units=1, hosts=one.hosts[:1]) for one in part.operators)
    return replace(part, operators=operators)
