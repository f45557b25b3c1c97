"""From a publisher's CSV files to a trace on Spark: rows read as text, checked, counted, put in order, numbered.

A module per publisher says what its columns mean. Everything is column expressions on Spark data frames. No row gets
lost without a count: either it becomes an event, or the first check that it fails is its reason.
"""

from __future__ import annotations

import gzip
import itertools
import math
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, cast
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext, StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from cluster.ray_session import ray_session
from cluster.spark.failures import innermost_cause
from cluster.spark.session import spark_on_ray
from decopa.errors import OutputError, TraceError

#: Where a row was read: its file, where its part of the file begins, its place in that part (increasing).
PLACE = ("_file", "_block", "_row")
#: The number of the first check that a row fails; null for events.
REASON = "_reason"
_BAD, _REMARK = "_bad", "_remark_"
#: Bytes of CSV that make one partition of the sorted trace, and how far CSV shrinks under gzip.
_PARTITION_BYTES, _GZIP_RATIO, _MAX_PARTITIONS = 128 * 2**20, 6, 1_000
#: `monotonically_increasing_id` has the number of the partition above these bits, and the place in it below.
_PLACE_MASK = 2**33 - 1
_MAX_LINE = 2**20

Tell = Callable[[str], object]


@contextmanager
def spark_here() -> Iterator[SparkSession]:
    """The Spark of this process if it runs one; else one on Ray for the time of a `with` block.

    Ray is the cluster that RAY_ADDRESS names, or one on this machine alone, which nobody else can reach.
    """
    if SparkContext._active_spark_context is not None:
        yield SparkSession.builder.getOrCreate()
        return
    with ray_session(dashboard=False), spark_on_ray(app_name="decopa trace") as spark:
        yield spark


# ------------------------------------------------------------------ files


@dataclass(frozen=True, slots=True)
class RawFile:
    """A CSV file, gzipped if its name says so, and what the user knows it by."""

    path: str
    name: str

    @classmethod
    def at(cls, path: Path | str, name: str | None = None) -> RawFile:
        return cls(os.path.abspath(path), str(path) if name is None else name)

    @property
    def spark_path(self) -> str:
        """Spark takes paths for patterns."""
        return "file://" + re.sub(r"([\\*?\[\]{}])", r"\\\1", self.path)

    def first_line(self) -> str | None:
        """The first line that is not blank, None if there is none."""
        with self._open() as file:
            while line := file.readline(_MAX_LINE):
                if line.strip():
                    return line.decode("utf-8-sig", "replace")
            return None

    def check_complete(self) -> None:
        """Refuses a gzipped file that is cut off or damaged."""
        with self._open() as file:
            while file.read(_MAX_LINE):
                pass

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        try:
            with gzip.open(self.path) if self.path.endswith(".gz") else open(self.path, "rb") as file:
                yield cast("IO[bytes]", file)
        except (OSError, EOFError, zlib.error) as err:
            raise TraceError(f"cannot read '{self.name}': {err}; is it complete?") from err


def filled(files: Sequence[RawFile]) -> dict[RawFile, str]:
    """The first line of each file that is not empty; TraceError if none is."""
    lines = {file: line for file in files if (line := file.first_line()) is not None}
    if not lines:
        raise TraceError(f"'{files[0].name}' is empty" if len(files) == 1 else f"all {len(files)} files are empty")
    return lines


# ------------------------------------------------------------------ rows


@dataclass(frozen=True, slots=True)
class Check:
    """Rows for which `fails` is true are no events: malformed or, if not, outside what the trace is about."""

    reason: str
    fails: Column
    malformed: bool = True


