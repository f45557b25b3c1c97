"""Google's task events of 2011: what becomes of every line of the publisher's files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from decopa.commands.raw_traces import find_files
from decopa.errors import TraceError
from tests.support.publishers import csv_text, task_event, write

pytest.importorskip("pyspark")
from cluster.spark.publishers.google import FIELDS, LETTERS, PAPER_NAMES, TASK_EVENTS, google_rows
from cluster.spark.publishers.raw_traces import RawFile, TraceReport, filled, prepared, write_parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark's results come through sockets that are left to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

AFTER = 2**63 - 1
#: In the order in which reasons are tried; the ones that are not malformed come with False.
BAD_LINES: list[tuple[list[object], str, bool]] = [
    ([5, 6, 7], "the line does not have 13 fields", True),
    ([*task_event(5), "more"], "the line does not have 13 fields", True),
    (task_event(""), "ts is missing", True),
    (task_event("noon"), "ts is not a whole number in range", True),
    (task_event("9223372036854775808"), "ts is not a whole number in range", True),
    (task_event(5, job_id=""), "job_id is missing", True),
    (task_event(5, task_index="1.5"), "task_index is not a whole number in range", True),
    (task_event(5, machine_id="x"), "machine_id is not a whole number in range", True),
    (task_event(5, ""), "event_type is missing", True),
    (task_event(5, priority=""), "priority is missing", True),
    (task_event(5, priority=300), "priority is not a whole number in range", True),
    (task_event(5, cpu_request="nan"), "cpu_request is not a number", True),
    (task_event(5, disk_request="1e999"), "disk_request is not a number", True),
    (task_event(5, different_machines="maybe"), "different_machines is not 0 or 1", True),
    (task_event(5, 9), "event_type is not one of 0 to 8", True),
    (task_event(AFTER), "time 2^63-1: after the end of the trace", False),
    (task_event(-5), "ts is negative or too large", True),
    (task_event(2**62 + 1), "ts is negative or too large", True),
    (task_event(0, 0), "time 0: before the beginning of the trace", False),
]


class Made(NamedTuple):
    events: list[dict[str, Any]]
    report: TraceReport
    files: list[RawFile]


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Two parts and an empty one below a root with other tables; the second part has the earlier times."""
    root = tmp_path_factory.mktemp("bucket [1]")
    good = [task_event(600_000_000 + code, code, task_index=code) for code in range(9)]
    ties = [task_event(600_000_000, 4, task_index=index) for index in (30, 10, 20)]
    sparse = task_event(599_000_000, 0, **dict.fromkeys(("machine_id", "user", "scheduling_class", "cpu_request"), ""))
    synthesized = task_event(599_000_001, 5, missing_info=2, different_machines=1, user=' a "b", c ')
    write(root / "schema.csv", "not,an,event\n")
    part = root / "task_events" / "part-0000{}-of-00500.csv.gz"
    write(Path(str(part).format(0)), csv_text(good[::-1]) + "\n\n" + csv_text(line for line, *_ in BAD_LINES))
    write(Path(str(part).format(1)), csv_text([*ties, sparse, synthesized]).replace("\n", "\r\n"))
    write(Path(str(part).format(2)), "")
    files = [RawFile.at(path) for path in find_files([str(root)], (".csv", ".csv.gz"), folder="task_events")]
    with prepared(google_rows(spark, files), partitions=3) as (events, report):
        return Made([row.asDict() for row in events.collect()], report, files)


@pytest.mark.spark
def test_every_line_is_an_event_or_counted_with_its_reason(made: Made) -> None:
    expected: dict[tuple[str, bool], int] = {}
    for _, reason, malformed in BAD_LINES:
        expected[reason, malformed] = expected.get((reason, malformed), 0) + 1
    assert {(one.reason, one.malformed): one.rows for one in made.report.rejections} == expected
    assert made.report.rows == 14 + len(BAD_LINES)
    assert made.report.events == {**dict.fromkeys("BCDGHI", 1), "A": 2, "E": 4, "F": 2}
    assert (made.report.first_ts, made.report.last_ts) == (599_000_000, 600_000_008)


@pytest.mark.spark
def test_a_reason_comes_with_file_and_row_of_the_first_line(made: Made) -> None:
    first = made.report.rejections[0]
    assert (first.first_file, first.first_row) == (made.files[0].name, 10)
    last = made.report.rejections[-1]
    assert (last.first_file, last.first_row) == (made.files[0].name, 9 + len(BAD_LINES))


@pytest.mark.spark
def test_types_are_the_numbers_under_the_names_of_2011_and_of_the_paper(made: Made) -> None:
    named = {(one["type"], one["task_event"], one["paper_name"]) for one in made.events}
    assert named == set(zip(LETTERS, TASK_EVENTS, PAPER_NAMES, strict=True))


@pytest.mark.spark
def test_ids_count_events_by_time_and_at_equal_times_by_place_in_the_files(made: Made) -> None:
    assert [one["id"] for one in made.events] == list(range(1, 15))
    assert [one["ts"] for one in made.events] == sorted(one["ts"] for one in made.events)
    tied = [(one["type"], one["task_index"]) for one in made.events if one["ts"] == 600_000_000]
    assert tied == [("A", 0), ("E", 30), ("E", 10), ("E", 20)]


