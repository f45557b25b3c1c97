"""NetworkPlan: a MuSE graph as data (MuSE Def. 3), to and from JSON.

A vertex hosts a projection of one query at one node and lists the vertices it reads. What it covers follows from that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import networkx as nx

from costmodel.networks.network import EventSourcedNetwork
from decopa.documents import read_document
from decopa.errors import PlanError, QueryError, did_you_mean
from decopa.language.text.parser import parse
from decopa.planning.network.graphs.cover import NOTHING, Cover
from decopa.planning.subquery import SubQuery, whole
from decopa.query.query import Query

FORMAT = "decopa-network-plan"
VERSION = 1
#: The node of centralized evaluation: it gives birth to nothing and is no part of the network.
OUTSIDE = "outside"


@dataclass(frozen=True, slots=True)
class Vertex:
    """Matches of a projection of query `part`, generated at `node` from what `inputs` send.

    Without inputs it stands for the events of one position that are born there. `forwards` makes it a reducer: it
    sends the events of that position which have a match, instead of the matches. `same_as` names a vertex of another
    query at the same node with the same matches, whose transfers serve this one, too.
    """

    name: str
    part: int
    sub_query: SubQuery
    node: str
    inputs: tuple[str, ...] = ()
    forwards: str | None = None
    same_as: str | None = None

    @property
    def provides(self) -> frozenset[str]:
        """The positions that a reader gets from it."""
        return self.sub_query.aliases if self.forwards is None else frozenset({self.forwards})


@dataclass(frozen=True, slots=True)
class Transfer:
    """What crosses the network once: matches of a vertex, or the events of a type, from one node to another.

    `vertices` are all that it serves as a source; `event_type` is None for matches.
    """

    source: str
    target: str
    vertices: tuple[str, ...]
    event_type: str | None

    @property
    def label(self) -> str:
        return f"{self.event_type or self.vertices[0]}: {self.source} -> {self.target}"


@dataclass(frozen=True)
class NetworkPlan:
    """Vertices for OR-free queries, and the producers of each type in the network that the plan was made for."""

    queries: tuple[Query, ...]
    nodes: tuple[str, ...]
    producers: Mapping[str, tuple[str, ...]]
    vertices: tuple[Vertex, ...]

    def __post_init__(self) -> None:
        names = [vertex.name for vertex in self.vertices]
        if len(set(names)) < len(names):
            raise PlanError(f"two vertices are called '{next(n for n in names if names.count(n) > 1)}'; name each once")
        for vertex in self.vertices:
            for source in vertex.inputs:
                if source not in self._by_name:
                    raise PlanError(f"vertex {vertex.name}: no vertex '{source}' for its input")
            if not 0 <= vertex.part < len(self.queries):
                raise PlanError(f"vertex {vertex.name}: there is no query number {vertex.part}")
            if vertex.node not in self.nodes:
                raise PlanError(f"vertex {vertex.name}: no node '{vertex.node}'{did_you_mean(vertex.node, self.nodes)}")
            unknown = sorted(vertex.sub_query.aliases - set(self.queries[vertex.part].aliases))
            if unknown:
                raise PlanError(f"vertex {vertex.name}: no alias '{unknown[0]}' in its query")
        if not nx.is_directed_acyclic_graph(self.graph):
            cycle = " -> ".join(edge[0] for edge in nx.find_cycle(self.graph))
            raise PlanError(f"the vertices {cycle} feed each other in a circle")

    @cached_property
    def _by_name(self) -> dict[str, Vertex]:
        return {vertex.name: vertex for vertex in self.vertices}

    @cached_property
    def graph(self) -> nx.DiGraph:
        """Edges lead from what is read to its reader."""
        graph = nx.DiGraph()
        graph.add_nodes_from(vertex.name for vertex in self.vertices)
        graph.add_edges_from((source, vertex.name) for vertex in self.vertices for source in vertex.inputs)
        return graph

    def vertex(self, name: str) -> Vertex:
        return self._by_name[name]

    def inputs(self, vertex: Vertex) -> tuple[Vertex, ...]:
        return tuple(self._by_name[name] for name in vertex.inputs)

    def readers(self, vertex: Vertex) -> tuple[Vertex, ...]:
        return tuple(self._by_name[name] for name in self.graph.successors(vertex.name))

    @cached_property
    def ordered(self) -> tuple[Vertex, ...]:
        """Every vertex after those it reads."""
        return tuple(self._by_name[name] for name in nx.lexicographical_topological_sort(self.graph))

    def sinks(self, part: int) -> tuple[Vertex, ...]:
        """The vertices that host a query itself; those of a query of one event read its events."""
        wanted = whole(self.queries[part])
        return tuple(
            one
            for one in self.vertices
            if one.part == part and one.sub_query == wanted and one.inputs and one.forwards is None
        )

    def event_type(self, vertex: Vertex) -> str:
        (alias,) = vertex.sub_query.aliases
        return self.queries[vertex.part].position(alias).type

    def describe(self, vertex: Vertex) -> str:
        """What a vertex sends, for people: `SEQ(A,B)`, or `B with SEQ(A,B)` of a reducer."""
        query = self.queries[vertex.part]
        text = vertex.sub_query.text(query)
        return text if vertex.forwards is None else f"{query.position(vertex.forwards).type} with {text}"

    @cached_property
    def level(self) -> dict[str, int]:
        """The longest way from the sources to each vertex, in edges."""
        levels: dict[str, int] = {}
        for vertex in self.ordered:
            levels[vertex.name] = max((levels[name] + 1 for name in vertex.inputs), default=0)
        return levels

    @cached_property
    def transfers(self) -> tuple[Transfer, ...]:
        """Everything that crosses the network, each thing once for each node that reads it (4.4)."""
        found: dict[tuple[str, str, str], list[str]] = {}
        types: dict[tuple[str, str, str], str | None] = {}
        for reader in self.ordered:
            for source in self.inputs(reader):
                if source.node != reader.node:
                    event_type = None if source.inputs else self.event_type(source)
                    key = (event_type or self.original(source), source.node, reader.node)
                    served = found.setdefault(key, [])
                    if source.name not in served:
                        served.append(source.name)
                    types[key] = event_type
        return tuple(Transfer(key[1], key[2], tuple(names), types[key]) for key, names in sorted(found.items()))

    def original(self, vertex: Vertex) -> str:
        """The vertex whose transfers serve this one."""
        while vertex.same_as is not None:
            vertex = self._by_name[vertex.same_as]
        return vertex.name

    # ------------------------------------------------------------------ covers
    @cached_property
    def covers(self) -> dict[str, Cover]:
        """The sound cover of each vertex: bindings whose parts the predecessors can really deliver (Property 2)."""
        found: dict[str, Cover] = {}
        for vertex in self.ordered:
            if not vertex.inputs:
                found[vertex.name] = Cover.of({min(vertex.sub_query.aliases): (vertex.node,)})
                continue
            by_projection: dict[tuple[frozenset[str], str | None], Cover] = {}
            for source in self.inputs(vertex):
                key = (source.sub_query.aliases, source.forwards)
                by_projection[key] = by_projection.get(key, NOTHING).united(found[source.name])
            cover: Cover | None = None
            for one in by_projection.values():
                cover = one if cover is None else cover.joined(one)
            found[vertex.name] = cover or NOTHING
        return found

    def reachable_cover(self, vertex: Vertex) -> Cover:
        """Def. 4 as printed: every combination of origins from which a way leads to the vertex. Not sound."""
        behind = nx.ancestors(self.graph, vertex.name) | {vertex.name}
        origins: dict[str, set[str]] = {alias: set() for alias in sorted(vertex.sub_query.aliases)}
        for name in behind:
            source = self._by_name[name]
            if not source.inputs:
                origins[min(source.sub_query.aliases)].add(source.node)
        return Cover.of(origins)

    def bindings(self, part: int, aliases: Iterable[str]) -> Cover:
        """E(p): every combination of producers (4.1)."""
        query = self.queries[part]
        return Cover.of({alias: self.producers[query.position(alias).type] for alias in aliases})

    def check_fits(self, network: EventSourcedNetwork) -> None:
        """Raises PlanError unless the plan was made for a network with these nodes and producers."""
        for node in self.nodes:
            if node not in network.rates and node != OUTSIDE:
                raise PlanError(
                    f"the plan is for another network: {network.name} has no node '{node}'"
                    f"{did_you_mean(node, network.nodes)}; make the plan anew with `decopa network plan`"
                )
        for event_type, producers in self.producers.items():
            if set(network.producers(event_type)) != set(producers):
                odd = sorted(set(network.producers(event_type)) ^ set(producers))[0]
                raise PlanError(
                    f"the plan is for another network: in {network.name} other nodes produce '{event_type}' than in "
                    f"the plan ('{odd}', for one); make the plan anew with `decopa network plan`"
                )

    # -------------------------------------------------------------------- JSON
    def to_json(self) -> str:
        document = {
            "format": FORMAT,
            "version": VERSION,
            "queries": [str(query) for query in self.queries],
            "nodes": list(self.nodes),
            "producers": {event_type: list(nodes) for event_type, nodes in self.producers.items()},
            "vertices": [self._document(vertex) for vertex in self.vertices],
        }
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"

    def _document(self, vertex: Vertex) -> dict[str, Any]:
        document: dict[str, Any] = {
            "name": vertex.name,
            "query": vertex.part,
            "projection": vertex.sub_query.text(self.queries[vertex.part]),  # for the reader; not read back
            "positions": sorted(vertex.sub_query.aliases),
            "closed": sorted(vertex.sub_query.closed),
            "node": vertex.node,
            "inputs": list(vertex.inputs),
        }
        optional = {"forwards": vertex.forwards, "same_as": vertex.same_as}
        return document | {key: value for key, value in optional.items() if value is not None}

    @classmethod
    def from_json(cls, text: str) -> NetworkPlan:
        """Reads what `to_json` wrote; anything else is refused with the place that is wrong."""
        document = read_document(
            text,
            format=FORMAT,
            version=VERSION,
            name="the plan",
            error=PlanError,
            remedy="make it with `decopa network plan`",
        ).fields
        try:
            return cls(
                tuple(parse(text) for text in document["queries"]),
                tuple(map(str, document["nodes"])),
                {str(name): tuple(map(str, nodes)) for name, nodes in document["producers"].items()},
                tuple(_vertex(item) for item in document["vertices"]),
            )
        except QueryError as err:
            raise PlanError(f"a query of the plan cannot be read: {err}") from err
        except (KeyError, TypeError, AttributeError) as err:
            raise PlanError(f"the plan lacks a field or has one of the wrong kind: {err!r}; make it anew") from None


def _vertex(item: Any) -> Vertex:
    return Vertex(
        str(item["name"]),
        int(item["query"]),
        SubQuery(frozenset(map(str, item["positions"])), frozenset(map(str, item["closed"]))),
        str(item["node"]),
        tuple(map(str, item["inputs"])),
        item.get("forwards"),
        item.get("same_as"),
    )
