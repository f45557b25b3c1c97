"""Traces through Spark: read, cleaned, sorted by time, and handed to Ray as Arrow blocks; results back to Spark.

Columns keep the names that the user gave them; `TraceColumns` says which hold id, time and type. Nothing is dropped
unless that was asked for, and then it is counted.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.spark.blocks import Block, BlockReader, disorder_of, fetched_blocks, ids_increase, release
from cluster.spark.failures import failing_as_trace_error
from decopa.choices import MISSING_POLICIES, MissingPolicy
from decopa.errors import TraceError, did_you_mean
from shuffler.rows.events import TraceColumns
from shuffler.source.checks import Survey
from shuffler.source.readers import CSV_SUFFIXES, JSON_SUFFIXES, PARQUET_SUFFIXES
from shuffler.source.trace import TraceSource

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: Rows of a block that is made by sorting.
ROWS_PER_BLOCK = 250_000
#: A partition with more rows than this is split, to keep blocks small against the object store.
MAX_ROWS_PER_BLOCK = 2_000_000
DEFAULT_COLUMNS = TraceColumns()


@dataclass(frozen=True)
class CleanTrace:
    """Events of a trace, all with id, time and type; `dropped` counts rows without one of them, by what they lack.

    `span_us` are the times of the first and the last event in microseconds, (0, 0) if there is none.
    """

    frame: DataFrame
    columns: TraceColumns
    rows: int
    span_us: tuple[int, int]
    dropped: Mapping[str, int]
    name: str

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(f"{self.name}: dropped {count:,} rows without {role}" for role, count in self.dropped.items())


@dataclass(frozen=True)
class LoadedTrace:
    """A trace in Ray's object store, in time order; `release` frees what Spark keeps to make lost blocks again."""

    blocks: tuple[Block, ...]
    trace: CleanTrace
    was_sorted: bool

    @property
    def rows(self) -> int:
        return sum(block.rows for block in self.blocks)

    @property
    def event_types(self) -> frozenset[str]:
        return frozenset().union(*(block.summary.event_types for block in self.blocks))

    @property
    def notices(self) -> tuple[str, ...]:
        order = () if self.was_sorted else (f"timestamps were not in order: sorted {self.rows:,} events",)
        return (*self.trace.notices, *order)

    def source(self, *, nan_as_null: bool = False) -> TraceSource:
        """The trace as every runtime reads it; works in any process of the cluster."""
        if not self.blocks:
            raise TraceError(f"{self.trace.name} has no events; check that it is the right one")
        reader = BlockReader(self.blocks, self.blocks[0].summary.schema, self.trace.name)
        found = Survey(self.rows, self.event_types, None, self.trace.span_us)
        source = TraceSource(reader, self.trace.columns, found, assume_sorted=True, nan_as_null=nan_as_null)
        source.notices.extend(self.notices)
        return source

    def release(self) -> None:
        release(self.trace.frame.sparkSession, self.blocks)


def read_trace(spark: SparkSession, path: str | Path, columns: TraceColumns = DEFAULT_COLUMNS) -> DataFrame:
    """A Parquet file or a directory of them, a CSV file with a header, or JSON lines, as Spark reads them.

    A path without a scheme is a local one and must be there on every node. Cells of a CSV are typed by the whole file;
    rows that do not fit the header are refused when the frame is used.
    """
    text = str(path)
    local = "://" not in text
    if local:
        if not Path(text).exists():
            raise TraceError(f"no trace '{text}'; check the path")
        text = Path(text).resolve().as_uri()
    name = text.rstrip("/").lower()
    with failing_as_trace_error(f"'{path}' cannot be read"):
        if name.endswith(CSV_SUFFIXES):
            return _read_csv(spark, text, columns)
        if name.endswith(JSON_SUFFIXES):
            return spark.read.json(text, mode="FAILFAST")
        if name.endswith(PARQUET_SUFFIXES) or not Path(name).suffix or (local and Path(path).is_dir()):
            return spark.read.option("recursiveFileLookup", "true").parquet(text)
    known = ", ".join((*PARQUET_SUFFIXES, *CSV_SUFFIXES, *JSON_SUFFIXES))
    raise TraceError(f"{path}: unknown kind of trace; its name must end in one of {known}")


