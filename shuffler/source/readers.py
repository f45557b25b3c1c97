"""Readers: record batches of the columns asked for, in the order of their rows.

A reader knows nothing of what the columns mean. Memory follows the block, not the file. `shuffler.source.files` opens
files.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from decopa.errors import TraceError
from shuffler.rows.columns import Place, is_text
from shuffler.source.parquet_files import groups_after, nullable_columns, whole
from shuffler.source.stored_rows import StoredFile, StoredTrace

PARQUET_SUFFIXES = (".parquet", ".pq")
CSV_SUFFIXES = (".csv", ".csv.gz")
JSON_SUFFIXES = (".jsonl", ".ndjson")
#: Column chunks are read piecewise, so that a huge row group costs no memory. Arrow's pre-buffering must be off for
#: that: it keeps all that it has read, in the end the whole file, until the file is closed.
_PIECEWISE = {"buffer_size": 1 << 20, "pre_buffer": False}
#: An in-memory table in smaller pieces than this is copied into one, to keep the cost per piece out.
_SMALL_CHUNK = 4_096
#: Arrow measures blocks of JSON in 32 bits.
_MAX_JSON_BLOCK = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Misfit:
    """A row of a file, by its number from 0, that cannot be used: why, and what could be read of it."""

    row: int
    reason: str
    values: Mapping[str, str | None]
    left_out: bool = True


class Reader(ABC):
    """`nullable` names the columns in which values may be missing; `unreadable` says why a column cannot be had."""

    name: str
    schema: pa.Schema
    nullable: frozenset[str]
    unreadable: Mapping[str, str]
    #: Rows that could not be read as they should, in order; those that are `left_out` are not handed out.
    misfits: Sequence[Misfit] = ()

    def place(self, first: int, rows: int) -> Place:
        """Where a block of rows is, the first of which is the `first` that was handed out."""
        gone = np.array([one.row for one in self.misfits if one.left_out], dtype=np.int64)
        if not len(gone):
            return Place(self.name, first)
        # Before row k of those handed out lie as many rows that were not as there are with gone[i] - i <= k.
        numbers = np.arange(first, first + rows)
        return Place(self.name, order=numbers + np.searchsorted(gone - np.arange(len(gone)), numbers, side="right"))

    #: Whether the rows cannot have changed since they were read before.
    in_memory: bool = False
    #: Where the rows lie, if others can read them there.
    stored: StoredTrace | None = None

    @abstractmethod
    def read(self, columns: Sequence[str], rows: int, skip: int = 0) -> Iterator[pa.RecordBatch]:
        """The rows after the first `skip`, of these columns, in blocks of at most `rows` or as they come."""


class TableReader(Reader):
    """An Arrow table in memory, sliced without copying."""

    in_memory = True

    def __init__(self, table: pa.Table, name: str = "the table") -> None:
        self.name, self.schema, self.unreadable = name, table.schema, {}
        self.nullable = frozenset(
            field.name for field, column in zip(table.schema, table.columns, strict=True) if _has_nulls(column)
        )
        self._table = table

    def read(self, columns: Sequence[str], rows: int, skip: int = 0) -> Iterator[pa.RecordBatch]:
        table = self._table.select(list(columns)).slice(skip)
        if table.num_rows < _SMALL_CHUNK * max((column.num_chunks for column in table.columns), default=0):
            table = table.combine_chunks()
        yield from table.to_batches(max_chunksize=rows)


class ParquetReader(Reader):
    """One Parquet file or several with the same columns, one after the other; `categorical` comes as a dictionary."""

    def __init__(self, paths: Sequence[Path], name: str, categorical: str) -> None:
        self.name, self.unreadable, self._paths, self._categorical = name, {}, paths, categorical
        nullable: set[str] = set()
        files = []
        for number, path in enumerate(paths):
            with reading(path, "Parquet"), pq.ParquetFile(path, **_PIECEWISE) as file:
                schema = file.schema_arrow
                groups = (file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups))
                files.append(StoredFile(str(path.resolve()), path.stat().st_size, tuple(groups)))
                check_names(schema, str(path))
                nullable.update(nullable_columns(file))
            if number == 0:
                self.schema = schema
            elif not schema.equals(self.schema):
                raise TraceError(f"{path}: its columns differ from those of {paths[0]}; write both with one schema")
        self.nullable = frozenset(nullable)
        textual = categorical in self.schema.names and is_text(self.schema.field(categorical).type)
        self.stored = StoredTrace(tuple(files), categorical if textual else None)

    def read(self, columns: Sequence[str], rows: int, skip: int = 0) -> Iterator[pa.RecordBatch]:
        """Files and row groups that are skipped are not read: their metadata says how many rows they have."""
        wanted = list(columns)
        dictionary = [self._categorical] if is_text(self.schema.field(self._categorical).type) else None
        for path in self._paths:
            with (
                reading(path, "Parquet"),
                pq.ParquetFile(path, read_dictionary=dictionary, **_PIECEWISE) as file,
            ):
                groups, skip = groups_after(file, skip)
                for batch in after(file.iter_batches(rows, row_groups=groups, columns=wanted), skip if groups else 0):
                    yield whole(batch.select(wanted))
                skip = 0 if groups else skip


class StreamReader(Reader):
    """Record batches as they arrive; can be read once."""

    def __init__(self, batches: Iterable[pa.RecordBatch], name: str = "the stream") -> None:
        self.name, self.unreadable = name, {}
        self._arriving: Iterator[pa.RecordBatch] | None = iter(batches)
        self._first: list[pa.RecordBatch] = []
        schema = getattr(batches, "schema", None)
        if not isinstance(schema, pa.Schema):
            first = next(self._arriving, None)
            if first is None:
                raise TraceError(f"{name} ended before its first batch, so its columns are unknown")
            self._first.append(_checked_batch(first, name))
            schema = first.schema
        self.schema = schema
        self.nullable = frozenset(schema.names)

    def read(self, columns: Sequence[str], rows: int, skip: int = 0) -> Iterator[pa.RecordBatch]:
        yield from after(self._read(columns), skip)

    def _read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        arriving, self._arriving = self._arriving, None
        if arriving is None:
            raise TraceError(f"{self.name} was read already; a live stream passes once, so collect it into a table")
        wanted = list(columns)
        while True:
            batch = self._first.pop() if self._first else next(arriving, None)
            if batch is None:
                return
            if not _checked_batch(batch, self.name).schema.equals(self.schema):
                raise TraceError(f"{self.name}: the columns of a batch differ from those of the first one")
            yield batch.select(wanted)


def after(batches: Iterable[pa.RecordBatch], skip: int) -> Iterator[pa.RecordBatch]:
    """The rows after the first `skip`."""
    for batch in batches:
        passed = min(skip, batch.num_rows)
        skip -= passed
        if passed < batch.num_rows or not passed:
            yield batch.slice(passed) if passed else batch


def counted_from_one(message: str, rows_before: int = 0) -> str:
    """Arrow's message about JSON with rows counted from 1, as everywhere else, after those that came before."""
    return re.sub(r"in row (\d+)", lambda found: f"in row {rows_before + int(found[1]) + 1}", message)


@contextmanager
def reading(path: Path, form: str) -> Iterator[None]:
    """Turns what Arrow and the system say about an unreadable file into one line."""
    try:
        yield
    except FileNotFoundError:
        raise TraceError(f"no trace '{path}'; check the path") from None
    except PermissionError:
        raise TraceError(f"'{path}' may not be read; check its permissions") from None
    except (pa.ArrowException, OSError, ValueError) as err:
        reason = next(iter(str(err).splitlines()), type(err).__name__)
        raise TraceError(f"'{path}' cannot be read as {form}: {reason}; is it complete?") from err


def check_names(schema: pa.Schema, source: str) -> None:
    """Names that are not UTF-8 end in a ValueError here."""
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise TraceError(f"{source}: two columns are called '{name}'; rename one")


def _checked_batch(batch: object, name: str) -> pa.RecordBatch:
    if not isinstance(batch, pa.RecordBatch):
        raise TraceError(f"{name} must consist of pyarrow.RecordBatch, got {type(batch).__name__}")
    return batch


def _has_nulls(column: pa.ChunkedArray) -> bool:
    if column.null_count:
        return True
    return pa.types.is_dictionary(column.type) and any(chunk.dictionary.null_count for chunk in column.chunks)
