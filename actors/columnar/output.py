"""Where units write matches, and what they count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shuffler.rows.batch import Array

#: Matches per chunk of output: small enough to stay in the processor's cache until the next operator reads it.
CHUNK = 32_768
#: Rows per block of result columns: large blocks are cheaper to get from the system than many small ones.
BLOCK = 1 << 20


@dataclass
class Counters:
    """What a unit has done so far."""

    ingested: int = 0
    comparisons: int = 0
    emitted: int = 0


class OutputBlocks:
    """Room for output columns: each chunk is a view of a block that is never written again."""

    def __init__(self, types: Mapping[str, np.dtype], rows: int) -> None:
        self._types, self._rows = types, rows
        self._columns: dict[str, Array] = {}
        self._used = self._size = 0

    def room(self, wanted: int) -> dict[str, Array]:
        """Columns with room for `wanted` rows."""
        if self._size - self._used < wanted:
            self._size, self._used = max(self._rows, wanted), 0
            self._columns = {name: np.empty(self._size, dtype) for name, dtype in self._types.items()}
        return {name: column[self._used : self._used + wanted] for name, column in self._columns.items()}

    def take(self, rows: int) -> None:
        """Marks the first rows of the room as written."""
        self._used += rows
