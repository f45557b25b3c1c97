"""Sources and hosts of a network as Ray actors: thin shells around the nodes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import ray

from actors.columnar.jit import interpreted
from actors.emulation import Emulation
from actors.group import Limits
from actors.latency import LatencyMeter
from actors.network.node import NetworkHost, NetworkSource
from actors.ray_unit import StateStore
from shuffler.exchange.channel import Message
from shuffler.exchange.link_emulation import EmulatedLinks, LinkSpeed
from shuffler.exchange.outbox import FlushPolicy
from shuffler.exchange.ray_links import RayLinks
from shuffler.exchange.ray_shell import CONTROL, KeptResults, Shell
from shuffler.exchange.work_clock import WorkClock
from shuffler.routing.network import NetworkTopology
from shuffler.routing.table import END_OF_STREAM
from shuffler.routing.traffic import EdgeName, EdgeTraffic
from shuffler.rows.columns import Ints, Place
from shuffler.rows.events import EventConverter, EventFormat
from shuffler.rows.strings import StringPool
from shuffler.source.pacing import Seconds


@dataclass(frozen=True)
class ProcessSetup:
    """What a source and a host need to know; `handles` are the actors that it sends to, `speeds` the links to them that
    are emulated, `emulation` the capacity that a host pretends to have, `state` what it held at the checkpoint that it
    goes on from."""

    name: str
    node: str
    topology: NetworkTopology
    form: EventFormat
    attributes: tuple[str, ...]
    handles: Mapping[str, Any]
    limits: Limits
    policy: FlushPolicy
    window: int
    attempt: int
    interpret: bool
    speeds: Mapping[str, LinkSpeed] = field(default_factory=dict)
    emulation: Emulation | None = None
    store: StateStore | None = None
    state: bytes | None = None


@dataclass(frozen=True, slots=True)
class HostReport:
    """What the units of a host process did, how long they were busy, and how long its matches took to be found."""

    name: str
    node: str
    ingested: int
    comparisons: int
    state_rows: int
    busy_s: float
    latency_counts: Ints


class NetworkShell(Shell):
    """What sources and hosts share: links that may be emulated."""

    _links: RayLinks
    _ways: EmulatedLinks

    def _connect(self, setup: ProcessSetup) -> None:
        self._links = RayLinks(setup.name, setup.handles, window=setup.window, attempt=setup.attempt)
        self._ways = EmulatedLinks(self._links.send, setup.speeds)

    def _await_receivers(self) -> None:
        """Returns when everything that was sent has been received and worked on."""
        self._ways.wait_for_all()
        self._links.wait_for_all()

    def greet(self) -> None:
        with self.working():
            self._links.greet()
        super().greet()

    def reset(self, setup: ProcessSetup) -> None:
        self._ways.stop()
        super().reset(setup)


class SourceActor(NetworkShell):
    """Gives birth to the events of one network node."""

    def __init__(self, setup: ProcessSetup) -> None:
        super().__init__(setup.name, f"the source of node {setup.node}")
        with self.working():
            self._converter = EventConverter(setup.form)
            self._attributes = setup.attributes
            self._texts = not setup.form.schema.attributes["id"].kind.is_number
            self._connect(setup)
            self._source = NetworkSource(
                setup.node,
                setup.topology,
                setup.form,
                self._converter.strings,
                send=self._ways.send,
                policy=setup.policy,
                clock=time.monotonic,
            )

    def feed(self, rows: pa.RecordBatch, ordinals: Ints, place: Place, watermark_us: int) -> None:
        """Events that were born here, with their places in the stream and in the file, and how far time has come."""
        with self.working():
            if rows.num_rows:
                events = self._converter.convert(rows, place, self._attributes, 0)
                events = replace(events, ordinals=ordinals, ids=ordinals if self._texts else events.ids)
                self._source.feed(events, np.ones(len(events), dtype=bool), watermark_us)
            else:
                self._source.advance(watermark_us)

    def barrier(self, number: int) -> None:
        with self.working():
            self._source.barrier(number)

    def finish(self) -> None:
        """Ends the stream; returns when everyone this source sends to has it."""
        with self.working():
            self._source.advance(END_OF_STREAM, urgent=True)
            self._await_receivers()

    @ray.method(concurrency_group=CONTROL)
    def traffic(self) -> dict[EdgeName, EdgeTraffic]:
        return dict(self._source.outbox.traffic.edges)


class HostActor(NetworkShell):
    """Works for the vertices of one network node on one level."""

    def __init__(self, setup: ProcessSetup) -> None:
        super().__init__(setup.name, f"process {setup.name} of node {setup.node}")
        self._interpret, self._store, self._attempt = setup.interpret, setup.store, setup.attempt
        self._node, self._emulation, self._latency = setup.node, setup.emulation, LatencyMeter()
        self._cuts: KeptResults[tuple[Any, dict[int, pa.Table]]] = KeptResults()
        self._strings = StringPool()
        with self.working(), self._mode():
            self._connect(setup)
            self._work = WorkClock(lambda: self._links.waited_so_far_s)
            self._host = NetworkHost(
                setup.name,
                setup.topology,
                setup.form,
                self._strings,
                send=self._ways.send,
                limits=setup.limits,
                policy=setup.policy,
                clock=time.monotonic,
                attempt=setup.attempt,
                cut=self._cut,
                found=lambda end_ts: self._latency.matches(end_ts, self._clock()),
                state=setup.state,
            )
            self._host.warm_up()
            if self._emulation is not None:
                self._emulation.begin(self._host.reports())

    def deliver(self, message: Message) -> None:
        with self.working(), self._mode():
            self._work.begin()
            self._host.receive(message)
            worked_s = self._work.at_work_s
            if self._emulation is not None:
                worked_s = self._emulation.spend(self._host.reports(), worked_s)
            self._work.end(worked_s)

    def mark(self, ts: Ints, arrival_s: Seconds) -> None:
        """Events that have arrived, with the time at which each did; see `LatencyMeter`."""
        with self.working():
            self._latency.mark(ts, arrival_s)

    def settle(self) -> None:
        """Passes on what waits; returns when everyone has received it and worked on it."""
        with self.working():
            self._host.outbox.flush(urgent=True)
            self._await_receivers()

    def take(self) -> dict[int, pa.Table]:
        """The matches found since the last cut, by number of the query."""
        with self.working():
            assert self._host.watermark_us == END_OF_STREAM, f"{self.name} was asked before the end"
            return self._host.taken()

    @ray.method(concurrency_group=CONTROL)
    def stored(self, number: int) -> tuple[Any, dict[int, pa.Table]]:
        """What was written for a checkpoint, and the matches before its cut, once all of them are here."""
        return self._cuts.wait(number, self._ended)

    @ray.method(concurrency_group=CONTROL)
    def traffic(self) -> dict[EdgeName, EdgeTraffic]:
        return dict(self._host.outbox.traffic.edges)

    @ray.method(concurrency_group=CONTROL)
    def report(self) -> HostReport:
        done = self._host.reports()
        return HostReport(
            self.name,
            self._node,
            sum(one.ingested for one in done),
            sum(one.comparisons for one in done),
            sum(one.state_rows for one in done),
            self._work.busy_s,
            self._latency.histogram.counts,
        )

    def _cut(self, number: int, state: bytes, matches: dict[int, pa.Table]) -> None:
        assert self._store is not None, "a barrier came, but nobody said where to keep states"
        self._cuts.put(number, (self._store.write_state(number, self.name, state, self._attempt), matches))

    def _mode(self) -> contextlib.AbstractContextManager[None]:
        return interpreted() if self._interpret else contextlib.nullcontext()
