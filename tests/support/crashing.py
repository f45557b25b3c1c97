"""A simulated cluster whose processes die: checkpoints, recovery and a network that remembers the dead.

Everything that decides is the product's own: nodes, channels, barriers, states as bytes. Simulated are the network
(delays, repeats, reorders, keeps messages of earlier attempts), the moments at which checkpoints are begun and
processes die, and the coordinator's bookkeeping. One seed, one schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import pyarrow as pa

from actors.group import Limits
from actors.node import SinkNode, UnitNode
from decopa.planning.plan import Plan
from decopa.query.binding import bind
from decopa.query.query import Query
from decopa.runs.result import result_table
from shuffler.exchange.channel import Message, OutgoingChannel
from shuffler.exchange.codecs import needed_attributes
from shuffler.exchange.inbox import Inbox
from shuffler.exchange.node import Marks, ReplayStart, ShufflerNode
from shuffler.exchange.outbox import FlushPolicy
from shuffler.routing.feeder import FeederState
from shuffler.routing.topology import Topology
from shuffler.source.pacing import Replay
from shuffler.source.trace import Block, open_trace
from tests.support.simulation import UNBOUNDED

BLOCK_ROWS = 5


@dataclass
class Checkpoint:
    """What has arrived of a checkpoint so far; complete when every process has contributed."""

    number: int
    block: int
    events: int
    units: dict[str, bytes] = field(default_factory=dict)
    shufflers: dict[str, tuple[FeederState, ...]] = field(default_factory=dict)
    matches: dict[str, tuple[pa.Table, ...]] = field(default_factory=dict)
    #: Sizes and checksums of the units' states, where they are written to files.
    stored: dict[str, Any] = field(default_factory=dict)


class CrashingCluster:
    #: Up to where a draw between 0 and 1 means a crash, a checkpoint, a block; beyond, a message is delivered.
    odds = (0.03, 0.1, 0.22)

    def __init__(self, plan: Plan, events: pa.Table, *, shufflers: int, chaos: Random, crashes: int) -> None:
        self._chaos, self._crashes = chaos, crashes
        source = open_trace(events)
        self._form = source.format
        self.topology = Topology(plan, shufflers)
        bounds = [bind(part.query, source.schema) for part in plan.parts]
        self._blocks: list[Block] = list(source.blocks(needed_attributes(bounds, source.schema), BLOCK_ROWS))
        self._on_their_way: list[tuple[str, Message]] = []
        self._published: list[list[pa.Table]] = [[] for _ in plan.reported]
        self._complete: Checkpoint | None = None
        self._attempt = -1
        self._time = 0.0
        self.recoveries = self.checkpoints = 0
        self._start()

    def run(self, queries: Sequence[Query]) -> pa.Table:
        while not self._step():
            pass
        self._publish({sink.name: tuple(taker.take() for taker in sink.takers) for sink in self.sinks})
        return result_table(queries, [pa.concat_tables(tables) for tables in self._published])

    def _step(self) -> bool:
        """One thing happens: a block is fed, a message comes, a checkpoint begins, a process dies. True at the end."""
        choice = self._chaos.random()
        crash, checkpoint, block = self.odds
        if choice < crash and self._crashes:
            self._crashes -= 1
            self.recoveries += 1
            self._start()
        elif choice < checkpoint and self._pending is None and not self._ended:
            self._begin_checkpoint()
        elif choice < block and not self._ended:
            self._feed()
        elif self._on_their_way:
            self._deliver_one()
        return self._ended and not self._on_their_way

    def _start(self) -> None:
        """All processes anew, with what they held at the last complete checkpoint; the network forgets nothing."""
        self._attempt += 1
        self._pending: Checkpoint | None = None
        saved = self._complete
        self._block, self._events = (saved.block, saved.events) if saved else (0, 0)
        self._ended = False
        channels = self.topology.channels
        self._channels = {
            channel: OutgoingChannel(channel[0], window=UNBOUNDED, attempt=self._attempt) for channel in channels
        }
        policy = FlushPolicy(max_rows=self._chaos.choice((1, 4, 100)), interval_s=self._chaos.choice((0.0, 3.0)))
        self.sinks = [
            SinkNode(
                name,
                self.topology,
                self._form,
                limits=Limits(),
                clock=self._clock,
                attempt=self._attempt,
                cut=partial(self._sink_cut, name),
            )
            for name in self.topology.sink_names
        ]
        self.units = {
            process.name: UnitNode(
                process.name,
                self.topology,
                self._form,
                send=partial(self._send, process.name),
                limits=Limits(),
                policy=policy,
                clock=self._clock,
                attempt=self._attempt,
                cut=partial(self._unit_cut, process.name),
                state=saved.units[process.name] if saved else None,
            )
            for process in self.topology.units
        }
        self.shufflers = [
            ShufflerNode(
                number,
                self.topology,
                self._form,
                send=partial(self._send, name),
                mark=self._mark,
                replay=Replay(),
                batch_size=3,
                policy=policy,
                clock=self._clock,
                sleep=lambda seconds: None,
                state=saved.shufflers[name] if saved else None,
            )
            for number, name in enumerate(self.topology.shuffler_names)
        ]

    def _feed(self) -> None:
        if self._block == len(self._blocks):
            if self._pending is None:  # the coordinator ends a checkpoint before it ends the stream
                for shuffler in self.shufflers:
                    shuffler.finish()
                self._ended = True
            elif not self._on_their_way:
                raise AssertionError("a checkpoint never completes")
            return
        block = self._blocks[self._block]
        shuffler = self.shufflers[self._block % len(self.shufflers)]
        shuffler.feed(block.rows, block.place, self._events, ReplayStart(0.0, 0))
        self._block += 1
        self._events += block.rows.num_rows

    def _begin_checkpoint(self) -> None:
        number = self._attempt * 1_000 + self._block
        self._pending = pending = Checkpoint(number, self._block, self._events)
        for name, shuffler in zip(self.topology.shuffler_names, self.shufflers, strict=True):
            pending.shufflers[name] = shuffler.barrier(number)
        self._maybe_complete()

    def _unit_cut(self, name: str, number: int, state: bytes) -> None:
        if self._pending is not None and self._pending.number == number:
            self._pending.units[name] = state
            self._maybe_complete()

    def _publish(self, matches: dict[str, tuple[pa.Table, ...]]) -> None:
        for part, table in enumerate(self.topology.by_part(matches)):
            self._published[part].append(table)

    def _sink_cut(self, name: str, number: int, matches: tuple[pa.Table, ...]) -> None:
        assert self._pending is not None and self._pending.number == number
        self._pending.matches[name] = matches
        self._maybe_complete()

    def _maybe_complete(self) -> None:
        pending = self._pending
        assert pending is not None
        if len(pending.units) == len(self.topology.units) and len(pending.matches) == len(self.sinks):
            self._publish(pending.matches)
            self._complete, self._pending = pending, None
            self.checkpoints += 1

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
        target, message = self._on_their_way.pop(self._chaos.randrange(len(self._on_their_way)))
        node = self.units.get(target) or next(sink for sink in self.sinks if sink.name == target)
        node.receive(message)


class UnalignedInbox(Inbox):
    """A deliberately broken one: it cuts at the first barrier and waits for no other sender's."""

    def _take(self, message: Message) -> None:
        self._deliver(message)
        if message.barrier is not None:
            if not self._passed:
                self._cut(message.barrier)
            self._passed.add(message.sender)
            if len(self._passed) == len(self._channels):
                self._passed.clear()
