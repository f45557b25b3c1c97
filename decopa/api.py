"""What users import: run a query over events, get the table of its matches."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from cluster.local import DEFAULT_BATCH_SIZE, Limits, LocalRuntime, OperatorReport
from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from costmodel.throughput import Reading
from decopa.errors import DecoPaError, PlanError, QueryError, did_you_mean
from decopa.measure import measure
from decopa.planning.left_deep import left_deep
from decopa.planning.plan import Plan
from decopa.planning.planner import STRATEGIES as COST_BASED
from decopa.planning.planner import plan_workload
from decopa.planning.spread import spread_units
from decopa.query.binding import missing_types
from decopa.query.parser import parse_workload
from decopa.query.query import Query
from decopa.results import result_table
from shuffler.source import Events, TraceColumns, TraceSource, open_trace

#: `left-deep` needs no statistics; the others measure the trace unless statistics are given.
STRATEGIES = ("left-deep", *COST_BASED)
RUNTIMES = ("local",)
DEFAULT_COLUMNS = TraceColumns()
DEFAULT_LIMITS = Limits()
#: One core of a common server, by `scripts/bench_engine`, rounded down; planning needs only their ratio to be right.
DEFAULT_CAPACITY = Capacity.per_second(max_ingestion=2e6, max_comparisons=1e8)

QueryLike = str | Query | Sequence[Query]
#: Of all queries, or one for each.
StatisticsLike = Statistics | Sequence[Statistics]


@dataclass(frozen=True)
class RunResult:
    """The matches of a run and what it took to find them."""

    matches: pa.Table
    events: int
    comparisons: int
    seconds: float
    operators: tuple[OperatorReport, ...]
    notices: tuple[str, ...]


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
) -> pa.Table:
    """Every match of the query in the events, one row each, in canonical order.

    Columns: `query`, `start_ts`, `end_ts`, one per alias with the event id (a list of ids for a KL alias), and the
    RETURN attributes as `alias.attribute`. `events` is a pyarrow Table, a path, or an iterable of RecordBatches.

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
    require_types: bool = False,
    progress: Callable[[int, int], None] | None = None,
    interleaving: random.Random | None = None,
) -> RunResult:
    """As `run`, with counters. With `require_types` a type of the query that never occurs is an error, else a notice.
    `interleaving` draws the order between senders at random; it changes nothing in the matches.
    """
    if runtime not in RUNTIMES:
        raise DecoPaError(f"unknown runtime '{runtime}'; known: {', '.join(RUNTIMES)}")
    if batch_size is not None and batch_size < 1:
        raise DecoPaError(f"the batch size must be positive, got {batch_size}")
    queries = as_workload(query)
    if strategy not in STRATEGIES:
        raise PlanError(f"unknown strategy '{strategy}'{did_you_mean(strategy, STRATEGIES)}")
    source = events if isinstance(events, TraceSource) else open_trace(
        events, columns=columns, assume_sorted=assume_sorted, nan_as_null=nan_as_null
    )  # fmt: skip
    notices = [*source.notices, *_absent_types(queries, source, required=require_types)]
    if plan is None and strategy != "left-deep":
        if statistics is None:
            estimates = measure(queries, source)
            statistics = [one.statistics for one in estimates]
            notices += [notice for one in estimates for notice in one.notices]
        planned = plan_workload(queries, statistics, capacity, units=units, strategy=strategy)
        plan, notices = planned.plan, [*notices, *planned.notices]
    plan = make_plan(queries, units=units) if plan is None else _fitting(plan, queries)
    started = time.perf_counter()
    local = LocalRuntime(
        plan, source, batch_size=batch_size or DEFAULT_BATCH_SIZE, limits=limits, interleaving=interleaving
    )
    local.run(progress)
    matches = result_table(queries, [sink.table() for sink in local.sinks])
    reports = local.reports()
    comparisons = sum(report.comparisons for report in reports)
    return RunResult(matches, local.events, comparisons, time.perf_counter() - started, reports, tuple(notices))


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
        return parse_workload(query)
    return (query,) if isinstance(query, Query) else tuple(query)


def _fitting(plan: Plan, queries: Sequence[Query]) -> Plan:
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
