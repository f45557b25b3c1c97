"""`decopa.watch`: matches of a stream as they happen.

A match leaves as soon as it is certain: all its events have arrived, and no event that may still come can undo it.
Every source is an iterable of record batches (see `shuffler.source.trace`). One that can be asked to stop raises
`StreamStopped` when it has been: the stream has not ended then, so a match that a NOT still holds back stays back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from actors.group import Limits
from actors.latency import LatencySummary
from actors.reports import OperatorReport
from actors.sink import MatchSink
from cluster.local import DEFAULT_BATCH_SIZE, LocalRuntime
from costmodel.capacity import Capacity
from decopa.choices import RUNTIMES
from decopa.errors import DecoPaError, StatisticsError
from decopa.planning.plan import Plan
from decopa.planning.planner import plan_workload
from decopa.query.binding import bind
from decopa.query.query import Query
from decopa.runs.execute import (
    DEFAULT_CAPACITY,
    DEFAULT_COLUMNS,
    DEFAULT_LIMITS,
    QueryLike,
    StatisticsLike,
    as_workload,
    fitting_plan,
    make_plan,
)
from decopa.runs.publication import Publication
from decopa.runs.result import result_table
from shuffler.rows.layout import layout_of
from shuffler.source.dead_letters import BadRows
from shuffler.source.json_lines import JsonLines
from shuffler.source.live.address import SourceAddress, is_address
from shuffler.source.stopping import Stop
from shuffler.source.trace import DEFAULT_BAD_ROWS, DEFAULT_LATENESS, Lateness, TraceColumns, TraceSource, open_trace

if TYPE_CHECKING:
    from cluster.options import RayOptions
    from cluster.ray_live import RayLive


@dataclass(frozen=True, slots=True)
class LiveSummary:
    """How far a live run came.

    `events` were worked on, the last of them at `reached_us` (None if there were none). `ended` says whether the stream
    came to its end; else it was stopped. `matches` counts what was handed out, by query. Latency is measured on Ray
    only.
    """

    events: int
    reached_us: int | None
    matches: Mapping[str, int]
    ended: bool
    seconds: float
    operators: tuple[OperatorReport, ...]
    notices: tuple[str, ...]
    latency: LatencySummary


class LiveRun:
    """Iterates over tables of new matches, none of them empty, in the columns of `decopa.run`; can be used once.

    Leaving the loop early, or `close`, ends the run. `stop` asks it to end, from any thread: what is certain by then
    still comes.
    """

    def __init__(
        self,
        queries: Sequence[Query],
        source: TraceSource,
        plan: Plan,
        *,
        runtime: str = "local",
        limits: Limits = DEFAULT_LIMITS,
        options: RayOptions | None = None,
        batch_size: int | None = None,
        stop: Stop | None = None,
    ) -> None:
        if runtime not in RUNTIMES:
            raise DecoPaError(f"unknown runtime '{runtime}'; known: {', '.join(RUNTIMES)}")
        self._queries, self._source, self._plan, self._runtime = tuple(queries), source, plan, runtime
        self._limits, self._options, self._batch_size, self._stop = limits, options, batch_size, stop
        self._counts = dict.fromkeys((query.name for query in self._queries), 0)
        self._running: LocalRuntime | RayLive | None = None
        self._ended = False
        self._started = time.perf_counter()
        self._seconds = 0.0
        self._steps = self._tables()

    def __iter__(self) -> Iterator[pa.Table]:
        return self._steps

    def __enter__(self) -> LiveRun:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def for_each(self, callback: Callable[[pa.Table], object]) -> LiveSummary:
        """Calls back with every table of new matches, until the stream ends; returns how far it came."""
        for matches in self:
            callback(matches)
        return self.summary()

    def stop(self) -> None:
        """Asks the run to end. A stream that cannot be asked is left when its next events come."""
        if self._stop is not None:
            self._stop.set()
        if self._running is not None:
            self._running.stop()

    def close(self) -> None:
        """Ends the run at once; what has not been handed out is dropped."""
        self._steps.close()

    @property
    def events(self) -> int:
        """Events that were worked on so far; on Ray, that were handed to the shufflers."""
        return 0 if self._running is None else self._running.events

    @property
    def matches(self) -> int:
        """Matches that were handed out so far."""
        return sum(self._counts.values())

    @property
    def nothing(self) -> pa.Table:
        """A table of no matches, with the columns that every batch has."""
        sinks = []
        for part in self._plan.parts:
            bound = bind(part.query, self._source.schema)
            layout = layout_of(bound, part.root.sub_query)
            sinks.append(MatchSink(bound, layout, self._source.format, self._source.strings))
        return result_table(self._queries, [sink.table() for sink in sinks])

    def summary(self) -> LiveSummary:
        """How far the run has come; complete once it is over."""
        running, events = self._running, self.events
        report = None if running is None or isinstance(running, LocalRuntime) else running.report
        operators = () if report is None else report.operators
        if isinstance(running, LocalRuntime):
            operators = running.reports()
        letters = self._source.dead_letters.notice
        late = self._source.late_notice
        notices = [*self._source.notices, *(line for line in (late, letters) if line is not None)]
        return LiveSummary(
            events,
            self._source.reached_us if events else None,
            dict(self._counts),
            self._ended,
            self._seconds or time.perf_counter() - self._started,
            operators,
            tuple(dict.fromkeys(notices)),
            LatencySummary() if report is None else report.latency,
        )

    def _tables(self) -> Generator[pa.Table, None, None]:
        publication = Publication(self._queries)
        self._started = time.perf_counter()
        with ExitStack() as open_:
            running = self._start(open_)
            try:
                for new in running.live():
                    matches = publication.take(new.tables, new.finals_us)
                    if matches.num_rows:
                        self._count(matches)
                        yield matches
                self._ended = not running.stopped
            finally:
                self._seconds = time.perf_counter() - self._started
        if self._stop is not None:
            self._stop.close()

    def _start(self, open_: ExitStack) -> LocalRuntime | RayLive:
        if self._runtime == "local":
            size = self._batch_size or DEFAULT_BATCH_SIZE
            self._running = local = LocalRuntime(self._plan, self._source, batch_size=size, limits=self._limits)
            return local
        # Imported here because Ray takes a second, and who runs locally should not wait for it.
        from cluster.options import RayOptions
        from cluster.placement import places_needed
        from cluster.ray_live import RayLive
        from cluster.ray_session import ray_session

        options = self._options or RayOptions()
        if self._batch_size is not None:
            options = replace(options, batch_size=self._batch_size)
        self._running = remote = RayLive(self._plan, self._source, limits=self._limits, options=options)
        open_.enter_context(ray_session(address=options.address, cpus=places_needed(remote.topology)))
        return remote

    def _count(self, matches: pa.Table) -> None:
        for one in matches.column("query").value_counts().to_pylist():
            self._counts[one["values"]] += one["counts"]


def watch(
    query: QueryLike,
    events: Any,
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
    schema: Mapping[str, str] | None = None,
    nan_as_null: bool = False,
    lateness: Lateness = DEFAULT_LATENESS,
    bad_rows: BadRows = DEFAULT_BAD_ROWS,
    ray: RayOptions | None = None,
) -> LiveRun:
    """The matches of a query in a live stream, as they happen: iterate over it, or give `for_each` a callback.

    `events` is an iterable of record batches, the address of a stream such as kafka://host:9092/topic, or an open file
    or pipe of JSON lines such as `sys.stdin`; what its columns hold is seen in the first lines, or said in `schema`
    ({"x": "float"}). `limits.max_matches` bounds what is found but not handed out yet. A stream cannot be measured
    before it runs, so strategies other than left-deep need statistics or a plan.

    >>> batches = pa.table({"id": [1, 2], "ts": [0, 5], "type": ["A", "B"]}).to_batches()
    >>> [table.num_rows for table in watch("PATTERN SEQ(A a, B b) WITHIN 10 us", iter(batches))]
    [1]
    """
    queries = as_workload(query)
    stop = Stop() if hasattr(events, "fileno") or is_address(events) or isinstance(events, SourceAddress) else None
    if hasattr(events, "fileno"):
        events = JsonLines(events.fileno(), ts=columns.ts, kinds=schema or {}, name="the stream", stop=stop)
    source = open_trace(
        events, columns=columns, nan_as_null=nan_as_null, lateness=lateness, bad_rows=bad_rows, stop=stop
    )
    if plan is not None:
        plan = fitting_plan(plan, queries)
    elif strategy == "left-deep":
        plan = make_plan(queries, units=units)
    elif statistics is None:
        raise StatisticsError("a stream cannot be measured before it runs; give statistics or a plan")
    else:
        plan = plan_workload(queries, statistics, capacity, units=units, strategy=strategy).plan
    return LiveRun(queries, source, plan, runtime=runtime, limits=limits, options=ray, batch_size=batch_size, stop=stop)
