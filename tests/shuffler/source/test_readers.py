"""Traces in files: Parquet, CSV and JSON lines, whole, in parts, and broken."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from decopa.errors import TraceError
from decopa.files import write_matches
from decopa.query.schema import NULL, Column, Kind
from shuffler.source.trace import TraceColumns, TraceSource, open_trace
from tests.support.small_traces import only_batch, trace

HEADER = "id,ts,type,x\n"
#: More than Arrow looks at to guess the types of a CSV file.
MANY_ROWS = 100_000


def refusal(path: Path, *attributes: str) -> str:
    with pytest.raises(TraceError) as caught:
        list(open_trace(path).batches(attributes, 100))
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def csv_file(path: Path, text: str) -> Path:
    path = path / "trace.csv"
    path.write_text(text)
    return path


def long_csv(path: Path, last_row: str, cell: str = "1") -> Path:
    rows = (f"{row},{row},A,{cell}\n" for row in range(MANY_ROWS))
    return csv_file(path, HEADER + "".join(rows) + last_row)


def read_all(source: TraceSource, attribute: str) -> list[object]:
    return [value for batch in source.batches([attribute], 1_000) for value in batch.columns[attribute].tolist()]


# ------------------------------------------------------------------ Parquet


def test_a_parquet_file_gives_the_same_batches_as_its_table(tmp_path: Path) -> None:
    table = trace(x=np.arange(1000) * 0.5, s=[f"s{row % 7}" for row in range(1000)])
    pq.write_table(table, tmp_path / "trace.parquet", row_group_size=64)
    source = open_trace(tmp_path / "trace.parquet")
    assert source.row_count == 1000
    assert source.schema == open_trace(table).schema
    assert read_all(source, "x") == table["x"].to_pylist()
    assert source.strings.decode(np.array(read_all(source, "s"))).to_pylist() == table["s"].to_pylist()


def test_a_path_may_be_a_string(tmp_path: Path) -> None:
    pq.write_table(trace(x=[1.0]), tmp_path / "trace.parquet")
    assert open_trace(str(tmp_path / "trace.parquet")).row_count == 1


def test_parquet_statistics_tell_which_columns_have_nulls(tmp_path: Path) -> None:
    pq.write_table(trace(x=[1, None], y=[1, 2]), tmp_path / "trace.parquet")
    attributes = open_trace(tmp_path / "trace.parquet").schema.attributes
    assert attributes["x"] == Column(Kind.INT, nullable=True)
    assert attributes["y"] == Column(Kind.INT, nullable=False)


def test_without_statistics_any_column_may_have_nulls(tmp_path: Path) -> None:
    pq.write_table(trace(y=[1, 2]), tmp_path / "trace.parquet", write_statistics=False)
    assert open_trace(tmp_path / "trace.parquet").schema.attributes["y"].nullable


@pytest.mark.parametrize("row_group_size", [65_536, 2_000_000])
def test_memory_follows_the_block_and_not_the_parquet_file(tmp_path: Path, row_group_size: int) -> None:
    path = tmp_path / "trace.parquet"
    pq.write_table(trace(x=np.random.default_rng(0).random(2_000_000)), path, row_group_size=row_group_size)
    before, peak = pa.total_allocated_bytes(), 0
    for _ in open_trace(path).batches(["x"], 10_000):
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert 0 < peak < path.stat().st_size / 2


def test_a_nested_column_with_dots_does_not_get_in_the_way(tmp_path: Path) -> None:
    table = (
        trace(x=[1.0, 2.0]).append_column("a", pa.array([{"b": 1}, {"b": 2}])).append_column("a.b", pa.array([5, 6]))
    )
    pq.write_table(table, tmp_path / "trace.parquet")
    assert read_all(open_trace(tmp_path / "trace.parquet"), "a.b") == [5, 6]


def test_a_directory_of_parquet_files_is_one_trace(tmp_path: Path) -> None:
    whole = trace(x=np.arange(10) * 1.0)
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "part.parquet").write_text("left behind by a writer")
    (tmp_path / "_SUCCESS").touch()
    pq.write_table(whole.slice(0, 6), tmp_path / "part-00000.parquet")
    pq.write_table(whole.slice(6), tmp_path / "part-00001.parquet")
    source = open_trace(tmp_path)
    assert source.row_count == 10
    assert read_all(source, "x") == whole["x"].to_pylist()
    assert source.notices == []


def test_parquet_files_out_of_order_are_sorted(tmp_path: Path) -> None:
    whole = trace(x=np.arange(10) * 1.0)
    pq.write_table(whole.slice(6), tmp_path / "part-00000.parquet")
    pq.write_table(whole.slice(0, 6), tmp_path / "part-00001.parquet")
    source = open_trace(tmp_path)
    assert read_all(source, "x") == whole["x"].to_pylist()
    assert source.notices == ["timestamps were not in order: sorted 10 events"]


def test_parquet_files_with_different_columns_are_no_trace(tmp_path: Path) -> None:
    pq.write_table(trace(x=[1.0]), tmp_path / "part-00000.parquet")
    pq.write_table(trace(x=["u"]), tmp_path / "part-00001.parquet")
    assert "its columns differ from those of" in refusal(tmp_path)


def test_the_real_traces_open(shared: Path) -> None:
    for path in sorted((shared / "data").glob("*_small.parquet")):
        source = open_trace(path, columns=TraceColumns(id="event_id"))
        assert source.row_count == sum(len(batch) for batch in source.batches(["id", "ts"], 2_000))


# ------------------------------------------------------------------ CSV and JSON lines


def test_a_csv_file_gives_the_same_batches_as_its_table(tmp_path: Path) -> None:
    table = trace(x=np.arange(1000) * 0.5, k=np.arange(1000), s=[f"s{row % 7}" for row in range(1000)])
    pyarrow.csv.write_csv(table, tmp_path / "trace.csv")
    source = open_trace(tmp_path / "trace.csv")
    assert source.row_count == 1000
    assert source.schema == open_trace(table).schema
    assert read_all(source, "x") == table["x"].to_pylist()
    assert read_all(source, "k") == table["k"].to_pylist()


def test_times_in_csv_are_understood(tmp_path: Path) -> None:
    path = csv_file(tmp_path, HEADER + "1,2024-05-01 00:00:00,A,1\n2,2024-05-01T00:00:00.25,A,2\n")
    times = only_batch(open_trace(path)).ts
    assert int(times[1] - times[0]) == 250_000


def test_empty_cells_of_csv_are_missing_values(tmp_path: Path) -> None:
    source = open_trace(csv_file(tmp_path, 'id,ts,type,x,s\n1,1,A,,\n2,2,A,5,""\n3,3,A,6,NA\n'))
    batch = only_batch(source, "x", "s")
    assert batch.columns["x"].tolist() == [NULL, 5, 6]
    assert source.strings.decode(batch.columns["s"]).to_pylist() == [None, "", "NA"]
    assert source.schema.attributes["x"].nullable
    assert not source.schema.attributes["type"].nullable


def test_types_in_csv_are_text_even_if_they_look_like_numbers(tmp_path: Path) -> None:
    assert open_trace(csv_file(tmp_path, HEADER + "1,1,007,1\n2,2,8,1\n")).schema.event_types == {"007", "8"}


def test_a_quoted_line_break_in_csv_is_part_of_its_cell(tmp_path: Path) -> None:
    source = open_trace(csv_file(tmp_path, HEADER + '1,1,A,"two\nlines"\n'))
    assert source.strings.decode(only_batch(source, "x").columns["x"]).to_pylist() == ["two\nlines"]


def test_a_compressed_csv_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "trace.csv.gz").write_bytes(gzip.compress((HEADER + "1,1,A,5\n").encode()))
    assert read_all(open_trace(tmp_path / "trace.csv.gz"), "x") == [5]


def test_numbers_of_a_long_csv_may_get_decimals_late(tmp_path: Path) -> None:
    path = long_csv(tmp_path, f"{MANY_ROWS},{MANY_ROWS},A,2.5\n")
    source = open_trace(path)
    assert source.schema.attributes["x"] == Column(Kind.FLOAT)
    assert read_all(source, "x")[-1] == 2.5


@pytest.mark.parametrize(("cell", "kind"), [("7", Kind.INT), ("2.5", Kind.FLOAT), ("word", Kind.STRING)])
def test_a_column_of_a_long_csv_may_begin_late(tmp_path: Path, cell: str, kind: Kind) -> None:
    source = open_trace(long_csv(tmp_path, f"{MANY_ROWS},{MANY_ROWS},A,{cell}\n", cell=""))
    assert source.schema.attributes["x"] == Column(kind, nullable=True)
    assert len(read_all(source, "x")) == MANY_ROWS + 1


def test_a_value_that_does_not_fit_its_csv_column_is_refused_if_the_query_needs_it(tmp_path: Path) -> None:
    path = long_csv(tmp_path, f"{MANY_ROWS},{MANY_ROWS},A,oops\n")
    assert len(read_all(open_trace(path), "ts")) == MANY_ROWS + 1
    message = refusal(path, "x")
    assert "column 'x': " in message
    assert "Row #100002" in message
    assert "invalid value 'oops'" in message


def test_a_time_that_does_not_fit_its_csv_column_is_refused(tmp_path: Path) -> None:
    assert "invalid value 'noon'" in refusal(long_csv(tmp_path, f"{MANY_ROWS},noon,A,1\n"))


def test_nan_in_csv_is_nan(tmp_path: Path) -> None:
    assert "column 'x', row 2: NaN" in refusal(csv_file(tmp_path, HEADER + "1,1,A,1.5\n2,2,A,NaN\n"), "x")


def test_json_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(
        '{"id": 1, "ts": "2024-05-01T00:00:00", "type": "A", "x": 1}\n'
        '{"id": 2, "ts": "2024-05-01T00:00:00.5", "type": "B"}\n'
    )
    batch = only_batch(open_trace(path), "x")
    assert int(batch.ts[1] - batch.ts[0]) == 500_000
    assert batch.columns["x"].tolist() == [1, NULL]


# ------------------------------------------------------------------ files that are broken, empty or not there


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "trace.parquet") == f"no trace '{tmp_path / 'trace.parquet'}'; check the path"


def test_an_unknown_suffix_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "trace.xls").touch()
    assert "must end in one of .parquet" in refusal(tmp_path / "trace.xls")


def test_a_directory_without_parquet_files_is_refused(tmp_path: Path) -> None:
    assert "is a directory without .parquet files" in refusal(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    path = csv_file(tmp_path, HEADER)
    path.chmod(0)
    assert "may not be read; check its permissions" in refusal(path)


def test_a_csv_file_named_parquet_is_refused(tmp_path: Path) -> None:
    path = csv_file(tmp_path, HEADER + "1,1,A,1\n").rename(tmp_path / "trace.parquet")
    assert "cannot be read as Parquet" in refusal(path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_parquet_file_is_refused(tmp_path: Path, share: float) -> None:
    path = tmp_path / "trace.parquet"
    pq.write_table(trace(x=np.arange(10_000) * 0.5), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    assert "cannot be read as Parquet" in refusal(path, "x")


def test_a_parquet_file_with_a_hole_in_its_data_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    pq.write_table(trace(x=np.arange(10_000) * 0.5), path, compression="zstd")
    content = bytearray(path.read_bytes())
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(3)
    content[chunk.data_page_offset : chunk.data_page_offset + chunk.total_compressed_size // 2] = bytes(
        chunk.total_compressed_size // 2
    )
    path.write_bytes(content)
    assert "cannot be read as Parquet" in refusal(path, "x")


@pytest.mark.parametrize("row", ["3,3", "3,3,A,1,5"])
def test_a_broken_csv_row_is_refused_with_its_number(tmp_path: Path, row: str) -> None:
    message = refusal(csv_file(tmp_path, HEADER + f"1,1,A,1\n2,2,A,1\n{row}\n"))
    assert "Row #4: Expected 4 columns" in message


def test_a_broken_row_late_in_a_long_csv_is_refused(tmp_path: Path) -> None:
    assert f"Row #{MANY_ROWS + 2}: Expected 4 columns, got 2" in refusal(long_csv(tmp_path, "1,1\n"))


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_csv_file_is_refused(tmp_path: Path, text: str) -> None:
    assert "cannot be read as CSV" in refusal(csv_file(tmp_path, text))


def test_a_csv_file_of_bytes_that_are_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(HEADER.encode() + b"1,1,\xff\xfe,1\n")
    assert "invalid UTF8 data" in refusal(path)


def test_a_csv_file_with_a_header_alone_has_no_events(tmp_path: Path) -> None:
    assert "has no events" in refusal(csv_file(tmp_path, HEADER))


def test_a_parquet_file_without_rows_has_no_events(tmp_path: Path) -> None:
    pq.write_table(trace(x=[1.0]).slice(0, 0), tmp_path / "trace.parquet")
    assert "has no events" in refusal(tmp_path / "trace.parquet")


def test_a_csv_file_without_a_time_column_lists_its_columns(tmp_path: Path) -> None:
    message = refusal(csv_file(tmp_path, "id,when,type\n1,1,A\n"))
    assert "no column 'ts'; its columns are id, when, type; name the right one with --ts" in message


def test_two_csv_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    assert "two columns are called 'x'" in refusal(csv_file(tmp_path, "id,ts,type,x,x\n1,1,A,1,1\n"))


@pytest.mark.parametrize("text", ["", "not json", '{"id": 1\n', '{"id": 1}\n{"id": "a"}\n'])
def test_broken_json_lines_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(text)
    assert "cannot be read as JSON lines" in refusal(path)


def test_a_truncated_compressed_csv_is_refused(tmp_path: Path) -> None:
    rows = "".join(f"{row},{row},A,1\n" for row in range(10_000))
    (tmp_path / "trace.csv.gz").write_bytes(gzip.compress((HEADER + rows).encode())[:5_000])
    assert "cannot be read as CSV" in refusal(tmp_path / "trace.csv.gz")


@pytest.mark.parametrize("before", [1, 200_000])
def test_rows_of_json_lines_are_counted_from_one_over_the_whole_file(tmp_path: Path, before: int) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(
        '{"id": 1, "ts": 1, "type": "A", "x": 1}\n' * before + '{"id": 2, "ts": 2, "type": "A", "x": "a"}\n'
    )
    assert f"Column(/x) changed from number to string in row {before + 1};" in refusal(path)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("skip", [0, 1, 9, 10, 25, 49, 50])
def test_a_reader_goes_on_after_any_row(tmp_path: Path, suffix: str, skip: int) -> None:
    table = pa.table({"id": range(50), "ts": range(50), "type": ["A"] * 50})
    path = tmp_path / f"trace.{suffix}"
    write_matches(table, path, overwrite=False)
    if suffix == "parquet":
        pq.write_table(table, path, row_group_size=10)
    blocks = list(open_trace(path).blocks([], 7, skip=skip))
    assert [row for block in blocks for row in block.rows.column("id").to_pylist()] == list(range(skip, 50))
    assert [block.place.first_row for block in blocks][:1] == ([skip] if skip < 50 else [])


def test_row_groups_and_files_that_are_skipped_are_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    folder.mkdir()
    for number in range(3):
        rows = range(30 * number, 30 * number + 30)
        table = pa.table({"id": rows, "ts": rows, "type": ["A"] * 30})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=10)
    source = open_trace(folder)
    damage(folder / "0.parquet")
    damage(folder / "1.parquet", groups=1)
    for skip in (75, 41):
        found = [row for block in source.blocks([], 1_000, skip=skip) for row in block.rows.column("id").to_pylist()]
        assert found == list(range(skip, 90))
    with pytest.raises(TraceError, match="cannot be read as Parquet"):
        list(source.blocks([], 1_000, skip=39))


def damage(path: Path, groups: int | None = None) -> None:
    """Overwrites the pages of the first row groups, or of all; the metadata at the end stays."""
    content = bytearray(path.read_bytes())
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    if groups is not None:
        chunk = pq.read_metadata(path).row_group(groups).column(0)
        end = chunk.dictionary_page_offset or chunk.data_page_offset
    content[4:end] = b"\xff" * (end - 4)
    path.write_bytes(content)
