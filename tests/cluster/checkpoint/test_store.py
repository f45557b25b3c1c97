"""Checkpoints on disk: what is read, how often, and what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from cluster.checkpoint.store import CheckpointStore, Manifest
from decopa.errors import CheckpointError


class CountingStore(CheckpointStore):
    """Counts how often each file is read."""

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self.reads: Counter[str] = Counter()

    def _read(self, path: str, most: int) -> bytes:
        self.reads[path] += 1
        return super()._read(path, most)


def saved(folder: Path, *numbers: int) -> CountingStore:
    store = CountingStore(folder)
    for number in numbers:
        states = {name: store.write_state(number, name, f"{name} {number}".encode(), 1) for name in ("q/o3/0", "s/0")}
        store.commit(Manifest(number, 1, "{}", 1, 5, 3, states))
    store.reads.clear()
    return store


def test_a_resumed_run_reads_each_state_once(tmp_path: Path) -> None:
    store = saved(tmp_path, 1)
    manifest = store.latest()
    assert manifest is not None
    assert {name: store.read_state(manifest, name) for name in manifest.states} == {
        "q/o3/0": b"q/o3/0 1",
        "s/0": b"s/0 1",
    }
    assert [count for path, count in store.reads.items() if path.endswith(".state")] == [1, 1]


def test_a_state_that_is_asked_for_again_is_read_again(tmp_path: Path) -> None:
    """Nothing is kept for longer than a resumed run needs it."""
    store = saved(tmp_path, 1)
    manifest = store.latest()
    assert manifest is not None
    store.read_state(manifest, "s/0")
    (path,) = tmp_path.rglob("s*.state")
    path.write_bytes(b"S/0 1")
    with pytest.raises(CheckpointError, match="is damaged"):
        store.read_state(manifest, "s/0")


def test_a_checkpoint_with_a_damaged_state_is_passed_over(tmp_path: Path) -> None:
    store = saved(tmp_path, 1, 2)
    (path,) = (tmp_path / "checkpoint-00000002").glob("s*.state")
    path.write_bytes(b"S/0 2")
    manifest = store.latest()
    assert manifest is not None and manifest.number == 1
    assert store.read_state(manifest, "s/0") == b"s/0 1"


def test_who_asks_what_ran_reads_no_state(tmp_path: Path) -> None:
    store = saved(tmp_path, 1, 2)
    manifest = store.latest_manifest()
    assert manifest is not None and manifest.number == 2
    assert not [path for path in store.reads if path.endswith(".state")]
