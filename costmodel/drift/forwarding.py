"""What it costs to forward events in a network: hops, smallest trees, forwarding graphs (thesis, 2.3 and 3)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

import networkx as nx

from decopa.errors import StatisticsError

#: More terminals than this would take minutes.
MAX_TERMINALS = 14

Edges = Iterable[tuple[Hashable, Hashable]]


def tree_edges(edges: Edges, terminals: Collection[Hashable]) -> int:
    """|ST|: edges of the smallest tree that spans the terminals, exactly (Dreyfus and Wagner)."""
    graph, ends = _graph(edges), list(dict.fromkeys(terminals))
    if len(ends) > MAX_TERMINALS:
        raise StatisticsError(f"a smallest tree over {len(ends)} nodes is not computed; at most {MAX_TERMINALS} are")
    if len(ends) < 2:
        return 0
    away = dict(nx.all_pairs_shortest_path_length(graph))
    if any(end not in graph or end not in away[ends[0]] for end in ends):
        raise StatisticsError(f"no tree spans {ends}: some of them are not connected")
    last, others = ends[-1], ends[:-1]
    reach = away[last].keys()
    #: Edges of the smallest tree over a set of terminals (as bits) and one more node.
    cost: dict[int, dict[Hashable, int]] = {1 << at: away[end] for at, end in enumerate(others)}
    for group in range(1, 1 << len(others)):
        if group not in cost:
            joined = {node: min(_halves(group, cost, node)) for node in reach}
            cost[group] = {node: min(joined[via] + away[via][node] for via in reach) for node in reach}
    return cost[(1 << len(others)) - 1][last]


def forwarding_edges(
    edges: Sequence[tuple[Hashable, Hashable]], origins: Iterable[Hashable], sinks: Collection[Hashable]
) -> list[int]:
    """Edges of the smallest forwarding graph from each origin to all sinks; tc(v) is that times the rate (1)."""
    return [tree_edges(edges, {origin, *sinks}) for origin in origins]


def hops_to(
    edges: Sequence[tuple[Hashable, Hashable]], sink: Hashable, sources: Mapping[str, Iterable[Hashable]]
) -> dict[str, int]:
    """The sum of the ways from each type's producers to one node: what a local rate is multiplied by."""
    away = nx.shortest_path_length(_graph(edges), target=sink)
    return {event_type: sum(away[node] for node in nodes) for event_type, nodes in sources.items()}


def central_forwarding_cost(
    edges: Sequence[tuple[Hashable, Hashable]],
    sink: Hashable,
    sources: Mapping[str, Iterable[Hashable]],
    local_rates: Mapping[str, float],
) -> float:
    """Events that travel, hop by hop, if one node evaluates everything."""
    return sum(local_rates[event_type] * count for event_type, count in hops_to(edges, sink, sources).items())


def _halves(group: int, cost: Mapping[int, Mapping[Hashable, int]], node: Hashable) -> Iterable[int]:
    """Costs of joining two trees over complementary parts of a group at a node."""
    part = (group - 1) & group
    while part:
        yield cost[part][node] + cost[group ^ part][node]
        part = (part - 1) & group


def _graph(edges: Edges) -> nx.Graph:
    return nx.Graph(list(edges))
