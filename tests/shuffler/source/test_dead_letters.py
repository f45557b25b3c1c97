"""Bad rows: by default the first one stops everything; diverted ones are left out, counted and written down once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from decopa.errors import OutputError, TraceError
from shuffler.source.dead_letters import LONGEST_VALUE, BadRows
from shuffler.source.trace import TraceSource, open_trace
from tests.support.small_traces import trace

NAN = float("nan")


def opened(events: object, **options: Any) -> TraceSource:
    return open_trace(events, bad_rows=BadRows("divert", options.pop("file", None), **options))  # type: ignore[arg-type]


def ids(source: TraceSource, *attributes: str) -> list[int]:
    return [one for batch in source.batches(attributes, 2) for one in batch.ids.tolist()]


def letters(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_by_default_a_bad_row_stops_the_run() -> None:
    with pytest.raises(TraceError, match="column 'x', row 2: NaN"):
        ids(open_trace(trace(x=[1.0, NAN, 3.0])), "x")


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"x": [1.0, NAN, 3.0]}, "column 'x': NaN; pass nan_as_null"),
        ({"x": pa.array([1, 2**64 - 1, 3], pa.uint64())}, "column 'x': is too large for 64 signed bits"),
        ({"x": [1, -(2**63), 3]}, "column 'x': means 'missing' in here"),
        ({"x": pa.array([1_000, 1_001, 3_000], pa.timestamp("ns"))}, "column 'x': is finer than a microsecond"),
        ({"id": [0, None, 2]}, "column 'id': has no id"),
        ({"id": [0, 0, 2]}, "column 'id': an earlier row has the same id"),
        ({"ts": [0, None, 20]}, "column 'ts': has no timestamp"),
        ({"ts": [0, 2**62 + 1, 20]}, "column 'ts': is out of range for microseconds"),
        ({"ts": pa.array([0, 2**62, 9], pa.timestamp("s"))}, "column 'ts': is out of range for microseconds"),
        ({"type": ["A", None, "B"]}, "column 'type': has no event type"),
    ],
)
@pytest.mark.parametrize("live", [False, True], ids=["stored", "live"])
def test_a_row_that_cannot_be_used_is_left_out_and_written_down(
    columns: dict[str, object], reason: str, live: bool, tmp_path: Path
) -> None:
    table, file = trace(**columns), tmp_path / "bad.jsonl"
    source = opened(iter(table.to_batches()) if live else table, file=file)
    names = [name for name in table.schema.names if name not in ("id", "ts", "type")]
    assert ids(source, *names) == [0, 2]
    assert len(source.dead_letters) == 1
    (letter,) = letters(file)
    assert letter["row"] == 2
    assert letter["reason"].startswith(reason)
    assert letter["values"]["id"] == (None if "has no id" in reason else "0" if "earlier row" in reason else "1")
    assert str(source.dead_letters.notice).startswith(f"left out 1 bad row: row 2: {reason}")


def test_text_that_is_not_utf_8_is_a_bad_row(tmp_path: Path) -> None:
    raw = pa.array([b"ok", b"\xff\xfe", None], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    pq.write_table(trace(id=[0, 1, 2], s=texts), tmp_path / "t.parquet")
    with pytest.raises(TraceError, match="column 's', row 2: is not UTF-8 text"):
        ids(open_trace(tmp_path / "t.parquet"), "s")
    assert ids(opened(tmp_path / "t.parquet", file=tmp_path / "bad"), "s") == [0, 2]
    assert letters(tmp_path / "bad")[0]["values"]["s"] == r"b'\xff\xfe'"


def test_every_rule_is_applied_and_each_row_has_one_reason(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    table = trace(
        id=[0, None, 2, 3, 3, 5], ts=[0, 1, None, 3, 4, 5], type=["A", "A", None, "B", "B", "B"],
        x=[1.0, NAN, NAN, 1.0, 1.0, NAN],
    )  # fmt: skip
    source = opened(table, file=file)
    assert source.row_count == 3
    assert ids(source, "x") == [0, 3]
    assert sorted((one["row"], one["reason"].split("'")[1]) for one in letters(file)) == [
        (2, "id"), (3, "ts"), (5, "id"), (6, "x"),
    ]  # fmt: skip


def test_reading_again_neither_counts_nor_writes_a_row_twice(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    source = opened(trace(x=[NAN, 1.0, NAN]), file=file)
    assert [ids(source, "x") for _ in range(3)] == [[1]] * 3
    assert [one["row"] for one in letters(file)] == [1, 3]


def test_opening_again_starts_the_file_anew(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    for _ in range(2):
        ids(opened(trace(x=[NAN, 1.0]), file=file), "x")
    assert len(letters(file)) == 1
    ids(opened(trace(x=[1.0]), file=file), "x")
    assert letters(file) == []


def test_only_attributes_that_are_asked_for_count() -> None:
    source = opened(trace(x=[NAN, 1.0], y=[1.0, NAN]))
    assert ids(source, "y") == [0]
    assert len(source.dead_letters) == 1


def test_rows_keep_their_numbers_when_they_are_sorted(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    source = opened(trace(id=[0, None, 2, 3], ts=[30, 0, 20, 10], x=[1.0, 1.0, NAN, 1.0]), file=file)
    assert ids(source, "x") == [3, 0]
    assert [one["row"] for one in letters(file)] == [2, 3]


def test_rows_behind_a_bad_one_keep_their_numbers_in_messages() -> None:
    batches = trace(id=[0, None, 2, 3], ts=[0, 5, 10, 1]).to_batches()
    with pytest.raises(TraceError, match=r"row 4: .* is earlier than the row before"):
        ids(opened(iter(batches)))


def test_string_ids_count_on_without_the_rows_that_are_left_out() -> None:
    """The engine numbers events with string ids itself; local and Ray runs must do it alike."""
    assert ids(opened(trace(id=["p", "q", "r", "q"], x=[1.0, NAN, 1.0, 1.0])), "x") == [0, 1]


def test_long_values_are_cut(tmp_path: Path) -> None:
    ids(opened(trace(id=["x" * 5_000, None, "y"], s=["z"] * 3), file=tmp_path / "bad"), "s")
    source = opened(trace(id=[1, 2], s=["z" * 5_000, "z"], x=[NAN, 1.0]), file=tmp_path / "bad")
    ids(source, "s", "x")
    assert len(letters(tmp_path / "bad")[0]["values"]["s"]) == LONGEST_VALUE + 3


def test_too_many_bad_rows_stop_the_run(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    source = opened(trace(x=[NAN] * 10), file=file, max_rows=3)
    with pytest.raises(TraceError, match="more than 3 bad rows; row 4: column 'x': NaN"):
        ids(source, "x")
    assert len(letters(file)) == 3


def test_blocks_without_bad_rows_are_handed_on_as_they_are() -> None:
    table = trace(x=np.arange(5) * 1.0)
    (block,) = opened(table).blocks(["x"], 100)
    assert block.place.order is None
    assert block.rows.column("x").buffers()[1].address == table.column("x").chunk(0).buffers()[1].address


def test_a_column_of_the_wrong_kind_is_no_matter_of_rows() -> None:
    with pytest.raises(TraceError, match="column 'ts' holds string, not times"):
        opened(trace(ts=["x", "y"]))


def test_a_file_that_cannot_be_written_is_told_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"cannot write bad rows to .*/no/bad"):
        opened(trace(), file=tmp_path / "no" / "bad")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("drop",), "unknown policy"),
        (("fail", Path("x")), "--bad-rows divert only"),
        (("divert", None, 0), "must be positive"),
    ],
)
def test_policies_that_make_no_sense_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        BadRows(*arguments)
