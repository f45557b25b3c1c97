"""Processing units and sinks as Ray actors: thin shells around the nodes.

One class for each kind of operator, because Ray's dashboard groups actors by their class.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import ray

from actors.columnar.jit import interpreted
from actors.emulation import Emulation
from actors.group import Limits
from actors.latency import LatencySummary
from actors.metrics import SinkMetrics, UnitMetrics
from actors.node import SinkNode, UnitNode
from actors.reports import UnitReport
from actors.sinks.outlet import Outcome, OutletSpec, outcome_of
from decopa.planning.roles import Rule
from shuffler.exchange.channel import Message
from shuffler.exchange.node import Marks
from shuffler.exchange.outbox import FlushPolicy
from shuffler.exchange.ray_links import RayLinks
from shuffler.exchange.ray_metrics import Publisher
from shuffler.exchange.ray_shell import CONTROL, KeptResults, Shell
from shuffler.exchange.work_clock import WorkClock
from shuffler.routing.topology import Topology
from shuffler.rows.events import EventFormat


class StateStore(Protocol):
    """Where states of checkpoints are kept."""

    def write_state(self, number: int, process: str, payload: bytes, attempt: int) -> Any: ...


@dataclass(frozen=True)
class UnitSetup:
    """All that a unit's process needs to know; `handles` are the actors it sends to, `state` is what it held when the
    checkpoint was made that it goes on from."""

    name: str
    title: str
    topology: Topology
    form: EventFormat
    handles: Mapping[str, Any]
    limits: Limits
    policy: FlushPolicy
    window: int
    emulation: Emulation | None = None
    interpret: bool = False
    attempt: int = 0
    metrics: bool = True
    store: StateStore | None = None
    state: bytes | None = None
    outlet: OutletSpec | None = None
    absorbing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class UnitStatus:
    """What a unit's process did so far; `waited_s` is time spent waiting for credit."""

    name: str
    units: tuple[UnitReport, ...]
    busy_s: float
    waited_s: float
    in_flight: int
    watermark_us: int
    lag_us: int | None = None


class UnitShell(Shell):
    """Receives messages one at a time; a message is acknowledged when all that came of it has been sent on."""

    def __init__(self, setup: UnitSetup) -> None:
        super().__init__(setup.name, setup.title)
        self._interpret, self._emulation, self._store = setup.interpret, setup.emulation, setup.store
        self._attempt = setup.attempt
        #: Whether somebody has asked what is held at the next barrier, where nothing is stored.
        self._is_asked = threading.Event()
        # One thread: states are written in the order of their checkpoints, while the unit goes on.
        self._writer = ThreadPoolExecutor(1)
        self._stored: KeptResults[Any] = KeptResults()
        with self.working(), self._mode():
            self._links = RayLinks(setup.name, setup.handles, window=setup.window, attempt=setup.attempt)
            self._work = WorkClock(lambda: self._links.waited_so_far_s)
            self._node = UnitNode(
                setup.name,
                setup.topology,
                setup.form,
                send=self._links.send,
                limits=setup.limits,
                policy=setup.policy,
                clock=time.monotonic,
                attempt=setup.attempt,
                cut=self._cut,
                wanted=self._is_wanted,
                state=setup.state,
                outlet=setup.outlet,
                absorbing=setup.absorbing,
            )
            if self._emulation is not None:
                self._emulation.begin(self._node.reports())
        self._metrics = Publisher(UnitMetrics(setup.name, self._links, self._status).show) if setup.metrics else None

    def deliver(self, message: Message) -> None:
        with self.working(), self._mode():
            self._work.begin()
            self._node.receive(message)
            worked_s = self._work.at_work_s
            if self._emulation is not None:
                worked_s = self._emulation.spend(self._node.reports(), worked_s)
            self._work.end(worked_s)

    def greet(self) -> None:
        with self.working():
            self._links.greet()
        super().greet()

    def settle(self) -> None:
        """Returns when everything that was sent has been received and worked on."""
        with self.working():
            self._links.wait_for_all()

    def outcomes(self) -> dict[int, Outcome]:
        """What the root units in here have found, by part, where they keep it."""
        with self.working():
            return self._node.outcomes

    @ray.method(concurrency_group=CONTROL)
    def keep_next(self) -> None:
        """Where nothing is stored: what is held at the next barrier will be asked for with `stored`."""
        self._is_asked.set()

    @ray.method(concurrency_group=CONTROL)
    def stored(self, number: int) -> Any:
        """What was written for a checkpoint, once it is; raises if writing or the unit has failed. Where nothing is
        stored, what was held at that barrier."""
        return self._stored.wait(number, self._ended).result()

    @ray.method(concurrency_group=CONTROL)
    def watch(self) -> None:
        self.watch_until_end()

    @ray.method(concurrency_group=CONTROL)
    def status(self) -> UnitStatus:
        if self._metrics is not None:
            self._metrics.publish()
        return self._status()

    def _is_wanted(self) -> bool:
        return self._store is not None or self._is_asked.is_set()

    def _cut(self, number: int, state: bytes) -> None:
        self._is_asked.clear()
        writing: Future[Any] = Future()
        if self._store is None:
            writing.set_result(state)
        else:
            writing = self._writer.submit(self._store.write_state, number, self.name, state, self._attempt)
        self._stored.put(number, writing)

    def _status(self) -> UnitStatus:
        return UnitStatus(
            self.name,
            self._node.reports(),
            self._work.busy_s,
            self._links.waited_so_far_s,
            self._links.in_flight,
            self._node.watermark_us,
            self._node.lag_us,
        )

    def _mode(self) -> contextlib.AbstractContextManager[None]:
        return interpreted() if self._interpret else contextlib.nullcontext()


