"""The Ray runtime: a plan whose processing units are actors."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from actors.group import Limits
from actors.latency import LatencySummary
from actors.ray_unit import UnitStatus
from actors.reports import OperatorReport, UnitReport, operator_report
from actors.sinks.outlet import Outcome, OutletSpec
from cluster.deploy.deployment import Deployment
from cluster.deploy.recorder import Recorder
from cluster.feeding import BlockSource
from cluster.local import Watching
from cluster.options import RayOptions
from cluster.session import Progress, Session
from decopa.planning.plan import Plan
from decopa.planning.validate import check_structure
from decopa.query.binding import bind
from shuffler.exchange.codecs import needed_attributes
from shuffler.exchange.ray_shuffler import ShufflerStatus
from shuffler.routing.topology import Topology


@dataclass(frozen=True)
class RayRun:
    """What a run found and what it took; `matches` has a table, figures or files for each part of the plan. `began_at`
    is what this process's clock said when the first event went in."""

    matches: tuple[Outcome, ...]
    events: int
    seconds: float
    operators: tuple[OperatorReport, ...]
    processes: tuple[UnitStatus, ...]
    shufflers: tuple[ShufflerStatus, ...]
    latency: LatencySummary
    began_at: float = 0.0


class RayRuntime:
    """Runs every query of a plan over one pass of the source, on the Ray that this program is connected to."""

    def __init__(
        self, plan: Plan, source: BlockSource, *, limits: Limits, options: RayOptions, outlet: OutletSpec | None = None
    ) -> None:
        check_structure(plan)
        self._outlet = outlet
        self._source, self._limits, self._options = source, limits, options
        self.topology = Topology(plan, options.shufflers, sinks=options.sinks)
        schema = source.format.schema
        self._attributes = needed_attributes([bind(part.query, schema) for part in plan.parts], schema)

    def run(
        self, progress: Progress | None = None, recorder: Recorder | None = None, watch: Watching | None = None
    ) -> RayRun:
        """Reads the source to its end; a `watch` looks at the operators while the run is going, and may end it."""
        with Deployment(
            self.topology, self._source.format, self._limits, self._options, outlet=self._outlet
        ) as deployment:
            session = Session(deployment, progress)
            session.await_actors()
            session.recorder = recorder
            if watch is not None:
                session.watch = lambda: look_at(deployment, watch)
            if recorder is not None:
                recorder.look(deployment, 0)  # curves begin at nothing
            started, paced = time.perf_counter(), self._options.replay.is_paced
            for block in session.blocks_of(self._source, self._attributes, whole_groups=not paced):
                if block is None:
                    session.pause()
                else:
                    session.feed(block)
            session.finish()
            if recorder is not None:
                recorder.look(deployment, session.events, last=True)
            report = run_report(deployment, session, time.perf_counter() - started)
            return replace(report, matches=session.outcomes(), began_at=started)


def look_at(deployment: Deployment, watch: Watching) -> None:
    """Shows a watch what the operators have done so far, if it is time."""
    if watch.due:
        topology = deployment.topology
        units = _units_by_part(topology, deployment.statuses())
        watch.look([_part_reports(topology, part, mine, 0.0) for part, mine in enumerate(units)])


def run_report(deployment: Deployment, session: Session, seconds: float) -> RayRun:
    """What the actors of a run did, without its matches."""
    statuses = deployment.statuses()
    latencies = [status.latency for status in deployment.sink_statuses()]
    return RayRun(
        (),
        session.events,
        seconds,
        operator_reports(deployment.topology, statuses, seconds),
        tuple(statuses),
        tuple(deployment.shuffler_statuses()),
        max(latencies, key=lambda one: one.p99_s, default=LatencySummary()),
    )


def operator_reports(topology: Topology, statuses: list[UnitStatus], seconds: float) -> tuple[OperatorReport, ...]:
    """What the operators of all parts did, within `seconds`."""
    units = _units_by_part(topology, statuses)
    return tuple(report for part, mine in enumerate(units) for report in _part_reports(topology, part, mine, seconds))


def _part_reports(topology: Topology, part: int, units: list[UnitReport], seconds: float) -> tuple[OperatorReport, ...]:
    plan = topology.plan.parts[part]
    reports = [operator_report(plan, operator, units, seconds) for operator in plan.operators]
    return tuple(report for report in reports if report is not None)


def _units_by_part(topology: Topology, statuses: list[UnitStatus]) -> list[list[UnitReport]]:
    """The units of each part; operators that share a process share its time."""
    units: list[list[UnitReport]] = [[] for _ in topology.plan.parts]
    for status in statuses:
        for report in status.units:
            units[report.part].append(replace(report, busy_s=status.busy_s))
    return units