def field_count(fields: str = "the right number of") -> Check:
    """The first check of every row: Spark sets lines apart that have more or fewer fields than columns."""
    return Check(f"the line does not have {fields} fields", F.col(_BAD).isNotNull())


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the raw files: what it is called here, and its type in Spark SQL; see `typed`."""

    name: str
    kind: str
    required: bool = False

    @property
    def text(self) -> Column:
        """As it stands in the file; null if there is nothing."""
        return F.col(raw_name(self.name))

    @property
    def value(self) -> Column:
        """Null also if it cannot be read; `checks` tells these cases apart."""
        return F.col(self.name)

    @property
    def checks(self) -> list[Check]:
        """Missing although required; not what its type says. NaN and infinity are no numbers."""
        missing = [Check(f"{self.name} is missing", self.text.isNull())] if self.required else []
        if self.kind == "string":
            return missing
        unreadable = self.value.isNull()
        if self.kind == "double":
            unreadable = unreadable | F.isnan(self.value) | (F.abs(self.value) == math.inf)
        what = {"double": "a number", "boolean": "0 or 1", "timestamp_ntz": "a time"}.get(
            self.kind, "a whole number in range"
        )
        return [*missing, Check(f"{self.name} is not {what}", self.text.isNotNull() & unreadable)]


def raw_name(name: str) -> str:
    """What the text of a column is called among the rows that `read_rows` gives."""
    return f"_raw_{name}"


def named(number: Column, names: Sequence[str]) -> Column:
    """The name with that number, from 0; null if there is none."""
    return F.coalesce(*(F.when(number == place, F.lit(name)) for place, name in enumerate(names)))


def read_rows(spark: SparkSession, files: Sequence[RawFile], columns: Sequence[str], *, header: bool) -> DataFrame:
    """Every line that is not blank, as text in columns of these names (see `raw_name`), with its place."""
    raw = [raw_name(name) for name in columns]
    reader = spark.read.option("columnPruning", "false")  # with it, Spark does not count the fields of a line
    read = reader.csv(
        [file.spark_path for file in files],
        schema=StructType([StructField(name, StringType()) for name in (*raw, _BAD)]),
        header=header,
        mode="PERMISSIVE",
        columnNameOfCorruptRecord=_BAD,
        ignoreLeadingWhiteSpace=True,
        ignoreTrailingWhiteSpace=True,
        escape='"',  # a quote within quotes is doubled, and the `\N` of some months is just that
    )
    file, block, row = PLACE
    return read.select(
        *(F.when(F.col(name) != "", F.col(name)).alias(name) for name in raw),
        _BAD,
        F.col("_metadata.file_path").alias(file),
        F.col("_metadata.file_block_start").alias(block),
        F.monotonically_increasing_id().alias(row),
    )


def typed(rows: DataFrame, fields: Iterable[Field]) -> DataFrame:
    """The rows with a column of its type for each field, null where the text cannot be read.

    A step of its own, so that Spark reads each text once, however many checks look at the value.
    """
    return rows.select(
        "*", *(F.expr(f"try_cast(`{raw_name(one.name)}` AS {one.kind})").alias(one.name) for one in fields)
    )


def with_reasons(
    rows: DataFrame, columns: Mapping[str, Column], checks: Sequence[Check], remarks: Sequence[Column]
) -> DataFrame:
    """The columns, the number of the first check that fails, which remarks apply, and the place of each row."""
    return rows.select(
        *(column.alias(name) for name, column in columns.items()),
        F.coalesce(*(F.when(check.fails, F.lit(number)) for number, check in enumerate(checks))).alias(REASON),
        *(F.coalesce(remark, F.lit(False)).alias(f"{_REMARK}{number}") for number, remark in enumerate(remarks)),
        *PLACE,
    )


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """What a publisher's module makes of files: `rows` as `with_reasons` gives them, and what belongs to them.

    `remarks` are the texts for the remarks. `types` are all that column `type` can hold. Events are sorted by `order`,
    then as they stand in the files.
    """

    rows: DataFrame
    files: Sequence[RawFile]
    checks: Sequence[Check]
    remarks: Sequence[str]
    types: Sequence[str]
    order: Sequence[str] = ("ts",)

    @property
    def columns(self) -> list[str]:
        return [name for name in self.rows.columns if name not in (REASON, *PLACE) and not name.startswith(_REMARK)]


# ------------------------------------------------------------------ events


@dataclass(frozen=True, slots=True)
class Rejection:
    """Rows that are no events, why, and file and row (from 1; header and blank lines not counted) of the first."""

    reason: str
    rows: int
    malformed: bool
    first_file: str
    first_row: int


@dataclass(frozen=True, slots=True)
class TraceReport:
    """What came of the files: every row is an event of a type or counted in one rejection."""

    rows: int
    events: Mapping[str, int]
    rejections: tuple[Rejection, ...]
    remarks: Mapping[str, int]
    first_ts: int | datetime
    last_ts: int | datetime


@contextmanager
def prepared(
    checked: CheckedRows, *, strict: bool = False, partitions: int | None = None, tell: Tell = lambda stage: None
) -> Iterator[tuple[DataFrame, TraceReport]]:
    """The events, sorted and numbered (`id`: 1, 2, ...), and the report; for the time of a `with` block.

    TraceError if there are no events, or with `strict` if a row is malformed. `tell` hears what is being done.
    """
    cached: list[DataFrame] = []
    try:
        with _reading(checked.files):
            tell("reading and checking")
            rows = checked.rows.persist(StorageLevel.MEMORY_AND_DISK)
            cached.append(rows)
            report = _report(rows, checked)
            _refuse(report, strict)
            tell("sorting")
            events = _numbered(rows, checked, partitions or _partitions(checked.files), cached)
        yield events, report
    finally:
        for frame in cached:
            frame.unpersist()


def _numbered(rows: DataFrame, checked: CheckedRows, partitions: int, cached: list[DataFrame]) -> DataFrame:
    keys = (*checked.order, *PLACE)
    events = rows.where(F.col(REASON).isNull()).repartitionByRange(partitions, *keys).sortWithinPartitions(*keys)
    place = F.monotonically_increasing_id()
    if partitions == 1:
        return events.select((place + 1).alias("id"), *checked.columns)
    # Kept, because partitions must be the same when they are counted and when they are numbered.
    events = events.select(*checked.columns, F.spark_partition_id().alias("_part"), place.alias("_place"))
    cached.append(events.persist(StorageLevel.MEMORY_AND_DISK))
    sizes = {row["_part"]: row["count"] for row in events.groupBy("_part").count().collect()}
    starts = itertools.accumulate((sizes.get(part, 0) for part in range(partitions)), initial=1)
    start = F.array(*(F.lit(first).cast("bigint") for first in starts))[F.col("_part")]
    return events.select((start + F.col("_place").bitwiseAND(_PLACE_MASK)).alias("id"), *checked.columns)


def _report(rows: DataFrame, checked: CheckedRows) -> TraceReport:
    groups = (
        rows.groupBy(REASON, F.when(F.col(REASON).isNull(), F.col("type")).alias("type"))
        .agg(
            F.count("*").alias("rows"),
            F.min("ts").alias("first_ts"),
            F.max("ts").alias("last_ts"),
            F.min(F.struct(*PLACE)).alias("first"),
            *(F.count_if(f"{_REMARK}{number}").alias(f"{_REMARK}{number}") for number in range(len(checked.remarks))),
        )
        .collect()
    )
    events = {group["type"]: group for group in groups if group[REASON] is None}
    return TraceReport(
        rows=sum(group["rows"] for group in groups),
        events={name: events[name]["rows"] if name in events else 0 for name in checked.types},
        rejections=_rejections(rows, checked, [group for group in groups if group[REASON] is not None]),
        remarks={
            text: count
            for number, text in enumerate(checked.remarks)
            if (count := sum(group[f"{_REMARK}{number}"] for group in events.values()))
        },
        first_ts=min((group["first_ts"] for group in events.values()), default=0),
        last_ts=max((group["last_ts"] for group in events.values()), default=0),
    )


def _rejections(rows: DataFrame, checked: CheckedRows, groups: Sequence[Row]) -> tuple[Rejection, ...]:
    """In the order of the checks."""
    if not groups:
        return ()
    groups = sorted(groups, key=lambda group: group[REASON])
    file, block, row = PLACE
    up_to_first = []
    for first in (group["first"] for group in groups):
        earlier = (F.col(block) < first[block]) | ((F.col(block) == first[block]) & (F.col(row) <= first[row]))
        up_to_first.append((F.col(file) == first[file]) & earlier)
    numbers = rows.agg(*(F.count_if(condition).alias(str(n)) for n, condition in enumerate(up_to_first))).collect()[0]
    names = {known.path: known.name for known in checked.files}
    return tuple(
        Rejection(
            checked.checks[group[REASON]].reason,
            group["rows"],
            checked.checks[group[REASON]].malformed,
            names.get(path := unquote(urlsplit(group["first"][file]).path), path),
            number,
        )
        for group, number in zip(groups, numbers, strict=True)
    )


def _refuse(report: TraceReport, strict: bool) -> None:
    first = min(
        (one for one in report.rejections if one.malformed),
        key=lambda one: (one.first_file, one.first_row),
        default=None,
    )
    if strict and first is not None:
        raise TraceError(
            f"'{first.first_file}', row {first.first_row}: {first.reason}; mend it, or leave out --strict to have such "
            "rows counted"
        )
    if not any(report.events.values()):
        reasons = "; ".join(f"{one.rows:,} rows: {one.reason}" for one in report.rejections)
        raise TraceError(f"no events in the input ({reasons or 'it has no rows'}); is it the right data?")


def _partitions(files: Sequence[RawFile]) -> int:
    sizes = (os.path.getsize(file.path) * (_GZIP_RATIO if file.path.endswith(".gz") else 1) for file in files)
    return min(_MAX_PARTITIONS, 1 + sum(sizes) // _PARTITION_BYTES)


def write_parts(events: DataFrame, directory: Path) -> list[Path]:
    """The events as Parquet files in a new directory; their names sort as the events do."""
    try:
        events.write.option("compression", "zstd").parquet(f"file://{directory.absolute()}")
    except Py4JJavaError as err:
        raise OutputError(f"Spark cannot write to '{directory.parent}': {innermost_cause(str(err))}") from err
    return sorted(directory.glob("part-*.parquet"))


@contextmanager
def _reading(files: Sequence[RawFile]) -> Iterator[None]:
    """Turns what Spark says about files that it cannot read into one line that names the file, if one is damaged."""
    try:
        yield
    except Py4JJavaError as err:  # a job failed; what is wrong with a plan comes as other errors
        for file in files:
            file.check_complete()
        raise TraceError(f"Spark cannot read the files: {innermost_cause(str(err))}") from err
