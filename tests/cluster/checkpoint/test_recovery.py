"""Processes of a real Ray die: the published matches are those of an undisturbed run."""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import decopa
from actors.columnar.jit import interpreted
from cluster.checkpoint.recovery import CheckpointedRun
from cluster.options import Checkpoints, RayOptions
from decopa.errors import CheckpointError
from decopa.traces.synthetic import SyntheticSpec
from shuffler.source.pacing import Replay

pytestmark = pytest.mark.ray

QUERY = (
    """QUERY q PATTERN SEQ(A a, B b, NOT(C c)) WHERE a.x < b.x AND a.s = b.s AND a.k = c.k WITHIN 200 ms RETURN a.s"""
)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = SyntheticSpec(events=1_500, rate_per_s=1000, types=3, keys=10, zipf=0.5, seed=4)
    path = tmp_path_factory.mktemp("trace") / "trace.parquet"
    pq.write_table(pa.Table.from_batches(list(spec.batches())), path)
    return path


def published(folder: Path) -> list[dict[str, object]]:
    rows = [row for path in sorted(folder.glob("part-*.parquet")) for row in pq.read_table(path).to_pylist()]
    return sorted(rows, key=repr)


def expected(trace: Path) -> list[dict[str, object]]:
    return sorted(decopa.run(QUERY, trace).to_pylist(), key=repr)


def start(trace: Path, tmp_path: Path, *, rate: float = 400.0) -> CheckpointedRun:
    return decopa.run_with_checkpoints(
        QUERY,
        trace,
        out=tmp_path / "out",
        checkpoint=Checkpoints(str(tmp_path / "checkpoints"), every_s=0.3),
        units=3,
        ray=RayOptions(replay=Replay(rate=rate), metrics=False),
    )


class Killer:
    """Kills the process of a random actor now and then."""

    def __init__(self, times: int, every_s: float) -> None:
        self.killed: list[str] = []
        self._times, self._every_s, self._draw = times, every_s, random.Random(1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        import ray

        while len(self.killed) < self._times and not self._stop.wait(self._every_s):
            actors = ray.util.list_named_actors(all_namespaces=True)
            if not actors:
                continue
            chosen = self._draw.choice(actors)
            try:
                handle = ray.get_actor(chosen["name"], namespace=chosen["namespace"])
                os.kill(ray.get(handle.pid.remote(), timeout=5), signal.SIGKILL)
            except Exception:
                continue  # it was gone already
            self.killed.append(chosen["name"])


def test_killed_processes_lose_and_repeat_nothing(ray_cluster: None, trace: Path, tmp_path: Path) -> None:
    with interpreted(), Killer(times=2, every_s=4.0) as killer:
        result = start(trace, tmp_path, rate=150.0)
        assert killer.killed
    assert published(tmp_path / "out") == expected(trace)
    assert len(result.recoveries) >= 1
    assert result.published.matches == len(expected(trace)) > 100


def test_a_run_goes_on_where_it_was_with_other_units(ray_cluster: None, trace: Path, tmp_path: Path) -> None:
    """The driver gives up half-way; whoever resumes may use another number of units."""

    def give_up(events: int, matches: int) -> None:
        if published(tmp_path / "out"):
            raise KeyboardInterrupt

    with interpreted():
        with pytest.raises(KeyboardInterrupt):
            decopa.run_with_checkpoints(
                QUERY,
                trace,
                out=tmp_path / "out",
                checkpoint=Checkpoints(str(tmp_path / "checkpoints"), every_s=0.2),
                units=3,
                ray=RayOptions(replay=Replay(rate=400.0), metrics=False),
                watch=decopa.Watch(progress=give_up),
            )
        before = published(tmp_path / "out")
        with pytest.raises(CheckpointError, match="belongs to another query"):
            decopa.run_with_checkpoints(
                "PATTERN SEQ(A a, B b) WITHIN 1 s", trace, out=tmp_path / "out", checkpoint=tmp_path / "checkpoints"
            )
        decopa.resume(tmp_path / "checkpoints", units=5)
        decopa.resume(tmp_path / "checkpoints")  # has finished: nothing to do
    after = published(tmp_path / "out")
    assert after == expected(trace)
    assert 0 < len(before) < len(after)
