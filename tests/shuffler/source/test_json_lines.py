"""JSON lines from a pipe: batches of what has arrived, whole lines only, columns fixed by the first ones."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pyarrow as pa
import pytest

from decopa.errors import TraceError
from shuffler.source import json_lines
from shuffler.source.json_lines import JsonLines
from shuffler.source.stopping import Stop, StreamStopped

A = b'{"id": 1, "ts": 5, "type": "A", "x": 1}\n'
B = b'{"id": 2, "ts": 6, "type": "B", "x": 2}\n'


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first lines are what is there already."""
    monkeypatch.setattr(json_lines, "FIRST_LINES_S", 0.0)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A reading and a writing end; tests close the latter."""
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)


def rows(text: bytes, pipe: tuple[int, int], ts: str = "ts", **kinds: str) -> list[dict[str, object]]:
    os.write(pipe[1], text)
    os.close(pipe[1])
    return pa.Table.from_batches(list(JsonLines(pipe[0], ts=ts, kinds=kinds))).to_pylist()


def test_every_batch_is_what_has_arrived_in_whole_lines(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.write(writing, A + B[:10])
    lines = JsonLines(reading, ts="ts", kinds={})
    arriving = iter(lines)
    assert [row["id"] for row in next(arriving).to_pylist()] == [1]
    os.write(writing, B[10:] + b"\n\n" + A.strip())
    assert [row["id"] for row in next(arriving).to_pylist()] == [2]
    os.close(writing)
    assert [row["id"] for row in next(arriving).to_pylist()] == [1]  # the last line needs no end
    assert next(arriving, None) is None


def test_columns_are_those_of_the_first_lines_and_those_that_are_named(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], A)
    lines = JsonLines(pipe[0], ts="ts", kinds={"x": "float", "y": "string"})
    os.write(pipe[1], b'{"id": 2, "ts": 6, "type": "B", "x": 1.5, "y": "new", "z": "not read"}\n')
    os.close(pipe[1])
    found = pa.Table.from_batches(list(lines)).to_pylist()
    assert found[0] == {"id": 1, "ts": 5, "type": "A", "x": 1.0, "y": None}
    assert found[1] == {"id": 2, "ts": 6, "type": "B", "x": 1.5, "y": "new"}


@pytest.mark.parametrize("first", ["2024-01-01 00:00:00", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.000001"])
def test_times_are_microseconds_whatever_the_first_ones_look_like(pipe: tuple[int, int], first: str) -> None:
    os.write(pipe[1], A.replace(b"5", f'"{first}"'.encode()))
    lines = JsonLines(pipe[0], ts="ts", kinds={})
    assert lines.schema.field("ts").type.unit == "us"
    os.write(pipe[1], B.replace(b"6", b'"2024-01-01T00:00:00.25Z"' if "Z" in first else b'"2024-01-01 00:00:00.25"'))
    os.close(pipe[1])
    assert len(pa.Table.from_batches(list(lines))) == 2


def test_what_does_not_fit_is_refused_with_what_to_do(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], A)
    lines = iter(JsonLines(pipe[0], ts="ts", kinds={}))
    next(lines)
    os.write(pipe[1], B.replace(b"2}", b"2.5}"))
    os.close(pipe[1])
    with pytest.raises(TraceError, match=r"standard input after line 1: .*2\.5; .*--schema x=float"):
        next(lines)


def test_rows_of_a_stream_are_counted_from_one(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], A)
    lines = iter(JsonLines(pipe[0], ts="ts", kinds={}))
    next(lines)
    os.write(pipe[1], B + b"{]\n")
    os.close(pipe[1])
    with pytest.raises(TraceError, match=r"standard input after line 1: JSON parse error: .* in row 3; "):
        next(lines)


@pytest.mark.parametrize("text", [b"", b"\n \n"])
def test_a_stream_without_events_is_refused(pipe: tuple[int, int], text: bytes) -> None:
    with pytest.raises(TraceError, match="ended before its first event"):
        rows(text, pipe)


def test_what_is_no_json_is_refused(pipe: tuple[int, int]) -> None:
    with pytest.raises(TraceError, match="send one JSON object per line"):
        rows(b"hello\n", pipe)


def test_a_line_without_end_is_refused(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "_LONGEST_LINE", 10)
    with pytest.raises(TraceError, match="a line is longer than"):
        rows(A.strip(), pipe)


def test_a_stop_ends_the_stream_between_two_blocks_without_an_end(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], A)
    with Stop() as stop:
        arriving = iter(JsonLines(pipe[0], ts="ts", kinds={}, stop=stop))
        assert next(arriving).num_rows == 1
        stop.set()
        stop.set()  # a second one changes nothing
        os.write(pipe[1], B)
        with pytest.raises(StreamStopped):
            next(arriving)
    os.close(pipe[1])


def test_first_lines_that_keep_coming_do_not_hold_the_stream_up(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moment for the first lines begins with the first of them, not anew with every one."""
    monkeypatch.setattr(json_lines, "FIRST_LINES_S", 2.5)
    monkeypatch.setattr(json_lines, "_CHUNK_BYTES", len(A))
    seconds, waits = itertools.count(), []

    def selecting(readers: list[int], _w: list[int], _x: list[int], wait_s: float | None) -> tuple[list[int], ...]:
        waits.append(wait_s)
        return readers[:1] if wait_s != 0.0 else [], [], []

    monkeypatch.setattr(json_lines.time, "monotonic", lambda: float(next(seconds)))
    monkeypatch.setattr(json_lines.select, "select", selecting)
    os.write(pipe[1], A * 50)
    JsonLines(pipe[0], ts="ts", kinds={})
    assert waits == [None, 1.5, 0.5, 0.0]
    os.close(pipe[1])
