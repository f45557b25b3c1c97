"""A cluster in one thread: the nodes of a plan, and a network that delays, repeats and reorders messages at will."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random

import pyarrow as pa

from actors.group import Limits
from actors.node import SinkNode, UnitNode
from decopa.planning.plan import Plan
from decopa.query.binding import bind
from decopa.query.query import Query
from decopa.runs.result import result_table
from shuffler.exchange.channel import Message, OutgoingChannel
from shuffler.exchange.codecs import needed_attributes
from shuffler.exchange.node import Marks, ReplayStart, ShufflerNode
from shuffler.exchange.outbox import FlushPolicy
from shuffler.routing.table import NOTHING_YET
from shuffler.routing.topology import Topology
from shuffler.rows.columns import Place
from shuffler.source.pacing import Replay
from shuffler.source.trace import open_trace

#: A window that no simulated channel fills: who waits for credit is not simulated here.
UNBOUNDED = 1 << 30


class SimulatedCluster:
    """Nodes and the messages between them; `chaos` draws what the network does next."""

    def __init__(self, plan: Plan, events: pa.Table, *, shufflers: int, batch_size: int, chaos: Random) -> None:
        self._chaos, self._batch_size = chaos, batch_size
        self._source = open_trace(events)
        self.topology = Topology(plan, shufflers)
        self._on_their_way: list[tuple[str, Message]] = []
        self._channels = {channel: OutgoingChannel(channel[0], window=UNBOUNDED) for channel in self.topology.channels}
        self._time = 0.0
        self._turn = self._ordinal = 0
        form, limits = self._source.format, Limits()

        def policy() -> FlushPolicy:
            """Gathers nothing, the rows of several messages, or all rows until somebody pushes them on; processes
            differ, since their clocks and loads do."""
            return FlushPolicy(max_rows=chaos.choice((1, 4, 100)), interval_s=chaos.choice((0.0, 3.0, 1e9)))

        self.sinks = [
            SinkNode(name, self.topology, form, limits=limits, clock=self._clock) for name in self.topology.sink_names
        ]
        self.units = {
            process.name: UnitNode(
                process.name,
                self.topology,
                form,
                send=partial(self._send, process.name),
                limits=limits,
                policy=policy(),
                clock=self._clock,
            )
            for process in self.topology.units
        }
        self.shufflers = [
            ShufflerNode(
                number,
                self.topology,
                form,
                send=partial(self._send, name),
                mark=self._mark,
                replay=Replay(),
                batch_size=batch_size,
                policy=policy(),
                clock=self._clock,
                sleep=lambda seconds: None,
            )
            for number, name in enumerate(self.topology.shuffler_names)
        ]

    def run(self, queries: Sequence[Query]) -> pa.Table:
        bounds = [bind(part.query, self._source.schema) for part in self.topology.plan.parts]
        for block in self._source.blocks(needed_attributes(bounds, self._source.schema), 7):
            self.feed(block.rows, block.place)
        for shuffler in self.shufflers:
            shuffler.finish()
        self.deliver_all()
        assert all(sink.finished for sink in self.sinks)
        tables = {sink.name: tuple(taker.table() for taker in sink.takers) for sink in self.sinks}
        return result_table(queries, self.topology.by_part(tables))

    def feed(self, rows: pa.RecordBatch, place: Place) -> None:
        """A block to the shuffler whose turn it is; some messages come, some do not yet."""
        shuffler = self.shufflers[self._turn % len(self.shufflers)]
        shuffler.feed(rows, place, self._ordinal, ReplayStart(0.0, 0))
        self._turn += 1
        self._ordinal += rows.num_rows
        self.deliver_some()

    def flush(self, watermark_us: int = NOTHING_YET) -> None:
        """As `Session.flush`."""
        for shuffler in self.shufflers:
            shuffler.flush(watermark_us)

    def settle(self, watermark_us: int = NOTHING_YET) -> None:
        """As `Session.settle`."""
        self.flush(watermark_us)
        self.deliver_all()

    def take(self) -> list[pa.Table]:
        """As `Session.take`."""
        tables = {sink.name: tuple(taker.take() for taker in sink.takers) for sink in self.sinks}
        return list(self.topology.by_part(tables))

    def deliver_some(self) -> None:
        for _ in range(self._chaos.randrange(8)):
            self._deliver_one()

    def deliver_all(self) -> None:
        while self._on_their_way:
            self._deliver_one()

    def _clock(self) -> float:
        self._time += 1.0
        return self._time

    def _mark(self, marks: Marks) -> None:
        for sink in self.sinks:
            sink.mark(marks)

    def _send(self, process: str, target: str, message: Message) -> None:
        stamped = self._channels[process, target].stamp(message)
        self._on_their_way.append((target, stamped))
        if self._chaos.random() < 0.1:
            self._on_their_way.append((target, stamped))

    def _deliver_one(self) -> None:
        if not self._on_their_way:
            return
        target, message = self._on_their_way.pop(self._chaos.randrange(len(self._on_their_way)))
        self._channels[message.sender, target].acknowledge(message.sequence)
        node = self.units.get(target) or next(sink for sink in self.sinks if sink.name == target)
        node.receive(message)
