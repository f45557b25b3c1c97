"""What runs in a process of a network, without the process: messages in, messages out.

A source node sends the events that are born at one network node. A host node works for the vertices of one network node
on one level, and collects the matches of queries whose sinks are there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa

from actors.group import Limits
from actors.network.state import decode_vertices, encode_vertices
from actors.network.vertex import VertexLogic
from actors.reports import UnitReport, unit_reports
from actors.sinks.sink import MatchSink, check_limit
from decopa.planning.network.graphs.compile import local_plan
from shuffler.exchange.channel import Message
from shuffler.exchange.inbox import Inbox
from shuffler.exchange.outbox import Clock, FlushPolicy, Send
from shuffler.exchange.stream_codecs import StreamCodecs
from shuffler.exchange.stream_outbox import StreamOutbox
from shuffler.routing.network import NetworkTopology, StreamLane
from shuffler.routing.table import END_OF_STREAM, NOTHING_YET
from shuffler.rows.batch import Array, Batch
from shuffler.rows.columns import Ints
from shuffler.rows.events import EventBatch, EventFormat
from shuffler.rows.layout import layout_of
from shuffler.rows.strings import StringPool


class NetworkSource:
    """Sends the events of one network node to every node that reads them."""

    def __init__(
        self,
        node: str,
        topology: NetworkTopology,
        form: EventFormat,
        strings: StringPool,
        *,
        send: Send,
        policy: FlushPolicy,
        clock: Clock,
    ) -> None:
        self.name, self.node = topology.sources[node], node
        self._codecs = StreamCodecs(topology, form.schema, strings)
        self.outbox = StreamOutbox(self.name, topology, self._codecs.codec, send=send, policy=policy, clock=clock)
        self._streams = [
            (stream.name, reader)
            for stream in topology.streams.values()
            if stream.sender == self.name
            for reader in self.outbox.readers(stream.name)
        ]
        self.watermark_us = NOTHING_YET

    def feed(self, events: EventBatch, mine: Array, watermark_us: int) -> None:
        """Sends the events flagged in `mine`, which were born here, then promises that none before the watermark
        follows."""
        if mine.any():
            for stream, reader in self._streams:
                batch = self._codecs.carrier(stream, reader).packed(events, mine)
                if batch is not None and batch.length:
                    self.outbox.rows(stream, reader, batch)
        self.advance(watermark_us)

    def advance(self, watermark_us: int, *, urgent: bool = False) -> None:
        """Promises that no event before this is born here any more; also a heartbeat of a node that has none."""
        if watermark_us > self.watermark_us:
            self.watermark_us = watermark_us
            for stream, reader in self._streams:
                self.outbox.watermark(stream, reader, watermark_us)
        self.outbox.flush(urgent=urgent)

    def barrier(self, number: int) -> None:
        """Cuts the stream here."""
        self.outbox.flush(barrier=number)


class NetworkHost:
    """The vertices of one network node on one level. `found` is told the ends of matches that a sink here gets."""

    def __init__(
        self,
        name: str,
        topology: NetworkTopology,
        form: EventFormat,
        strings: StringPool,
        *,
        send: Send,
        limits: Limits,
        policy: FlushPolicy,
        clock: Clock,
        attempt: int = 0,
        cut: Callable[[int, bytes, dict[int, pa.Table]], None] = lambda number, state, matches: None,
        found: Callable[[Ints], None] = lambda end_ts: None,
        state: bytes | None = None,
    ) -> None:
        process = next(host for host in topology.hosts if host.name == name)
        self.name, self.node, self._topology, self._limits = name, process.node, topology, limits
        plan = topology.plan
        self._codecs = StreamCodecs(topology, form.schema, strings)
        self.strings, self._on_cut, self._on_found = strings, cut, found
        self.outbox = StreamOutbox(name, topology, self._codecs.codec, send=send, policy=policy, clock=clock)
        self._lanes = topology.incoming(name)
        self._inbox = Inbox(self._lanes, deliver=self._deliver, cut=self._cut, attempt=attempt)
        self._window_us = max(query.window_us for query in plan.queries)
        sinks = {sink.name: part for part in range(len(plan.queries)) for sink in plan.sinks(part)}
        #: The matches found here, by number of the query.
        self.sinks: dict[int, MatchSink] = {}
        self._sink_marks: dict[str, int] = {}
        self._ends: dict[int, str] = {}
        self.vertices: dict[str, VertexLogic] = {}
        for one in process.vertices:
            vertex = plan.vertex(one)
            bound = self._codecs.bounds[vertex.part]
            if one in sinks:
                layout = layout_of(bound, vertex.sub_query)
                self.sinks.setdefault(vertex.part, MatchSink(bound, layout, form, strings))
                self._ends[vertex.part] = layout.place("max_ts")
                self._sink_marks[one] = NOTHING_YET
            self.vertices[one] = VertexLogic(
                local_plan(plan, vertex), bound, strings.pin, limits=limits, emit=partial(self._emit, one)
            )
        self._reached = {one: self.outbox.readers(one) for one in process.vertices}
        #: What of a stream goes to which vertex here: (vertex, row of the stream that it reads, leaf)
        self._routes = {lane.stream: self._readers_of(lane) for lanes in self._lanes.values() for lane in lanes}
        if state is not None:
            restored = decode_vertices(self.vertices, self._codecs.bounds, strings, state, f"the checkpoint of {name}")
            for one, saved in restored.items():
                self.vertices[one].restore(saved)

    def warm_up(self) -> None:
        """Loads compiled code before the first event comes."""
        for logic in self.vertices.values():
            logic.warm_up()
        for sink in self.sinks.values():
            sink.warm_up()

    def receive(self, message: Message) -> None:
        """Delivers a message, and those that waited for it, and sends what comes of it."""
        self._inbox.accept(message)

    def _deliver(self, message: Message) -> None:
        lanes = self._lanes[message.sender]
        for index, encoded in message.rows:
            lane = lanes[index]
            self._rows(lane, self._codecs.codec(lane.stream, lane.node).decode(encoded))
        # Rows meet what is stored before the watermarks that came with them forget it.
        for index, watermark_us in message.watermarks:
            self._watermark(lanes[index], watermark_us)
        self.outbox.flush(urgent=message.urgent)
        self._forget()

    def _rows(self, lane: StreamLane, batch: Batch) -> None:
        if lane.crosses:
            self.outbox.rows(lane.stream, lane.node, batch)  # to higher levels of this node
        routes = self._routes[lane.stream]
        if self._topology.streams[lane.stream].event_type is None:
            for reader, source, _ in routes:
                self.vertices[reader].rows(source, batch)
            return
        for leaf, rows in self._codecs.carrier(lane.stream, lane.node).unpacked(batch):
            for reader, source, wanted in routes:
                if wanted == leaf:
                    self.vertices[reader].rows(source, rows)

    def _watermark(self, lane: StreamLane, watermark_us: int) -> None:
        if lane.crosses:
            self.outbox.watermark(lane.stream, lane.node, watermark_us)
        for reader, source, _ in self._routes[lane.stream]:
            self.vertices[reader].watermark(source, watermark_us)

    def _emit(self, vertex: str, content: Batch | int) -> None:
        """What a vertex puts out: to the sink, to other levels, over the network."""
        if vertex in self._sink_marks:
            self._collect(vertex, content)
        for node in self._reached[vertex]:
            if isinstance(content, Batch):
                self.outbox.rows(vertex, node, content)
            else:
                self.outbox.watermark(vertex, node, content)

    def _collect(self, vertex: str, content: Batch | int) -> None:
        part = self._topology.plan.vertex(vertex).part
        if isinstance(content, Batch):
            self._on_found(content.columns[self._ends[part]])
            self.sinks[part].add(content)
            check_limit(self.sinks[part].rows, self._limits.max_matches, vertex)
        else:
            self._sink_marks[vertex] = content

    def _cut(self, number: int) -> None:
        """All that came before the barrier has been worked on: sends it on, with the barrier behind it."""
        self.outbox.flush(barrier=number)
        state = encode_vertices(self.vertices, self._codecs.bounds, self.strings)
        self._on_cut(number, state, self.taken())

    def taken(self) -> dict[int, pa.Table]:
        """The matches found since the last call, by number of the query."""
        return {part: sink.take() for part, sink in self.sinks.items()}

    def _readers_of(self, lane: StreamLane) -> list[tuple[str, str, tuple[int, str] | None]]:
        plan, found = self._topology.plan, []
        for reader, sources in self._topology.readers[lane.stream, lane.node].items():
            for name in sources if reader in self.vertices else ():
                source = plan.vertex(name)
                leaf = None if source.inputs else (source.part, min(source.sub_query.aliases))
                found.append((reader, name, leaf))
        return found

    def _forget(self) -> None:
        """Strings that nothing held here can use any more."""
        marks = [logic.group.units for logic in self.vertices.values()]
        least = min((unit.output_watermark_us for units in marks for unit in units.values()), default=END_OF_STREAM)
        if least not in (END_OF_STREAM, NOTHING_YET):
            self.strings.forget_before(least - 4 * self._window_us)

    def reports(self) -> tuple[UnitReport, ...]:
        """What the units of all vertices here did."""
        return tuple(one for logic in self.vertices.values() for one in unit_reports(logic.group.units, 0))

    @property
    def watermark_us(self) -> int:
        """How far the sinks here have come; the end if there are none."""
        return min(self._sink_marks.values(), default=END_OF_STREAM)
