"""Rows of a stored trace by their place, so that whoever shuffles them can read them itself.

The driver hands out places (`StoredRows`); a shuffler turns them into rows (`RowReader`). Row groups of Parquet are
what can be read on its own, so a block is a row group or a part of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from decopa.errors import TraceError
from shuffler.source.parquet_files import whole

#: A shuffler holds a row group in memory while it works on it; traces with larger ones are read by the driver.
MOST_GROUP_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A Parquet file: its size tells it from another of that name, `groups` are the rows of its row groups."""

    path: str
    size: int
    groups: tuple[int, ...]

    @property
    def is_here(self) -> bool:
        """Whether this process sees the same file."""
        try:
            return Path(self.path).stat().st_size == self.size
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows `first` to `first + rows` of a row group; these columns, `dictionary` among them as a dictionary."""

    path: str
    group: int
    first: int
    rows: int
    columns: tuple[str, ...]
    dictionary: str | None


@dataclass(frozen=True)
class StoredTrace:
    """Parquet files, one after the other in time order."""

    files: tuple[StoredFile, ...]
    dictionary: str | None

    @property
    def is_readable_in_groups(self) -> bool:
        return all(rows <= MOST_GROUP_ROWS for file in self.files for rows in file.groups)

    def places(self, columns: Sequence[str], most: int, skip: int = 0) -> Iterator[StoredRows]:
        """Places of all rows but the first `skip`, each of `most` rows at most, none beyond its row group."""
        for file in self.files:
            for group, rows in enumerate(file.groups):
                passed = min(skip, rows)
                skip -= passed
                for first in range(passed, rows, most):
                    yield StoredRows(file.path, group, first, min(most, rows - first), tuple(columns), self.dictionary)


class RowReader:
    """Reads rows by their places; keeps the row group that it read last, since places mostly follow each other."""

    def __init__(self) -> None:
        self._known: tuple[str, int, tuple[str, ...]] | None = None
        self._table: pa.Table | None = None

    def read(self, wanted: StoredRows) -> pa.Table:
        key = (wanted.path, wanted.group, wanted.columns)
        if self._known != key or self._table is None:
            self._table = None  # two row groups in memory would be one too many
            self._table, self._known = _row_group(wanted), key
        return self._table.slice(wanted.first, wanted.rows)


def _row_group(wanted: StoredRows) -> pa.Table:
    dictionary = None if wanted.dictionary is None else [wanted.dictionary]
    try:
        with pq.ParquetFile(wanted.path, read_dictionary=dictionary, pre_buffer=False) as file:
            table = file.read_row_group(wanted.group, columns=list(wanted.columns)).select(list(wanted.columns))
            for batch in table.to_batches():
                whole(batch)
            return table
    except (pa.ArrowException, OSError, ValueError) as err:
        reason = next(iter(str(err).splitlines()), type(err).__name__)
        raise TraceError(f"'{wanted.path}' cannot be read where it is shuffled: {reason}; is it complete?") from err
