"""Structured Streaming: every micro-batch through one deployment that stays, so that matches may span them.

RayDP hands over data frames, not streams, so each micro-batch is handed over as a frame of its own, through
`foreachBatch`: its events are sorted by Spark, fetched from the executors into Ray's object store, and worked on to the
end before the batch counts as done. Its matches are published as one file, named after the batch.

A restart continues after the last batch that is done: events of the last windows are kept with the checkpoint, played
again to rebuild what units held, and the matches of that replay, all of which were published before, are dropped (see
`handover`). Spark delivers a batch again if it was not done, under the same number; its file is then simply written
again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from actors.group import Limits
from actors.sinks.outlet import check_rows_only
from cluster.deploy.deployment import Deployment
from cluster.options import RayOptions
from cluster.session import Session
from cluster.spark.feeding import SparkBlocks
from cluster.spark.streams.handover import Reach, handed_after
from cluster.spark.streams.match_stream import BatchProgress, MatchStream
from cluster.spark.streams.stream_log import Progress, StreamLog
from cluster.spark.traces import LoadedTrace, load_trace, named
from decopa.errors import DecoPaError, TraceError
from decopa.planning.plan import Plan
from decopa.planning.validate import check_structure
from shuffler.routing.topology import Topology
from shuffler.source.lateness import Lateness
from shuffler.source.trace import TraceColumns, open_trace

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Micro-batches whose progress is remembered, as many as Spark remembers.
_RECENT = 100


class Publishing(Protocol):
    """Decides which matches go out: see `decopa.runs.streams.publication`."""

    def take(self, tables: Sequence[pa.Table], finals_us: Sequence[int]) -> pa.Table: ...


def start_stream(
    frame: DataFrame,
    plan: Plan,
    *,
    publication: Publishing,
    out: Path,
    checkpoint: Path,
    columns: TraceColumns,
    lateness: Lateness,
    limits: Limits,
    options: RayOptions,
    trigger: dict[str, Any] | None = None,
    name: str | None = None,
) -> MatchStream:
    """Runs a plan on a streaming frame; `publication` makes one table of the matches of the plan's parts."""
    if not frame.isStreaming:
        raise TraceError("this data frame does not stream; pass it to decopa.run, or make it with spark.readStream")
    check_structure(plan)
    check_rows_only(plan, "a stream")
    batches = MicroBatches(
        frame, plan, publication, StreamLog(checkpoint / "decopa", out), columns, lateness, limits, options
    )
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

    def __init__(
        self,
        frame: DataFrame,
        plan: Plan,
        publication: Publishing,
        log: StreamLog,
        columns: TraceColumns,
        lateness: Lateness,
        limits: Limits,
        options: RayOptions,
    ) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._spark, self._columns, self._lateness, self._log = frame.sparkSession, columns, lateness, log
        self._publication, self._reach = publication, Reach.of(plan)
        empty = pa.RecordBatch.from_pylist([], schema=to_arrow_schema(frame.schema))
        self._format = open_trace(iter([empty]), columns=columns).format
        self._attributes = frozenset().union(*(part.query.attributes for part in plan.parts))
        self._deployment = Deployment(Topology(plan, options.shufflers), self._format, limits, options)
        self._session: Session | None = None
        self._open = ExitStack()
        #: Held while a batch is worked on.
        self._lock = threading.Lock()
        self._closing = False
        self._recent: deque[BatchProgress] = deque(maxlen=_RECENT)
        self.failure: DecoPaError | None = None
        self.progress = log.read("; ".join(str(part.query) for part in plan.parts))

    def open(self) -> None:
        """Starts the actors and rebuilds what they held when the last batch was done."""
        self._session = Session(self._open.enter_context(self._deployment))
        self._session.await_actors()
        if self.progress.handed_us is not None:
            held = self._kept().where(self._time() <= self.progress.handed_us)
            self._work_on(held, self.progress.handed_us)  # its matches were published before the restart

    @property
    def recent(self) -> tuple[BatchProgress, ...]:
        return tuple(self._recent)

    def close(self) -> None:
        """Ends the actors, once the batch that is under way has ended; the checkpoint is then another stream's."""
        self._closing = True
        with self._lock:
            self._open.close()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        with self._lock:
            if batch_id <= self.progress.batch_id:
                return  # done before a restart that Spark did not hear of
            if self.failure is not None or self._closing:
                raise DecoPaError("the stream has ended; this batch comes again when it is started again")
            began, started, before = datetime.now(UTC), time.perf_counter(), self.progress
            try:
                arrived = self._take(frame, batch_id)
            except DecoPaError as err:
                if not self._closing:  # what a stop interrupts is no failure
                    self.failure = err
                raise
            done = self.progress
            self._recent.append(
                BatchProgress(
                    batch_id,
                    began.isoformat(timespec="milliseconds"),
                    arrived,
                    done.late_events - before.late_events,
                    done.matches - before.matches,
                    done.handed_us,
                    time.perf_counter() - started,
                )
            )

    def _take(self, frame: DataFrame, batch_id: int) -> int:
        """Works on a batch to the end; returns how many events came with it."""
        from pyspark.sql import functions as F

        before, time = self.progress, self._time()
        known = self._kept() if before.handed_us is not None else None
        frame = frame.persist()
        try:
            arrived, late, newest = frame.agg(
                F.count(F.lit(1)),
                F.count_if(time < (before.handed_us if before.handed_us is not None else F.lit(None).cast("long"))),
                F.max(time),
            ).collect()[0]
            if late:
                self._refuse_or_drop(late)
            if newest is None or arrived == late:
                self._finish(replace(before, batch_id=batch_id, late_events=before.late_events + late), known)
                return int(arrived)
            in_time = frame if before.handed_us is None else frame.where(time >= before.handed_us)
            held = [] if known is None or before.handed_us is None else [known.where(time > before.handed_us)]
            handed_us = handed_after(before.handed_us, newest, self._lateness.allowed_us)
            waiting = reduce(lambda one, other: one.unionByName(other), [*held, in_time])
            events, matches = self._work_on(waiting.where(time <= handed_us), handed_us)
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
            self._finish(done, everything.where(time >= self._reach.kept_from_us(handed_us)))
            return int(arrived)
        finally:
            frame.unpersist()

    def _finish(self, done: Progress, kept: DataFrame | None) -> None:
        if kept is not None:
            kept.write.mode("overwrite").parquet(self._log.kept(done.batch_id).resolve().as_uri())
        self._log.commit(done)
        self.progress = done

    def _work_on(self, frame: DataFrame, handed_us: int) -> tuple[int, pa.Table]:
        """Sends the events of a frame through the plan, until nothing is on its way; later ones are not before
        `handed_us`. Returns how many there were and the matches that are certain now."""
        assert self._session is not None
        loaded: LoadedTrace = load_trace(frame, self._columns, attributes=self._attributes, name="the stream")
        try:
            for block in SparkBlocks(loaded.blocks, self._format, "the stream").feed_blocks(()):
                self._session.feed(block)
            self._session.settle(handed_us)
        finally:
            loaded.release()
        return loaded.rows, self._publication.take(self._session.take(), self._reach.finals_us(handed_us))

    def _refuse_or_drop(self, late: int) -> None:
        if self._lateness.policy == "fail":
            raise TraceError(
                f"the stream: {late:,} events are earlier than what has been worked on already; allow more lateness "
                "(Lateness(allowed_us=...)), or drop them (policy='drop')"
            )

    def _kept(self) -> DataFrame:
        return self._spark.read.parquet(self._log.kept(self.progress.batch_id).resolve().as_uri())

    def _time(self) -> Column:
        """The time of an event in microseconds."""
        from pyspark.sql import functions as F

        column = named(self._columns.ts)
        if pa.types.is_integer(self._format.ts_type):
            return column.cast("long")
        return F.unix_micros(column.cast("timestamp"))