@pytest.mark.spark
def test_empty_fields_are_missing_values_and_quoted_ones_stay(made: Made) -> None:
    sparse, synthesized = made.events[:2]
    assert [name for name, value in sparse.items() if value is None] == [
        *("machine_id", "user", "scheduling_class", "cpu_request", "missing_info")
    ]
    assert (synthesized["user"], synthesized["different_machines"]) == (' a "b", c ', True)
    assert synthesized["missing_info"] == 2
    assert list(made.report.remarks.values()) == [1]


@pytest.mark.spark
def test_strict_stops_at_the_first_malformed_line(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "part.csv", csv_text([task_event(7), task_event(0), task_event(9, 12), [1]]))
    with (
        pytest.raises(TraceError, match=r"part\.csv', row 3: event_type is not one of 0 to 8; .*--strict"),
        prepared(google_rows(spark, [RawFile.at(path)]), strict=True),
    ):
        pass


@pytest.mark.spark
def test_events_from_before_the_trace_are_kept_on_request(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "part.csv", csv_text([task_event(7), task_event(0)]))
    with prepared(google_rows(spark, [RawFile.at(path)], keep_before=True), strict=True) as (events, report):
        assert [row["ts"] for row in events.collect()] == [0, 7]
        assert report.rejections == ()


@pytest.mark.spark
def test_a_file_that_is_cut_off_is_named(spark: SparkSession, tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.csv.gz", csv_text([task_event(7)]))
    cut = write(tmp_path / "cut.csv.gz", csv_text(task_event(index, user=index**9) for index in range(5_000)))
    cut.write_bytes(cut.read_bytes()[:-20_000])
    with (
        pytest.raises(TraceError, match=r"cannot read '.*cut\.csv\.gz': .*is it complete"),
        prepared(google_rows(spark, [RawFile.at(whole), RawFile.at(cut)])),
    ):
        pass


@pytest.mark.spark
def test_files_of_other_data_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "other.csv", "a,b\n1,2\n")
    with (
        pytest.raises(TraceError, match=r"no events in the input \(2 rows: the line does not have 13 fields\)"),
        prepared(google_rows(spark, [RawFile.at(path)])),
    ):
        pass


@pytest.mark.spark
def test_the_published_excerpt_comes_back_as_it_was(spark: SparkSession, shared: Path, tmp_path: Path) -> None:
    """Rows of both excerpts, all types among them, as the publisher would have written them."""
    known = pq.read_table(shared / "data" / "google_cluster.parquet")
    later = known.filter(pc.field("segment") == 2)
    known = pa.concat_tables([known.slice(0, 10_000), later]).combine_chunks()
    codes = pc.index_in(known["type"], pa.array(LETTERS))
    columns = {"ts": known["ts"], "missing_info": pa.nulls(len(known), pa.string()), "event_type": codes}
    columns["different_machines"] = pc.cast(known["different_machines"], pa.int8())
    names = [field.name for field in FIELDS]
    rows = zip(*((columns[name] if name in columns else known[name]).to_pylist() for name in names), strict=True)
    path = write(tmp_path / "part.csv.gz", csv_text(rows))
    with prepared(google_rows(spark, [RawFile.at(path)]), strict=True) as (events, _):
        parts = write_parts(events, tmp_path / "events")
    trace = pa.concat_tables(pq.read_table(part) for part in parts)
    assert trace["id"].to_pylist() == list(range(1, len(known) + 1))
    common = [name for name in known.schema.names if name in trace.schema.names]
    assert set(known.schema.names) - set(common) == {"event_id", "ts_uncertainty_us", "segment"}
    assert trace.select(common).cast(known.select(common).schema).equals(known.select(common))
    assert trace.schema.remove_metadata().field("priority").type == pa.int8()


def test_empty_files_are_refused(tmp_path: Path) -> None:
    files = [RawFile.at(write(tmp_path / name, "\n")) for name in ("a.csv", "b.csv.gz")]
    with pytest.raises(TraceError, match=r"b\.csv\.gz' is empty"):
        filled(files[1:])
    with pytest.raises(TraceError, match="all 2 files are empty"):
        filled(files)


def test_what_is_no_gzip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "part.csv.gz"
    path.write_text("1,2,3\n")
    with pytest.raises(TraceError, match=r"cannot read .*Not a gzipped file"):
        filled([RawFile.at(path)])


def test_files_are_found_by_path_directory_and_pattern_but_once(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv.gz", "deep/c.csv", "_hidden.csv", "__MACOSX/d.csv", "note.txt"):
        write(tmp_path / name, "x")
    suffixes = (".csv", ".csv.gz")
    found = find_files([str(tmp_path / "b.csv"), str(tmp_path), str(tmp_path / "*.gz")], suffixes)
    assert [str(path.relative_to(tmp_path)) for path in found] == ["b.csv", "a.csv.gz", "deep/c.csv"]
    for wrong in ("none.csv", "*.tsv", "note.txt", "_hidden.csv"):
        with pytest.raises(TraceError, match=r"no file|must end in"):
            find_files([str(tmp_path / wrong)], suffixes)
    (tmp_path / "void").mkdir()
    with pytest.raises(TraceError, match="has no files that end in"):
        find_files([str(tmp_path / "void")], suffixes)
