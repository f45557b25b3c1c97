"""Checkpoints that earlier versions wrote: this one goes on from them, on as many units or on others."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import decopa
from actors.columnar.jit import interpreted
from cluster.checkpoint.store import VERSION, CheckpointStore
from decopa.errors import CheckpointError
from tests.support.stored_checkpoint import QUERY, STORED, unpacked

NAMES = sorted(path.name for path in STORED.iterdir())


def rows(table: pa.Table) -> list[str]:
    return sorted(repr(row) for row in table.to_pylist())


def test_there_is_one_of_the_format_that_is_written_now() -> None:
    assert f"format-{VERSION}" in NAMES


@pytest.mark.ray
@pytest.mark.parametrize("units", [pytest.param(None, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("name", NAMES)
def test_a_stored_run_ends_with_the_matches_of_an_undisturbed_one(
    ray_cluster: None, tmp_path: Path, name: str, units: int | None
) -> None:
    folder = unpacked(name, tmp_path / "run")
    before = CheckpointStore(folder / "checkpoints").latest()
    assert before is not None and 0 < before.events < pq.read_metadata(folder / "trace.parquet").num_rows
    assert before.matches and not before.finished
    with interpreted():
        decopa.resume(folder / "checkpoints", units=units)
        expected = decopa.run(QUERY, folder / "trace.parquet")
    published = pa.concat_tables([pq.read_table(part) for part in sorted((folder / "out").glob("part-*.parquet"))])
    assert rows(published) == rows(expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("version", [0, VERSION + 1])
def test_a_manifest_of_another_version_is_refused_and_named(tmp_path: Path, name: str, version: int) -> None:
    folder = unpacked(name, tmp_path / "run")
    (manifest,) = (folder / "checkpoints").glob("checkpoint-*/manifest.json")
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": version}))
    store = CheckpointStore(folder / "checkpoints")
    with pytest.raises(CheckpointError, match=f"this decopa reads version {VERSION}"):
        store.read(int(manifest.parent.name.removeprefix("checkpoint-")))
