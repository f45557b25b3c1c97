"""The Ray runtime of a prepared run: every processing unit is an actor."""

from __future__ import annotations

from cluster.feeding import BLOCK_ROWS
from cluster.placement import places_needed
from cluster.ray_runtime import RayRuntime
from cluster.ray_session import ray_session
from decopa.runs.prepare import Prepared
from decopa.runs.result import RunResult, result_table
from decopa.runs.watch import Watch


def run_on_ray(prepared: Prepared, watch: Watch) -> RunResult:
    """Runs to the end of the events on the Ray of the spec, or on one that is started for the run."""
    spec = prepared.spec
    runtime = RayRuntime(prepared.plan, prepared.events.blocks(BLOCK_ROWS), limits=spec.limits, options=spec.ray)
    watch.phase("connecting to Ray" if spec.ray.address else "starting Ray")
    with ray_session(address=spec.ray.address, cpus=places_needed(runtime.topology)) as dashboard:
        if dashboard is not None:
            watch.dashboard(dashboard)
        watch.phase("starting the units")
        found = runtime.run(watch.progress, watch.recorder)
        matches = result_table(prepared.queries, found.matches)
    return RunResult(
        matches,
        found.events,
        found.seconds,
        found.operators,
        prepared.plan,
        latency=found.latency,
        dashboard=dashboard,
    )
