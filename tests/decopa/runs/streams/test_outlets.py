"""Where matches of a live run go: lines at once, parts as a whole, one file at the end."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from decopa.errors import OutputError
from decopa.runs.streams.outlets import GrowingFile, LineStream, PartFolder, WholeFile, outlet_for


def matches(*ids: int) -> pa.Table:
    names = pa.array(["q"] * len(ids), pa.string()).dictionary_encode()
    return pa.table(
        {"query": names, "a": pa.array(ids, pa.int64()), "b": pa.array([[one] for one in ids], pa.list_(pa.int64()))}
    )


class Clock:
    """A timer that goes off when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def __call__(self, seconds: float, call: Callable[[], None]) -> Clock:
        self._call = call
        return self

    daemon = False

    def start(self) -> None:
        self.waiting.append(self._call)

    def cancel(self) -> None:
        self.waiting.clear()

    def ring(self) -> None:
        for call in list(self.waiting):
            call()


def test_lines_are_there_at_once() -> None:
    stream = io.StringIO()
    LineStream(stream).write(matches(1, 2))
    assert [json.loads(line)["b"] for line in stream.getvalue().splitlines()] == [[1], [2]]


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_file_grows_and_can_be_read_in_between(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"matches.{suffix}"
    outlet = outlet_for(path, overwrite=False, part_rows=None, part_s=None)
    assert isinstance(outlet, GrowingFile)
    outlet.write(matches())
    for number in range(3):
        outlet.write(matches(number))
        lines = path.read_text().splitlines()
        assert len(lines) == number + (2 if suffix == "csv" else 1)
    outlet.close()
    if suffix == "csv":
        assert pyarrow.csv.read_csv(path)["a"].to_pylist() == [0, 1, 2]
    with pytest.raises(OutputError, match="exists"):
        GrowingFile(path, overwrite=False)


def test_parts_appear_when_they_are_full_or_have_waited_or_at_the_end(tmp_path: Path) -> None:
    clock = Clock()
    outlet = PartFolder(tmp_path / "out", rows=3, every_s=1.0, timer=clock)
    outlet.write(matches(1, 2))
    assert not list((tmp_path / "out").iterdir())
    outlet.write(matches(3))
    outlet.write(matches(4))
    clock.ring()
    outlet.write(matches(5))
    outlet.close()
    parts = sorted((tmp_path / "out").iterdir())
    assert [path.name for path in parts] == [f"part-{number:08d}.parquet" for number in range(3)]
    assert [pq.read_table(path)["a"].to_pylist() for path in parts] == [[1, 2, 3], [4], [5]]
    with pytest.raises(OutputError, match="holds parts of another run"):
        PartFolder(tmp_path / "out")


def test_a_part_that_cannot_be_written_in_time_is_told_with_the_next_matches(tmp_path: Path) -> None:
    clock = Clock()
    outlet = PartFolder(tmp_path / "out", rows=3, every_s=1.0, timer=clock)
    outlet.write(matches(1))
    (tmp_path / "out").rmdir()
    clock.ring()
    with pytest.raises(OutputError, match="cannot write"):
        outlet.write(matches(2))


def test_one_parquet_file_appears_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "matches.parquet"
    outlet = outlet_for(path, overwrite=False, part_rows=None, part_s=None)
    assert isinstance(outlet, WholeFile)
    outlet.write(matches())
    outlet.write(matches(1))
    outlet.write(matches(2))
    assert not path.exists()
    outlet.close()
    assert pq.read_table(path)["a"].to_pylist() == [1, 2]


def test_what_a_path_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="has no parts"):
        outlet_for(tmp_path / "m.jsonl", overwrite=False, part_rows=5, part_s=None)
    with pytest.raises(OutputError, match="must end in"):
        outlet_for(tmp_path / "m.txt", overwrite=False, part_rows=None, part_s=None)
