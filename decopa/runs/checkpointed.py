"""`decopa.run_with_checkpoints` and `decopa.resume`: runs that survive the loss of any process, even their driver."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.group import Limits
from costmodel.capacity import Capacity
from decopa.choices import LatePolicy
from decopa.errors import CheckpointError, StatisticsError
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
from shuffler.source.lateness import Lateness
from shuffler.source.live.address import SourceAddress, is_address, parse_address
from shuffler.source.pacing import Replay
from shuffler.source.trace import DEFAULT_BAD_ROWS, DEFAULT_LATENESS, TraceColumns, open_trace

if TYPE_CHECKING:
    from cluster.checkpoint.output import MatchOutput
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
    allowed_lateness_us: int = 0
    late: str = "fail"
    late_file: str | None = None
    ts_unit: str | None = None

    @property
    def lateness(self) -> Lateness:
        policy: LatePolicy = "drop" if self.late == "drop" else "divert" if self.late == "divert" else "fail"
        return Lateness(self.allowed_lateness_us, policy, self.late_file)

    @property
    def bad_row_policy(self) -> BadRows:
        """The file is made anew by whoever opens the trace, and so has each row once."""
        file = None if self.dead_letters is None else Path(self.dead_letters)
        return BadRows("divert" if self.bad_rows == "divert" else "fail", file, self.max_bad_rows)


def run_with_checkpoints(
    query: QueryLike,
    trace: str | Path | SourceAddress,
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
    lateness: Lateness = DEFAULT_LATENESS,
    bad_rows: BadRows = DEFAULT_BAD_ROWS,
    ray: RayOptions | None = None,
    progress: Progress | None = None,
    recovered: Recovered | None = None,
    stop: threading.Event | None = None,
) -> CheckpointedRun:
    """Every match of the query in a trace or a stream, on Ray, published in the folder `out` part by part.

    `trace` is a stored trace or the address of a stream that can be read again, such as kafka://host:9092/topic. A run
    on a stream goes on until the stream ends or `stop` is set.

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
    if is_live(trace):
        trace, columns = _settled(trace, columns) if saved is None else _as_before(read_job(store), trace, columns)
    if saved is not None:
        plan = Plan.from_json(saved.plan)
        if [branch for one in queries for branch in one.branches] != [part.query for part in plan.parts]:
            raise CheckpointError(f"{store.location} belongs to another query; name another folder for this one")
    elif plan is not None:
        plan = fitting_plan(plan, queries)
    elif strategy == "left-deep":
        plan = make_plan(queries, units=units)
    else:
        if statistics is None and is_live(trace):
            raise StatisticsError("a stream cannot be measured before it runs; give statistics or a plan")
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
        str(trace) if isinstance(trace, SourceAddress) else _resolved(trace),
        plan.to_json(),
        ";\n".join(map(str, queries)),
        _resolved(out),
        out_format,
        {"id": columns.id, "ts": columns.ts, "type": columns.type},
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
        lateness.allowed_us,
        lateness.policy,
        None if lateness.file is None else _resolved(lateness.file),
        columns.unit,
    )
    if saved is None:
        store.write_job({name: getattr(job, name) for name in Job.__dataclass_fields__})
    elif saved.finished:
        job = replace(job, dead_letters=None)  # nothing is read again, so the file stays as it is
    return _run(job, queries, plan, options, checkpoints, progress, recovered, stop)


def is_live(trace: object) -> bool:
    """Whether a trace is a stream with an address."""
    return isinstance(trace, SourceAddress) or is_address(trace)


def _address(trace: Any) -> SourceAddress:
    return trace if isinstance(trace, SourceAddress) else parse_address(str(trace))


def _settled(trace: Any, columns: TraceColumns) -> tuple[SourceAddress, TraceColumns]:
    """The address and columns of a stream with what its first events show: a restart takes them for the same."""
    address = _address(trace)
    if address.kind == "tcp":
        raise CheckpointError(f"{address.name} cannot be read again, so a run on it cannot have checkpoints")
    source = open_trace(address, columns=columns)
    return replace(address, columns=source.kinds), source.format.columns


