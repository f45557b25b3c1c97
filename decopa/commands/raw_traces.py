"""`decopa trace google` and `decopa trace citibike`: from a publisher's raw files to a trace, on Spark."""

from __future__ import annotations

import argparse
import glob
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decopa.choices import UNKNOWN_AGES
from decopa.commands.terminal import progress_line, tell
from decopa.errors import OutputError, TraceError

if TYPE_CHECKING:
    from cluster.spark.publishers.raw_traces import CheckedRows, RawFile, TraceReport

# ------------------------------------------------------------------ arguments


def register_raw_traces(kinds: Any) -> None:
    """Adds the commands to the sub-parsers of `decopa trace`."""
    google = kinds.add_parser(
        "google",
        help="Google's cluster-usage trace of 2011, from its task_events files",
        description="Makes a trace of the task events of Google's cluster-usage trace of 2011: types A to I are the "
        "event types 0 to 8 (columns task_event and paper_name spell them out), ts is microseconds since the origin of "
        "that trace. Rows that are no events are counted by reason.",
        epilog="example: decopa trace google clusterdata-2011-2/task_events --out google.parquet",
    )
    google.set_defaults(action=trace_google)
    _add_common_arguments(google, "part-*.csv.gz, their directory, or a pattern")
    google.add_argument(
        "--keep-before",
        action="store_true",
        help="keep events from before the trace, which all have time 0 (default: left out and counted)",
    )

    citibike = kinds.add_parser(
        "citibike",
        help="rides of New York's Citi Bike, from its monthly files",
        description="Makes a trace of Citi Bike rides, from files of the layout of 2013 or of 2021 or both. Types: "
        "Short, Long and VLong rides of Old and Young subscribers and of Customers (A ShortO, B LongO, C VLongO, "
        "D ShortY, ..., I VLongC); the default limits are those of the DecoPa authors' data. ts is local time. Rows "
        "that are no events are counted by reason.",
        epilog="example: decopa trace citibike 201308-citibike-tripdata.zip --out citibike.parquet",
    )
    citibike.set_defaults(action=trace_citibike)
    _add_common_arguments(citibike, ".csv, .csv.gz or .zip (unpacked beside the output for the time), directories")
    for name, default, about in (
        ("--short-from", 60, "shortest Short ride; shorter ones are left out and counted"),
        ("--long-from", 70, "shortest Long ride"),
        ("--very-long-from", 300, "shortest VLong ride"),
    ):
        citibike.add_argument(name, metavar="S", type=int, default=default, help=f"{about}, in s (default: {default})")
    citibike.add_argument(
        "--young-from", metavar="YEAR", type=int, default=1962, help="first birth year of Young (default: %(default)s)"
    )
    citibike.add_argument(
        "--unknown-age",
        choices=UNKNOWN_AGES,
        default=UNKNOWN_AGES[0],
        help="what subscribers without a birth year are, such as all since 2021 (default: %(default)s)",
    )


def _add_common_arguments(parser: argparse.ArgumentParser, about: str) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help=about)
    parser.add_argument("--strict", action="store_true", help="stop at a malformed row instead of counting it")
    parser.add_argument("--out", metavar="FILE", type=Path, required=True, help="where the trace goes: .parquet")
    parser.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")
    parser.add_argument("--quiet", action="store_true", help="no summary, no progress")


# ------------------------------------------------------------------ commands


def trace_google(args: argparse.Namespace) -> None:
    """Runs `decopa trace google`."""
    _check_output(args)
    paths = find_files(args.files, (".csv", ".csv.gz"), folder="task_events")
    from cluster.spark.publishers.google import TASK_EVENTS, google_rows
    from cluster.spark.publishers.raw_traces import RawFile, filled

    files = list(filled([RawFile.at(path) for path in paths]))
    with _workspace(args.out) as work:
        report = _make(args, work, lambda spark: google_rows(spark, files, keep_before=args.keep_before))
    if not args.quiet:
        pair = "a.job_id = b.job_id AND a.task_index = b.task_index WITHIN 5 min"
        notes = _empty_files(paths, files)
        _summarize(args.out, report, len(files), notes, dict(zip(report.events, TASK_EVENTS, strict=True)), pair)


def trace_citibike(args: argparse.Namespace) -> None:
    """Runs `decopa trace citibike`."""
    _check_output(args)
    paths = find_files(args.files, (".csv", ".csv.gz", ".zip"))
    from cluster.spark.publishers.citibike import TYPE_NAMES, RideClasses, by_columns, citibike_rows, unzip
    from cluster.spark.publishers.raw_traces import RawFile

    classes = RideClasses(
        args.short_from, args.long_from, args.very_long_from, args.young_from, unknown_age=args.unknown_age
    )
    with _workspace(args.out) as work:
        found: list[RawFile] = []
        for path in paths:
            found += unzip(path, work) if path.suffix.lower() == ".zip" else [RawFile.at(path)]
        unpacked = [Path(file.path) for file in found if Path(file.path).parent == work.absolute()]
        notes = [f"unpacked {_megabytes(unpacked)} beside the output for the time"] if unpacked else []
        files = [file for group in by_columns(found).values() for file in group]
        report = _make(args, work, lambda spark: citibike_rows(spark, files, classes))
    if not args.quiet:
        pair = "a.end_station_id = b.start_station_id WITHIN 10 min"
        notes += _empty_files(found, files)
        _summarize(args.out, report, len(files), notes, dict(zip(report.events, TYPE_NAMES, strict=True)), pair)