def clean(
    df: DataFrame,
    columns: TraceColumns = DEFAULT_COLUMNS,
    *,
    missing: MissingPolicy = "fail",
    name: str = "the data frame",
) -> CleanTrace:
    """The events of a frame, with times typed; one pass over ids, times and types.

    Times are timestamps, dates or integer microseconds; text becomes timestamps (ISO 8601, in UTC unless it says
    otherwise). Rows without id, time or type are refused, or with `missing="drop"` left out and counted.
    """
    from pyspark.sql import functions as F

    _check_missing(missing)
    _check_columns(df, columns, name)
    time = _time(df, columns)
    given = {"id": named(columns.id), "ts": time, "type": named(columns.type)}
    lacking = given["id"].isNull() | given["ts"].isNull() | given["type"].isNull()
    unread = time.isNull() & named(columns.ts).isNotNull()
    counts = [F.count_if(which) for which in (lacking, unread, *(value.isNull() for value in given.values()))]
    typed = _typed(df, columns)
    seen_us = F.when(~lacking, time_us(typed, columns, time))
    with failing_as_trace_error(name):
        (found,) = df.agg(F.min(seen_us), F.max(seen_us), F.count(F.lit(1)), *counts).collect()
    first_us, last_us, rows, incomplete, unreadable, *each = (int(value or 0) for value in found)
    dropped = {role: count for role, count in zip(given, each, strict=True) if count}
    if incomplete and missing == "fail":
        columns_of = {"id": columns.id, "ts": columns.ts, "type": columns.type}
        listed = ", ".join(f"{count:,} in '{columns_of[role]}'" for role, count in dropped.items())
        texts = f" ({unreadable:,} hold text that is no time)" if unreadable else ""
        raise TraceError(
            f"{name}: {incomplete:,} of {rows:,} rows lack an id, a time or a type: {listed}{texts}; repair them, or "
            "leave them out with missing='drop'"
        )
    there = [named(column).isNotNull() for column in (columns.id, columns.ts, columns.type)]
    complete = typed.where(there[0] & there[1] & there[2]) if incomplete else typed
    return CleanTrace(complete, columns, rows - incomplete, (first_us, last_us), dropped, name)


def time_sorted(df: DataFrame, columns: TraceColumns, partitions: int) -> DataFrame:
    """The rows in `partitions` ranges of time of about equal size, each sorted by time, then id; always the same order.

    Events of the same time are in one partition. Adaptive execution must be off when the frame is used (it is in
    `spark_on_ray` and in `load_trace`).
    """
    if partitions < 1:
        raise TraceError(f"a trace is sorted into one partition at least, got {partitions}")
    ts, ident = named(columns.ts), named(columns.id)
    return df.repartitionByRange(partitions, ts).sortWithinPartitions(ts, ident)


def check_unique_ids(trace: CleanTrace) -> None:
    """Refuses an id that two events have; exact, by a pass over all ids through Spark's shuffle."""
    from pyspark.sql import functions as F

    ident = named(trace.columns.id)
    with failing_as_trace_error(trace.name):
        repeated = trace.frame.groupBy(ident.alias("id")).agg(F.count(F.lit(1)).alias("n")).where("n > 1")
        found = repeated.orderBy("id").limit(1).collect()
    if found:
        raise TraceError(
            f"{trace.name}: column '{trace.columns.id}': id {found[0]['id']} is that of {found[0]['n']:,} events; "
            "every event needs its own id"
        )


def load_trace(
    df: DataFrame,
    columns: TraceColumns = DEFAULT_COLUMNS,
    *,
    attributes: Collection[str] | None = None,
    missing: MissingPolicy = "fail",
    partitions: int | None = None,
    name: str = "the data frame",
) -> LoadedTrace:
    """The frame's events in Ray's object store: complete, in time order, with unique ids; TraceError for what is not.

    Blocks carry the columns of these attributes beside id, time and type; without `attributes` all columns. A frame
    whose partitions are in time order already is taken as it is (they may be listed in any order); any other is sorted
    by Spark, into `partitions` blocks if given.
    """
    if columns.end is not None:
        raise TraceError(f"{name}: events that last are not read by Spark; leave out --end, or name a file")
    _check_missing(missing)
    _check_columns(df, columns, name)
    df = df if attributes is None else with_attributes(df, columns, attributes, name)
    with _partitions_kept(df.sparkSession):
        try:
            return _load(_typed(df, columns), columns, {}, partitions, name)
        except TraceError:
            # Most frames are complete, so what is missing is counted only when something is.
            trace = clean(df, columns, missing=missing, name=name)
            if not trace.dropped:
                raise
            return _load(trace.frame, columns, trace.dropped, partitions, name)


def with_attributes(df: DataFrame, columns: TraceColumns, attributes: Collection[str], name: str) -> DataFrame:
    """The frame without the columns that nobody asks for, in its own order; TraceError for an attribute it lacks."""
    for attribute in sorted(attributes):
        if attribute not in ("id", "ts") and attribute not in df.columns:
            raise TraceError(f"{name} has no column '{attribute}'{did_you_mean(attribute, df.columns)}")
    needed = {columns.id, columns.ts, columns.type, *(set(attributes) - {"id", "ts"})}
    return df.select(*(named(column) for column in df.columns if column in needed))


def _load(
    frame: DataFrame, columns: TraceColumns, dropped: Mapping[str, int], partitions: int | None, name: str
) -> LoadedTrace:
    blocks, was_sorted = _ordered_blocks(frame, columns, partitions, name)
    rows = sum(block.rows for block in blocks)
    span_us = (blocks[0].first_ts_us, blocks[-1].last_ts_us) if blocks else (0, 0)
    trace = CleanTrace(frame, columns, rows, span_us, dropped, name)
    try:
        if not ids_increase([block.summary for block in blocks]):
            check_unique_ids(trace)
    except TraceError:
        release(frame.sparkSession, blocks)
        raise
    return LoadedTrace(tuple(blocks), trace, was_sorted)


