"""Where a unit keeps its rows: in memory, and beyond a limit, if that is allowed, in files mapped into memory.

Compiled loops see ordinary arrays either way. Rows are sorted by time, so of a large mapped window they touch the parts
that their probes look at, and the system writes out what is not touched. Files have no name: whatever happens to the
process, nothing is left behind.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from decopa.choices import DEFAULT_MAX_SPILL_BYTES
from decopa.errors import LimitError
from shuffler.rows.batch import Array

#: Smaller arrays are not worth a file of their own.
_SMALLEST_FILE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Spill:
    """A folder on every node for what a unit cannot keep in memory, and how much each unit may put there."""

    folder: Path
    max_bytes: int = DEFAULT_MAX_SPILL_BYTES

    def __post_init__(self) -> None:
        if self.max_bytes < 1:
            raise LimitError(f"units can spill a byte at least, got {self.max_bytes}")
        if not hasattr(os, "posix_fallocate"):
            raise LimitError("this system cannot reserve space for files, so units cannot spill; leave out --spill")


class StateMemory:
    """Makes the arrays of one unit's stores, and knows how many bytes of them are in use."""

    def __init__(self, max_bytes: int | None = None, spill: Spill | None = None) -> None:
        if spill is not None and not spill.folder.is_dir():
            raise LimitError(f"there is no folder '{spill.folder}' to spill to; make it, on every node")
        self._max_bytes, self._spill = max_bytes, spill
        self.in_memory = self.on_disk = self.most_on_disk = 0

    def empty(self, count: int, dtype: Any) -> Array:
        """An array with anything in it; LimitError if there is no room for it on disk either."""
        size = count * np.dtype(dtype).itemsize
        if self._spill is None or self._max_bytes is None or size < _SMALLEST_FILE:
            return self._in_memory(count, dtype, size)
        if self.in_memory + size <= self._max_bytes:
            return self._in_memory(count, dtype, size)
        return self._on_disk(self._spill, count, dtype, size)

    def _in_memory(self, count: int, dtype: Any, size: int) -> Array:
        array: Array = np.empty(count, dtype)
        self.in_memory += size
        weakref.finalize(array, self._forget, "in_memory", size).atexit = False
        return array

    def _on_disk(self, spill: Spill, count: int, dtype: Any, size: int) -> Array:
        if self.on_disk + size > spill.max_bytes:
            raise LimitError(
                f"{(self.on_disk + size) / 2**20:,.0f} MiB of partial matches would have to be spilled, more than the "
                f"limit of {spill.max_bytes / 2**20:,.0f} MiB; use more units, a shorter window or a more selective "
                "condition, or raise the limit (--max-spill-mb, Spill.max_bytes)"
            )
        try:
            with tempfile.TemporaryFile(dir=spill.folder, prefix="decopa-spill-") as file:
                # Blocks are reserved now: a mapped file that finds the disk full later ends the process.
                os.posix_fallocate(file.fileno(), 0, size)
                mapped = mmap.mmap(file.fileno(), size)
        except OSError as err:
            raise LimitError(
                f"{size / 2**20:,.0f} MiB of partial matches cannot be spilled to '{spill.folder}': {err.strerror}; "
                "free some space there, or name another folder with --spill (Spill.folder)"
            ) from err
        array = np.frombuffer(mapped, dtype, count)
        self.on_disk += size
        self.most_on_disk = max(self.most_on_disk, self.on_disk)
        weakref.finalize(array, self._forget, "on_disk", size).atexit = False
        return array

    def _forget(self, where: str, size: int) -> None:
        setattr(self, where, getattr(self, where) - size)
