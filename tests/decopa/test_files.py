"""Matches out: every format, whole files or none, and refusals before the work is done."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from cluster.checkpoint.output import PublishedMatches
from decopa.errors import OutputError, TraceError
from decopa.files import check_writable, replacing, write_batches, write_matches, write_text

MATCHES = pa.table(
    {
        "query": pa.array(["q", "q"]).dictionary_encode(),
        "start_ts": pa.array([0, 1_500_000], pa.timestamp("us")),
        "a": [1, 20],
        "b": pa.array([[2, 3], [4]], pa.list_(pa.int64())),
        "x": [0.5, None],
        "s": ["u,v", None],
    }
)
SUFFIXES = ["parquet", "csv", "jsonl"]


def test_parquet_keeps_the_table_as_it_is(tmp_path: Path) -> None:
    write_matches(MATCHES, tmp_path / "m.parquet", overwrite=False)
    assert pq.read_table(tmp_path / "m.parquet").equals(MATCHES)


def test_csv_joins_lists_and_leaves_missing_cells_empty(tmp_path: Path) -> None:
    write_matches(MATCHES, tmp_path / "m.csv", overwrite=False)
    assert (tmp_path / "m.csv").read_text() == (
        '"query","start_ts","a","b","x","s"\n'
        '"q",1970-01-01 00:00:00.000000,1,"2;3",0.5,"u,v"\n'
        '"q",1970-01-01 00:00:01.500000,20,"4",,\n'
    )
    assert pyarrow.csv.read_csv(tmp_path / "m.csv")["a"].to_pylist() == [1, 20]


def test_csv_joins_lists_of_strings(tmp_path: Path) -> None:
    write_matches(pa.table({"b": [["e1", "e2"]]}), tmp_path / "m.csv", overwrite=False)
    assert (tmp_path / "m.csv").read_text() == '"b"\n"e1;e2"\n'


def test_json_lines_hold_one_match_each(tmp_path: Path) -> None:
    write_matches(MATCHES, tmp_path / "m.jsonl", overwrite=False)
    rows = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert rows == [
        {"query": "q", "start_ts": "1970-01-01 00:00:00.000000", "a": 1, "b": [2, 3], "x": 0.5, "s": "u,v"},
        {"query": "q", "start_ts": "1970-01-01 00:00:01.500000", "a": 20, "b": [4], "x": None, "s": None},
    ]


def test_numbers_that_json_lacks_become_null(tmp_path: Path) -> None:
    write_matches(pa.table({"x": [float("inf"), float("nan"), 1.0]}), tmp_path / "m.jsonl", overwrite=False)
    assert [json.loads(line)["x"] for line in (tmp_path / "m.jsonl").read_text().splitlines()] == [None, None, 1.0]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_matches_are_a_file_without_rows(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"m.{suffix}"
    write_matches(MATCHES.slice(0, 0), path, overwrite=False)
    assert path.exists()
    if suffix == "parquet":
        assert pq.read_table(path).schema.equals(MATCHES.schema)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_existing_file_is_replaced_only_if_asked(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"m.{suffix}"
    path.write_text("precious")
    with pytest.raises(OutputError, match="exists; pass --overwrite"):
        write_matches(MATCHES, path, overwrite=False)
    assert path.read_text() == "precious"
    write_matches(MATCHES, path, overwrite=True)
    assert path.read_bytes() != b"precious"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_error_half_way_leaves_nothing_behind(tmp_path: Path, suffix: str) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from MATCHES.to_batches()
        raise TraceError("the source broke")

    with pytest.raises(TraceError, match="the source broke"):
        write_batches(MATCHES.schema, broken(), tmp_path / f"m.{suffix}", overwrite=False)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_appears_during_the_run_is_not_replaced(tmp_path: Path) -> None:
    def racing() -> Iterator[pa.RecordBatch]:
        (tmp_path / "m.csv").write_text("precious")
        yield from MATCHES.to_batches()

    with pytest.raises(OutputError, match="exists"):
        write_batches(MATCHES.schema, racing(), tmp_path / "m.csv", overwrite=False)
    assert (tmp_path / "m.csv").read_text() == "precious"
    assert list(tmp_path.iterdir()) == [tmp_path / "m.csv"]


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    write_matches(MATCHES, tmp_path / "m.csv", overwrite=False)
    (tmp_path / "usual").touch()
    assert (tmp_path / "m.csv").stat().st_mode == (tmp_path / "usual").stat().st_mode


# ------------------------------------------------------------------ refusals


def test_an_unknown_suffix_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"must end in one of .parquet, .csv, .jsonl"):
        check_writable(tmp_path / "m.xls", overwrite=False)


def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"there is no directory .*; make it first"):
        check_writable(tmp_path / "nowhere" / "m.csv", overwrite=False)


def test_a_directory_is_no_output_file(tmp_path: Path) -> None:
    (tmp_path / "m.csv").mkdir()
    with pytest.raises(OutputError, match="it is a directory"):
        check_writable(tmp_path / "m.csv", overwrite=True)


def test_a_directory_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(OutputError, match=r"cannot write '/proc/m.csv': .*; choose a place that can be written"):
        check_writable(Path("/proc/m.csv"), overwrite=False)


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="there is no directory"):
        check_writable(tmp_path / "file" / "m.csv", overwrite=False)


def test_checking_leaves_no_trace(tmp_path: Path) -> None:
    check_writable(tmp_path / "m.csv", overwrite=False)
    assert list(tmp_path.iterdir()) == []


def test_texts_may_have_any_suffix_but_not_replace_unasked(tmp_path: Path) -> None:
    write_text("{}", tmp_path / "plan.json", overwrite=False)
    with pytest.raises(OutputError, match="exists"):
        write_text("[]", tmp_path / "plan.json", overwrite=False)
    assert (tmp_path / "plan.json").read_text() == "{}"


# ------------------------------------------------------------------ one way for all


def test_a_part_and_a_file_hold_the_same_lines(tmp_path: Path) -> None:
    table = MATCHES.append_column("y", pa.array([float("nan"), float("inf")])).append_column(
        "ys", pa.array([[1.0, float("nan")], None], pa.list_(pa.float64()))
    )
    write_matches(table, tmp_path / "m.jsonl", overwrite=False)
    parts = PublishedMatches(tmp_path / "parts", "jsonl")
    parts.prepare([])
    part = parts.stage(1, table)
    assert part is not None
    parts.publish([part])
    lines = (tmp_path / "m.jsonl").read_text()
    assert (tmp_path / "parts" / part).read_text() == lines
    rows = [json.loads(line, parse_constant=pytest.fail) for line in lines.splitlines()]
    assert [(row["y"], row["ys"]) for row in rows] == [(None, [1.0, None]), (None, None)]


def test_what_is_durable_appears_whole(tmp_path: Path) -> None:
    with replacing(tmp_path / "x", durable=True) as temporary:
        temporary.write_text("new")
        assert not (tmp_path / "x").exists()
    assert (tmp_path / "x").read_text() == "new"
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]


def test_no_other_module_writes_files_its_own_way() -> None:
    """Files are opened for writing, or renamed into place, by decopa.files alone.

    Parts are written in a staging folder and moved when they are published; bad rows, Spark's log, changes of plan and
    the matches of a live stream are appended; publishers' archives are unpacked into a folder that goes away; a lock
    holds nothing.
    """
    allowed = {
        "decopa/runs/streams/outlets.py",
        "cluster/change/switches.py",
        "cluster/launch/launching.py",
        "actors/sinks/parts.py",
        "cluster/checkpoint/output.py",
        "shuffler/source/dead_letters.py",
        "cluster/spark/publishers/citibike.py",
        "cluster/spark/session.py",
    }
    own = re.compile(
        r"os\.replace\(|os\.rename\(|\.open\([^)]*\"[wax]b?\"|savefig\(path|pq\.write_table\(|tempfile\.Named"
    )
    root = Path(__file__).resolve().parents[2]
    found = {
        str(path.relative_to(root))
        for package in ("decopa", "costmodel", "shuffler", "actors", "cluster")
        for path in (root / package).rglob("*.py")
        if own.search(path.read_text()) and path.name != "files.py"
    }
    assert found <= allowed