def _ordered_blocks(
    frame: DataFrame, columns: TraceColumns, partitions: int | None, name: str
) -> tuple[list[Block], bool]:
    """The blocks in time order, and whether the frame was."""
    blocks = fetched_blocks(frame, columns, name=name)
    rows = sum(block.rows for block in blocks)
    most = MAX_ROWS_PER_BLOCK if partitions is None else max(1, 2 * rows // partitions)
    in_order = disorder_of([block.summary for block in blocks], name) is None
    if in_order and all(block.rows <= most for block in blocks):
        return blocks, True
    release(frame.sparkSession, blocks)
    wanted = partitions or max(1, math.ceil(rows / ROWS_PER_BLOCK))
    blocks = fetched_blocks(time_sorted(frame, columns, wanted), columns, name=name)
    disorder = disorder_of([block.summary for block in blocks], name)
    if disorder is not None:  # not known to happen; order is what everything after this relies on
        release(frame.sparkSession, blocks)
        raise TraceError(f"{disorder}, although Spark sorted them; write the trace sorted and read it again")
    return blocks, in_order


@contextmanager
def _partitions_kept(spark: SparkSession) -> Iterator[None]:
    """Adaptive execution, which merges partitions, is off meanwhile: the session may be one that the user started."""
    setting = "spark.sql.adaptive.enabled"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "false")
    try:
        yield
    finally:
        spark.conf.set(setting, before or "true")


def _read_csv(spark: SparkSession, path: str, columns: TraceColumns) -> DataFrame:
    """Types are settled over the whole file, except that event types are text; broken rows raise when read.

    An empty cell is a missing value and `""` an empty string, as in `shuffler.source.readers`; Spark tells them apart
    if the mark for missing values is one that no cell has.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    reader = spark.read.options(header=True, mode="FAILFAST", nullValue="\0", escape='"', multiLine=True)
    inferred = reader.csv(path, inferSchema=True).schema
    fields = [StructField(one.name, StringType()) if one.name == columns.type else one for one in inferred.fields]
    return reader.csv(path, schema=StructType(fields), enforceSchema=False)


def _check_columns(df: DataFrame, columns: TraceColumns, name: str) -> None:
    from pyspark.sql import types as T

    twice = next((column for column in df.columns if df.columns.count(column) > 1), None)
    if twice is not None:
        raise TraceError(f"{name}: two columns are called '{twice}'; rename one")
    kinds = {field.name: field.dataType for field in df.schema.fields}
    whole = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
    times = (*whole, T.TimestampType, T.TimestampNTZType, T.DateType, T.StringType)
    allowed = {
        "id": ((*whole, T.StringType), "event ids are integers or strings"),
        "ts": (times, "times are timestamps, dates or integer microseconds"),
        "type": ((*whole, T.StringType), "event types are strings or integers"),
    }
    for role, column in (("id", columns.id), ("ts", columns.ts), ("type", columns.type)):
        hint = f"name the right one with --{role} (TraceColumns({role}=...))"
        if column not in kinds:
            listed = ", ".join(df.columns) or "none"
            near = did_you_mean(column, df.columns) if df.columns else ""
            raise TraceError(f"{name} has no column '{column}'{near}; its columns are {listed}; {hint}")
        fitting, rule = allowed[role]
        if not isinstance(kinds[column], fitting):
            raise TraceError(
                f"{name}: column '{column}' holds {kinds[column].simpleString()}, but {rule}; convert it or {hint}"
            )


def _check_missing(missing: str) -> None:
    if missing not in MISSING_POLICIES:
        raise TraceError(f"missing values can 'fail' or 'drop', got '{missing}'")


def _typed(df: DataFrame, columns: TraceColumns) -> DataFrame:
    return df.withColumn(columns.ts, _time(df, columns)) if _is_text(df, columns.ts) else df


def _time(df: DataFrame, columns: TraceColumns) -> Column:
    """The time column; text as a timestamp, or null if it does not begin with a date."""
    from pyspark.sql import functions as F

    given = named(columns.ts)
    if not _is_text(df, columns.ts):
        return given
    # Spark would read a time of day as one of today.
    return F.when(given.rlike(r"^\s*[+-]?\d{4,6}-\d{1,2}-\d{1,2}"), F.try_to_timestamp(given))


def _is_text(df: DataFrame, column: str) -> bool:
    from pyspark.sql.types import StringType

    return isinstance(df.schema[column].dataType, StringType)


def time_us(df: DataFrame, columns: TraceColumns, time: Column | None = None) -> Column:
    """The time of an event in microseconds since 1970; `time` stands in for the frame's column, of the same type."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import DateType, IntegralType, TimestampNTZType

    column, kind = named(columns.ts) if time is None else time, df.schema[columns.ts].dataType
    if isinstance(kind, IntegralType):
        return column.cast("long")
    if isinstance(kind, DateType | TimestampNTZType):
        column = F.to_timestamp(column)  # in the session's zone, which is UTC in `spark_on_ray`
    return F.unix_micros(column)


def named(column: str) -> Column:
    """The column of exactly this name, whatever is in it."""
    from pyspark.sql import functions as F

    return F.col("`" + column.replace("`", "``") + "`")
