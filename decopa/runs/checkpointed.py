"""Runs that survive the loss of any process, even their driver: begun, and resumed from their last checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from cluster.checkpoint.output import PublishedMatches
from cluster.checkpoint.recovery import CheckpointedRun, CheckpointedRuntime
from cluster.checkpoint.store import CheckpointStore, Manifest
from cluster.feeding import rows_per_block
from cluster.placement import places_needed
from cluster.ray_session import ray_session
from decopa.errors import CheckpointError
from decopa.planning.plan import Plan
from decopa.query.query import Query
from decopa.runs.execute import completed
from decopa.runs.planning import spread_plan
from decopa.runs.prepare import Prepared, prepare
from decopa.runs.result import RunResult, result_table
from decopa.runs.spec import RunSpec
from decopa.runs.spec_file import read_run, to_document
from decopa.runs.watch import Watch


@dataclass(frozen=True)
class FinishedRun:
    """A run with checkpoints that came to its end, and how it was prepared."""

    prepared: Prepared
    outcome: CheckpointedRun

    def result(self) -> RunResult | None:
        """What the last attempt did, with the number of matches that all attempts published; None if the run had
        ended before."""
        found = self.outcome.run
        if found is None:
            return None
        result = RunResult(
            pa.table({}),
            found.events,
            found.seconds,
            found.operators,
            self.prepared.plan,
            latency=found.latency,
            published=self.outcome.published.matches,
        )
        return completed(result, self.prepared)


def run_checkpointed(
    spec: RunSpec,
    queries: Sequence[Query],
    *,
    watch: Watch | None = None,
    predictions: bool = False,
) -> FinishedRun:
    """Begins the run, or continues it if its folder holds a checkpoint already."""
    watch = watch or Watch()
    if spec.checkpoints is None or spec.output is None:
        raise CheckpointError("a run with checkpoints needs a folder for them, and a folder for its matches")
    if spec.trace.path is None:
        raise CheckpointError("a run with checkpoints reads a stored trace; name its file or folder")
    spec = _with_absolute_paths(spec)
    assert spec.checkpoints is not None
    store = CheckpointStore(spec.checkpoints.location)
    saved = store.latest_manifest()
    if saved is not None:
        plan = Plan.from_json(saved.plan)
        if [branch for query in queries for branch in query.branches] != [part.query for part in plan.parts]:
            raise CheckpointError(f"{store.location} belongs to another query; name another folder for this one")
        spec = replace(spec, planning=replace(spec.planning, plan=plan))
    prepared = prepare(_reading(spec, saved), queries, predictions=predictions, phase=watch.phase)
    if saved is None:
        chosen = replace(spec.planning, plan=prepared.plan, statistics=None)
        store.write_run(to_document(replace(spec, planning=chosen), queries))
    return FinishedRun(prepared, _run(prepared, watch))


def resume_checkpointed(
    location: str | Path,
    *,
    units: int | None = None,
    address: str | None = None,
    watch: Watch | None = None,
) -> FinishedRun:
    """Continues the run whose checkpoints are in `location`; `units` deals its state out among another number."""
    watch = watch or Watch()
    store = CheckpointStore(location)
    spec, queries = read_run(store)
    saved = store.latest_manifest()
    assert spec.checkpoints is not None
    plan = spec.planning.plan if saved is None else Plan.from_json(saved.plan)
    if plan is not None and units is not None:
        plan = spread_plan(plan, units)
    spec = replace(
        spec,
        planning=replace(spec.planning, plan=plan),
        ray=replace(spec.ray, address=address),
        checkpoints=replace(spec.checkpoints, location=store.location),
    )
    prepared = prepare(_reading(spec, saved), queries, phase=watch.phase)
    return FinishedRun(prepared, _run(prepared, watch))


def _with_absolute_paths(spec: RunSpec) -> RunSpec:
    """`resume` may be called from another folder."""
    assert spec.trace.path is not None and spec.output is not None
    bad_rows = spec.trace.bad_rows
    if bad_rows.file is not None:
        bad_rows = replace(bad_rows, file=bad_rows.file.resolve())
    return replace(
        spec,
        trace=replace(spec.trace, path=str(Path(spec.trace.path).resolve()), bad_rows=bad_rows),
        output=replace(spec.output, path=str(Path(spec.output.path).resolve())),
    )


def _reading(spec: RunSpec, saved: Manifest | None) -> RunSpec:
    """A finished run reads nothing again, so its file of bad rows stays as it is."""
    if saved is None or not saved.finished:
        return spec
    return replace(spec, trace=replace(spec.trace, bad_rows=replace(spec.trace.bad_rows, file=None)))


def _run(prepared: Prepared, watch: Watch) -> CheckpointedRun:
    spec, queries = prepared.spec, prepared.queries
    assert spec.checkpoints is not None and spec.output is not None
    runtime = CheckpointedRuntime(
        prepared.plan,
        prepared.events.blocks(rows_per_block(spec.ray.replay)),
        merge=lambda tables: result_table(queries, tables),
        output=PublishedMatches(Path(spec.output.path), spec.output.format),
        checkpoints=spec.checkpoints,
        limits=spec.limits,
        options=spec.ray,
        recovered=watch.recovered,
    )
    watch.phase("connecting to Ray" if spec.ray.address else "starting Ray")
    with ray_session(address=spec.ray.address, cpus=places_needed(runtime.topology)) as dashboard:
        if dashboard is not None:
            watch.dashboard(dashboard)
        watch.phase("starting the units")
        return runtime.run(watch.progress, watch.recorder)
