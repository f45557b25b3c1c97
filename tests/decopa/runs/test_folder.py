"""A folder of matches: parts that appear together or not at all, and how they are opened."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import decopa
from actors.columnar.jit import interpreted
from actors.sinks import parts
from decopa.errors import DecoPaError, LimitError, OutputError, TraceError
from decopa.runs.folder import MatchFolder
from decopa.runs.spec import Output, TraceOptions

LOCAL = {"runtime": "local", "strategy": "left-deep"}
QUERY = "PATTERN SEQ(A a, KL(B b), C c) WITHIN 8 us"


def trace(repeats: int = 6) -> pa.Table:
    types = list("ABBC" * repeats)
    return pa.table({"id": list(range(len(types))), "ts": list(range(len(types))), "type": types})


@pytest.fixture(autouse=True)
def plain_kernels() -> object:
    with interpreted():
        yield


def test_a_folder_holds_the_matches_of_the_table(tmp_path: Path) -> None:
    found = decopa.run(QUERY, trace(), out=tmp_path / "matches", units=3, **LOCAL)
    expected = decopa.run(QUERY, trace(), **LOCAL)
    assert isinstance(found, MatchFolder)
    assert found.rows == expected.num_rows
    assert sorted(path.name for path in found.path.iterdir()) == [file.name for file in found.files]
    assert sorted(map(str, found.table().to_pylist())) == sorted(map(str, expected.to_pylist()))
    assert found.dataset().count_rows() == len(found.to_pandas()) == expected.num_rows
    ends = found.table().column("end_ts").to_pylist()
    assert ends == sorted(ends)


def test_parts_are_closed_when_they_are_large_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.sinks.sink.SEGMENT", 4)
    monkeypatch.setattr(parts.FolderSpec.__init__, "__defaults__", (2**30, 1))
    found = decopa.run(QUERY, trace(), out=tmp_path / "matches", trace=TraceOptions(batch_size=4), **LOCAL)
    assert isinstance(found, MatchFolder)
    assert len(found.files) > 2
    assert found.rows == decopa.run(QUERY, trace(), **LOCAL).num_rows == found.table().num_rows


def test_a_run_without_matches_leaves_an_empty_folder(tmp_path: Path) -> None:
    found = decopa.run("PATTERN SEQ(C c, B b, A a) WITHIN 1 us", trace(), out=tmp_path / "matches", **LOCAL)
    assert isinstance(found, MatchFolder)
    assert (found.rows, found.files, list(found.path.iterdir())) == (0, (), [])


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep me")
    with pytest.raises(OutputError, match=r"not empty.*'mine.txt'"):
        decopa.run(QUERY, trace(), out=tmp_path, **LOCAL)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write to"):
        decopa.run(QUERY, trace(), out=tmp_path / "file" / "matches", **LOCAL)


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        (QUERY, {"order": "canonical"}, "no order as a whole"),
        (QUERY, {"count": True}, "no matches to write"),
        (QUERY + " RETURN count(*)", {}, "gives a few rows"),
        ("PATTERN OR(A a, B b) WITHIN 1 us", {}, "without OR"),
    ],
)
def test_what_does_not_go_with_a_folder_is_refused_before_it_is_made(
    tmp_path: Path, query: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(DecoPaError, match=message):
        decopa.run(query, trace(), out=tmp_path / "matches", **options, **LOCAL)
    assert list(tmp_path.iterdir()) == []


def test_too_many_bytes_end_the_run_and_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(LimitError, match="--max-out-mb"):
        decopa.run(QUERY, trace(), out=Output(str(tmp_path / "matches"), max_bytes=10), **LOCAL)
    assert list((tmp_path / "matches").iterdir()) == []


def test_a_disk_that_runs_full_ends_the_run_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_KEEP_FREE", 2**62)
    with pytest.raises(OutputError, match="are free at"):
        decopa.run(QUERY, trace(), out=tmp_path / "matches", **LOCAL)
    assert list((tmp_path / "matches").iterdir()) == []


def test_a_failure_in_the_middle_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.sinks.sink.SEGMENT", 1)
    events = trace()
    broken = events.set_column(1, "ts", pa.array([*range(20), 0, 1, 2, 3]))
    batches = iter(broken.to_batches(max_chunksize=4))
    with pytest.raises(TraceError):
        decopa.run(QUERY, batches, out=tmp_path / "matches", trace=TraceOptions(batch_size=4), **LOCAL)
    assert list((tmp_path / "matches").iterdir()) == []
