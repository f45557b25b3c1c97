"""`decopa run --trace -` in a process of its own: lines come while its input is open; it ends in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[4]
QUERY = "PATTERN SEQ(A a, B b) WITHIN 10 us"
Process = subprocess.Popen[str]


def lines(*events: tuple[int, str]) -> str:
    return "".join(json.dumps({"id": ts, "ts": ts, "type": kind}) + "\n" for ts, kind in events)


@pytest.fixture
def started() -> Iterator[Any]:
    processes: list[Process] = []

    def start(*options: object) -> Process:
        command = [sys.executable, "-m", "decopa", "run", QUERY, "--runtime", "local", "--trace", "-"]
        process = subprocess.Popen(
            [*command, *map(str, options)],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def send(process: Process, *events: tuple[int, str]) -> None:
    assert process.stdin is not None
    process.stdin.write(lines(*events))
    process.stdin.flush()


def next_match(process: Process) -> tuple[int, int]:
    assert process.stdout is not None
    row = json.loads(process.stdout.readline())
    return row["a"], row["b"]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_matches_come_while_the_stream_is_open_and_a_signal_ends_it_in_order(
    started: Any, number: int, status: int
) -> None:
    process = started()
    send(process, (1, "A"), (2, "B"))
    assert next_match(process) == (1, 2)
    send(process, (3, "B"))
    assert next_match(process) == (1, 3)
    process.send_signal(number)
    process.wait()  # with its input open: closing that would end the stream
    out, err = process.communicate()
    assert (process.returncode, out) == (status, "")
    assert "Traceback" not in err
    assert "reached      3 us, stopped" in err and "matches      2" in err


def test_a_reader_that_has_seen_enough_ends_the_run(started: Any) -> None:
    process = started()
    send(process, (1, "A"), (2, "B"))
    assert next_match(process) == (1, 2)
    process.stdout.close()
    send(process, (3, "B"))
    err = process.stderr.read()
    assert process.wait() == 0
    assert "Traceback" not in err and "Broken" not in err
    assert "stopped" in err


def test_files_and_parts_hold_what_was_certain_when_it_was_stopped(started: Any, tmp_path: Path) -> None:
    grows = started("--out", tmp_path / "matches.jsonl")
    parts = started("--out", tmp_path / "parts", "--part-rows", 2, "--part-every", "1 h")
    for process in (grows, parts):
        send(process, (1, "A"), (2, "B"), (3, "B"), (4, "B"))
    while not (tmp_path / "matches.jsonl").exists() or (tmp_path / "matches.jsonl").read_text().count("\n") < 3:
        assert grows.poll() is None
    while not (tmp_path / "parts" / "part-00000000.parquet").exists():
        assert parts.poll() is None
    for process in (grows, parts):
        process.send_signal(signal.SIGTERM)
        process.communicate()
        assert process.returncode == 143
    found = [row for path in sorted((tmp_path / "parts").iterdir()) for row in pq.read_table(path)["b"].to_pylist()]
    assert found == [2, 3, 4]


def test_the_end_of_the_stream_decides_what_was_open(started: Any) -> None:
    process = started()
    out, err = process.communicate(lines((1, "A"), (2, "B")))
    assert process.returncode == 0
    assert len(out.splitlines()) == 1
    assert "the end of the stream" in err
