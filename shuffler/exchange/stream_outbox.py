"""StreamOutbox: what a process of a network has to send, gathered per receiver, counted where it leaves the node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from shuffler.exchange.channel import Message
from shuffler.exchange.outbox import Clock, FlushPolicy, Send
from shuffler.exchange.wire import BatchCodec
from shuffler.routing.network import NetworkTopology
from shuffler.routing.table import END_OF_STREAM, NOTHING_YET
from shuffler.routing.traffic import EdgeTraffic, Traffic
from shuffler.rows.batch import Batch

#: Watermarks per window that cross an edge: more would cost more bytes than they save memory.
_PER_WINDOW = 4
#: The codec of a stream as a node reads it.
CodecOf = Callable[[str, str], BatchCodec]


@dataclass
class _Bundle:
    rows: dict[int, list[Batch]] = field(default_factory=dict)
    watermarks: dict[int, int] = field(default_factory=dict)
    count: int = 0


class StreamOutbox:
    """Gathers rows and watermarks of streams and hands messages to `send`; one copy of a row for each receiver."""

    def __init__(
        self,
        process: str,
        topology: NetworkTopology,
        codec_of: CodecOf,
        *,
        send: Send,
        policy: FlushPolicy,
        clock: Clock,
    ) -> None:
        self._process, self._send, self._policy, self._clock = process, send, policy, clock
        self._lanes = topology.outgoing(process)
        self._codec_of = codec_of
        #: (stream, node where it is read) -> receivers with the number of their lane
        self._places: dict[tuple[str, str], list[tuple[str, int]]] = {}
        for target, lanes in self._lanes.items():
            for index, lane in enumerate(lanes):
                self._places.setdefault((lane.stream, lane.node), []).append((target, index))
        self._bundles = {target: _Bundle() for target in self._lanes}
        self._from = {name: stream.node for name, stream in topology.streams.items()}
        #: The last watermark that another node was told, by receiver and lane.
        self._promised: dict[tuple[str, int], int] = {}
        self._every_us = max(query.window_us for query in topology.plan.queries) // _PER_WINDOW
        self._flushed = clock()
        self.traffic = Traffic()

    def readers(self, stream: str) -> list[str]:
        """The nodes that a stream is sent to from here."""
        return [node for name, node in self._places if name == stream]

    def rows(self, stream: str, node: str, batch: Batch) -> None:
        for target, lane in self._places.get((stream, node), ()):
            bundle = self._bundles[target]
            bundle.rows.setdefault(lane, []).append(batch)
            bundle.count += batch.length

    def watermark(self, stream: str, node: str, watermark_us: int) -> None:
        """Promises that no later row of a stream ends before this. Other nodes are told now and then, and of the end:
        what they hold may grow a little, what they find is the same."""
        for target, lane in self._places.get((stream, node), ()):
            if self._lanes[target][lane].crosses and watermark_us != END_OF_STREAM:
                if watermark_us - self._promised.get((target, lane), NOTHING_YET) < self._every_us:
                    continue
                self._promised[target, lane] = watermark_us
            self._bundles[target].watermarks[lane] = watermark_us

    def flush(self, *, urgent: bool = False, barrier: int | None = None) -> bool:
        """Sends what is enough for a message or has waited for long, and all if it is urgent, the end, or a barrier;
        returns whether nothing waits any more."""
        now = self._clock()
        due = urgent or barrier is not None or now - self._flushed >= self._policy.interval_s
        if due:
            self._flushed = now
        for target, bundle in self._bundles.items():
            ready = due or bundle.count >= self._policy.max_rows or END_OF_STREAM in bundle.watermarks.values()
            if barrier is not None or (ready and (bundle.rows or bundle.watermarks)):
                self._ship(target, urgent=urgent, barrier=barrier)
        return due

    def _ship(self, target: str, *, urgent: bool, barrier: int | None) -> None:
        bundle, lanes = self._bundles[target], self._lanes[target]
        self._bundles[target] = _Bundle()
        rows = []
        for index, batches in bundle.rows.items():
            lane = lanes[index]
            encoded = self._codec_of(lane.stream, lane.node).encode(batches)
            rows.append((index, encoded))
            if lane.crosses:
                size = sum(buffer.size for buffer in encoded)
                length = sum(batch.length for batch in batches)
                self.traffic.count(self._edge(lane.stream, lane.node), EdgeTraffic(length, size, 1))
        for index in bundle.watermarks:
            if lanes[index].crosses:
                self.traffic.count(self._edge(lanes[index].stream, lanes[index].node), EdgeTraffic(watermarks=1))
        self._send(
            target,
            Message(self._process, 0, 0, tuple(rows), tuple(bundle.watermarks.items()), urgent, barrier),
        )

    def _edge(self, stream: str, node: str) -> tuple[str, str, str]:
        return stream, self._from[stream], node
