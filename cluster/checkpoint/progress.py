"""How far a run on a live source has come, for whoever watches it from outside: read from its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cluster.checkpoint.coordinator import SOURCE
from cluster.checkpoint.store import CheckpointStore
from shuffler.source.live.position import Position


def published_offsets(location: str | Path) -> Mapping[str, int] | None:
    """The offsets of the newest complete checkpoint: every event before them has been read, and the matches that were
    certain then are published or about to be. None if there is no checkpoint of a live source."""
    store = CheckpointStore(location)
    manifest = store.latest()
    if manifest is None or SOURCE not in manifest.states:
        return None
    return Position.offsets_in(store.read_state(manifest, SOURCE), f"checkpoint {manifest.number} in {location}")
