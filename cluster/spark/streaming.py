"""Structured Streaming: every micro-batch through one deployment that stays, so that matches may span them.

RayDP hands over data frames, not streams, so each micro-batch is handed over as a frame of its own, through
`foreachBatch`: its events are sorted by Spark, fetched from the executors into Ray's object store, and worked on to the
end before the batch counts as done. Its matches are published as one file, named after the batch.

A restart continues after the last batch that is done: events of the last windows are kept with the checkpoint, played
again to rebuild what units held, and the matches of that replay, all of which were published before, are dropped. Spark
delivers a batch again if it was not done, under the same number; its file is then simply written again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from actors.group import Limits
from cluster.deployment import Deployment
from cluster.options import RayOptions
from cluster.session import Session
from cluster.spark.feeding import SparkBlocks
from cluster.spark.stream_log import Progress, StreamLog
from cluster.spark.traces import LoadedTrace, load_trace, named
from decopa.errors import DecoPaError, TraceError
from decopa.planning.plan import Plan
from decopa.planning.validate import check_structure
from shuffler.routing.topology import Topology
from shuffler.source.lateness import Lateness
from shuffler.source.trace import TraceColumns, open_trace

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

#: Events of this many windows are kept: a match spans one, and a NOT may look at or hold it for another.
KEPT_WINDOWS = 3

Merge = Callable[[Sequence[pa.Table]], pa.Table]


class MatchStream:
    """A stream that runs; `matches` is the folder of its results."""

    def __init__(self, query: StreamingQuery, batches: MicroBatches, matches: Path) -> None:
        self._query, self._batches, self.matches = query, batches, matches

    @property
    def progress(self) -> Progress:
        """What is done so far."""
        return self._batches.progress

    def process_all_available(self) -> None:
        """Returns when everything that has arrived is done."""
        self._through(self._query.processAllAvailable)

    def await_termination(self, timeout_s: int | None = None) -> bool:
        """Waits for the end; False if it has not come within `timeout_s`."""
        return bool(self._through(lambda: self._query.awaitTermination(timeout_s)))

    def stop(self) -> None:
        """Ends the stream; what is done stays, and the same call to `stream` goes on from there."""
        self._query.stop()
        self._batches.close()

    def __enter__(self) -> MatchStream:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _through(self, wait: Callable[[], Any]) -> Any:
        try:
            return wait()
        except Exception as err:
            # Spark wraps what went wrong in a batch into its own words; tell ours.
            if self._batches.failure is not None:
                self._batches.close()
                raise self._batches.failure from None
            raise DecoPaError(f"the stream has failed: {str(err).splitlines()[0]}") from err


def start_stream(
    frame: DataFrame,
    plan: Plan,
    *,
    merge: Merge,
    out: Path,
    checkpoint: Path,
    columns: TraceColumns,
    lateness: Lateness,
    limits: Limits,
    options: RayOptions,
    trigger: dict[str, Any] | None = None,
) -> MatchStream:
    """Runs a plan on a streaming frame; `merge` makes one table of those of the plan's parts."""
    if not frame.isStreaming:
        raise TraceError("this data frame does not stream; pass it to decopa.run, or make it with spark.readStream")
    check_structure(plan)
    batches = MicroBatches(
        frame, plan, merge, StreamLog(checkpoint / "decopa", out), columns, lateness, limits, options
    )
    writer = frame.writeStream.foreachBatch(batches).option("checkpointLocation", str(checkpoint / "spark"))
    if trigger is not None:
        writer = writer.trigger(**trigger)
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
        merge: Merge,
        log: StreamLog,
        columns: TraceColumns,
        lateness: Lateness,
        limits: Limits,
        options: RayOptions,
    ) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._spark, self._columns, self._lateness, self._merge, self._log = (
            frame.sparkSession, columns, lateness, merge, log,
        )  # fmt: skip
        empty = pa.RecordBatch.from_pylist([], schema=to_arrow_schema(frame.schema))
        self._format = open_trace(iter([empty]), columns=columns).format
        self._window_us = max(part.query.window_us for part in plan.parts)
        self._deployment = Deployment(Topology(plan, options.shufflers), self._format, limits, options)
        self._session: Session | None = None
        self._open = ExitStack()
        self._lock = threading.Lock()
        self.failure: DecoPaError | None = None
        self.progress = log.read("; ".join(str(part.query) for part in plan.parts))

    def open(self) -> None:
        """Starts the actors and rebuilds what they held when the last batch was done."""
        self._session = Session(self._open.enter_context(self._deployment))
        self._session.await_actors()
        if self.progress.handed_us is not None:
            held = self._kept().where(self._time() <= self.progress.handed_us)
            self._work_on(held, self.progress.handed_us)
            self._session.take()  # published before the restart

    def close(self) -> None:
        self._open.close()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        with self._lock:
            if self.failure is not None or batch_id <= self.progress.batch_id:
                return  # done before a restart that Spark did not hear of
            try:
                self._take(frame, batch_id)
            except DecoPaError as err:
                self.failure = err
                raise

    def _take(self, frame: DataFrame, batch_id: int) -> None:
        from pyspark.sql import functions as F

        assert self._session is not None
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
                return
            in_time = frame if before.handed_us is None else frame.where(time >= before.handed_us)
            held = [] if known is None or before.handed_us is None else [known.where(time > before.handed_us)]
            handed_us = max(newest - self._lateness.allowed_us, before.handed_us or newest - self._lateness.allowed_us)
            waiting = reduce(lambda one, other: one.unionByName(other), [*held, in_time])
            events = self._work_on(waiting.where(time <= handed_us), handed_us)
            tables = self._session.take()
            matches = sum(table.num_rows for table in tables)
            self._log.publish(batch_id, [self._merge(tables)])
            everything = in_time if known is None else known.unionByName(in_time)
            done = Progress(
                before.query,
                batch_id,
                handed_us,
                before.events + events,
                before.late_events + late,
                before.matches + matches,
            )
            self._finish(done, everything.where(time >= handed_us - KEPT_WINDOWS * self._window_us))
        finally:
            frame.unpersist()

    def _finish(self, done: Progress, kept: DataFrame | None) -> None:
        if kept is not None:
            kept.write.mode("overwrite").parquet(self._log.kept(done.batch_id).resolve().as_uri())
        self._log.commit(done)
        self.progress = done

    def _work_on(self, frame: DataFrame, handed_us: int) -> int:
        """Sends the events of a frame through the plan, until nothing is on its way; later ones are no earlier."""
        assert self._session is not None
        loaded: LoadedTrace = load_trace(frame, self._columns, name="the stream")
        try:
            for block in SparkBlocks(loaded.blocks, self._format, "the stream").feed_blocks(()):
                self._session.feed(block)
            self._session.settle(handed_us)
        finally:
            loaded.release()
        return loaded.rows

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
