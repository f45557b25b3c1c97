"""The Ray runtime of a prepared run: every processing unit is an actor."""

from __future__ import annotations

from actors.sinks.outlet import OutletSpec
from cluster.feeding import BLOCK_ROWS
from cluster.placement import places_needed
from cluster.ray_runtime import RayRuntime
from decopa.runs.delivery import NO_MATCHES, Found
from decopa.runs.early_ray import EarlyRay
from decopa.runs.flows import with_flows
from decopa.runs.guard import Guard
from decopa.runs.prepare import Prepared
from decopa.runs.result import RunResult
from decopa.runs.watch import Watch


def run_on_ray(prepared: Prepared, watch: Watch, guard: Guard, outlet: OutletSpec, early: EarlyRay) -> Found:
    """Runs to the end of the events on the Ray of the spec, or on one that is started for the run."""
    spec = prepared.spec
    blocks = prepared.events.blocks(BLOCK_ROWS)
    runtime = RayRuntime(prepared.plan, blocks, limits=spec.limits, options=with_flows(prepared), outlet=outlet)
    watch.phase("connecting to Ray" if spec.ray.address else "starting Ray")
    with early.session(places_needed(runtime.topology)) as dashboard:
        if dashboard is not None:
            watch.dashboard(dashboard)
        watch.phase("starting the units")
        found = runtime.run(watch.progress, watch.recorder, guard)
    result = RunResult(
        NO_MATCHES,
        found.events,
        found.seconds,
        found.operators,
        prepared.plan,
        latency=found.latency,
        dashboard=dashboard,
        began_at=found.began_at,
    )
    return Found(result, found.matches)
