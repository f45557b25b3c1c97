"""Rows of a stored trace by their place: read elsewhere, they are what the driver would have read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decopa.errors import TraceError
from shuffler.source.dead_letters import BadRows
from shuffler.source.stored_rows import MOST_GROUP_ROWS, RowReader, StoredFile, StoredTrace
from shuffler.source.trace import open_trace


def trace(rows: int) -> pa.Table:
    return pa.table({"id": range(rows), "ts": range(rows), "type": ["A", "B"] * (rows // 2), "x": [0.5] * rows})


def stored_of(tmp_path: Path, rows: int, group: int) -> tuple[Path, StoredTrace]:
    path = tmp_path / "t.parquet"
    pq.write_table(trace(rows), path, row_group_size=group)
    stored = open_trace(path).stored
    assert stored is not None
    return path, stored


@given(
    groups=st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=4), min_size=1, max_size=3),
    most=st.integers(1, 40),
    skip=st.integers(0, 120),
)
def test_every_row_but_the_skipped_has_one_place(groups: list[list[int]], most: int, skip: int) -> None:
    files = tuple(StoredFile(str(number), 1, tuple(rows)) for number, rows in enumerate(groups))
    found = [
        (place.path, place.group, row)
        for place in StoredTrace(files, None).places(["ts"], most, skip)
        for row in range(place.first, place.first + place.rows)
    ]
    whole = [(file.path, group, row) for file in files for group, rows in enumerate(file.groups) for row in range(rows)]
    assert found == whole[skip:]


@pytest.mark.parametrize("most", [1, 7, 10, 1000])
def test_rows_that_are_read_by_place_are_those_of_the_file(tmp_path: Path, most: int) -> None:
    path, stored = stored_of(tmp_path, 40, 10)
    reader = RowReader()
    tables = [reader.read(place) for place in stored.places(["ts", "type", "x"], most)]
    assert all(table.num_rows <= min(most, 10) for table in tables)
    found = pa.concat_tables(tables)
    assert pa.types.is_dictionary(found.schema.field("type").type)
    plain = found.set_column(1, "type", found.column("type").cast(pa.string()))
    assert plain.equals(pq.read_table(path, columns=["ts", "type", "x"]))


def test_only_the_same_file_counts_as_seen(tmp_path: Path) -> None:
    path, stored = stored_of(tmp_path, 40, 10)
    (file,) = stored.files
    assert file.is_here
    pq.write_table(trace(20), path)
    assert not file.is_here
    path.unlink()
    assert not file.is_here


def test_a_file_that_vanishes_says_so(tmp_path: Path) -> None:
    path, stored = stored_of(tmp_path, 4, 2)
    path.unlink()
    with pytest.raises(TraceError, match="cannot be read where it is shuffled"):
        RowReader().read(next(stored.places(["ts"], 10)))


def test_what_must_be_sorted_or_sifted_is_read_by_the_driver(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(trace(4).take([1, 0, 2, 3]), path)
    assert open_trace(path).stored is None
    pq.write_table(trace(4), path)
    assert open_trace(path).stored is not None
    assert open_trace(path, bad_rows=BadRows("divert")).stored is None
    assert open_trace(trace(4)).stored is None


def test_row_groups_too_large_for_memory_are_read_by_the_driver() -> None:
    assert not StoredTrace((StoredFile("t", 1, (MOST_GROUP_ROWS + 1,)),), None).is_readable_in_groups


def test_a_trace_knows_its_span_before_it_is_read(tmp_path: Path) -> None:
    path, _ = stored_of(tmp_path, 40, 10)
    assert open_trace(path).span_us == 39
