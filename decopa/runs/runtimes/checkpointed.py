"""Runs that survive the loss of any process, even their driver: begun, and resumed from their last checkpoint."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from cluster.change.rules.folder import RuleFolder
from cluster.checkpoint.output import MatchOutput, PublishedMatches
from cluster.checkpoint.recovery import Changing, CheckpointedRun, CheckpointedRuntime
from cluster.checkpoint.store import CheckpointStore, Manifest
from cluster.checkpoint.visibility import check_seen_by_all
from cluster.deploy.placement import places_needed
from cluster.feeding import rows_per_block
from cluster.options import Checkpoints
from cluster.ray_session import ray_session
from decopa.choices import DEFAULT_TIME_UNITS
from decopa.errors import CheckpointError
from decopa.planning.plan import Plan
from decopa.query.query import Query
from decopa.runs.execute import completed
from decopa.runs.preparation.planning import spread_plan
from decopa.runs.preparation.prepare import Prepared, prepare
from decopa.runs.result import RunResult, result_table
from decopa.runs.runtimes.adapting import adapting_changes, places_to_adapt
from decopa.runs.runtimes.early_ray import EarlyRay
from decopa.runs.runtimes.flows import with_flows
from decopa.runs.spec import Output, RunSpec, TraceOptions
from decopa.runs.spec_file import read_run, to_document
from decopa.runs.streams.durable_rules import DurableRules
from decopa.runs.streams.durable_watch import DurableRuleWatch
from decopa.runs.streams.rules import RuleState
from decopa.runs.watch import Watch
from shuffler.source.live.address import SourceAddress, is_address, parse_address
from shuffler.source.trace import open_trace


@dataclass(frozen=True)
class FinishedRun:
    """A run with checkpoints that came to its end, and how it was prepared."""

    prepared: Prepared
    outcome: CheckpointedRun
    #: The plan that it had in the end.
    plan: Plan
    #: Its rules in the end, if they come and go.
    rules: tuple[RuleState, ...] = ()

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
            self.plan,
            latency=found.latency,
            published=self.outcome.published.matches,
            switches=self.outcome.switches,
        )
        return completed(result, self.prepared)


def run_checkpointed(
    spec: RunSpec,
    queries: Sequence[Query],
    *,
    watch: Watch | None = None,
    predictions: bool = False,
    changing: Callable[[Plan], Changing] | None = None,
) -> FinishedRun:
    """Begins the run, or continues it if its folder holds a checkpoint already.

    `changing` makes whoever changes its plan while it runs.
    """
    watch = watch or Watch()
    if spec.checkpoints is None or spec.output is None:
        raise CheckpointError("a run with checkpoints needs a folder for them, and a folder for its matches")
    if spec.trace.path is None:
        raise CheckpointError("a run with checkpoints reads what can be read again; name a trace, a folder or a topic")
    spec = _with_absolute_paths(spec)
    assert spec.checkpoints is not None
    _check_place(spec.checkpoints.location, spec.ray.address)
    store = CheckpointStore(spec.checkpoints.location)
    saved = store.latest_manifest()
    spec = _settled(spec) if saved is None else _as_before(spec, store)
    if saved is not None:
        begun, _ = read_run(store)
        plan = _last_plan(begun, saved)
        assert plan is not None
        if [branch for query in queries for branch in query.branches] != list(plan.queries):
            raise CheckpointError(f"{store.location} belongs to another query; name another folder for this one")
        if (begun.rules is None) != (spec.rules is None):
            had = "without" if begun.rules is None else "with"
            raise CheckpointError(f"{store.location} belongs to a run {had} --rules; continue it as it was begun")
        spec = replace(spec, planning=replace(spec.planning, plan=plan))
    with EarlyRay(spec.ray.address) as early:
        reading = _reading(spec, saved)
        prepared = prepare(reading, queries, predictions=predictions, phase=watch.phase, checked=early.begin)
        if saved is None:
            chosen = replace(spec.planning, plan=prepared.plan, statistics=None)
            store.write_run(to_document(replace(spec, planning=chosen), queries))
        return _run(prepared, watch, early, changing)


def resume_checkpointed(
    location: str | Path,
    *,
    units: int | None = None,
    address: str | None = None,
    watch: Watch | None = None,
    source: Callable[[SourceAddress], SourceAddress] | None = None,
    changing: Callable[[Plan], Changing] | None = None,
) -> FinishedRun:
    """Continues the run whose checkpoints are in `location`; `units` deals its state out among another number.

    `source` changes how a stream is read from now on: other servers, an end, gaps that may be skipped.
    """
    watch = watch or Watch()
    store = CheckpointStore(location)
    spec, queries = read_run(store)
    _check_place(store.location, address)
    saved = store.latest_manifest()
    assert spec.checkpoints is not None
    plan, kept_units = _last_plan(spec, saved), spec.planning.units
    if units is not None:
        plan, kept_units = plan if plan is None or spec.rules is not None else spread_plan(plan, units), units
    trace = _with_unit_taken(spec.trace) if saved is not None else spec.trace
    if source is not None and is_address(trace.path):
        trace = replace(trace, path=str(source(parse_address(str(trace.path)))))
    spec = replace(
        spec,
        trace=trace,
        planning=replace(spec.planning, plan=plan, units=kept_units),
        ray=replace(spec.ray, address=address),
        checkpoints=replace(spec.checkpoints, location=store.location),
    )
    with EarlyRay(address) as early:
        prepared = prepare(_reading(spec, saved), queries, phase=watch.phase, checked=early.begin)
        return _run(prepared, watch, early, changing)


def _last_plan(begun: RunSpec, saved: Manifest | None) -> Plan | None:
    """What the plan of a run has become. One whose rules come and go is prepared as it began: they take the last plan
    from its checkpoint themselves."""
    return begun.planning.plan if saved is None or begun.rules is not None else Plan.from_json(saved.plan)


def _check_place(location: str, address: str | None) -> None:
    """Refuses a folder for checkpoints that nodes of the cluster do not share, before any event is read."""
    if address is not None or os.environ.get("RAY_ADDRESS"):  # a Ray that is started here has one node
        with ray_session(address=address):
            check_seen_by_all(location)


def _with_absolute_paths(spec: RunSpec) -> RunSpec:
    """`resume` may be called from another folder."""
    assert spec.trace.path is not None and spec.output is not None
    trace, bad_rows, lateness, adapt = spec.trace, spec.trace.bad_rows, spec.trace.lateness, spec.adapt
    rules = spec.rules
    if rules is not None and rules.folder is not None:
        rules = replace(rules, folder=_resolved(rules.folder))
    if adapt is not None and adapt.log is not None:
        adapt = replace(adapt, log=_resolved(adapt.log))
    if bad_rows.file is not None:
        bad_rows = replace(bad_rows, file=bad_rows.file.resolve())
    if lateness.file is not None:
        lateness = replace(lateness, file=_resolved(lateness.file))
    path = _resolved(spec.trace.path)
    return replace(
        spec,
        trace=replace(trace, path=path, bad_rows=bad_rows, lateness=lateness),
        output=replace(spec.output, path=_resolved(spec.output.path)),
        adapt=adapt,
        rules=rules,
    )


def _resolved(place: str | Path) -> str:
    """A path that means the same in any folder, or an address as it is."""
    return str(place) if is_address(place) else str(Path(place).resolve())


def _settled(spec: RunSpec) -> RunSpec:
    """The spec with what the first events of a stream show of its columns: a restart takes them for the same."""
    trace = spec.trace
    if not is_address(trace.path):
        return spec
    address = parse_address(str(trace.path))
    if address.kind == "tcp":
        raise CheckpointError(f"{address.name} cannot be read again, so a run on it cannot have checkpoints")
    source = open_trace(address, columns=trace.columns)
    path = str(replace(address, columns=source.kinds))
    return replace(spec, trace=replace(trace, path=path, columns=source.format.columns))


def _as_before(spec: RunSpec, store: CheckpointStore) -> RunSpec:
    """The spec with what the run took the columns of its stream for when it began."""
    trace, before = spec.trace, _with_unit_taken(read_run(store)[0].trace)
    if not is_address(trace.path):
        return spec
    address = parse_address(str(trace.path))
    if not is_address(before.path):
        raise CheckpointError(f"the checkpoint belongs to {before.path}, not to {address.name}; name another folder")
    kinds = address.columns or parse_address(str(before.path)).columns
    columns = replace(trace.columns, unit=trace.columns.unit or before.columns.unit)
    return replace(spec, trace=replace(trace, path=str(replace(address, columns=kinds)), columns=columns))


def _with_unit_taken(trace: TraceOptions) -> TraceOptions:
    """The trace with the unit that times of a stream were taken for, also where the run began before its first event:
    what is guessed from an event in the middle may be another."""
    if trace.columns.unit is not None or not is_address(trace.path):
        return trace
    kind = parse_address(str(trace.path)).columns.get(trace.columns.ts, "")
    return replace(trace, columns=replace(trace.columns, unit=DEFAULT_TIME_UNITS.get(kind)))


def _reading(spec: RunSpec, saved: Manifest | None) -> RunSpec:
    """A finished run reads nothing again, so its file of bad rows stays as it is."""
    if saved is None or not saved.finished:
        return spec
    return replace(spec, trace=replace(spec.trace, bad_rows=replace(spec.trace.bad_rows, file=None)))


def _run(prepared: Prepared, watch: Watch, early: EarlyRay, changing: Callable[[Plan], Changing] | None) -> FinishedRun:
    spec, queries = prepared.spec, prepared.queries
    assert spec.checkpoints is not None and spec.output is not None
    adapting, ruled = None, None if spec.rules is None else DurableRules(prepared, spec.rules)
    rows = rows_per_block(spec.ray.replay)
    if changing is None and spec.adapt is not None:
        adapting = adapting_changes(prepared, spec.adapt, tell=watch.changed)
    if adapting is not None or ruled is not None:
        rows = min(rows, spec.ray.batch_size)  # plans change between two blocks
    changes = changing(prepared.plan) if changing is not None else adapting if ruled is None else ruled.changes
    runtime = CheckpointedRuntime(
        prepared.plan if ruled is None else ruled.changes.plan,
        prepared.events.blocks(rows, spec.checkpoints.every_s),
        merge=(lambda tables: result_table(queries, list(tables.values()))) if ruled is None else ruled.merge,
        output=_output_of(spec.output, spec.checkpoints),
        checkpoints=spec.checkpoints,
        limits=spec.limits,
        options=with_flows(prepared),
        recovered=watch.recovered,
        stop=watch.stop,
        changes=changes,
        attributes=None if ruled is None else ruled.attributes,
    )
    watch.phase("connecting to Ray" if spec.ray.address else "starting Ray")
    needed = max(places_needed(runtime.topology), 0 if ruled is None else (spec.planning.units or 1) + 1)
    places = places_to_adapt(prepared, needed, others=changing is not None or ruled is not None)
    with ExitStack() as open_:
        dashboard = open_.enter_context(early.session(places))
        if dashboard is not None:
            watch.dashboard(dashboard)
        watch.phase("starting the units")
        if ruled is not None and spec.rules is not None and spec.rules.folder is not None:
            watching = DurableRuleWatch(ruled, RuleFolder(spec.rules.folder), watch.changed)
            open_.enter_context(watching.open())
        if ruled is not None:
            watch.ruled(ruled)
        outcome = runtime.run(watch.progress, watch.recorder)
    if adapting is not None:
        outcome.switches = tuple(adapting.loop.switches)
    return FinishedRun(prepared, outcome, runtime.topology.plan, () if ruled is None else ruled.queries())


def _output_of(output: Output, checkpoints: Checkpoints) -> MatchOutput:
    """The folder, topic or subject that matches are published to."""
    if not is_address(output.path):
        return PublishedMatches(Path(output.path), output.format)
    from cluster.checkpoint.topics import topic_output

    if "://" in checkpoints.location:
        raise CheckpointError("matches go to a topic from checkpoints in a folder only; name a folder of this machine")
    folder = Path(checkpoints.location).resolve()
    run = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return topic_output(parse_address(output.path), folder / "outbox", run)
