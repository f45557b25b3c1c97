"""Network plan -> processes and the lanes between them. Pure data: every process derives the same.

A network node has a source process, whose events are born there, and one process for each level of vertices that it
hosts; the level of a vertex is its longest way from the sources, so processes never feed each other in a circle, though
nodes may. A stream is what one vertex, or the births of one type at one node, send. It travels to each node once, to
the lowest level that reads it there, which passes it on to the higher ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from decopa.planning.network.graphs.graph import NetworkPlan, Vertex

SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Stream:
    """Matches of a vertex, or events of a type (`event_type`), sent by process `sender` at `node`."""

    name: str
    node: str
    sender: str
    event_type: str | None


@dataclass(frozen=True, slots=True)
class StreamLane:
    """A stream on its way between two processes. `node` is where it is read: rows of events have the columns that
    its readers at that node need. `crosses` says whether it leaves the node that it comes from."""

    stream: str
    node: str
    crosses: bool


@dataclass(frozen=True, slots=True)
class HostProcess:
    """The vertices of one node on one level."""

    name: str
    node: str
    level: int
    vertices: tuple[str, ...]


@dataclass(frozen=True)
class NetworkTopology:
    plan: NetworkPlan

    @cached_property
    def sources(self) -> dict[str, str]:
        """The source process of each node."""
        return {node: f"{node}/{SOURCE}" for node in self.plan.nodes}

    @cached_property
    def hosts(self) -> tuple[HostProcess, ...]:
        """The processes that host vertices, lower levels first."""
        found: dict[tuple[int, str], list[str]] = {}
        for vertex in self.plan.ordered:
            if vertex.inputs:
                found.setdefault((self.plan.level[vertex.name], vertex.node), []).append(vertex.name)
        return tuple(
            HostProcess(f"{node}/{level}", node, level, tuple(names)) for (level, node), names in sorted(found.items())
        )

    @cached_property
    def _home(self) -> dict[str, str]:
        return {name: host.name for host in self.hosts for name in host.vertices}

    def stream_of(self, vertex: Vertex) -> str:
        """The stream that brings the rows of a vertex; events of a type born at a node are one."""
        if vertex.inputs:
            return vertex.name
        return f"{self.plan.event_type(vertex)} born at {vertex.node}"

    @cached_property
    def streams(self) -> dict[str, Stream]:
        found: dict[str, Stream] = {}
        for vertex in self.plan.ordered:
            name = self.stream_of(vertex)
            if vertex.inputs:
                found[name] = Stream(name, vertex.node, self._home[vertex.name], None)
            else:
                found[name] = Stream(name, vertex.node, self.sources[vertex.node], self.plan.event_type(vertex))
        return found

    @cached_property
    def readers(self) -> dict[tuple[str, str], dict[str, tuple[str, ...]]]:
        """(stream, node) -> vertices that read it there, each with the vertices of the stream that it reads."""
        found: dict[tuple[str, str], dict[str, list[str]]] = {}
        for reader in self.plan.ordered:
            for source in self.plan.inputs(reader):
                key = (self.stream_of(source), reader.node)
                found.setdefault(key, {}).setdefault(reader.name, []).append(source.name)
        return {key: {name: tuple(read) for name, read in by_reader.items()} for key, by_reader in found.items()}

    def served(self, stream: str, node: str) -> tuple[str, ...]:
        """The vertices of a stream whose rows some vertex at a node reads."""
        read = self.readers.get((stream, node), {})
        return tuple(dict.fromkeys(name for names in read.values() for name in names))

    @cached_property
    def channels(self) -> dict[tuple[str, str], tuple[StreamLane, ...]]:
        """(sending process, receiving process) -> lanes, in an order that both ends agree on."""
        found: dict[tuple[str, str], list[StreamLane]] = {}
        for channel, lane in self._lanes():
            found.setdefault(channel, []).append(lane)
        return {channel: tuple(lanes) for channel, lanes in found.items()}

    def outgoing(self, process: str) -> dict[str, tuple[StreamLane, ...]]:
        return {target: lanes for (source, target), lanes in self.channels.items() if source == process}

    def incoming(self, process: str) -> dict[str, tuple[StreamLane, ...]]:
        return {source: lanes for (source, target), lanes in self.channels.items() if target == process}

    def _lanes(self) -> Iterator[tuple[tuple[str, str], StreamLane]]:
        level = {host.name: host.level for host in self.hosts}
        for (name, node), readers in self.readers.items():
            stream = self.streams[name]
            processes = sorted({self._home[reader] for reader in readers}, key=lambda process: level[process])
            entry, *higher = processes
            yield (stream.sender, entry), StreamLane(name, node, stream.node != node)
            for process in higher:
                sender = stream.sender if stream.node == node else entry
                yield (sender, process), StreamLane(name, node, False)
