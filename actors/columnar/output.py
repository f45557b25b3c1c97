"""Where units write matches, and what they count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shuffler.rows.batch import Array

#: Matches per chunk of output: small enough to stay in the processor's cache until the next operator reads it.
CHUNK = 32_768
#: Most rows per block of result columns. Matches of one block are put in order where they are; those of several have to
#: be copied together.
BLOCK = 1 << 22
#: Blocks grow by this factor from a chunk on: a query that finds little reserves little, and one that finds more gets
#: columns of 4 MiB next, from which on memory comes in large pages and costs fewer faults.
_GROWTH = 16


@dataclass
class Counters:
    """What a unit has done so far."""

    ingested: int = 0
    comparisons: int = 0
    emitted: int = 0


class OutputBlocks:
    """Room for output columns: each chunk is a view of a block that is never written again. Blocks have at most
    `rows`."""

    def __init__(self, types: Mapping[str, np.dtype], rows: int) -> None:
        self._types, self._most, self._rows = types, rows, min(rows, CHUNK)
        self._columns: dict[str, Array] = {}
        self._used = self._size = 0

    def room(self, wanted: int) -> dict[str, Array]:
        """Columns with room for `wanted` rows."""
        if self._size - self._used < wanted:
            self._size, self._used = max(self._rows, wanted), 0
            self._rows = min(self._most, _GROWTH * self._rows)
            self._columns = {name: np.empty(self._size, dtype) for name, dtype in self._types.items()}
        return {name: column[self._used : self._used + wanted] for name, column in self._columns.items()}

    def take(self, rows: int) -> None:
        """Marks the first rows of the room as written."""
        self._used += rows


class Pieces:
    """Memory for columns that stay, one after the other in large pieces, which come in large pages and so cost fewer
    faults than as many columns of their own."""

    def __init__(self) -> None:
        self._piece, self._used, self._size = np.empty(0, dtype=np.int64), 0, 8 * CHUNK

    def column(self, rows: int, dtype: np.dtype) -> Array:
        """A column that nobody has written to yet, of values of 64 bits."""
        if len(self._piece) - self._used < rows:
            self._piece, self._used = np.empty(max(self._size, rows), dtype=np.int64), 0
            self._size = min(BLOCK, _GROWTH * self._size)
        start, self._used = self._used, self._used + rows
        return self._piece[start : self._used].view(dtype)
