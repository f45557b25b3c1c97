"""What users import: functions that fill in a `RunSpec` and hand it on. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from actors.group import Limits
from cluster.options import Checkpoints, RayOptions
from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.choices import (
    DEFAULT_CALIBRATION_EVENTS,
    DEFAULT_CALIBRATION_REPEATS,
    SCALED_STRATEGIES,
    Reading,
)
from decopa.language.front import read_queries
from decopa.planning.change.options import Adapt
from decopa.planning.plan import Plan
from decopa.query.query import Query
from decopa.runs.execute import run_spec
from decopa.runs.folder import MatchFolder
from decopa.runs.preparation.measure import measure
from decopa.runs.preparation.opening import open_events
from decopa.runs.preparation.planning import DEFAULT_STRATEGY, choose_plan, left_deep_plan
from decopa.runs.result import RunResult
from decopa.runs.scaling.calibration import calibrated, largest_branch, made_up_events
from decopa.runs.spec import DEFAULT_CAPACITY, Output, Planning, Rules, TraceOptions
from decopa.runs.spec_of_call import durable, folder_of, spec_of
from decopa.runs.watch import Watch
from shuffler.source.trace import Events

if TYPE_CHECKING:
    from cluster.checkpoint.recovery import CheckpointedRun
    from cluster.spark.streams.match_stream import MatchStream
    from costmodel.calibration import Calibration
    from decopa.runs.scaling.scale_points import Point
    from decopa.runs.scaling.scale_test import ScaleSettings
    from decopa.runs.streams.durable_run import DurableRun
    from decopa.runs.streams.live import LiveRun
    from decopa.runs.streams.open_run import OpenRun
    from shuffler.source.live.address import SourceAddress

QueryLike = str | Query | Sequence[Query]
_NO_PLANNING, _NO_TRACE, _NO_LIMITS, _NO_RAY, _NO_RULES = (
    Planning(), TraceOptions(), Limits(), RayOptions(), Rules()
)  # fmt: skip


def run(
    query: QueryLike,
    events: Events,
    *,
    units: int | None = None,
    strategy: str | None = None,
    runtime: str | None = None,
    planning: Planning = _NO_PLANNING,
    trace: TraceOptions = _NO_TRACE,
    limits: Limits = _NO_LIMITS,
    ray: RayOptions = _NO_RAY,
    order: str | None = None,
    count: bool = False,
    out: str | Path | Output | None = None,
    adapt: Adapt | None = None,
) -> pa.Table | MatchFolder:
    """Every match of the query in the events, one row each, in canonical order; or the figures of its RETURN.

    Columns: `query`, `start_ts`, `end_ts`, one per alias with the event id (a list of ids for a KL alias), and the
    RETURN attributes as `alias.attribute`. `events` is a pyarrow Table, a path, an iterable of RecordBatches, or a data
    frame of a Spark on Ray (`cluster.spark.session.spark_on_ray`).

    `units` asks for that many processing units, which are actors: on the Ray that this program is connected to, at
    RAY_ADDRESS, or on one that is started for the run. Without it, or with runtime "local", everything happens in this
    process. `strategy` chooses the plan, by default `decopa` where the trace can be measured. What deserves a look,
    such as a type that never occurs, is a Python warning.

    With `order` "end" matches are ordered by their ends only, with "any" they come as they are found. With `count` the
    result is one row with their number, and they are not made. With `out` the processes that find matches write them to
    Parquet files in that folder, which must be new or empty, and the result is a `MatchFolder`.

    With `adapt` the plan follows the stream: `run_detailed` tells of each change in `RunResult.switches`.

    >>> table = pa.table({"id": [1, 2], "ts": [0, 5], "type": ["A", "B"]})
    >>> run("PATTERN SEQ(A a, B b) WITHIN 10 us", table).select(["a", "b"]).to_pylist()
    [{'a': 1, 'b': 2}]
    """
    spec = spec_of(units, strategy, runtime, planning, trace, limits, ray)
    spec = replace(spec, order=order, count=count, output=folder_of(out), adapt=adapt)
    result = run_spec(spec, as_workload(query), events)
    result.warn()
    return result.matches if result.folder is None else result.folder


def run_detailed(
    query: QueryLike,
    events: Events,
    *,
    units: int | None = None,
    strategy: str | None = None,
    runtime: str | None = None,
    planning: Planning = _NO_PLANNING,
    trace: TraceOptions = _NO_TRACE,
    limits: Limits = _NO_LIMITS,
    ray: RayOptions = _NO_RAY,
    order: str | None = None,
    count: bool = False,
    out: str | Path | Output | None = None,
    adapt: Adapt | None = None,
    watch: Watch | None = None,
) -> RunResult:
    """As `run`, with the plan, its statistics and what every operator did; `watch` follows the run while it goes."""
    spec = spec_of(units, strategy, runtime, planning, trace, limits, ray)
    spec = replace(spec, order=order, count=count, output=folder_of(out), adapt=adapt)
    result = run_spec(spec, as_workload(query), events, watch=watch)
    result.warn()
    return result


@contextmanager
def session(*, address: str | None = None, places: int = 64) -> Iterator[str | None]:
    """Inside, all runs share one Ray: the cluster at `address`, or one that is started here; yields its dashboard.

    Without a session every run that needs Ray starts one of its own, which takes seconds. `places` is the number of
    units and shufflers that fit on a Ray that is started here, all runs at a time together. The processes of a run stay
    until the next one, which takes them over if it has the same: a query by the same name with as many units.
    """
    from cluster.deploy.kept_actors import keeping_actors
    from cluster.ray_session import ray_session

    with ray_session(address=address, cpus=places) as dashboard, keeping_actors():
        yield dashboard


def run_with_checkpoints(
    query: QueryLike,
    events: str | Path,
    *,
    out: str | Path | Output,
    checkpoint: str | Path | Checkpoints,
    units: int | None = None,
    strategy: str | None = None,
    planning: Planning = _NO_PLANNING,
    trace: TraceOptions = _NO_TRACE,
    limits: Limits = _NO_LIMITS,
    ray: RayOptions = _NO_RAY,
    adapt: Adapt | None = None,
    watch: Watch | None = None,
) -> CheckpointedRun:
    """Every match of the query in a trace or stream, on Ray, published in the folder or topic `out` part by part.

    `events` is a stored trace, or the address of a stream that can be read again, such as kafka://host:9092/topic.

    Parts appear with checkpoints: readers see each match once, whatever dies in between. If the folder of checkpoints
    holds one of this run already, the run continues from there. With `adapt` the plan follows the stream.
    """
    from decopa.runs.runtimes.checkpointed import run_checkpointed

    spec = durable(spec_of(units, strategy, "ray", planning, trace, limits, ray), events, out, checkpoint)
    return run_checkpointed(replace(spec, adapt=adapt), as_workload(query), watch=watch).outcome


def resume(
    location: str | Path,
    *,
    units: int | None = None,
    address: str | None = None,
    source: Callable[[SourceAddress], SourceAddress] | None = None,
    watch: Watch | None = None,
) -> CheckpointedRun:
    """Continues the run whose checkpoints are in `location`, after its driver has died or given up.

    The run keeps everything that it was begun with: plan, limits, placement, pins, emulation, pace, output. `units`
    deals its state out among another number of units. `source` changes how a stream is read from now on: other
    servers, an end, gaps that may be skipped.
    """
    from decopa.runs.runtimes.checkpointed import resume_checkpointed

    return resume_checkpointed(location, units=units, address=address, source=source, watch=watch).outcome


def stream(
    frame: Any,
    query: QueryLike,
    *,
    out: str | Path,
    checkpoint: str | Path,
    units: int | None = None,
    strategy: str | None = None,
    planning: Planning = _NO_PLANNING,
    trace: TraceOptions = _NO_TRACE,
    limits: Limits = _NO_LIMITS,
    ray: RayOptions = _NO_RAY,
    adapt: Adapt | None = None,
    trigger: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> MatchStream:
    """Finds the matches of a query in a streaming data frame of a Spark on Ray, until it is stopped.

    The matches of every micro-batch go to the folder `out` as one Parquet file. Matches may span micro-batches, and
    each is reported once. Events may be late by `trace.lateness.allowed_us`; a match is reported when its last event is
    that old. Called again with the same `checkpoint`, the stream continues, with any number of units or another plan.
    With `adapt` the plan follows the stream, between two micro-batches; see `MatchStream.switches`.
    `trigger` is that of Spark's writer, as in {"processingTime": "5 seconds"}; `name` is the query's name in Spark.
    """
    from decopa.runs.streams.streaming import stream_spec

    spec = replace(spec_of(units, strategy, "ray", planning, trace, limits, ray), adapt=adapt)
    return stream_spec(spec, as_workload(query), frame, out=out, checkpoint=checkpoint, trigger=trigger, name=name)


def watch(
    query: QueryLike,
    events: Any,
    *,
    units: int | None = None,
    strategy: str | None = None,
    runtime: str | None = None,
    planning: Planning = _NO_PLANNING,
    trace: TraceOptions = _NO_TRACE,
    limits: Limits = _NO_LIMITS,
    ray: RayOptions = _NO_RAY,
    adapt: Adapt | None = None,
) -> LiveRun:
    """The matches of a query in a live stream, as they happen: iterate over it, or give `for_each` a callback.

    `events` is an iterable of record batches, or an open file or pipe of JSON lines such as `sys.stdin`; what its
    columns hold is seen in the first lines, or said in `trace.kinds` ({"x": "float"}). `limits.max_matches` bounds what
    is found but not handed out yet. A stream cannot be measured before it runs, so strategies other than left-deep need
    statistics or a plan; with `adapt` it is measured and planned while it goes on.

    >>> batches = pa.table({"id": [1, 2], "ts": [0, 5], "type": ["A", "B"]}).to_batches()
    >>> [table.num_rows for table in watch("PATTERN SEQ(A a, B b) WITHIN 10 us", iter(batches))]
    [1]
    """
    from decopa.runs.streams.live import live_run

    spec = replace(spec_of(units, strategy, runtime, planning, trace, limits, ray), adapt=adapt)
    return live_run(spec, as_workload(query), events)


def open_run(
    query: QueryLike,
    events: Any,
    *,
    units: int | None = None,
    strategy: str | None = None,
    runtime: str | None = None,
    planning: Planning = _NO_PLANNING,
    trace: TraceOptions = _NO_TRACE,
    limits: Limits = _NO_LIMITS,
    ray: RayOptions = _NO_RAY,
    keep_history_us: int = 0,
    max_history_bytes: int = 1 << 30,
) -> OpenRun:
    """A run whose queries, the rules, come and go while it goes on: iterate over it for the matches, and call `add`,
    `remove` and `replace` in between.

    `events` is anything that `run` or `watch` take. With `units` that many processes on Ray share the rules, else the
    run works in this process. Matches have a column `version` behind `query`. A stored trace is read again where a new
    rule looks back; of a live stream, and on Ray, the last events are kept for that, as many as the rules there look
    back to and at least those of `keep_history_us`, within `max_history_bytes`. `open_durable_run` has checkpoints.

    >>> table = pa.table({"id": [1, 2], "ts": [0, 5], "type": ["A", "B"]})
    >>> with open_run("QUERY pairs PATTERN SEQ(A a, B b) WITHIN 10 us", table) as rules:
    ...     _ = rules.add("QUERY single PATTERN SEQ(B b) WITHIN 10 us")
    ...     rules.to_end().select(["query", "version", "b"]).to_pylist()
    [{'query': 'pairs', 'version': 1, 'b': 2}, {'query': 'single', 'version': 1, 'b': 2}]
    """
    from decopa.runs.streams.open_run import open_rules

    spec = spec_of(units, strategy, runtime, planning, trace, limits, ray)
    return open_rules(
        spec, as_workload(query), events, keep_history_us=keep_history_us, max_history_bytes=max_history_bytes
    )


def open_durable_run(
    query: QueryLike,
    events: str | Path,
    *,
    checkpoint: str | Path | Checkpoints,
    out: str | Path | Output,
    units: int | None = None,
    trace: TraceOptions = _NO_TRACE,
    limits: Limits = _NO_LIMITS,
    ray: RayOptions = _NO_RAY,
    rules: Rules = _NO_RULES,
    watch: Watch | None = None,
) -> DurableRun:
    """As `open_run`, on Ray and with checkpoints: no process that dies, this one included, takes a rule or a match with
    it, and `resume` continues the run.

    It works in a thread of its own and publishes its matches in the folder or topic `out`, as JSON lines unless an
    Output says otherwise. `events` is a stored trace, or the address of a stream that can be read again. `rules` may
    name a folder for `decopa rules`.
    """
    from decopa.runs.streams.durable_run import DurableRun

    out = out if isinstance(out, Output) else Output(str(out), "jsonl")
    spec = durable(spec_of(units, None, "ray", _NO_PLANNING, trace, limits, ray), events, out, checkpoint)
    return DurableRun(replace(spec, rules=rules), as_workload(query), watch)


def stats(query: QueryLike, events: Events, *, trace: TraceOptions = _NO_TRACE, seed: int = 0) -> list[Statistics]:
    """Rates and selectivities of each query, measured from the events: what `plan` and `explain` take."""
    source = open_events(trace, events).source
    return [one.statistics for one in measure(as_workload(query), source, seed=seed)]


def calibrate(
    query: QueryLike,
    events: Events | None = None,
    *,
    trace: TraceOptions = _NO_TRACE,
    address: str | None = None,
    repeats: int = DEFAULT_CALIBRATION_REPEATS,
) -> Calibration:
    """What one processing unit can do with the query in a second, on Ray; `.capacity` goes into `Planning`.

    Without events, numbers are made up for all attributes.
    """
    branch = largest_branch(as_workload(query))
    source = made_up_events(branch, DEFAULT_CALIBRATION_EVENTS) if events is None else open_events(trace, events).source
    return calibrated(branch, source, repeats=repeats, address=address)


def scale(
    query: QueryLike,
    events: Events,
    units: Sequence[int],
    *,
    strategies: Sequence[str] = SCALED_STRATEGIES,
    settings: ScaleSettings | None = None,
    trace: TraceOptions = _NO_TRACE,
) -> list[Point]:
    """The rate of events that the query sustains on each number of units, by each strategy, on Ray."""
    from cluster.ray_session import ray_session
    from decopa.runs.scaling.scale_points import point_keys
    from decopa.runs.scaling.scale_test import ScaleSettings, ScaleTest

    queries, source = as_workload(query), open_events(trace, events).source
    settings = settings or ScaleSettings(DEFAULT_CAPACITY)
    known = [one.statistics for one in measure(queries, source)]
    test = ScaleTest(queries, known, source, settings)
    places = max(units) * len(queries) + settings.shufflers + 1
    with ray_session(address=settings.address, cpus=places):
        return [test.measure(key) for key in point_keys(strategies, units)]


def plan(
    query: QueryLike,
    statistics: Statistics | Sequence[Statistics],
    *,
    units: int,
    capacity: Capacity = DEFAULT_CAPACITY,
    strategy: str = DEFAULT_STRATEGY,
    reading: Reading = Reading.LINEAR,
) -> Plan:
    """The plan that a strategy makes for a query or workload on `units` processing units.

    Strategies: `decopa` (default), `decopa-paper` (Algorithm 1), `exhaustive` (small queries), `left-deep`, and the
    baselines `hybrid`, `state`, `rip` and `centralized`. The same input gives the same plan.
    """
    queries = as_workload(query)
    planning = Planning(units, strategy, None, statistics, capacity, reading)
    return choose_plan(planning, queries, planning.known_statistics(len(queries))).plan


def make_plan(query: QueryLike, *, units: int = 1) -> Plan:
    """A plan that needs no statistics: left-deep in query order, the units dealt out evenly."""
    return left_deep_plan(as_workload(query), units)


def as_workload(query: QueryLike) -> tuple[Query, ...]:
    """The queries of a text, a query, or several."""
    if isinstance(query, str):
        return read_queries(query)
    return (query,) if isinstance(query, Query) else tuple(query)
