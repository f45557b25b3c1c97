"""`decopa.watch`: matches of a stream as they happen.

A match leaves as soon as it is certain: all its events have arrived, and no event that may still come can undo it.
Every source is an iterable of record batches (see `shuffler.source.trace`). One that can be asked to stop raises
`StreamStopped` when it has been: the stream has not ended then, so a match that a NOT still holds back stays back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from actors.latency import LatencySummary
from actors.reports import OperatorReport
from actors.sinks.sink import MatchSink
from cluster.change.loop import AdaptLoop
from cluster.change.switches import PlanSwitch
from cluster.local import LocalRuntime
from decopa.choices import DEFAULT_BATCH_SIZE
from decopa.planning.plan import Plan
from decopa.query.binding import bind
from decopa.query.query import Query
from decopa.runs.preparation.prepare import Prepared, prepare
from decopa.runs.result import result_table
from decopa.runs.runtimes.adapting import adapting_changes, adapting_runtime, places_to_adapt
from decopa.runs.spec import RunSpec
from decopa.runs.streams.publication import Publication
from shuffler.rows.layout import layout_of
from shuffler.source.json_lines import JsonLines
from shuffler.source.live.address import SourceAddress, is_address
from shuffler.source.stopping import Stop

if TYPE_CHECKING:
    from cluster.ray_live import RayLive


@dataclass(frozen=True, slots=True)
class LiveSummary:
    """How far a live run came.

    `events` were worked on, the last of them at `reached_us` (None if there were none). `ended` says whether the stream
    came to its end; else it was stopped. `matches` counts what was handed out, by query. Latency is measured on Ray
    only. `switches` are the changes of the plan, `plan` is the last one.
    """

    events: int
    reached_us: int | None
    matches: Mapping[str, int]
    ended: bool
    seconds: float
    operators: tuple[OperatorReport, ...]
    notices: tuple[str, ...]
    latency: LatencySummary
    switches: tuple[PlanSwitch, ...] = ()
    plan: Plan | None = None


class LiveRun:
    """Iterates over tables of new matches, none of them empty, in the columns of `decopa.run`; can be used once.

    Leaving the loop early, or `close`, ends the run. `stop` asks it to end, from any thread: what is certain by then
    still comes. `changed` gets a line when the plan has been changed.
    """

    def __init__(
        self, prepared: Prepared, stop: Stop | None = None, *, changed: Callable[[str], None] = lambda line: None
    ) -> None:
        self._prepared, self._stop, self._changed = prepared, stop, changed
        self._queries, self._source, self._plan = prepared.queries, prepared.source, prepared.plan
        self._counts = dict.fromkeys((query.name for query in self._queries), 0)
        self._running: LocalRuntime | RayLive | None = None
        #: Decides about the plan of a run that adapts.
        self._loop: AdaptLoop | None = None
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
        for part in (self._plan.parts[place] for place in self._plan.reported):
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
        notices = [
            *self._prepared.notices,
            *self._source.notices,
            *(line for line in (late, letters) if line is not None),
        ]
        return LiveSummary(
            events,
            self._source.reached_us if events else None,
            dict(self._counts),
            self._ended,
            self._seconds or time.perf_counter() - self._started,
            operators,
            tuple(dict.fromkeys(notices)),
            LatencySummary() if report is None else report.latency,
            () if self._loop is None else tuple(self._loop.switches),
            self._plan if self._loop is None else self._loop.plan,
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
        spec = self._prepared.spec
        if spec.runtime == "local":
            self._running = local = self._local()
            return local
        # Imported here because Ray takes a second, and a local run should not wait for it.
        from cluster.deploy.placement import places_needed
        from cluster.ray_live import RayLive
        from cluster.ray_session import ray_session

        if spec.adapt is None:
            remote = RayLive(self._plan, self._source, limits=spec.limits, options=spec.ray)
        else:
            from cluster.change.deployed.ray_live import ChangingRayLive

            changes = adapting_changes(self._prepared, spec.adapt, tell=self._changed)
            self._loop = changes.loop
            remote = ChangingRayLive(self._plan, self._source, changes, limits=spec.limits, options=spec.ray)
        self._running = remote
        places = places_to_adapt(self._prepared, places_needed(remote.topology))
        open_.enter_context(ray_session(address=spec.ray.address, cpus=places))
        return remote

    def _local(self) -> LocalRuntime:
        spec = self._prepared.spec
        if spec.adapt is not None:
            adapting = adapting_runtime(self._prepared, spec.adapt, tell=self._changed)
            self._loop = adapting.loop
            return adapting
        size = spec.trace.batch_size or DEFAULT_BATCH_SIZE
        return LocalRuntime(self._plan, self._source, batch_size=size, limits=spec.limits)

    def _count(self, matches: pa.Table) -> None:
        if len(self._counts) == 1:
            (name,) = self._counts
            self._counts[name] += matches.num_rows
            return
        for one in matches.column("query").value_counts().to_pylist():
            self._counts[one["values"]] += one["counts"]


def live_run(spec: RunSpec, queries: Sequence[Query], events: Any) -> LiveRun:
    """A live run on an iterable of record batches, on the address of a stream, or on a pipe of JSON lines."""
    addressed = hasattr(events, "fileno") or is_address(events) or isinstance(events, SourceAddress)
    stop = Stop() if addressed else None
    if hasattr(events, "fileno"):
        name, ts = "the stream", spec.trace.columns.ts
        events = JsonLines(events.fileno(), ts=ts, kinds=spec.trace.kinds, name=name, stop=stop)
    return LiveRun(prepare(spec, queries, events, stop=stop), stop)
