"""A folder that is followed: each file once, whole files only, and on from any row."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from decopa.errors import TraceError
from shuffler.rows.events import TraceColumns
from shuffler.source.dead_letters import BadRows, StreamLetters
from shuffler.source.lateness import Lateness
from shuffler.source.live.address import SourceAddress, folder_address
from shuffler.source.live.folder import DONE, FolderSource
from shuffler.source.trace import open_trace

COLUMNS = ["ts", "id", "type"]


def put(folder: Path, name: str, ids: range, at: int = 0) -> None:
    """Moves a file of events into the folder; its id is an event's time, too."""
    table = pa.table({"id": list(ids), "ts": list(ids), "type": ["A"] * len(ids)})
    hidden = folder / f".{name}"
    if name.endswith("parquet"):
        pq.write_table(table, hidden)
    else:
        hidden.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    os.utime(hidden, (at, at))
    hidden.rename(folder / name)


def followed(folder: Path, **changes: object) -> FolderSource:
    address = SourceAddress("folder", "", str(folder), **changes)  # type: ignore[arg-type]
    letters = StreamLetters(BadRows("divert"), address.name)
    source = FolderSource(address, TraceColumns(), letters, sleep=lambda seconds: None)
    source.open(None, COLUMNS)
    return source


def taken(source: FolderSource, polls: int = 10) -> list[int]:
    found = [source.poll(0.0) for _ in range(polls)]
    return [ts for some in found for one in some or () for ts in one.rows.column("id").to_pylist()]


def test_files_are_read_once_in_the_order_of_their_times(tmp_path: Path) -> None:
    put(tmp_path, "b.parquet", range(5), at=1)
    put(tmp_path, "a.jsonl", range(5, 9), at=2)
    source = followed(tmp_path)
    assert taken(source) == list(range(9))
    put(tmp_path, "c.parquet", range(9, 12), at=3)
    assert taken(source) == [9, 10, 11]
    assert taken(source) == []


def test_files_in_the_making_are_passed_by(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", range(3))
    for name in (".b.parquet", "_c.parquet", "d.parquet.tmp", "e.txt"):
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / "folder.parquet").mkdir()
    assert taken(followed(tmp_path)) == [0, 1, 2]


def test_a_file_is_gone_on_with_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shuffler.source.live.folder.BLOCK_ROWS", 4)
    put(tmp_path, "a.parquet", range(10))
    put(tmp_path, "b.parquet", range(10, 12), at=9_999_999_999)
    source = followed(tmp_path)
    first = source.poll(0.0)
    assert first is not None and [one.offsets for one in first] == [{"a.parquet": 4}]
    source.open({"a.parquet": 4}, COLUMNS)
    assert taken(source) == list(range(4, 12))
    source.open({"a.parquet": 7}, COLUMNS)  # an end of no block
    assert taken(source) == list(range(7, 12))
    source.open({"a.parquet": DONE, "b.parquet": 1}, COLUMNS)
    assert taken(source) == [11]


def test_a_file_that_is_gone_is_forgotten_once_it_is_read_and_missed_before(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", range(3), at=1)
    source = followed(tmp_path)
    assert taken(source) == [0, 1, 2]
    (tmp_path / "a.parquet").unlink()
    put(tmp_path, "b.parquet", range(3, 5), at=2)
    offsets = [dict(one.offsets) for some in (source.poll(0.0),) for one in some or ()]
    assert offsets == [{"b.parquet": DONE, "a.parquet": -1}]
    with pytest.raises(TraceError, match=r"a\.parquet, of which 2 rows were read before, is gone"):
        source.open({"a.parquet": 2}, COLUMNS)


def test_a_damaged_file_is_put_aside_and_the_stream_goes_on(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", range(3), at=1)
    source = followed(tmp_path)
    (tmp_path / "b.parquet").write_bytes(b"PAR1 no more")
    os.utime(tmp_path / "b.parquet", (2, 2))
    put(tmp_path, "c.parquet", range(3, 5), at=3)
    assert taken(source) == [0, 1, 2, 3, 4]
    assert source._letters.notice is not None and "b.parquet" in source._letters.notice


def test_until_the_end_and_from_the_latest(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", range(3), at=1)
    assert followed(tmp_path, until_end=True).poll(0.0) is not None
    late = followed(tmp_path, start="latest")
    put(tmp_path, "b.parquet", range(3, 5), at=2)
    assert taken(late) == [3, 4]
    with pytest.raises(TraceError, match=r"no folder '.*nowhere' to follow"):
        followed(tmp_path / "nowhere")


def test_a_followed_folder_is_a_trace_whose_blocks_have_positions(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", range(20), at=1)
    put(tmp_path, "b.jsonl", range(18, 30), at=2)
    address = SourceAddress("folder", "", folder_address(tmp_path).topic, until_end=True)
    source = open_trace(address, lateness=Lateness(5))
    assert source.replayable and source.row_count is None
    blocks = [block for block in source.arrivals([], 7) if block is not None]
    assert [ts for block in blocks for ts in block.rows.column("ts").to_pylist()] == sorted(
        [*range(20), *range(18, 30)]
    )
    middle = blocks[len(blocks) // 2].position
    assert middle is not None
    rest = [block.rows.num_rows for block in source.arrivals([], 7, middle.encode()) if block is not None]
    assert sum(rest) == sum(block.rows.num_rows for block in blocks[len(blocks) // 2 + 1 :])


def test_late_rows_go_to_their_file_once_whatever_is_read_again(tmp_path: Path) -> None:
    incoming, late = tmp_path / "in", tmp_path / "late.jsonl"
    incoming.mkdir()
    put(incoming, "a.parquet", range(10, 20), at=1)
    put(incoming, "b.parquet", range(5, 8), at=2)
    put(incoming, "c.parquet", range(20, 22), at=3)
    address = SourceAddress("folder", "", str(incoming), until_end=True)
    source = open_trace(address, lateness=Lateness(0, "divert", late))
    blocks = [block for block in source.arrivals([], 100) if block is not None]
    assert source.late == {"": 3}
    letters = [json.loads(line) for line in late.read_text().splitlines()]
    assert [(one["row"], one["values"]["id"]) for one in letters] == [(1, "5"), (2, "6"), (3, "7")]
    assert letters[0]["reason"] == "late: 14 us behind the newest, 0 allowed"
    first = blocks[0].position
    assert first is not None
    assert sum(block.rows.num_rows for block in source.arrivals([], 100, first.encode()) if block is not None) == 2
    assert len(late.read_text().splitlines()) == 3
    assert source.late == {"": 3}


def test_files_may_be_taken_away_once_they_are_read(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", range(3), at=1)
    source = followed(tmp_path)
    assert taken(source) == [0, 1, 2]
    (tmp_path / "a.parquet").unlink()
    put(tmp_path, "b.parquet", range(3, 5), at=2)
    put(tmp_path, "c.parquet", range(5, 7), at=3)
    assert taken(source) == [3, 4, 5, 6]
