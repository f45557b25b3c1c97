"""Of several drivers that take themselves for the one that runs a job, only the last can complete anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.checkpoint.store import CheckpointStore, Manifest
from decopa.errors import CheckpointError


def manifest(number: int, attempt: int, **more: object) -> Manifest:
    return Manifest(number, attempt, "{}", 1, 5, 3, {}, **more)  # type: ignore[arg-type]


def test_every_attempt_has_a_number_of_its_own(tmp_path: Path) -> None:
    """Even if the one before came to nothing."""
    assert [CheckpointStore(tmp_path).begin_attempt() for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"attempt": "x"}', '{"attempt": -1}', '{"attempt": 1e400}'])
def test_a_damaged_note_of_the_attempt_does_not_keep_a_run_from_going_on(content: str, tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.commit(manifest(4, 7))
    (tmp_path / "attempt.json").write_text(content)
    assert store.begin_attempt() == 8


def test_a_driver_that_was_taken_for_dead_completes_nothing(tmp_path: Path) -> None:
    first, second = CheckpointStore(tmp_path), CheckpointStore(tmp_path)
    one = first.begin_attempt()
    first.commit(manifest(1, one))
    two = second.begin_attempt()
    with pytest.raises(CheckpointError, match="has been taken up by another driver; this one stops"):
        first.commit(manifest(2, one))
    second.commit(manifest(2, two))
    latest = first.latest()
    assert latest is not None and latest.attempt == two


def test_a_state_that_is_written_late_does_not_replace_that_of_the_next_attempt(tmp_path: Path) -> None:
    """A process on a node that was given up may live for some seconds more."""
    store = CheckpointStore(tmp_path)
    states = {"q": store.write_state(1, "q", b"new", 2)}
    store.commit(Manifest(1, 2, "{}", 1, 5, 3, states))
    store.write_state(1, "q", b"old", 1)
    latest = store.latest()
    assert latest is not None and store.read_state(latest, "q") == b"new"
