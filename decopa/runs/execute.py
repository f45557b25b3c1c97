"""What users import: run a query over events, get the table of its matches."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from actors.group import Limits
from actors.latency import LatencySummary
from actors.reports import OperatorReport
from cluster.local import DEFAULT_BATCH_SIZE, LocalRuntime
from costmodel.capacity import Capacity
from costmodel.estimate import Estimate
from costmodel.statistics import Statistics
from decopa.choices import DEFAULT_COMPARED_PER_S, DEFAULT_INGESTED_PER_S, RUNTIMES, STRATEGIES, Reading
from decopa.errors import DecoPaError, PlanError, QueryError, TraceError, did_you_mean
from decopa.language.front import read_queries
from decopa.planning.left_deep import left_deep
from decopa.planning.plan import Plan
from decopa.planning.planner import plan_workload
from decopa.planning.spread import spread_units
from decopa.query.binding import missing_types
from decopa.query.query import Query
from decopa.query.rewrite.impossible import impossible_conditions
from decopa.runs.measure import measure
from decopa.runs.result import result_table
from shuffler.source.dead_letters import BadRows
from shuffler.source.trace import (
    DEFAULT_BAD_ROWS,
    DEFAULT_LATENESS,
    Events,
    Lateness,
    TraceColumns,
    TraceSource,
    open_trace,
)

if TYPE_CHECKING:
    from cluster.options import RayOptions
    from cluster.recorder import Recorder
    from cluster.spark.traces import LoadedTrace

DEFAULT_COLUMNS = TraceColumns()
DEFAULT_LIMITS = Limits()
#: One core of a common server, by `scripts/bench_engine`, rounded down; planning needs only their ratio to be right.
DEFAULT_CAPACITY = Capacity.per_second(DEFAULT_INGESTED_PER_S, DEFAULT_COMPARED_PER_S)

QueryLike = str | Query | Sequence[Query]
#: Told events and matches so far.
Progress = Callable[[int, int], None]
#: Of all queries, or one for each.
StatisticsLike = Statistics | Sequence[Statistics]


@dataclass(frozen=True)
class RunResult:
    """The matches of a run and what it took to find them.

    `seconds` are those of the run itself, without opening, measuring, planning and starting. `statistics` are those
    the plan was made with, one for each query, if any. Latency is measured on Ray only. `span_us` is the time from the
    first to the last event. `bad_rows` were left out (see `BadRows`).
    """

    matches: pa.Table
    events: int
    comparisons: int
    seconds: float
    operators: tuple[OperatorReport, ...]
    notices: tuple[str, ...]
    plan: Plan
    statistics: tuple[Statistics, ...] = ()
    latency: LatencySummary = field(default_factory=LatencySummary)
    dashboard: str | None = None
    span_us: int = 0
    bad_rows: int = 0


def run(
    query: QueryLike,
    events: Events,
    *,
    units: int = 1,
    strategy: str = "left-deep",
    runtime: str = "local",
    plan: Plan | None = None,
    statistics: StatisticsLike | None = None,
    capacity: Capacity = DEFAULT_CAPACITY,
    batch_size: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    columns: TraceColumns = DEFAULT_COLUMNS,
    assume_sorted: bool = False,
    nan_as_null: bool = False,
    lateness: Lateness = DEFAULT_LATENESS,
    bad_rows: BadRows = DEFAULT_BAD_ROWS,
    ray: RayOptions | None = None,
) -> pa.Table:
    """Every match of the query in the events, one row each, in canonical order.

    Columns: `query`, `start_ts`, `end_ts`, one per alias with the event id (a list of ids for a KL alias), and the
    RETURN attributes as `alias.attribute`. `events` is a pyarrow Table, a path, an iterable of RecordBatches, or a data
    frame of a Spark on Ray (`cluster.spark.session.spark_on_ray`).
    With runtime "ray" the plan's units are Ray actors: on the Ray that this program is connected to, at RAY_ADDRESS, or
    on one that is started for the run.

    >>> trace = pa.table({"id": [1, 2], "ts": [0, 5], "type": ["A", "B"]})
    >>> run("PATTERN SEQ(A a, B b) WITHIN 10 us", trace).select(["a", "b"]).to_pylist()
    [{'a': 1, 'b': 2}]
    """
    return run_detailed(
        query,
        events,
        units=units,
        strategy=strategy,
        runtime=runtime,
        plan=plan,
        statistics=statistics,
        capacity=capacity,
        batch_size=batch_size,
        limits=limits,
        columns=columns,
        assume_sorted=assume_sorted,
        nan_as_null=nan_as_null,
        lateness=lateness,
        bad_rows=bad_rows,
        ray=ray,
    ).matches


def run_detailed(
    query: QueryLike,
    events: Events,
    *,
    units: int = 1,
    strategy: str = "left-deep",
    runtime: str = "local",
    plan: Plan | None = None,
    statistics: StatisticsLike | None = None,
    capacity: Capacity = DEFAULT_CAPACITY,
    batch_size: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    columns: TraceColumns = DEFAULT_COLUMNS,
    assume_sorted: bool = False,
    nan_as_null: bool = False,
    lateness: Lateness = DEFAULT_LATENESS,
    bad_rows: BadRows = DEFAULT_BAD_ROWS,
    ray: RayOptions | None = None,
    require_types: bool = False,
    progress: Progress | None = None,
    interleaving: random.Random | None = None,
    recorder: Recorder | None = None,
) -> RunResult:
    """As `run`, with counters. With `require_types` a type of the query that never occurs is an error, else a notice.
    `interleaving` draws the order between senders at random; it changes nothing in the matches. A `recorder` notes how
    far the run is at some moments.
    """
    if runtime not in RUNTIMES:
        raise DecoPaError(f"unknown runtime '{runtime}'; known: {', '.join(RUNTIMES)}")
    if batch_size is not None and batch_size < 1:
        raise DecoPaError(f"the batch size must be positive, got {batch_size}")
    queries = as_workload(query)
    if strategy not in STRATEGIES:
        raise PlanError(f"unknown strategy '{strategy}'{did_you_mean(strategy, STRATEGIES)}")
    loaded = _load_frame(events, columns) if is_spark_frame(events) else None
    if loaded is not None and bad_rows.policy == "divert":
        raise TraceError("bad rows of a Spark data frame cannot be diverted; leave them out in Spark, with a filter")
    if loaded is not None:
        source = loaded.source(nan_as_null=nan_as_null)
    elif isinstance(events, TraceSource):
        source = events
    else:
        source = open_trace(
            events,
            columns=columns,
            assume_sorted=assume_sorted,
            nan_as_null=nan_as_null,
            lateness=lateness,
            bad_rows=bad_rows,
        )
    told = len(source.notices)  # more may come while it runs
    notices = [*source.notices, *_absent_types(queries, source, required=require_types)]
    notices += [line for one in queries for line in impossible_conditions(one)]
    used: tuple[Statistics, ...] = ()
    if plan is None and strategy != "left-deep":
        if statistics is None:
            estimates = measure(queries, source) if loaded is None else _measure_on_spark(queries, loaded)
            statistics = [one.statistics for one in estimates]
            notices += [notice for one in estimates for notice in one.notices]
        planned = plan_workload(queries, statistics, capacity, units=units, strategy=strategy)
        plan, notices = planned.plan, [*notices, *planned.notices]
    if statistics is not None:
        used = (statistics,) * len(queries) if isinstance(statistics, Statistics) else tuple(statistics)
    plan = make_plan(queries, units=units) if plan is None else fitting_plan(plan, queries)
    if runtime == "ray":
        if interleaving is not None:
            raise DecoPaError("interleaving is drawn in the local runtime only")
        result = _run_on_ray(queries, plan, source, loaded, limits, ray, batch_size, progress, recorder)
    else:
        result = _run_here(queries, plan, source, limits, batch_size, progress, interleaving, recorder)
    left_out = source.dead_letters.notice
    notices += [*source.notices[told:], *([] if left_out is None else [left_out])]
    return replace(
        result,
        statistics=used,
        notices=tuple(notices),
        span_us=source.span_us,
        bad_rows=len(source.dead_letters),
    )


def _run_here(
    queries: Sequence[Query],
    plan: Plan,
    source: TraceSource,
    limits: Limits,
    batch_size: int | None,
    progress: Progress | None,
    interleaving: random.Random | None,
    recorder: Recorder | None,
) -> RunResult:
    started = time.perf_counter()
    local = LocalRuntime(
        plan, source, batch_size=batch_size or DEFAULT_BATCH_SIZE, limits=limits, interleaving=interleaving
    )
    local.run(progress if recorder is None else recorder.watching(progress))
    matches = result_table(queries, [sink.table() for sink in local.sinks])
    reports = local.reports()
    return RunResult(matches, local.events, _comparisons(reports), time.perf_counter() - started, reports, (), plan)


def _run_on_ray(
    queries: Sequence[Query],
    plan: Plan,
    source: TraceSource,
    loaded: LoadedTrace | None,
    limits: Limits,
    options: RayOptions | None,
    batch_size: int | None,
    progress: Progress | None,
    recorder: Recorder | None,
) -> RunResult:
    # Imported here because Ray takes a second, and who runs locally should not wait for it.
    from cluster.feeding import BlockSource, TraceBlocks
    from cluster.options import RayOptions
    from cluster.placement import places_needed
    from cluster.ray_runtime import RayRuntime
    from cluster.ray_session import ray_session

    options = options or RayOptions()
    if batch_size is not None:
        options = replace(options, batch_size=batch_size)
    blocks: BlockSource = TraceBlocks(source)
    if loaded is not None:
        from cluster.spark.feeding import SparkBlocks

        blocks = SparkBlocks(loaded.blocks, source.format, source.name)
    runtime = RayRuntime(plan, blocks, limits=limits, options=options)
    with ray_session(address=options.address, cpus=places_needed(runtime.topology)) as dashboard:
        found = runtime.run(progress, recorder)
        matches = result_table(queries, found.matches)
    comparisons = _comparisons(found.operators)
    return RunResult(
        matches,
        found.events,
        comparisons,
        found.seconds,
        found.operators,
        (),
        plan,
        latency=found.latency,
        dashboard=dashboard,
    )


def is_spark_frame(events: object) -> bool:
    """Whether events are a data frame of Spark, without importing it."""
    return type(events).__module__.startswith("pyspark.sql.") and hasattr(events, "sparkSession")


def _load_frame(frame: Any, columns: TraceColumns) -> LoadedTrace:
    from cluster.spark.traces import load_trace

    return load_trace(frame, columns)


def _measure_on_spark(queries: Sequence[Query], loaded: LoadedTrace) -> list[Estimate]:
    from cluster.spark.stats import measure_on_spark

    return measure_on_spark(queries, loaded.trace.frame, loaded.trace.columns)


def _comparisons(reports: Sequence[OperatorReport]) -> int:
    return sum(report.comparisons for report in reports)


def plan(
    query: QueryLike,
    statistics: StatisticsLike,
    *,
    units: int,
    capacity: Capacity = DEFAULT_CAPACITY,
    strategy: str = "decopa",
    reading: Reading = Reading.LINEAR,
) -> Plan:
    """The plan that a strategy makes for a query or workload on `units` processing units.

    Strategies: `decopa` (default), `decopa-paper` (Algorithm 1), `exhaustive` (small queries), and the baselines
    `hybrid`, `state`, `rip` and `centralized`. The same input gives the same plan.
    """
    return plan_workload(as_workload(query), statistics, capacity, units=units, strategy=strategy, reading=reading).plan


def make_plan(query: QueryLike, *, units: int = 1) -> Plan:
    """A plan that needs no statistics: left-deep in query order, units (at least one per operator) dealt out evenly."""
    if units < 1:
        raise PlanError(f"a plan needs at least one unit, got {units}")
    return Plan(tuple(spread_units(left_deep(branch), units) for one in as_workload(query) for branch in one.branches))


def as_workload(query: QueryLike) -> tuple[Query, ...]:
    if isinstance(query, str):
        return read_queries(query)
    return (query,) if isinstance(query, Query) else tuple(query)


def fitting_plan(plan: Plan, queries: Sequence[Query]) -> Plan:
    """The plan, if it is one for these queries."""
    wanted = [branch for query in queries for branch in query.branches]
    planned = [part.query for part in plan.parts]
    if planned != wanted:
        odd = next((q for q in planned if q not in wanted), planned[-1] if planned else None)
        named = f" (it has {odd.pattern} WITHIN {odd.window_us} us)" if odd is not None else ""
        raise PlanError(f"the plan was made for another query{named}; make one for this query with `decopa plan`")
    return plan


def _absent_types(queries: Sequence[Query], source: TraceSource, *, required: bool) -> list[str]:
    notices = []
    for query in queries:
        for name in missing_types(query, source.schema):
            message = f"no event of type '{name}' in the trace{did_you_mean(name, source.schema.event_types or ())}"
            if required:
                raise QueryError(message)
            notices.append(message)
    return notices
