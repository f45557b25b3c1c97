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
from shuffler.routing.topology import Topology
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
        form, limits = self._source.format, Limits()
        # Long enough to gather the rows of several messages, short enough to pass by.
        policy = FlushPolicy(max_rows=chaos.choice((1, 4, 100)), interval_s=chaos.choice((0.0, 3.0)))
        self.sinks = [
            SinkNode(part, self.topology, form, limits=limits, clock=self._clock) for part in range(len(plan.parts))
        ]
        self.units = {
            process.name: UnitNode(
                process.name,
                self.topology,
                form,
                send=partial(self._send, process.name),
                limits=limits,
                policy=policy,
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
                policy=policy,
                clock=self._clock,
                sleep=lambda seconds: None,
            )
            for number, name in enumerate(self.topology.shuffler_names)
        ]

    def run(self, queries: Sequence[Query]) -> pa.Table:
        bounds = [bind(part.query, self._source.schema) for part in self.topology.plan.parts]
        ordinal = 0
        for turn, block in enumerate(self._source.blocks(needed_attributes(bounds, self._source.schema), 7)):
            shuffler = self.shufflers[turn % len(self.shufflers)]
            shuffler.feed(block.rows, block.place, ordinal, ReplayStart(0.0, 0))
            ordinal += block.rows.num_rows
            for _ in range(self._chaos.randrange(8)):
                self._deliver_one()
        for shuffler in self.shufflers:
            shuffler.finish()
        while self._on_their_way:
            self._deliver_one()
        assert all(sink.finished for sink in self.sinks)
        return result_table(queries, [sink.sink.table() for sink in self.sinks])

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
