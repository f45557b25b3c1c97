"""What runs in a process of the plan, without the process: messages in, messages out.

The Ray actors are shells around these; a simulation can drive them as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

import numpy as np
import pyarrow as pa

from actors.group import Limits
from actors.host import PartsHost
from actors.latency import LatencyMeter
from actors.reports import UnitReport, unit_reports
from actors.sinks.outlet import MatchTaker, Outcome, OutletSpec, outcome_of, taker_of
from actors.sinks.sink import MatchSink, check_limit
from actors.state.codec import UnitsCodec, UnitsState, part_key
from actors.state.host import decode_host, encode_host
from actors.unit import Channel
from decopa.errors import CheckpointError
from shuffler.exchange.channel import Message
from shuffler.exchange.codecs import Codecs
from shuffler.exchange.inbox import Inbox
from shuffler.exchange.outbox import Clock, FlushPolicy, Outbox, Send
from shuffler.exchange.wire import BatchCodec
from shuffler.routing.table import END_OF_STREAM, NOTHING_YET, Delivery
from shuffler.routing.topology import Lane, Topology
from shuffler.rows.batch import Batch
from shuffler.rows.events import EventFormat
from shuffler.rows.layout import layout_of
from shuffler.rows.strings import StringPool


class UnitNode:
    """A process that hosts units.

    If `outlet` says that roots keep what they find, `takers` have it, by part; the sink then hears of watermarks only.
    `cut` takes what the units hold at a barrier, by its number, if that is `wanted`. Up to the first barrier the parts
    of the keys in `absorbing` are built from events of which all matches are out.
    """

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
        cut: Callable[[int, bytes], None] | None = None,
        wanted: Callable[[], bool] = lambda: True,
        state: bytes | None = None,
        outlet: OutletSpec | None = None,
        absorbing: Collection[str] = (),
    ) -> None:
        process = topology.process_of[name]
        self.name = name
        plan = topology.plan
        self._strings = StringPool()
        self._codecs = codecs = Codecs(plan, form.schema, self._strings)
        self._lanes = topology.incoming(name)
        self._inbox = Inbox(self._lanes, deliver=self._deliver, cut=self._cut, attempt=attempt)
        self._on_cut, self._wanted = cut, wanted
        self._outbox = Outbox(name, topology, codecs.codec, send=send, policy=policy, clock=clock)
        self._nothing_waits = True
        self._window_us = max(plan.parts[part].query.window_us for part in process.parts)
        #: How far each sender has come.
        self._reached_us = dict.fromkeys(self._lanes, NOTHING_YET)

        def keeps(part: int) -> bool:
            mine = plan.parts[part]
            return outlet is not None and not mine.fragment and outlet.at_units(mine.query)

        def counts(part: int) -> bool:
            return keeps(part) and outlet is not None and outlet.counts_only(plan.parts[part].query)

        hosting = partial(PartsHost, topology, codecs.bound, self._strings, hosted=process.groups, counting=counts)
        self._host = hosting(limits=limits, outside=self._outside)
        self._host.warm_up()
        writer = topology.units.index(process)
        self.takers: dict[int, MatchTaker] = {
            part: taker_of(
                outlet, plan.parts[part], codecs.bound(part), form, self._strings, limits, f"{part}-{writer}"
            )
            for part in process.parts
            if outlet is not None and keeps(part) and self._host.hosts_root(part)
        }
        self._keys = topology.titles
        self._states = {
            part: UnitsCodec(
                topology.routing[part], codecs.bound(part), self._strings, key=topology.titles[part], place=part
            )
            for part in topology.held_by(process)
        }
        if state is not None:
            self._restore(state)
        self._host.absorb([part for part in process.parts if self._keys[part] in absorbing])

    def _restore(self, content: bytes) -> None:
        where, found = f"the checkpoint of {self.name}", {}
        for one in decode_host(content, where, verified=True):
            part = self._keys.index(part_key(one, where, self._keys))
            if part not in self._states:
                raise CheckpointError(f"{where} is of {self._keys[part]}, which is hosted elsewhere; rescale it first")
            decoded = self._states[part].decode(one, where, verified=True)
            found[part, decoded.copy] = decoded.group
        self._host.restore(found)

    def receive(self, message: Message) -> None:
        """Delivers a message, and those that waited for it, and sends what comes of it."""
        self._inbox.accept(message)
        if self._nothing_waits:  # rows in the outbox have their strings in the pool
            self._strings.forget_before(min(self._reached_us.values()) - 3 * self._window_us)

    def _deliver(self, message: Message) -> None:
        lanes, sender = self._lanes[message.sender], message.sender
        for index, encoded in message.rows:
            lane = lanes[index]
            self._accept(lane, self._codecs.codec(lane.part, lane.source).decode(encoded))
        # Rows meet what is stored before the watermarks that came with them forget it.
        for index, watermark_us in message.watermarks:
            self._reached_us[sender] = max(self._reached_us[sender], watermark_us)
            self._accept(lanes[index], watermark_us)
        worked = self._host.drain()
        for part in worked & self.takers.keys():
            self.takers[part].settle(self._host.output_watermark_us(part))
        self._nothing_waits = self._outbox.flush(urgent=message.urgent)

    def _accept(self, lane: Lane, content: Batch | int) -> None:
        assert lane.target is not None
        self._host.accept(lane.part, lane.copy, lane.target, lane.unit, Channel(lane.side, lane.sender), content)

    def _outside(self, part: int, copy: int, delivery: Delivery) -> None:
        if delivery.edge is None and part in self.takers and isinstance(delivery.content, Batch):
            self.takers[part].add(delivery.content)
        else:
            self._outbox.put(part, copy, delivery)

    @property
    def outcomes(self) -> dict[int, Outcome]:
        """What the root units in here have found, by part, where they keep it."""
        return {part: outcome_of(taker) for part, taker in self.takers.items()}

    def _cut(self, number: int) -> None:
        """All that came before the barrier has been worked on: sends it on, with the barrier behind it."""
        self._host.catch_up()
        self._outbox.flush(barrier=number)
        self._host.absorb(())  # a plan that takes over does so at its first barrier
        if self._on_cut is None or not self._wanted():
            return
        states = [
            self._states[part].encode(UnitsState(self._states[part].key, copy, group))
            for (part, copy), group in self._host.snapshot().items()
        ]
        self._on_cut(number, encode_host(states))

    @property
    def watermark_us(self) -> int:
        """How far the units have come: no later row that they send ends before this."""
        return min(unit.output_watermark_us for unit in self._host.units())

    @property
    def lag_us(self) -> int | None:
        """Event time between the newest input and the watermark; None while either is not known."""
        return _lag_us(max(unit.newest_input_us for unit in self._host.units()), self.watermark_us)

    def reports(self) -> tuple[UnitReport, ...]:
        groups = self._host.groups.items()
        return tuple(one for (part, copy), group in groups for one in unit_reports(group.units, copy, part))


class _PartSink:
    """The matches of one part in a sink process."""

    def __init__(self, taker: MatchTaker, codec: BatchCodec, end: str, title: str) -> None:
        self.taker, self.codec, self.end, self.title = taker, codec, end, title
        self.watermarks: dict[tuple[str, int], int] = {}

    @property
    def watermark_us(self) -> int:
        return min(self.watermarks.values())


class SinkNode:
    """A process that collects the matches of some parts of the plan, those that root units do not keep."""

    def __init__(
        self,
        name: str,
        topology: Topology,
        form: EventFormat,
        *,
        limits: Limits,
        clock: Clock,
        attempt: int = 0,
        cut: Callable[[int, tuple[pa.Table, ...]], None] = lambda number, matches: None,
        outlet: OutletSpec | None = None,
    ) -> None:
        self.name, self.parts = name, topology.sink_parts[name]
        plan, outlet = topology.plan, outlet or OutletSpec()
        self._strings = StringPool()
        codecs = Codecs(plan, form.schema, self._strings)
        self._sinks: dict[int, _PartSink] = {}
        for part in self.parts:
            mine, bound = plan.parts[part], codecs.bound(part)
            taker = taker_of(outlet, mine, bound, form, self._strings, limits, f"{part}-sink")
            end = layout_of(bound, mine.root.sub_query).place("max_ts")
            self._sinks[part] = _PartSink(taker, codecs.codec(part, mine.root.name), end, mine.text(mine.root))
        self._window_us = max((plan.parts[part].query.window_us for part in self.parts), default=0)
        self._limits = limits
        self._lanes = topology.incoming(name)
        self._inbox = Inbox(self._lanes, deliver=self._deliver, cut=self._cut, attempt=attempt)
        self._on_cut = cut
        for sender, lanes in self._lanes.items():
            for index, lane in enumerate(lanes):
                self._sinks[lane.part].watermarks[sender, index] = NOTHING_YET
        #: How far each sender has come.
        self._reached_us = dict.fromkeys(self._lanes, NOTHING_YET)
        self._clock = clock
        self.latency = LatencyMeter()
        #: All matches that ever came.
        self.received = 0

    @property
    def takers(self) -> tuple[MatchTaker, ...]:
        """Those who have the matches of each of the sink's parts."""
        return tuple(one.taker for one in self._sinks.values())

    def warm_up(self) -> None:
        """Loads compiled loops, so that the first matches need not wait."""
        for taker in self.takers:
            if isinstance(taker, MatchSink):
                taker.warm_up()

    def receive(self, message: Message) -> None:
        self._inbox.accept(message)

    def _deliver(self, message: Message) -> None:
        lanes, sender, told = self._lanes[message.sender], message.sender, set()
        for index, encoded in message.rows:
            sink = self._sinks[lanes[index].part]
            self._add(sink, sink.codec.decode(encoded))
        for index, watermark_us in message.watermarks:
            part = lanes[index].part
            self._sinks[part].watermarks[sender, index] = watermark_us
            self._reached_us[sender] = max(self._reached_us[sender], watermark_us)
            told.add(part)
        for part in told:
            self._sinks[part].taker.settle(self._sinks[part].watermark_us)
        self.latency.forget_before(self.watermark_us)
        self._strings.forget_before(min(self._reached_us.values()) - 3 * self._window_us)

    def _cut(self, number: int) -> None:
        tables = []
        for taker in self.takers:
            assert isinstance(taker, MatchSink), "matches that are not a table are not part of checkpoints"
            tables.append(taker.take())
        self._on_cut(number, tuple(tables))

    def _add(self, sink: _PartSink, rows: Batch) -> None:
        self.latency.matches(rows.columns[sink.end], self._clock())
        self.received += rows.length
        sink.taker.add(rows)
        if isinstance(sink.taker, MatchSink):
            check_limit(sink.taker.rows, self._limits.max_matches, sink.title)

    def mark(self, marks: tuple[tuple[int, float], ...]) -> None:
        """Arrivals of events, see `LatencyMeter`."""
        ts, arrival = zip(*marks, strict=True)
        self.latency.mark(np.array(ts, dtype=np.int64), np.array(arrival, dtype=np.float64))

    @property
    def rows(self) -> int:
        """Matches that are here now."""
        return sum(taker.rows for taker in self.takers)

    @property
    def finals_us(self) -> tuple[int, ...]:
        """For each of the sink's parts: no later match ends before this."""
        return tuple(one.watermark_us for one in self._sinks.values())

    @property
    def watermark_us(self) -> int:
        return min(self.finals_us)

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