class JoinUnit(UnitShell):
    """SEQ and AND."""


class KleeneUnit(UnitShell):
    """KL."""


class NegationUnit(UnitShell):
    """NOT."""


class NextUnit(UnitShell):
    """NEXT."""


class SharedUnit(UnitShell):
    """Several operators on one processing unit."""


UNIT_CLASSES: dict[Rule | None, type[UnitShell]] = {
    Rule.JOIN: JoinUnit,
    Rule.KLEENE_UNARY: KleeneUnit,
    Rule.KLEENE_BINARY: KleeneUnit,
    Rule.NEGATION: NegationUnit,
    Rule.NEXT: NextUnit,
    None: SharedUnit,
}


@dataclass(frozen=True)
class SinkSetup:
    name: str
    topology: Topology
    form: EventFormat
    limits: Limits
    attempt: int = 0
    metrics: bool = True
    outlet: OutletSpec | None = None


@dataclass(frozen=True, slots=True)
class SinkStatus:
    matches: int
    watermark_us: int
    latency: LatencySummary


class Sink(Shell):
    """Collects the matches of some parts of the plan, mostly of all."""

    def __init__(self, setup: SinkSetup) -> None:
        super().__init__(setup.name, setup.name)
        with self.working():
            self._cuts: KeptResults[tuple[pa.Table, ...]] = KeptResults()
            self._node = SinkNode(
                setup.name,
                setup.topology,
                setup.form,
                limits=setup.limits,
                clock=self._clock,
                attempt=setup.attempt,
                cut=self._cuts.put,
                outlet=setup.outlet,
            )
            self._node.warm_up()
        #: Matches are taken from another thread than they arrive in.
        self._arrival = threading.Condition()
        self._metrics = Publisher(SinkMetrics(self._node).show) if setup.metrics else None

    def deliver(self, message: Message) -> None:
        with self.working(), self._arrival:
            self._node.receive(message)
            if self._node.finished:
                self.end()
            if self._node.rows or self._node.finished:
                self._arrival.notify_all()

    def mark(self, marks: Marks) -> None:
        with self.working():
            self._node.mark(marks)

    def take(self) -> tuple[Outcome, ...]:
        """For each of the sink's parts the matches that came since the last call, in order, or what became of them."""
        with self.working(), self._arrival:
            return tuple(map(outcome_of, self._node.takers))

    @ray.method(concurrency_group=CONTROL)
    def arriving(self, patience_s: float) -> tuple[dict[int, Outcome], tuple[int, ...]]:
        """The matches of each part that has some, as soon as any has; none if none have come within `patience_s`, or
        the stream has ended.

        With the watermarks of the sink's parts: no later match ends before them.
        """
        with self.working(), self._arrival:
            node = self._node
            self._arrival.wait_for(lambda: node.rows or self._ended.is_set(), patience_s)
            parts = zip(node.parts, node.takers, strict=True)
            return {part: outcome_of(taker) for part, taker in parts if taker.rows}, node.finals_us

    @ray.method(concurrency_group=CONTROL)
    def matches_before(self, number: int) -> tuple[pa.Table, ...]:
        """The matches of each part between the checkpoint before and this one, once all of them are here."""
        return self._cuts.wait(number, self._ended)

    @ray.method(concurrency_group=CONTROL)
    def watch(self) -> None:
        self.watch_until_end()

    @ray.method(concurrency_group=CONTROL)
    def status(self) -> SinkStatus:
        if self._metrics is not None:
            self._metrics.publish()
        node = self._node
        return SinkStatus(node.rows, node.watermark_us, node.latency.histogram.summary())

    @ray.method(concurrency_group=CONTROL)
    def latency_counts(self) -> npt.NDArray[np.int64]:
        """See `LatencyHistogram.counts`: two readings tell the latencies of the time between them."""
        return self._node.latency.histogram.counts
