"""The local runtime of a prepared run: the whole plan in this process."""

from __future__ import annotations

import random
import time
from dataclasses import replace

from actors.sinks.outlet import OutletSpec
from cluster.change.runtime import AdaptingRuntime
from cluster.local import LocalRuntime
from decopa.runs.delivery import NO_MATCHES, Found
from decopa.runs.guard import Guard
from decopa.runs.preparation.prepare import Prepared
from decopa.runs.result import RunResult
from decopa.runs.runtimes.adapting import adapting_runtime
from decopa.runs.watch import Watch


def run_here(
    prepared: Prepared, watch: Watch, guard: Guard, outlet: OutletSpec, interleaving: random.Random | None = None
) -> Found:
    """Runs to the end of the events. `interleaving` draws the order between senders at random, which changes nothing
    in the matches."""
    watch.phase("running")
    started = time.perf_counter()
    local = _runtime(prepared, watch, guard, outlet, interleaving)
    local.run(watch.progress if watch.recorder is None else watch.recorder.watching(watch.progress))
    outcomes = local.outcomes
    seconds = time.perf_counter() - started
    for name, why in local.dropped.items():
        guard.warnings.append(f"query {name} was dropped and has no result: {why}")
    result = RunResult(NO_MATCHES, local.events, seconds, local.reports(), prepared.plan, began_at=started)
    if isinstance(local, AdaptingRuntime):
        switches, earlier = tuple(local.loop.switches), local.earlier_reports()
        result = replace(result, plan=local.plan, switches=switches, earlier_operators=earlier)
    local.close()  # else the matches would stay in memory for as long as Python sees fit
    return Found(result, outcomes)


def _runtime(
    prepared: Prepared, watch: Watch, guard: Guard, outlet: OutletSpec, interleaving: random.Random | None
) -> LocalRuntime:
    adapt = prepared.spec.adapt
    if adapt is not None:
        return adapting_runtime(
            prepared, adapt, outlet=outlet, watch=guard, interleaving=interleaving, tell=watch.changed
        )
    return LocalRuntime(
        prepared.plan,
        prepared.source,
        batch_size=prepared.spec.trace.batch_size,
        limits=prepared.spec.limits,
        interleaving=interleaving,
        outlet=outlet,
        watch=guard,
    )
