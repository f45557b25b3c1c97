"""The Ray runtime of a prepared run: every processing unit is an actor."""

from __future__ import annotations

from dataclasses import replace

from actors.sinks.outlet import OutletSpec
from cluster.change.deployed.adapting import AdaptingChanges
from cluster.change.deployed.ray_run import ChangingRayRuntime
from cluster.deploy.placement import places_needed
from cluster.feeding import BLOCK_ROWS, rows_per_block
from cluster.ray_runtime import RayRuntime
from decopa.runs.delivery import NO_MATCHES, Found
from decopa.runs.guard import Guard
from decopa.runs.preparation.prepare import Prepared
from decopa.runs.result import RunResult
from decopa.runs.runtimes.adapting import adapting_changes, places_to_adapt
from decopa.runs.runtimes.early_ray import EarlyRay
from decopa.runs.runtimes.flows import with_flows
from decopa.runs.watch import Watch


def run_on_ray(prepared: Prepared, watch: Watch, guard: Guard, outlet: OutletSpec, early: EarlyRay) -> Found:
    """Runs to the end of the events on the Ray of the spec, or on one that is started for the run."""
    spec = prepared.spec
    changes = None if spec.adapt is None else adapting_changes(prepared, spec.adapt, tell=watch.changed)
    runtime = _runtime(prepared, outlet, changes)
    watch.phase("connecting to Ray" if spec.ray.address else "starting Ray")
    with early.session(places_to_adapt(prepared, places_needed(runtime.topology))) as dashboard:
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
    if changes is not None:
        switches, earlier = tuple(changes.loop.switches), tuple(changes.earlier)
        result = replace(result, plan=changes.plan, switches=switches, earlier_operators=earlier)
    return Found(result, found.matches)


def _runtime(
    prepared: Prepared, outlet: OutletSpec, changes: AdaptingChanges | None
) -> RayRuntime | ChangingRayRuntime:
    spec, options = prepared.spec, with_flows(prepared)
    if changes is None:
        blocks = prepared.events.blocks(BLOCK_ROWS)
        return RayRuntime(prepared.plan, blocks, limits=spec.limits, options=options, outlet=outlet)
    # Plans change between two blocks, so these are no larger than what is worked on together.
    blocks = prepared.events.blocks(min(options.batch_size, rows_per_block(options.replay)))
    return ChangingRayRuntime(prepared.plan, blocks, changes, limits=spec.limits, options=options)
