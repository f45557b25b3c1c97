"""Files as people have them: short lines, words among numbers, bad times; patterns and lists of files; data frames."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import decopa
from decopa.errors import TraceError
from shuffler.source.dead_letters import BadRows
from shuffler.source.trace import TraceSource, open_trace

GOOD = [f"{n},{n},A,{n / 2}" for n in range(1, 41)]


def written(folder: Path, lines: list[str], name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def sifted(path: Path, **settings: object) -> tuple[TraceSource, list[dict[str, object]]]:
    letters = path.with_name("bad.jsonl")
    source = open_trace(path, bad_rows=BadRows("divert", letters), **settings)  # type: ignore[arg-type]
    list(source.blocks(["x"], 1_000))
    return source, [json.loads(line) for line in letters.read_text().splitlines()]


def ids(source: TraceSource, attributes: tuple[str, ...] = ("x",)) -> list[object]:
    return [one for block in source.blocks(attributes, 1_000) for one in block.rows.column("id").to_pylist()]


def test_short_lines_words_and_bad_times_are_put_aside_with_their_rows(tmp_path: Path) -> None:
    lines = ["id,ts,type,x", *GOOD]
    lines[3] = "3,3"
    lines[10] = "10,10,A,5,more"
    lines[20] = "20,20,A,five"
    lines[30] = "30,soon,A,15.0"
    source, letters = sifted(written(tmp_path, lines))
    assert ids(source) == [n for n in range(1, 41) if n not in (3, 10, 20, 30)]
    assert [(one["row"], one["reason"]) for one in sorted(letters, key=lambda one: one["row"])] == [  # type: ignore[arg-type,return-value]
        (3, "the line has 2 cells instead of 4"),
        (10, "the line has 5 cells instead of 4"),
        (20, "column 'x': 'five' is no number"),
        (30, "column 'ts': 'soon' is no number"),
    ]
    assert [batch.ts[-1] for batch in source.batches([], 100)] == [40]  # whole numbers stay microseconds
    assert source.row_count == 36 and len(source.dead_letters) == 4
    assert source.schema.attributes["x"].kind.name == "FLOAT"


def test_a_time_that_is_none_is_put_aside(tmp_path: Path) -> None:
    lines = ["id,ts,type,x", *(f"{n},2024-05-01 10:00:{n:02},A,1.0" for n in range(1, 41))]
    lines[30] = "30,soon,A,15.0"
    source, letters = sifted(written(tmp_path, lines))
    assert len(ids(source)) == 39
    assert [(one["row"], one["values"]["ts"]) for one in letters] == [(30, "soon")]  # type: ignore[index]


def test_a_word_after_the_first_block_is_put_aside_too(tmp_path: Path) -> None:
    lines = ["id,ts,type,x", *(f"{n},{n},A,{n}" for n in range(1, 120_001))]
    lines[110_000] = "110000,110000,A,word"
    source, letters = sifted(written(tmp_path, lines))
    assert [(one["row"], one["values"]) for one in letters] == [(110_000, {"x": "word"})]
    assert source.row_count == 119_999


def test_one_bad_cell_is_named_if_the_column_is_needed(tmp_path: Path) -> None:
    lines = ["id,ts,type,x", *GOOD]
    lines[20] = "20,20,A,five"
    path = written(tmp_path, lines)
    assert len(ids(open_trace(path), ())) == 40
    with pytest.raises(TraceError, match="column 'x': row 20: 'five' is no number, and 39 other values are"):
        ids(open_trace(path))
    assert open_trace(path, kinds={"x": "string"}).schema.attributes["x"].kind.name == "STRING"


def test_a_column_of_words_and_some_numbers_is_text(tmp_path: Path) -> None:
    lines = ["id,ts,type,x", *(f"{n},{n},A,{n if n % 3 else 'w'}" for n in range(30))]
    assert open_trace(written(tmp_path, lines)).schema.attributes["x"].kind.name == "STRING"


def test_ids_may_be_numbers_and_words(tmp_path: Path) -> None:
    lines = ["id,ts,type,x", *GOOD]
    lines[20] = "twenty,20,A,10.0"
    assert ids(open_trace(written(tmp_path, lines)))[18:20] == ["19", "twenty"]


def test_bad_json_lines_are_named_or_put_aside(tmp_path: Path) -> None:
    lines = [json.dumps({"id": n, "ts": n, "type": "A", "x": n / 2}) for n in range(1, 31)]
    lines[4], lines[9], lines[19] = '{"id": 5, "ts"', '{"id": 10, "ts": 10, "type": "A", "x": "ten"}', ""
    path = written(tmp_path, lines, "trace.jsonl")
    with pytest.raises(TraceError, match=r'trace\.jsonl: row 5: JSON parse error.*\{"id": 5, "ts"; mend it'):
        open_trace(path)
    source, letters = sifted(path)
    assert ids(source) == [n for n in range(1, 31) if n not in (5, 10, 20)]
    assert [one["row"] for one in letters] == [5, 10]
    assert [block.place.row(4) for block in source.blocks([], 1_000)] == [6]


def test_patterns_and_lists_are_read_one_after_the_other(tmp_path: Path) -> None:
    for number in range(3):
        written(tmp_path, ["id,ts,type,x", f"{number},{number},A,{number if number < 2 else 0.5}"], f"part{number}.csv")
    by_pattern = open_trace(str(tmp_path / "part*.csv"))
    assert ids(by_pattern) == [0, 1, 2]
    assert by_pattern.schema.attributes["x"].kind.name == "FLOAT"
    assert ids(open_trace([tmp_path / "part2.csv", tmp_path / "part0.csv"])) == [0, 2]
    with pytest.raises(TraceError, match=r"no file fits the pattern '.*none\*\.csv'"):
        open_trace(tmp_path / "none*.csv")
    written(tmp_path, ["id,ts,type", "1,1,A"], "part3.csv")
    with pytest.raises(TraceError, match=r"part3\.csv: its columns differ from those of .*part0\.csv"):
        open_trace(tmp_path / "part*.csv")


def test_bad_rows_of_several_files_are_numbered_through(tmp_path: Path) -> None:
    first = written(tmp_path, ["id,ts,type,x", *GOOD[:20], "21"], "a.csv")
    second = written(tmp_path, ["id,ts,type,x", *(line.replace(",A,5.", ",A,five") for line in GOOD[20:])], "b.csv")
    third = written(tmp_path, ["id,ts,type,x", "41,41,A,1", "42,42,A,2,3"], "c.csv")
    source = open_trace([first, second, third], bad_rows=BadRows("divert", tmp_path / "bad.jsonl"))
    assert ids(source) == [*range(1, 41), 41]
    rows = [json.loads(line)["row"] for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert rows == [21, 43]


def test_a_file_named_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "ts": [1], "type": ["A"]}), tmp_path / "a[1].parquet")
    assert ids(open_trace(tmp_path / "a[1].parquet"), ()) == [1]


ROWS = {
    "id": [1, 2, 3],
    "ts": ["2024-05-01 10:00:00", "2024-05-01 10:00:05", "2024-05-01 11:00:00"],
    "type": list("ABB"),
}
QUERY = "PATTERN SEQ(A a, B b) WITHIN 10 s"


def test_pandas_polars_arrow_and_duckdb_are_taken_as_they_are() -> None:
    duckdb = pytest.importorskip("duckdb")
    frame = pd.DataFrame(ROWS)
    table = pa.table(ROWS)
    relation = duckdb.from_arrow(table)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    polars = pytest.importorskip("polars")
    for events in (
        polars.DataFrame(ROWS),
        frame,
        frame.assign(ts=pd.to_datetime(frame["ts"])),
        table,
        relation,
        reader,
    ):
        assert decopa.run(QUERY, events).select(["a", "b"]).to_pylist() == [{"a": 1, "b": 2}]