def _as_before(job: Job, trace: Any, columns: TraceColumns) -> tuple[SourceAddress, TraceColumns]:
    """The address and columns with what the run took them for when it began."""
    address = _address(trace)
    if not is_address(job.trace):
        raise CheckpointError(f"the checkpoint belongs to {job.trace}, not to {address.name}; name another folder")
    kinds = address.columns or parse_address(job.trace).columns
    return replace(address, columns=kinds), replace(columns, unit=columns.unit or job.ts_unit)


def _resolved(place: str | Path) -> str:
    """A path that means the same in any folder, or an address as it is."""
    return str(place) if is_address(place) else str(Path(place).resolve())


def resume(
    location: str | Path,
    *,
    units: int | None = None,
    ray: RayOptions | None = None,
    progress: Progress | None = None,
    recovered: Recovered | None = None,
    stop: threading.Event | None = None,
    source: Callable[[SourceAddress], SourceAddress] | None = None,
) -> CheckpointedRun:
    """Goes on with the run whose checkpoints are in `location`, after its driver has died or given up.

    `units` deals out what units held among another number of them. `source` changes how a stream is read from now on:
    other servers, an end, gaps that may be skipped.
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
    if source is not None and is_address(job.trace):
        job = replace(job, trace=str(source(parse_address(job.trace))))
    checkpoints = Checkpoints(store.location, job.every_s, job.keep, job.retries)
    return _run(job, parse_workload(job.queries), plan, options, checkpoints, progress, recovered, stop)


def _run(
    job: Job,
    queries: Sequence[Query],
    plan: Plan,
    options: RayOptions,
    checkpoints: Checkpoints,
    progress: Progress | None,
    recovered: Recovered | None,
    stop: threading.Event | None,
) -> CheckpointedRun:
    from cluster.checkpoint.recovery import CheckpointedRuntime
    from cluster.feeding import TraceBlocks, rows_per_block
    from cluster.placement import places_needed
    from cluster.ray_session import ray_session

    source = open_trace(
        job.trace,
        columns=TraceColumns(**job.columns, unit=job.ts_unit),
        assume_sorted=job.assume_sorted,
        nan_as_null=job.nan_as_null,
        lateness=job.lateness,
        bad_rows=job.bad_row_policy,
    )
    runtime = CheckpointedRuntime(
        plan,
        TraceBlocks(source, rows_per_block(options.replay)),
        merge=lambda tables: result_table(queries, tables),
        output=_output_of(job, checkpoints),
        checkpoints=checkpoints,
        limits=Limits(job.max_matches, job.max_state_bytes),
        options=options,
        recovered=recovered,
        stop=stop,
    )
    with ray_session(address=options.address, cpus=places_needed(runtime.topology)):
        return runtime.run(progress)


def _output_of(job: Job, checkpoints: Checkpoints) -> MatchOutput:
    """The folder, topic or subject that matches are published to."""
    from cluster.checkpoint.output import PublishedMatches

    if not is_address(job.out):
        return PublishedMatches(Path(job.out), job.out_format)
    from cluster.checkpoint.topics import topic_output

    if "://" in checkpoints.location:
        raise CheckpointError("matches go to a topic from checkpoints in a folder only; name a folder of this machine")
    folder = Path(checkpoints.location).resolve()
    run = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return topic_output(parse_address(job.out), folder / "outbox", run)


def read_job(store: CheckpointStore) -> Job:
    """The job that is kept with checkpoints, if it is one."""
    from cluster.checkpoint.fields import checked

    where = f"{store.location}/job.json"
    job = checked(Job, store.read_job(), where)
    if sorted(job.columns) != ["id", "ts", "type"] or not all(isinstance(name, str) for name in job.columns.values()):
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
