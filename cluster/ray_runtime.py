"""The Ray runtime: a plan whose processing units are actors."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import pyarrow as pa

from actors.group import Limits
from actors.latency import LatencySummary
from actors.ray_unit import UnitStatus
from actors.reports import OperatorReport, operator_report
from cluster.deployment import Deployment
from cluster.feeding import BlockSource
from cluster.options import RayOptions
from cluster.recorder import Recorder
from cluster.session import Progress, Session
from decopa.planning.plan import Plan
from decopa.planning.validate import check_structure
from decopa.query.binding import bind
from shuffler.exchange.codecs import needed_attributes
from shuffler.exchange.ray_shuffler import ShufflerStatus
from shuffler.routing.topology import Topology


@dataclass(frozen=True)
class RayRun:
    """What a run found and what it took; `matches` has a table for each part of the plan."""

    matches: tuple[pa.Table, ...]
    events: int
    seconds: float
    operators: tuple[OperatorReport, ...]
    processes: tuple[UnitStatus, ...]
    shufflers: tuple[ShufflerStatus, ...]
    latency: LatencySummary


class RayRuntime:
    """Runs every query of a plan over one pass of the source, on the Ray that this program is connected to."""

    def __init__(self, plan: Plan, source: BlockSource, *, limits: Limits, options: RayOptions) -> None:
        check_structure(plan)
        self._source, self._limits, self._options = source, limits, options
        self.topology = Topology(plan, options.shufflers)
        schema = source.format.schema
        self._attributes = needed_attributes([bind(part.query, schema) for part in plan.parts], schema)

    def run(self, progress: Progress | None = None, recorder: Recorder | None = None) -> RayRun:
        with Deployment(self.topology, self._source.format, self._limits, self._options) as deployment:
            session = Session(deployment, progress)
            session.await_actors()
            session.recorder = recorder
            if recorder is not None:
                recorder.look(deployment, 0)  # curves begin at nothing
            started = time.perf_counter()
            for block in self._source.feed_blocks(self._attributes):
                if block is None:
                    session.flush()
                else:
                    session.feed(block)
            session.finish()
            if recorder is not None:
                recorder.look(deployment, session.events, last=True)
            report = run_report(deployment, session, time.perf_counter() - started)
            return replace(report, matches=session.take())


def run_report(deployment: Deployment, session: Session, seconds: float) -> RayRun:
    """What the actors of a run did, without its matches."""
    statuses = deployment.statuses()
    latencies = [status.latency for status in deployment.sink_statuses()]
    return RayRun(
        (),
        session.events,
        seconds,
        _operator_reports(deployment.topology, statuses, seconds),
        tuple(statuses),
        tuple(deployment.shuffler_statuses()),
        max(latencies, key=lambda one: one.p99_s, default=LatencySummary()),
    )


def _operator_reports(topology: Topology, statuses: list[UnitStatus], seconds: float) -> tuple[OperatorReport, ...]:
    found = []
    for part, plan in enumerate(topology.plan.parts):
        names = {process.name for process in topology.units if process.part == part}
        # Operators that share a process share its time.
        mine = [status for status in statuses if status.name in names]
        units = [replace(report, busy_s=status.busy_s) for status in mine for report in status.units]
        reports = [operator_report(plan, operator, units, seconds) for operator in plan.operators]
        found += [report for report in reports if report is not None]
    return tuple(found)
