"""Runs on real live sources, on a real Ray, with processes that die: row by row what a run over the trace finds."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import decopa
from actors.columnar.jit import interpreted
from cluster.checkpoint.progress import published_offsets
from cluster.checkpoint.recovery import Checkpoints
from cluster.options import RayOptions
from decopa.traces.synthetic import SyntheticSpec
from shuffler.source.live.address import folder_address
from shuffler.source.live.folder import DONE

pytestmark = pytest.mark.ray
ROOT = Path(__file__).resolve().parents[2]
#: Actors may take minutes to start on a machine that does other things, too.
PATIENCE_S = 240.0
QUERY = "QUERY q PATTERN SEQ(A a, B b) WHERE a.k = b.k AND a.x < b.x WITHIN 20 ms"


def chaos(*arguments: str, timeout: float) -> str:
    command = [sys.executable, "-W", "ignore", "-m", "scripts.reliability.stream_chaos", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_a_run_on_a_folder_survives_a_strike() -> None:
    told = chaos("--runs", "1", "--sources", "folder", "--strikes", "1", "--events", "3000", timeout=300)
    assert "0 lost, 0 twice" in told


@pytest.mark.slow
def test_thirty_runs_on_kafka_nats_and_a_folder_survive_random_strikes() -> None:
    told = chaos("--runs", "30", "--strikes", "3", timeout=5_400)
    assert "30 runs (10 on kafka, 10 on nats, 10 on folder)" in told
    assert "0 lost, 0 twice" in told


@contextmanager
def running(folder: Path) -> Iterator[list[BaseException]]:
    """A run on the folder `in`, in a thread, until the block is left; yields what it failed of."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            decopa.run_with_checkpoints(
                QUERY,
                folder_address(folder / "in"),
                out=folder / "out",
                checkpoint=Checkpoints(str(folder / "checkpoints"), every_s=0.1),
                units=2,
                ray=RayOptions(metrics=False),
                watch=decopa.Watch(stop=stop),
            )
        except BaseException as err:
            failures.append(err)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield failures
    finally:
        stop.set()
        thread.join(60)
    assert not failures


def rows(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=repr)


@pytest.mark.parametrize("files", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_published_matches_are_those_of_the_events_so_far_every_time(
    ray_cluster: None, tmp_path: Path, files: int
) -> None:
    """After a checkpoint has all files, what is published are the matches of a run over exactly those files."""
    (tmp_path / "in").mkdir()
    spec = SyntheticSpec(events=100 * files, rate_per_s=1_000, types=3, keys=3, zipf=0.2, seed=7)
    trace = pa.Table.from_batches(list(spec.batches())).combine_chunks()
    found: list[int] = []
    pq.write_table(trace.slice(0, 100), tmp_path / "in" / "000.parquet")
    with interpreted(), running(tmp_path) as failures:
        for number in range(files):
            name = f"{number:03d}.parquet"
            if number:
                pq.write_table(trace.slice(100 * number, 100), tmp_path / "in" / f".{name}")
                (tmp_path / "in" / f".{name}").rename(tmp_path / "in" / name)
            until = time.monotonic() + PATIENCE_S
            while (published_offsets(tmp_path / "checkpoints") or {}).get(name) != DONE:
                assert not failures and time.monotonic() < until
                time.sleep(0.02)
            expected = rows(decopa.run(QUERY, trace.slice(0, 100 * (number + 1))))
            while len(published := rows(matches_in(tmp_path / "out"))) < len(expected):
                assert not failures and time.monotonic() < until
                time.sleep(0.02)
            assert published == expected
            found.append(len(expected))
    assert found[-1] > found[0] > 0


def test_times_keep_the_unit_they_were_taken_for_when_a_stream_is_taken_up(ray_cluster: None, tmp_path: Path) -> None:
    """Times that begin at 0 pass a value that looks like a date in seconds after 17 minutes."""
    (tmp_path / "in").mkdir()
    early = pa.table({"id": [1, 2], "ts": [0, 10], "type": ["A", "B"], "k": [1, 1], "x": [0.0, 1.0]})
    late = pa.table(
        {"id": [3, 4], "ts": [1_500_000_000, 1_500_000_010], "type": ["A", "B"], "k": [1, 1], "x": [0.0, 1.0]}
    )
    pq.write_table(early, tmp_path / "in" / "early.parquet")
    with interpreted():
        with running(tmp_path) as failures:
            until = time.monotonic() + 60
            while (published_offsets(tmp_path / "checkpoints") or {}).get("early.parquet") != DONE:
                assert not failures and time.monotonic() < until
                time.sleep(0.02)
        (tmp_path / "in" / "early.parquet").unlink()
        pq.write_table(late, tmp_path / "in" / "late.parquet")
        decopa.resume(tmp_path / "checkpoints", source=lambda address: replace(address, until_end=True))
    assert sorted(zip(*matches_in(tmp_path / "out").select(["start_ts", "a", "b"]).to_pydict().values())) == [
        (0, 1, 2),
        (1_500_000_000, 3, 4),
    ]


def matches_in(folder: Path) -> pa.Table:
    parts = [pq.read_table(path) for path in sorted(folder.glob("part-*.parquet"))]
    return pa.concat_tables(parts) if parts else pa.table({})