def find_files(given: Sequence[str], suffixes: tuple[str, ...], *, folder: str | None = None) -> list[Path]:
    """The files that paths, directories and patterns stand for, each once, sorted within each argument.

    Directories are searched in depth, without what is hidden; only their `folder` if they have one.
    """
    found: dict[str, Path] = {}
    known = ", ".join(suffixes)
    for one in given:
        path = Path(one)
        if path.is_dir():
            root = path / folder if folder is not None and (path / folder).is_dir() else path
            here = sorted(file for file in root.rglob("*") if _is_raw(file, root, suffixes))
            if not here:
                raise TraceError(f"directory '{root}' has no files that end in {known}; name the files")
        else:
            here = [path] if path.is_file() else sorted(map(Path, glob.glob(one, recursive=True)))
            here = [file for file in here if file.is_file()]
            if not here:
                raise TraceError(f"no file '{one}'; name files, directories or patterns such as 'part-*.csv.gz'")
            for file in here:
                # Spark overlooks files with such names.
                if not file.name.lower().endswith(suffixes) or file.name.startswith(("_", ".")):
                    raise TraceError(f"'{file}': its name must end in {known}, and not begin with '_' or '.'")
        found |= {os.path.abspath(file): file for file in here}
    return list(found.values())


def _is_raw(file: Path, root: Path, suffixes: tuple[str, ...]) -> bool:
    inner = file.relative_to(root).parts
    return file.is_file() and file.name.lower().endswith(suffixes) and not any(p.startswith(("_", ".")) for p in inner)


def _make(args: argparse.Namespace, work: Path, read: Callable[[Any], CheckedRows]) -> TraceReport:
    """Reads, checks, sorts and writes; the output appears at the very end."""
    import pyarrow.parquet as pq

    from cluster.spark.publishers.raw_traces import prepared, spark_here, write_parts
    from decopa.files import write_batches

    stages = _Stages()
    with progress_line(quiet=args.quiet).watching(stages.line):
        stages.tell("starting Spark")
        with spark_here() as spark:
            stages.spark = spark
            with prepared(read(spark), strict=args.strict, tell=stages.tell) as (events, report):
                stages.tell("writing")
                parts = write_parts(events, work / "events")
            stages.spark = None
        schema = pq.read_schema(parts[0]).remove_metadata()
        batches = (batch for part in parts for batch in pq.ParquetFile(part).iter_batches())
        write_batches(schema, batches, args.out, overwrite=args.overwrite)
    return report


def _check_output(args: argparse.Namespace) -> None:
    from decopa.files import check_writable

    check_writable(args.out, args.overwrite, suffixes=(".parquet",))


@contextmanager
def _workspace(out: Path) -> Iterator[Path]:
    """A directory beside the output, since every node of a cluster must see it; gone afterwards."""
    try:
        temporary = tempfile.TemporaryDirectory(prefix=".decopa-", suffix=".tmp", dir=out.parent)
    except OSError as err:
        raise OutputError(f"cannot write to '{out.parent}': {err.strerror}; choose another place") from err
    with temporary as path:
        yield Path(path)


# ------------------------------------------------------------------ what the user sees


class _Stages:
    """What is being done, for how long, and how many of Spark's tasks are through, for the line of progress."""

    def __init__(self) -> None:
        self.spark: Any = None
        self._stage, self._start = "", time.monotonic()

    def tell(self, stage: str) -> None:
        self._stage = stage

    def line(self) -> str:
        return f"{self._stage}{self._tasks()}, {time.monotonic() - self._start:.0f} s"

    def _tasks(self) -> str:
        if self.spark is None:
            return ""
        try:
            tracker = self.spark.sparkContext.statusTracker()
            stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage))]
        except Exception:  # Spark may be stopped by the other thread, and says so in many ways
            return ""
        total = sum(one.numTasks for one in stages)
        return f", {sum(one.numCompletedTasks for one in stages)} of {total} tasks" if total else ""


def _summarize(
    out: Path, report: TraceReport, files: int, notes: Sequence[str], names: dict[str, str], conditions: str
) -> None:
    tell("rows", f"{report.rows:,} in {files:,} file{'s' if files > 1 else ''}")
    for one in report.rejections:
        first = f"first in '{one.first_file}', row {one.first_row:,}"
        tell("malformed" if one.malformed else "left out", f"{one.rows:,}: {one.reason} ({first})")
    tell("events", f"{sum(report.events.values()):,}")
    tell("time span", _span(report.first_ts, report.last_ts))
    tell("per type", ", ".join(f"{letter} {names[letter]} {count:,}" for letter, count in report.events.items()))
    for note in (*notes, *(f"{count:,} events {text}" for text, count in report.remarks.items())):
        tell("note", note)
    tell("output", str(out))
    # The two most frequent types, in the order of their letters.
    present = sorted((letter for letter, count in report.events.items() if count), key=lambda one: -report.events[one])
    first, second = sorted([*present[:2], present[0]][:2])
    tell("query to try", f"PATTERN SEQ({first} a, {second} b) WHERE {conditions}")


def _span(first: int | datetime, last: int | datetime) -> str:
    if isinstance(first, datetime) or isinstance(last, datetime):
        return f"{first} to {last}"
    return f"{first:,} to {last:,} us ({(last - first) / 1e6:,.1f} s)"


def _empty_files(given: Sequence[object], read: Sequence[object]) -> list[str]:
    empty = len(given) - len(read)
    return [f"{empty:,} of {len(given):,} files are empty"] if empty else []


def _megabytes(files: Sequence[Path]) -> str:
    return f"{sum(file.stat().st_size for file in files) / 1e6:,.1f} MB in {len(files):,} files"
