"""The Ray runtime: a plan whose processing units are actors."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import ray

from actors.group import Limits
from actors.latency import LatencySummary
from actors.ray_unit import SinkStatus, UnitStatus
from actors.reports import OperatorReport, operator_report
from cluster.deployment import Deployment
from cluster.feeding import BlockSource
from cluster.options import RayOptions
from decopa.planning.plan import Plan
from decopa.planning.validate import check_structure
from decopa.query.binding import bind
from shuffler.codecs import needed_attributes
from shuffler.node import ReplayStart
from shuffler.topology import Topology

#: Blocks at one shuffler: one that it works on and one that waits.
_BLOCKS_IN_FLIGHT = 2
_PROGRESS_EVERY_S = 0.5


@dataclass(frozen=True)
class RayRun:
    """What a run found and what it took; `matches` has a table for each part of the plan."""

    matches: tuple[pa.Table, ...]
    events: int
    seconds: float
    operators: tuple[OperatorReport, ...]
    processes: tuple[UnitStatus, ...]
    latency: LatencySummary


class RayRuntime:
    """Runs every query of a plan over one pass of the source, on the Ray that this program is connected to."""

    def __init__(self, plan: Plan, source: BlockSource, *, limits: Limits, options: RayOptions) -> None:
        check_structure(plan)
        self._source, self._limits, self._options = source, limits, options
        self.topology = Topology(plan, options.shufflers)
        schema = source.format.schema
        self._attributes = needed_attributes([bind(part.query, schema) for part in plan.parts], schema)

    def run(self, progress: Callable[[int, int], None] | None = None) -> RayRun:
        with Deployment(self.topology, self._source.format, self._limits, self._options) as deployment:
            return _Run(deployment, progress).through(self._source, self._attributes)


class _Run:
    """One pass of a source through a deployment."""

    def __init__(self, deployment: Deployment, progress: Callable[[int, int], None] | None) -> None:
        self._deployment, self._progress = deployment, progress
        self._names = list(deployment.shufflers)
        self._calls: dict[str, deque[Any]] = {name: deque() for name in self._names}
        self._events = 0
        self._told = time.monotonic()

    def through(self, source: BlockSource, attributes: Collection[str]) -> RayRun:
        deployment = self._deployment
        # Actors start in parallel; the clock of the run begins when all are there.
        for name, actor in deployment.actors.items():
            call = actor.status.remote()
            deployment.wait_for(call)
            deployment.result(call, name)
        started = time.perf_counter()
        self._feed(source, attributes)
        self._finish()
        seconds = time.perf_counter() - started
        matches = []
        for name, sink in deployment.sinks.items():
            call = sink.matches.remote()
            self._wait(call)
            matches.append(deployment.result(call, name))
        statuses = deployment.statuses()
        latency = self._sink_statuses()
        return RayRun(
            tuple(matches),
            self._events,
            seconds,
            _operator_reports(deployment.topology, statuses, seconds),
            tuple(statuses),
            max((status.latency for status in latency), key=lambda one: one.p99_s, default=LatencySummary()),
        )

    def _feed(self, source: BlockSource, attributes: Collection[str]) -> None:
        start: ReplayStart | None = None
        turn = 0
        for block in source.feed_blocks(attributes):
            if block is None:
                for name in self._names:
                    self._wait_for_room(name, 1)
                    self._calls[name].append(self._deployment.shufflers[name].flush.remote())
                continue
            if start is None:
                start = ReplayStart(time.time(), block.first_ts)
            name = self._names[turn % len(self._names)]
            turn += 1
            self._wait_for_room(name, _BLOCKS_IN_FLIGHT)
            shuffler = self._deployment.shufflers[name]
            self._calls[name].append(shuffler.feed.remote(block.content, block.place, self._events, start))
            self._events += block.rows

    def _finish(self) -> None:
        for name in self._names:
            self._wait_for_room(name, 1)
        for name in self._names:
            self._calls[name].append(self._deployment.shufflers[name].finish.remote())
        for name in self._names:
            self._wait_for_room(name, 1)
        for name, sink in self._deployment.sinks.items():
            call = sink.watch.remote()
            self._wait(call)
            self._deployment.result(call, name)

    def _wait_for_room(self, name: str, room: int) -> None:
        calls = self._calls[name]
        while len(calls) >= room:
            self._wait(calls[0])
            self._deployment.result(calls.popleft(), name)

    def _wait(self, call: Any) -> None:
        while not self._deployment.wait_for(call, _PROGRESS_EVERY_S):
            self._tell()
        self._tell()

    def _tell(self) -> None:
        now = time.monotonic()
        if self._progress is not None and now - self._told >= _PROGRESS_EVERY_S:
            self._told = now
            self._progress(self._events, sum(status.matches for status in self._sink_statuses()))

    def _sink_statuses(self) -> list[SinkStatus]:
        return list(ray.get([sink.status.remote() for sink in self._deployment.sinks.values()]))


def _operator_reports(topology: Topology, statuses: list[UnitStatus], seconds: float) -> tuple[OperatorReport, ...]:
    found = []
    for part, plan in enumerate(topology.plan.parts):
        names = {process.name for process in topology.units if process.part == part}
        units = [report for status in statuses if status.name in names for report in status.units]
        reports = [operator_report(plan, operator, units, seconds) for operator in plan.operators]
        found += [report for report in reports if report is not None]
    return tuple(found)
