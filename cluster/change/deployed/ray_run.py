"""A run on Ray, without checkpoints, whose plan may change while it runs."""

from __future__ import annotations

import time
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from actors.group import Limits
from cluster.change.cut import reported
from cluster.change.deployed.driver_cut import DriverCut
from cluster.change.deployed.plan_changes import PlanChanges
from cluster.checkpoint.recovery import failures_told_once
from cluster.deploy.deployment import Deployment
from cluster.deploy.kept_actors import keeping_replaced_actors
from cluster.deploy.recorder import Recorder
from cluster.feeding import BlockSource
from cluster.local import Watching
from cluster.options import RayOptions
from cluster.ray_runtime import RayRun, look_at, run_report
from cluster.ray_session import is_started_here
from cluster.session import Progress, Session
from decopa.planning.plan import Plan
from decopa.planning.validate import check_structure
from decopa.query.binding import bind
from shuffler.exchange.codecs import needed_attributes
from shuffler.routing.table import END_OF_STREAM
from shuffler.routing.topology import Topology


class ChangingRayRuntime:
    """As `RayRuntime`; `changes` may be asked for other plans of the same queries from any thread."""

    def __init__(
        self, plan: Plan, source: BlockSource, changes: PlanChanges, *, limits: Limits, options: RayOptions
    ) -> None:
        check_structure(plan)
        self._source, self._changes, self._limits, self._options = source, changes, limits, options
        self.topology = Topology(plan, options.shufflers, sinks=options.sinks)
        self._shown = plan
        schema = source.format.schema
        self._attributes = needed_attributes([bind(part.query, schema) for part in plan.parts], schema)

    def _deployment(self, plan: Plan) -> Deployment:
        topology = Topology(plan, self._options.shufflers, sinks=self._options.sinks)
        return Deployment(topology, self._source.format, self._limits, self._options)

    def run(
        self, progress: Progress | None = None, recorder: Recorder | None = None, watch: Watching | None = None
    ) -> RayRun:
        """Reads the source to its end; a `watch` looks at the operators while the run is going, and may end it."""
        with keeping_replaced_actors(alone=is_started_here()):
            session = Session(self._deployment(self.topology.plan).__enter__(), progress)
            try:
                with failures_told_once():  # actors that are stopped in the middle of a call are no failure
                    return self._run(session, recorder, watch)
            finally:
                self._changes.close()
                session.deployment.stop()

    def _run(self, session: Session, recorder: Recorder | None, watch: Watching | None) -> RayRun:
        session.await_actors()
        session.recorder = recorder
        if watch is not None:
            session.watch = lambda: self._show(session, watch)
        cuts = DriverCut(session.deployment, same_queries=True)
        self._changes.follow(session, cuts, self._deployment)
        if recorder is not None:
            recorder.look(session.deployment, 0)
        started = time.perf_counter()
        for block in session.blocks_of(self._source, self._attributes, whole_groups=False):
            if block is None:
                session.pause()
            else:
                session.feed(block)
        session.finish()
        if recorder is not None:
            recorder.look(session.deployment, session.events, last=True)
        report = run_report(session.deployment, session, time.perf_counter() - started)
        return replace(report, matches=self._matches(session, cuts), began_at=started)

    def _show(self, session: Session, watch: Watching) -> None:
        """Shows the operators of the present plan to a watch, which learns of another plan first."""
        plan = session.deployment.topology.plan
        if plan is not self._shown:
            if not self._changes.is_counted:
                return
            self._shown = plan
            watch.plan_changed(plan, self._changes.earlier)
        look_at(session.deployment, watch)

    def _matches(self, session: Session, cuts: DriverCut) -> tuple[pa.Table, ...]:
        """Those of all plans, a table for each part that the last one reports.

        Each plan's are in canonical order. A cut lies between events of different times, so that no matches on its two
        sides have equal times.
        """
        plan = session.deployment.topology.plan
        found = cuts.released(session.take_by_key(), END_OF_STREAM)
        if not self._changes.made:
            return tuple(found[key] for key in reported(plan))
        by_time = [("end_ts", "ascending"), ("start_ts", "ascending")]
        return tuple(found[key].take(pc.sort_indices(found[key], sort_keys=by_time)) for key in reported(plan))
