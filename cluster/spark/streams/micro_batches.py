"""Micro-batches through the actors of a plan that stay, so that matches may span them.

RayDP hands over data frames, not streams, so each micro-batch is handed over as a frame of its own, through
`foreachBatch`: its events are sorted by Spark, fetched from the executors into Ray's object store, and worked on to the
end before the batch counts as done. Its matches are published as one file, named after the batch.

A restart continues after the last batch that is done: events of the last windows are kept with the checkpoint, played
again to rebuild what units held, and the matches of that replay, all of which were published before, are dropped (see
`handover`). Spark delivers a batch again if it was not done, under the same number; its file is then simply written
again. In the same way another plan takes over between two batches (see `changes`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from actors.group import Limits
from actors.sinks.outlet import check_rows_only
from cluster.change.switches import PlanSwitch
from cluster.options import RayOptions
from cluster.spark.streams.changes import LoopOf, StreamChanges
from cluster.spark.streams.events import StreamEvents
from cluster.spark.streams.handover import Reach, handed_after
from cluster.spark.streams.match_stream import BatchProgress, MatchStream
from cluster.spark.streams.plans import Publishing, StreamPlans
from cluster.spark.streams.stream_log import Progress, StreamLog
from decopa.errors import DecoPaError, TraceError
from decopa.planning.plan import Plan
from decopa.planning.validate import check_structure
from shuffler.source.lateness import Lateness
from shuffler.source.trace import TraceColumns, open_trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Micro-batches whose progress is remembered, as many as Spark remembers.
_RECENT = 100


@dataclass(frozen=True)
class StreamWork:
    """What a stream does with its events. It begins with `plan`; for every plan `publication_of` gives who makes one
    table of the matches of its parts. With `loop_of` the plan follows the stream."""

    plan: Plan
    publication_of: Callable[[], Publishing]
    columns: TraceColumns
    lateness: Lateness
    limits: Limits
    options: RayOptions
    loop_of: LoopOf | None = None


def start_stream(
    frame: DataFrame,
    work: StreamWork,
    *,
    out: Path,
    checkpoint: Path,
    trigger: dict[str, Any] | None = None,
    name: str | None = None,
) -> MatchStream:
    """Works on a streaming frame; matches go to `out`."""
    if not frame.isStreaming:
        raise TraceError("this data frame does not stream; pass it to decopa.run, or make it with spark.readStream")
    check_structure(work.plan)
    check_rows_only(work.plan, "a stream")
    batches = MicroBatches(frame, work, StreamLog(checkpoint / "decopa", out))
    writer = frame.writeStream.foreachBatch(batches).option("checkpointLocation", str(checkpoint / "spark"))
    if trigger is not None:
        writer = writer.trigger(**trigger)
    if name is not None:
        writer = writer.queryName(name)
    try:
        batches.open()
        return MatchStream(writer.start(), batches, out)
    except BaseException:
        batches.close()
        raise


class MicroBatches:
    """Called by Spark with every micro-batch, one at a time."""

    def __init__(self, frame: DataFrame, work: StreamWork, log: StreamLog) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._log, self._lateness, self._plan, self._reach = log, work.lateness, work.plan, Reach.of(work.plan)
        empty = pa.RecordBatch.from_pylist([], schema=to_arrow_schema(frame.schema))
        form = open_trace(iter([empty]), columns=work.columns).format
        attributes = frozenset[str]().union(*(query.attributes for query in work.plan.queries))
        self._events = StreamEvents(frame.sparkSession, log, form, attributes)
        self._plans = StreamPlans(self._events, work.publication_of, work.limits, work.options)
        self._loop_of = work.loop_of
        self._changes: StreamChanges | None = None
        #: Held while a batch is worked on.
        self._lock = threading.Lock()
        self._closing = False
        self._recent: deque[BatchProgress] = deque(maxlen=_RECENT)
        self.failure: DecoPaError | None = None
        self.progress = log.read("; ".join(map(str, work.plan.queries)))

    def open(self) -> None:
        """Starts the actors and rebuilds what they held when the last batch was done."""
        self._plans.begin(self._plan, self.progress)
        if self._loop_of is not None:
            self._changes = StreamChanges(self._plans, self._events, lambda: self.progress, self._loop_of)

    @property
    def recent(self) -> tuple[BatchProgress, ...]:
        return tuple(self._recent)

    @property
    def switches(self) -> tuple[PlanSwitch, ...]:
        return () if self._changes is None else tuple(self._changes.loop.switches)

    def close(self) -> None:
        """Ends the actors, once the batch that is under way has ended; the checkpoint is then another stream's."""
        self._closing = True
        with self._lock:
            if self._changes is not None:
                self._changes.close()
            self._plans.close()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        with self._lock:
            if batch_id <= self.progress.batch_id:
                return  # done before a restart that Spark did not hear of
            if self.failure is not None or self._closing:
                raise DecoPaError("the stream has ended; this batch comes again when it is started again")
            try:
                self._work_on(frame, batch_id)
            except DecoPaError as err:
                if not self._closing:  # what a stop interrupts is no failure
                    self.failure = err
                raise

    def _work_on(self, frame: DataFrame, batch_id: int) -> None:
        """Takes a batch, and sees to the plan before and after it."""
        began, started, before = datetime.now(UTC), time.perf_counter(), self.progress
        if self._changes is not None:
            self._changes.before_batch()
        arrived = self._take(frame, batch_id)
        done, took_s = self.progress, time.perf_counter() - started
        self._recent.append(
            BatchProgress(
                batch_id,
                began.isoformat(timespec="milliseconds"),
                arrived,
                done.late_events - before.late_events,
                done.matches - before.matches,
                done.handed_us,
                took_s,
            )
        )
        if self._changes is not None:
            self._changes.after_batch(took_s)

    def _take(self, frame: DataFrame, batch_id: int) -> int:
        """Works on a batch to the end; returns how many events came with it."""
        from pyspark.sql import functions as F

        before, time_us = self.progress, self._events.time_us()
        known = self._events.kept(before) if before.handed_us is not None else None
        frame = frame.persist()
        try:
            arrived, late, newest = frame.agg(
                F.count(F.lit(1)),
                F.count_if(time_us < (before.handed_us if before.handed_us is not None else F.lit(None).cast("long"))),
                F.max(time_us),
            ).collect()[0]
            if late:
                self._refuse_or_drop(late)
            if newest is None or arrived == late:
                self._finish(replace(before, batch_id=batch_id, late_events=before.late_events + late), known)
                return int(arrived)
            in_time = frame if before.handed_us is None else frame.where(time_us >= before.handed_us)
            held = [] if known is None or before.handed_us is None else [known.where(time_us > before.handed_us)]
            handed_us = handed_after(before.handed_us, newest, self._lateness.allowed_us)
            waiting = reduce(lambda one, other: one.unionByName(other), [*held, in_time])
            events, matches = self._plans.at_work.work_on(waiting.where(time_us <= handed_us), handed_us)
            self._log.publish(batch_id, matches)
            everything = in_time if known is None else known.unionByName(in_time)
            done = Progress(
                before.query,
                batch_id,
                handed_us,
                before.events + events,
                before.late_events + late,
                before.matches + matches.num_rows,
            )
            self._finish(done, everything.where(time_us >= self._reach.kept_from_us(handed_us)))
            return int(arrived)
        finally:
            frame.unpersist()

    def _finish(self, done: Progress, kept: DataFrame | None) -> None:
        if kept is not None:
            self._events.keep(kept, done.batch_id)
        self._log.commit(done)
        self.progress = done

    def _refuse_or_drop(self, late: int) -> None:
        if self._lateness.policy == "fail":
            raise TraceError(
                f"the stream: {late:,} events are earlier than what has been worked on already; allow more lateness "
                "(Lateness(allowed_us=...)), or drop them (policy='drop')"
            )
