"""`decopa.run_with_checkpoints` and `decopa.resume`: runs that survive the loss of any process, even their driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from actors.group import Limits
from costmodel.capacity import Capacity
from decopa.errors import CheckpointError
from decopa.language.text.parser import parse_workload
from decopa.planning.plan import Plan
from decopa.planning.planner import plan_workload
from decopa.planning.spread import spread_units
from decopa.query.query import Query
from decopa.runs.execute import (
    DEFAULT_CAPACITY,
    DEFAULT_COLUMNS,
    DEFAULT_LIMITS,
    Progress,
    QueryLike,
    StatisticsLike,
    as_workload,
    fitting_plan,
    make_plan,
)
from decopa.runs.measure import measure
from decopa.runs.result import result_table
from shuffler.source.dead_letters import BadRows
from shuffler.source.pacing import Replay
from shuffler.source.trace import DEFAULT_BAD_ROWS, TraceColumns, open_trace

if TYPE_CHECKING:
    from cluster.checkpoint.recovery import CheckpointedRun, Checkpoints, Recovery
    from cluster.checkpoint.store import CheckpointStore

    #: Told whenever a run has been taken up again.
    Recovered = Callable[[Recovery], None]
    from cluster.options import RayOptions


@dataclass(frozen=True)
class Job:
    """All that `resume` needs to go on with a run; plain data, kept with its checkpoints."""

    trace: str
    plan: str
    queries: str
    out: str
    out_format: str
    columns: Mapping[str, str]
    assume_sorted: bool
    nan_as_null: bool
    max_matches: int
    max_state_bytes: int
    shufflers: int
    batch_size: int
    every_s: float
    keep: int
    retries: int
    speed: float | None = None
    rate: float | None = None
    bad_rows: str = "fail"
    dead_letters: str | None = None
    max_bad_rows: int = 10_000

    @property
    def bad_row_policy(self) -> BadRows:
        """The file is made anew by whoever opens the trace, and so has each row once."""
        file = None if self.dead_letters is None else Path(self.dead_letters)
        return BadRows("divert" if self.bad_rows == "divert" else "fail", file, self.max_bad_rows)


def run_with_checkpoints(
    query: QueryLike,
    trace: str | Path,
    *,
    out: str | Path,
    checkpoint: str | Path | Checkpoints,
    out_format: str = "parquet",
    units: int = 1,
    strategy: str = "left-deep",
    plan: Plan | None = None,
    statistics: StatisticsLike | None = None,
    capacity: Capacity = DEFAULT_CAPACITY,
    limits: Limits = DEFAULT_LIMITS,
    columns: TraceColumns = DEFAULT_COLUMNS,
    assume_sorted: bool = False,
    nan_as_null: bool = False,
    bad_rows: BadRows = DEFAULT_BAD_ROWS,
    ray: RayOptions | None = None,
    progress: Progress | None = None,
    recovered: Recovered | None = None,
) -> CheckpointedRun:
    """Every match of the query in a stored trace, on Ray, published in the folder `out` part by part.

    Parts appear with checkpoints: whoever reads them sees each match once, whatever dies in between. If the folder of
    checkpoints holds one of this run already, the run goes on from there.
    """
    from cluster.checkpoint.recovery import Checkpoints
    from cluster.checkpoint.store import CheckpointStore
    from cluster.options import RayOptions

    checkpoints = checkpoint if isinstance(checkpoint, Checkpoints) else Checkpoints(str(checkpoint))
    options = ray or RayOptions()
    queries = as_workload(query)
    _check_alternatives(queries)
    if limits.spill is not None:
        raise CheckpointError("a checkpoint is made of rows in memory, so units cannot spill; leave out one of the two")
    store = CheckpointStore(checkpoints.location)
    saved = store.latest()
    if saved is not None:
        plan = Plan.from_json(saved.plan)
        if [branch for one in queries for branch in one.branches] != [part.query for part in plan.parts]:
            raise CheckpointError(f"{store.location} belongs to another query; name another folder for this one")
    elif plan is not None:
        plan = fitting_plan(plan, queries)
    elif strategy == "left-deep":
        plan = make_plan(queries, units=units)
    else:
        if statistics is None:
            source = open_trace(
                trace,
                columns=columns,
                assume_sorted=assume_sorted,
                nan_as_null=nan_as_null,
                bad_rows=replace(bad_rows, file=None),
            )
            statistics = [one.statistics for one in measure(queries, source)]
        plan = plan_workload(queries, statistics, capacity, units=units, strategy=strategy).plan
    job = Job(
        str(Path(trace).resolve()),
        plan.to_json(),
        ";\n".join(map(str, queries)),
        str(Path(out).resolve()),
        out_format,
        {role: name for role, name in asdict(columns).items() if name is not None},
        assume_sorted,
        nan_as_null,
        limits.max_matches,
        limits.max_state_bytes,
        options.shufflers,
        options.batch_size,
        checkpoints.every_s,
        checkpoints.keep,
        checkpoints.retries,
        options.replay.speed,
        options.replay.rate,
        bad_rows.policy,
        None if bad_rows.file is None else str(bad_rows.file.resolve()),
        bad_rows.max_rows,
    )
    if saved is None:
        store.write_job({name: getattr(job, name) for name in Job.__dataclass_fields__})
    elif saved.finished:
        job = replace(job, dead_letters=None)  # nothing is read again, so the file stays as it is
    return _run(job, queries, plan, options, checkpoints, progress, recovered)


def resume(
    location: str | Path,
    *,
    units: int | None = None,
    ray: RayOptions | None = None,
    progress: Progress | None = None,
    recovered: Recovered | None = None,
) -> CheckpointedRun:
    """Goes on with the run whose checkpoints are in `location`, after its driver has died or given up.

    `units` deals out what units held among another number of them.
    """
    from cluster.checkpoint.recovery import Checkpoints
    from cluster.checkpoint.store import CheckpointStore
    from cluster.options import RayOptions

    store = CheckpointStore(location)
    job = read_job(store)
    saved = store.latest()
    if saved is not None and saved.finished:
        job = replace(job, dead_letters=None)  # nothing is read again, so the file stays as it is
    plan = Plan.from_json(job.plan if saved is None else saved.plan)
    if units is not None:
        share, more = divmod(units, len(plan.parts))
        plan = Plan(tuple(spread_units(part, max(1, share + (place < more))) for place, part in enumerate(plan.parts)))
    options = replace(
        ray or RayOptions(),
        shufflers=job.shufflers,
        batch_size=job.batch_size,
        replay=Replay(job.speed, job.rate),
    )
    checkpoints = Checkpoints(store.location, job.every_s, job.keep, job.retries)
    return _run(job, parse_workload(job.queries), plan, options, checkpoints, progress, recovered)


def _run(
    job: Job,
    queries: Sequence[Query],
    plan: Plan,
    options: RayOptions,
    checkpoints: Checkpoints,
    progress: Progress | None,
    recovered: Recovered | None,
) -> CheckpointedRun:
    from cluster.checkpoint.output import PublishedMatches
    from cluster.checkpoint.recovery import CheckpointedRuntime
    from cluster.feeding import TraceBlocks, rows_per_block
    from cluster.placement import places_needed
    from cluster.ray_session import ray_session

    source = open_trace(
        job.trace,
        columns=TraceColumns(**job.columns),
        assume_sorted=job.assume_sorted,
        nan_as_null=job.nan_as_null,
        bad_rows=job.bad_row_policy,
    )
    runtime = CheckpointedRuntime(
        plan,
        TraceBlocks(source, rows_per_block(options.replay)),
        merge=lambda tables: result_table(queries, tables),
        output=PublishedMatches(Path(job.out), job.out_format),
        checkpoints=checkpoints,
        limits=Limits(job.max_matches, job.max_state_bytes),
        options=options,
        recovered=recovered,
    )
    with ray_session(address=options.address, cpus=places_needed(runtime.topology)):
        return runtime.run(progress)


def read_job(store: CheckpointStore) -> Job:
    """The job that is kept with checkpoints, if it is one."""
    from cluster.checkpoint.fields import checked

    where = f"{store.location}/job.json"
    job = checked(Job, store.read_job(), where)
    named = all(isinstance(name, str) for name in job.columns.values())
    if set(job.columns) - {"end"} != {"id", "ts", "type"} or not named:
        raise CheckpointError(f"{where} is damaged: 'columns' must name id, ts and type")
    return job


def _check_alternatives(queries: Sequence[Query]) -> None:
    """Two alternatives of OR may find the same match; if a NOT holds one of them back, it may come after a checkpoint
    that has published the other, and would then be published twice."""
    for query in queries:
        held = [bool(branch.negations) for branch in query.branches]
        if len(held) > 1 and any(held):
            raise CheckpointError(
                f"query {query.name}: OR together with NOT cannot run with checkpoints; write one query for each "
                "alternative"
            )
