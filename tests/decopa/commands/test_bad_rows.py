"""`decopa run --bad-rows`: stop at the first bad row, or leave bad rows out and say so."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import decopa
from actors.columnar.jit import interpreted
from decopa.commands.cli import main

QUERY = "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10 us"
NAN = float("nan")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.parquet"
    table = {"id": [1, 2, None, 4], "ts": [0, 1, 2, 3], "type": ["A", "A", "B", "B"], "x": [0.5, NAN, 1.0, 0.9]}
    pq.write_table(pa.table(table), path)
    return path


def run(trace: Path, *arguments: str | Path) -> int:
    return main(["run", "--runtime", "local", QUERY, "--trace", str(trace), *map(str, arguments)])


@pytest.mark.parametrize("arguments", [(), ("--strict",), ("--bad-rows", "fail")])
def test_a_bad_row_stops_a_strict_run(
    trace: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(trace, *arguments) == 2
    assert "column 'id', row 3: has no id" in capsys.readouterr().err


def test_diverted_rows_are_written_and_the_summary_counts_them(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    letters = tmp_path / "bad.jsonl"
    assert run(trace, "--bad-rows", "divert", "--dead-letters", letters) == 0
    shown = capsys.readouterr()
    assert "left out 2 bad rows: row 3: column 'id': has no id" in " ".join(shown.err.split())
    assert f"see {letters}" in " ".join(shown.err.split())
    assert [json.loads(line)["row"] for line in letters.read_text().splitlines()] == [3, 2]
    assert len(shown.out.splitlines()) >= 2


def test_diverted_rows_need_no_file(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(trace, "--bad-rows", "divert") == 0
    assert "left out 2 bad rows" in capsys.readouterr().err


def test_a_file_without_diverting_is_refused(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(trace, "--dead-letters", tmp_path / "bad.jsonl") == 2
    assert "add --bad-rows divert" in capsys.readouterr().err


def test_a_run_reports_how_many_rows_it_left_out(trace: Path) -> None:
    with interpreted():
        result = decopa.run_detailed(QUERY, trace, trace=decopa.TraceOptions(bad_rows=decopa.BadRows("divert")))
    assert (result.bad_rows, result.events, result.matches.num_rows) == (2, 2, 1)
    assert [notice.partition(":")[0] for notice in result.warnings] == ["left out 2 bad rows"]
