"""A store of checkpoints whose writers die at given points, each once; for actors of a real Ray."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from cluster.checkpoint.store import CheckpointStore, StoredState


class DyingStore(CheckpointStore):
    """`deaths` are (checkpoint, before or after its state is written); the first process that comes there dies."""

    def __init__(self, location: str, deaths: tuple[tuple[int, str], ...], marks: Path) -> None:
        super().__init__(location)
        self._deaths, self._marks = deaths, marks

    def write_state(self, number: int, process: str, payload: bytes, attempt: int) -> StoredState:
        if not process.startswith("shuffler/"):  # the driver writes theirs
            self._die(number, "before")
        stored = super().write_state(number, process, payload, attempt)
        if not process.startswith("shuffler/"):
            self._die(number, "after")
        return stored

    def _die(self, number: int, moment: str) -> None:
        for place, (least, when) in enumerate(self._deaths):
            if number >= least and when == moment:
                try:
                    (self._marks / f"death-{place}").touch(exist_ok=False)
                except FileExistsError:
                    continue
                os.kill(os.getpid(), signal.SIGKILL)
