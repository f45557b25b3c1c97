"""Scaling test: one deployment of a plan on Ray, to which a stream is offered at one rate after the other.

The stream is a trace that is played over and over, with times and ids that go on; so it never ends, and windows are
full from the end of the warm-up on. A rate is sustained if delays do not grow during a window of observation: the
sinks' watermarks tell how far the stream has been worked off, and when that far was due.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import ray
from ray.exceptions import RayError

from actors.group import Limits
from actors.latency import LatencyHistogram, LatencySummary
from actors.ray_unit import UnitStatus
from cluster.deploy.deployment import Deployment
from cluster.deploy.placement import own_address
from cluster.feeding import FeedBlock, pack_block
from cluster.measure.machines import MachineLoad, MachineMeters, loads_between
from cluster.options import RayOptions
from cluster.session import Session
from costmodel.sustainable import delay_growth
from decopa.errors import TraceError
from decopa.planning.plan import Plan
from decopa.query.binding import bind
from shuffler.exchange.codecs import needed_attributes
from shuffler.routing.table import NOTHING_YET
from shuffler.routing.topology import Topology
from shuffler.rows.columns import Place, is_clock, timestamps_us
from shuffler.rows.events import EventFormat
from shuffler.source.pacing import Replay
from shuffler.source.trace import Block, TraceSource

#: A block takes this long, so that the driver notices soon when the stream is over.
_BLOCK_S = 0.2
_LEAST_ROWS, _MOST_ROWS = 16, 32_768
#: A process that is the bottleneck is busy for at least this share of the time.
_BUSY = 0.92
#: The stream flows for this share of the window of observation before that begins: messages are then everywhere.
_LEAD_IN = 0.2
#: Whatever delays did: what takes more than this share of the time to finish in the end was too much.
_MOST_BACKLOG = 0.1
#: Delays are looked at so often at most.
_LOOK_EVERY_S = 0.1
#: The name of this process among those that send.
DRIVER = "driver"


class EndlessTrace:
    """A trace in memory, again and again: each round goes on in time where the one before ended, with new ids."""

    def __init__(self, source: TraceSource, attributes: Collection[str]) -> None:
        batches = [block.rows for block in source.blocks(attributes, _MOST_ROWS)]
        self.table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
        self.form: EventFormat = source.format
        self.name = source.name
        names = source.format.columns
        if names.end is not None:
            raise TraceError("a scaling test repeats events, which must be moments; leave out --end")
        self._ts, self._id = names.ts, names.id
        times = self.table.column(self._ts).combine_chunks()
        if not (is_clock(times.type) or pa.types.is_integer(times.type)):
            micros = timestamps_us(times, self._ts, Place(source.name), names.unit)
            times = pa.array(micros).cast(pa.timestamp("us"))
            self.table = self.table.set_column(self.table.schema.get_field_index(self._ts), self._ts, times)
        first, last = (times[place].cast(pa.int64()).as_py() for place in (0, -1))
        #: Time from a round to the next, in the unit of the trace's own times, and in microseconds.
        self._round = last - first + max(1, round((last - first) / max(1, len(times) - 1)))
        self._times_us = timestamps_us(times, self._ts, Place(source.name), names.unit)
        span_us = int(self._times_us[-1]) - int(self._times_us[0])
        self._round_us = max(1, round(self._round * span_us / max(1, last - first)))
        self._ids_per_round = self._id_span()
        self._next = 0

    def _id_span(self) -> int | None:
        ids = self.table.column(self._id)
        if not pa.types.is_integer(ids.type):
            return None  # such events are known by their place in the stream
        ends = pc.min_max(ids).as_py()
        return int(ends["max"]) - int(ends["min"]) + 1

    @property
    def events(self) -> int:
        return int(self.table.num_rows)

    def take(self, rows: int) -> pa.RecordBatch:
        """The next `rows` events, or fewer at the end of a round."""
        number, first = divmod(self._next, self.events)
        part = self.table.slice(first, min(rows, self.events - first))
        self._next += part.num_rows
        if number:
            part = self._shifted(part, self._ts, number * self._round)
            if self._ids_per_round is not None:
                part = self._shifted(part, self._id, number * self._ids_per_round)
        (batch,) = part.combine_chunks().to_batches()
        return batch

    def events_before(self, ts_us: int) -> int:
        """How many events of the endless stream are earlier than this."""
        number = max(0, (ts_us - int(self._times_us[0])) // self._round_us)
        earlier = int(np.searchsorted(self._times_us, ts_us - number * self._round_us))
        return int(number * self.events + earlier)

    def _shifted(self, part: pa.Table, name: str, by: int) -> pa.Table:
        place, column = part.schema.get_field_index(name), part.column(name)
        moved = pc.add(column.cast(pa.int64()), pa.scalar(by, pa.int64())).cast(column.type)
        return part.set_column(place, part.schema.field(name), moved)


class DelayWatch:
    """Looks now and then how far the sinks are behind a stream of `rate` events per second; the event that follows
    the first `first_ordinal` of the trace was due at `start_s`."""

    def __init__(self, trace: EndlessTrace, rate: float, start_s: float, first_ordinal: int) -> None:
        self._trace, self._rate, self._start_s, self._first = trace, rate, start_s, first_ordinal
        self._next_s = 0.0
        #: (moment, seconds since the first event that not all sinks are done with was due).
        self.samples: list[tuple[float, float]] = []

    def look(self, deployment: Deployment, events: int) -> None:
        now = time.time()
        if now < self._next_s:
            return
        self._next_s = now + _LOOK_EVERY_S
        try:
            watermark_us = min(status.watermark_us for status in deployment.sink_statuses())
        except RayError:  # whoever waits for the run learns what has failed
            return
        if watermark_us != NOTHING_YET:
            done = self._trace.events_before(watermark_us) - self._first
            self.samples.append((now, now - self._start_s - done / self._rate))


@dataclass(frozen=True)
class OfferedRate:
    """What happened while a rate was offered. `growth` is that of delays during the window of observation, in seconds
    per second; `backlog_s` the time that it took to finish what was left at the end, beyond what an idle deployment
    takes and what is always on its way. `seconds` and loads are of the lead-in, too."""

    rate: float
    events: int
    seconds: float
    growth: float
    backlog_s: float
    sustained: bool
    latency: LatencySummary
    processes: tuple[UnitStatus, ...]
    machines: Mapping[str, MachineLoad]

    @property
    def achieved(self) -> float:
        """Events per second of the whole time until the last one was done."""
        return self.events / (self.seconds + self.backlog_s)

    @property
    def busiest(self) -> float:
        """The largest share of the time that a process was busy."""
        return max((status.busy_s for status in self.processes), default=0.0) / (self.seconds + self.backlog_s)

    @property
    def disturbed(self) -> bool:
        """Whether work was left although no process had as much to do as there was time for: then it was not the units
        that were too slow."""
        most_s = max((status.busy_s for status in self.processes), default=0.0)
        return not self.sustained and most_s < _BUSY * self.seconds


class RateTest:
    """Context manager: a deployment that is warm when it is entered."""

    def __init__(
        self,
        plan: Plan,
        source: TraceSource,
        *,
        limits: Limits,
        options: RayOptions,
        warm_up_events: int,
        tolerance: float = 0.02,
        tell: Callable[[str], None] = lambda doing: None,
    ) -> None:
        schema = source.format.schema
        attributes = needed_attributes([bind(part.query, schema) for part in plan.parts], schema)
        self.trace = EndlessTrace(source, attributes)
        topology = Topology(plan, options.shufflers)
        self._deployment = Deployment(topology, source.format, limits, options)
        self._warm_up_events, self._tolerance, self._tell = warm_up_events, tolerance, tell
        self._session: Session
        self._meters = MachineMeters()
        #: The addresses of the nodes that processes are on, by name; the driver's under DRIVER.
        self.homes: dict[str, str] = {}
        self._idle_s = 0.0
        # Units work on whole messages: at the end every hop has one to work on, of an interval's worth of events.
        self._on_the_way_s = _hops(topology) * options.policy.interval_s

    def __enter__(self) -> RateTest:
        self._deployment.__enter__()
        try:
            self._tell("starting the units")
            self._session = Session(self._deployment)
            self._session.await_actors()
            self._meters.__enter__()
            self.homes = {**self._deployment.homes(), DRIVER: own_address()}
            self._tell(f"warming up with {self._warm_up_events:,} events")
            for block in self._blocks(self._warm_up_events, 4_096):
                self._session.feed(block)
            self._settle()
            self._idle_s = min(self._settle(), self._settle())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._meters.__exit__(*error)
        self._deployment.__exit__(*error)

    @property
    def fed_bytes(self) -> dict[tuple[str, str], float]:
        """Bytes that an event takes from this process to each shuffler, on average."""
        names = self._deployment.topology.shuffler_names
        return {(DRIVER, name): self.trace.table.nbytes / self.trace.events / len(names) for name in names}

    def offer(self, rate: float, seconds: float) -> OfferedRate:
        """Plays the stream at `rate` events per second for `seconds` after a lead-in, then waits until all is done."""
        self._tell(f"offering {rate:,.0f} events/s for {seconds:g} s")
        lead_in_s = _LEAD_IN * seconds
        events = max(1, round(rate * (lead_in_s + seconds)))
        rows = int(min(max(rate * _BLOCK_S, _LEAST_ROWS), _MOST_ROWS))
        before, counts, machines = self._deployment.statuses(), self._latency_counts(), self._meters.read()
        start_s, watch = 0.0, None
        for block in self._blocks(events, rows):
            if watch is None:
                start_s = self._session.replay_from_here(block.first_ts, Replay(rate=rate))
                self._session.recorder = watch = DelayWatch(self.trace, rate, start_s, self._session.events)
            self._session.feed(block)
        assert watch is not None
        self._settle()
        self._session.recorder = None
        took_s = time.time() - start_s
        growth = delay_growth(watch.samples, start_s + lead_in_s, start_s + events / rate)
        after = self._deployment.statuses()
        backlog_s = max(0.0, took_s - events / rate - self._idle_s - self._on_the_way_s)
        latency = LatencyHistogram.between(counts, self._latency_counts()).summary()
        self._session.take()  # or matches pile up
        return OfferedRate(
            rate,
            events,
            events / rate,
            growth,
            backlog_s,
            growth <= self._tolerance and backlog_s <= _MOST_BACKLOG * events / rate,
            latency,
            tuple(_since(one, other) for one, other in zip(before, after, strict=True)),
            loads_between(machines, self._meters.read()),
        )

    def _blocks(self, events: int, rows: int) -> Iterator[FeedBlock]:
        while events > 0:
            batch = self.trace.take(min(rows, events))
            events -= batch.num_rows
            yield pack_block(Block(batch, Place(self.trace.name)), self.trace.form)

    def _settle(self) -> float:
        started = time.perf_counter()
        self._session.settle()
        return time.perf_counter() - started

    def _latency_counts(self) -> npt.NDArray[np.int64]:
        counts = ray.get([sink.latency_counts.remote() for sink in self._deployment.sinks.values()])
        return np.asarray(sum(counts[1:], counts[0]))


def _hops(topology: Topology) -> int:
    """Messages on the longest way from a shuffler to a sink."""
    below: dict[str, int] = {}
    for process in topology.receivers_first():
        below[process.name] = 1 + max((below.get(target, 0) for target in topology.outgoing(process.name)), default=0)
    return 1 + max(below.values(), default=0)


def _since(before: UnitStatus, after: UnitStatus) -> UnitStatus:
    """What a process did between two readings."""
    units = tuple(
        replace(
            one,
            ingested=one.ingested - other.ingested,
            comparisons=one.comparisons - other.comparisons,
            emitted=one.emitted - other.emitted,
        )
        for one, other in zip(after.units, before.units, strict=True)
    )
    return replace(after, units=units, busy_s=after.busy_s - before.busy_s, waited_s=after.waited_s - before.waited_s)
