"""What runs in a process of the plan, without the process: messages in, messages out.

The Ray actors are shells around these; a simulation can drive them as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

from actors.group import Limits, UnitGroup
from actors.latency import LatencyMeter
from actors.reports import UnitReport, unit_reports
from actors.sink import MatchSink, check_limit
from actors.state.codec import UnitsCodec, UnitsState
from actors.unit import Channel
from shuffler.exchange.channel import Message
from shuffler.exchange.codecs import Codecs
from shuffler.exchange.inbox import Inbox
from shuffler.exchange.outbox import Clock, FlushPolicy, Outbox, Send
from shuffler.routing.table import END_OF_STREAM, NOTHING_YET
from shuffler.routing.topology import Topology
from shuffler.rows.batch import Batch
from shuffler.rows.events import EventFormat
from shuffler.rows.layout import layout_of
from shuffler.rows.strings import StringPool


class UnitNode:
    """A process that hosts units."""

    def __init__(
        self,
        name: str,
        topology: Topology,
        form: EventFormat,
        *,
        send: Send,
        limits: Limits,
        policy: FlushPolicy,
        clock: Clock,
        attempt: int = 0,
        cut: Callable[[int, bytes], None] = lambda number, state: None,
        state: bytes | None = None,
    ) -> None:
        process = next(one for one in topology.units if one.name == name)
        self.name, self._copy = name, process.copy
        plan = topology.plan.parts[process.part]
        self._strings = StringPool()
        codecs = Codecs(topology.plan, form.schema, self._strings)
        self._codec_of = codecs.codec
        self._lanes = topology.incoming(name)
        self._inbox = Inbox(self._lanes, deliver=self._deliver, cut=self._cut, attempt=attempt)
        self._on_cut = cut
        self._outbox = Outbox(name, topology, codecs.codec, send=send, policy=policy, clock=clock)
        self._nothing_waits = True
        self._window_us = plan.query.window_us
        hosting = partial(
            UnitGroup,
            plan,
            codecs.bound(process.part),
            self._strings.pin,
            routing=topology.routing[process.part],
            hosted=process.units,
            copy=process.copy,
        )
        hosting(
            limits=Limits(), outside=lambda delivery: None
        ).sample()  # loads compiled loops, so that the first events need not wait
        self._group = hosting(limits=limits, outside=partial(self._outbox.put, process.part, process.copy))
        self._part = process.part
        self._states = UnitsCodec(
            topology.routing[process.part], codecs.bound(process.part), self._strings, part=process.part
        )
        if state is not None:
            self._group.restore(self._states.decode(state, f"the checkpoint of {name}", verified=True).group)

    def receive(self, message: Message) -> None:
        """Delivers a message, and those that waited for it, and sends what comes of it."""
        self._inbox.accept(message)
        if self._nothing_waits:  # rows in the outbox have their strings in the pool
            self._strings.forget_before(self.watermark_us - 3 * self._window_us)

    def _deliver(self, message: Message) -> None:
        lanes = self._lanes[message.sender]
        for index, encoded in message.rows:
            lane = lanes[index]
            assert lane.target is not None
            rows = self._codec_of(lane.part, lane.source).decode(encoded)
            self._group.accept(lane.target, lane.unit, Channel(lane.side, lane.sender), rows)
        # Rows meet what is stored before the watermarks that came with them forget it.
        for index, watermark_us in message.watermarks:
            lane = lanes[index]
            assert lane.target is not None
            self._group.accept(lane.target, lane.unit, Channel(lane.side, lane.sender), watermark_us)
        self._group.drain()
        self._nothing_waits = self._outbox.flush(urgent=message.urgent)

    def _cut(self, number: int) -> None:
        """All that came before the barrier has been worked on: sends it on, with the barrier behind it."""
        self._outbox.flush(barrier=number)
        self._on_cut(number, self._states.encode(UnitsState(self._part, self._copy, self._group.snapshot())))

    @property
    def watermark_us(self) -> int:
        """How far the units have come: no later row that they send ends before this."""
        return min(unit.output_watermark_us for unit in self._group.units.values())

    @property
    def lag_us(self) -> int | None:
        """Event time between the newest input and the watermark; None while either is not known."""
        return _lag_us(max(unit.newest_input_us for unit in self._group.units.values()), self.watermark_us)

    def reports(self) -> tuple[UnitReport, ...]:
        return unit_reports(self._group.units, self._copy)


class SinkNode:
    """A process that collects the matches of one OR-free query."""

    def __init__(
        self,
        part: int,
        topology: Topology,
        form: EventFormat,
        *,
        limits: Limits,
        clock: Clock,
        attempt: int = 0,
        cut: Callable[[int, pa.Table], None] = lambda number, matches: None,
    ) -> None:
        self.name = topology.sink_names[part]
        plan = topology.plan.parts[part]
        self._strings = StringPool()
        codecs = Codecs(topology.plan, form.schema, self._strings)
        bound, layout = codecs.bound(part), layout_of(codecs.bound(part), plan.root.sub_query)
        self._codec = codecs.codec(part, plan.root.name)
        self._end = layout.place("max_ts")
        self._window_us, self._title, self._limits = bound.query.window_us, plan.text(plan.root), limits
        self._lanes = topology.incoming(self.name)
        self._inbox = Inbox(self._lanes, deliver=self._deliver, cut=self._cut, attempt=attempt)
        self._on_cut = cut
        self._watermarks = {
            (sender, index): NOTHING_YET for sender, lanes in self._lanes.items() for index in range(len(lanes))
        }
        self._clock = clock
        self.sink = MatchSink(bound, layout, form, self._strings)
        self.latency = LatencyMeter()
        #: All matches that ever came.
        self.received = 0

    def receive(self, message: Message) -> None:
        self._inbox.accept(message)

    def _deliver(self, message: Message) -> None:
        for _, encoded in message.rows:
            self._add(self._codec.decode(encoded))
        for index, watermark_us in message.watermarks:
            self._watermarks[message.sender, index] = watermark_us
        watermark_us = self.watermark_us
        self.sink.settle(watermark_us)
        self._strings.forget_before(watermark_us - 3 * self._window_us)

    def _cut(self, number: int) -> None:
        self._on_cut(number, self.sink.take())

    def _add(self, rows: Batch) -> None:
        self.latency.matches(rows.columns[self._end], self._clock())
        self.received += rows.length
        self.sink.add(rows)
        check_limit(self.sink.rows, self._limits.max_matches, self._title)

    def mark(self, marks: tuple[tuple[int, float], ...]) -> None:
        """Arrivals of events, see `LatencyMeter`."""
        ts, arrival = zip(*marks, strict=True)
        self.latency.mark(np.array(ts, dtype=np.int64), np.array(arrival, dtype=np.float64))

    @property
    def watermark_us(self) -> int:
        return min(self._watermarks.values())

    @property
    def lag_us(self) -> int | None:
        """Event time between the newest event that a shuffler has taken up and the watermark, as in `UnitNode`."""
        return _lag_us(self.latency.newest_ts, self.watermark_us)

    @property
    def finished(self) -> bool:
        return self.watermark_us == END_OF_STREAM


def _lag_us(newest_us: int, watermark_us: int) -> int | None:
    if watermark_us == END_OF_STREAM:
        return 0
    # A sender that has ended does not tell how far the others could be.
    return None if watermark_us == NOTHING_YET or newest_us == END_OF_STREAM else max(newest_us - watermark_us, 0)
