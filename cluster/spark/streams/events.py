"""StreamEvents: the events of a stream as frames of Spark: their times, those that are kept, and their way to Ray."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from cluster.spark.streams.stream_log import Progress, StreamLog
from cluster.spark.traces import LoadedTrace, load_trace, named
from costmodel.sampling.events import EventColumns
from decopa.errors import StatisticsError
from shuffler.rows.events import EventFormat, measured_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

NAME = "the stream"
#: Of a sample that is too large the most that is left out beyond what must be.
_SPARED = 0.1
#: How exactly Spark tells a quantile, at least: its own default.
_ACCURACY = 10_000


class StreamEvents:
    """Frames of events of one format. After each micro-batch the events of the last windows are kept in the stream's
    log: a restart and another plan are built from them, and statistics are measured on them."""

    def __init__(self, spark: SparkSession, log: StreamLog, form: EventFormat, attributes: Collection[str]) -> None:
        """`attributes` are those that the queries read."""
        self.form, self._spark, self._log, self._attributes = form, spark, log, frozenset(attributes)

    def time_us(self) -> Column:
        """The time of an event in microseconds."""
        from pyspark.sql import functions as F

        column = named(self.form.columns.ts)
        if pa.types.is_integer(self.form.ts_type):
            return column.cast("long")
        return F.unix_micros(column.cast("timestamp"))

    def keep(self, frame: DataFrame, batch_id: int) -> None:
        """Writes down what a restart after this batch needs."""
        frame.write.mode("overwrite").parquet(self._log.kept(batch_id).resolve().as_uri())

    def kept(self, done: Progress) -> DataFrame:
        """What was kept when this was done, events that have not been worked on among them."""
        return self._spark.read.parquet(self._log.kept(done.batch_id).resolve().as_uri())

    def worked_on(self, done: Progress) -> DataFrame:
        """The kept events that have been worked on: all that a plan needs to know of the stream so far."""
        assert done.handed_us is not None, "nothing is kept before the first events"
        return self.kept(done).where(self.time_us() <= done.handed_us)

    @contextmanager
    def loaded(self, frame: DataFrame) -> Iterator[LoadedTrace]:
        """The events of a frame in Ray's object store, in time order; what Spark holds of them ends with the block."""
        found = load_trace(frame, self.form.columns, attributes=self._attributes, name=NAME)
        try:
            yield found
        finally:
            found.release()

    def last(self, done: Progress, span_us: int, most: int) -> EventColumns:
        """The events of the last `span_us` that were worked on, or the last `most` of them.

        Executors count and filter. Only what they leave comes to this process, with the attributes that the queries
        read, through Ray's object store; none of it goes through Spark's driver.
        """
        if done.handed_us is None:
            raise StatisticsError("no events have been worked on that could be measured")
        frame = self.worked_on(done).where(self.time_us() >= done.handed_us - span_us)
        with self.loaded(self._newest(frame, most)) as trace:
            if not trace.rows:
                raise StatisticsError("no events are kept that could be measured")
            source = trace.source()
            wanted = [*self._attributes, *(() if source.schema.attributes["id"].kind.is_number else ("id",))]
            batches = list(source.batches(sorted(set(wanted)), trace.rows))
        return measured_columns(batches, source.format, source.strings)

    def _newest(self, frame: DataFrame, most: int) -> DataFrame:
        """The rows of a frame if they are no more than `most`, else nearly as many of the newest."""
        from pyspark.sql import functions as F

        rows = frame.count()
        if rows <= most:
            return frame
        share, accuracy = 1 - (1 - _SPARED) * most / rows, max(_ACCURACY, math.ceil(rows / most / _SPARED))
        (found,) = frame.agg(F.percentile_approx(self.time_us(), share, accuracy)).collect()
        return frame.where(self.time_us() > found[0])
