"""A disk that is really full: a small filesystem that is filled to the last byte."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import decopa
from actors.columnar.jit import interpreted
from cluster.checkpoint.output import PublishedMatches
from cluster.checkpoint.store import CheckpointStore, Manifest, NotWritten
from cluster.options import Checkpoints, RayOptions
from decopa.errors import CheckpointError, OutputError
from scripts.reliability.jobs import rows_of, write_trace
from scripts.reliability.victims import Disk
from shuffler.source.pacing import Replay
from tests.cluster.checkpoint.test_recovery import QUERY, published

MATCHES = pa.table({"a": list(range(20_000))})


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path / "disk", mib=4)
    if not disk.mounted:
        pytest.skip("a filesystem of its own, to be filled, takes the right to mount one")
    yield disk
    disk.unmount()


def test_a_checkpoint_on_a_full_disk_leaves_the_one_before(disk: Disk) -> None:
    store = CheckpointStore(disk.folder / "c")
    states = {"q": store.write_state(1, "q", b"state", 1)}
    store.commit(Manifest(1, 1, "{}", 1, 5, 3, states))
    disk.fill()
    with pytest.raises(NotWritten, match="No space left on device; check the folder's rights and free space"):
        store.write_state(2, "q", bytes(100_000), 1)
    with pytest.raises(NotWritten, match="No space left on device"):
        store.commit(Manifest(2, 1, "{}", 1, 9, 6, {}))
    assert not list(disk.folder.rglob("*.part"))  # what was begun takes no space
    latest = store.latest()
    assert latest is not None and latest.number == 1
    disk.free()
    states = {"q": store.write_state(2, "q", bytes(100_000), 1)}
    store.commit(Manifest(2, 1, "{}", 1, 9, 6, states))
    latest = store.latest()
    assert latest is not None and latest.number == 2


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_part_on_a_full_disk_is_not_half_there(form: str, disk: Disk) -> None:
    output = PublishedMatches(disk.folder / "out", form)
    output.prepare([])
    disk.fill()
    with pytest.raises(OutputError, match="No space left on device; check rights and free space"):
        output.stage(1, MATCHES)
    assert [path for path in output.folder.rglob("*") if path.is_file()] == []
    disk.free()
    assert output.stage(1, MATCHES) == f"part-00000001.{form}"


@pytest.mark.ray
@pytest.mark.slow
def test_a_run_goes_on_without_checkpoints_while_the_disk_is_full(ray_cluster: None, disk: Disk) -> None:
    trace = disk.folder.parent / "trace.parquet"
    write_trace(trace, events=1_500, rate=1_000, seed=4)
    timers = []

    def fill(events: int, matches: int) -> None:
        if not timers and published(disk.folder / "out"):
            disk.fill()
            timers.append(threading.Timer(1.5, disk.free))
            timers[0].start()

    with interpreted():
        result = decopa.run_with_checkpoints(
            QUERY,
            trace,
            out=disk.folder / "out",
            checkpoint=Checkpoints(str(disk.folder / "checkpoints"), every_s=0.3),
            units=2,
            ray=RayOptions(replay=Replay(rate=250.0), metrics=False),
            watch=decopa.Watch(progress=fill),
        )
        timers[0].join()
    assert result.given_up and "No space left on device" in result.given_up[0]
    assert result.recoveries == []
    found = pa.Table.from_pylist(published(disk.folder / "out"))
    assert rows_of(found) == rows_of(decopa.run(QUERY, trace))


@pytest.mark.ray
def test_a_disk_that_stays_full_ends_the_run_with_the_way_on(ray_cluster: None, disk: Disk) -> None:
    trace = disk.folder.parent / "trace.parquet"
    write_trace(trace, events=1_500, rate=1_000, seed=4)

    def fill(events: int, matches: int) -> None:
        if published(disk.folder / "out"):
            disk.fill()

    with interpreted():
        with pytest.raises(CheckpointError, match=r"is safe: go on with `decopa resume"):
            decopa.run_with_checkpoints(
                QUERY,
                trace,
                out=disk.folder / "out",
                checkpoint=Checkpoints(str(disk.folder / "checkpoints"), every_s=0.2, retries=1),
                units=2,
                ray=RayOptions(replay=Replay(rate=250.0), metrics=False),
                watch=decopa.Watch(progress=fill),
            )
        disk.free()
        decopa.resume(disk.folder / "checkpoints")
    found = pa.Table.from_pylist(published(disk.folder / "out"))
    assert rows_of(found) == rows_of(decopa.run(QUERY, trace))
