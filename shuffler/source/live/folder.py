"""A folder that files are moved into: each is read once, in the order of their times, and never changes.

Files are Parquet, CSV or JSON lines. A file must appear whole, by a rename; names that begin with a dot or an
underscore, or end like files in the making, are passed by. Offsets are rows: of the file that is being read, and all of
those that have been read, as long as they lie in the folder.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from decopa.errors import TraceError
from shuffler.rows.columns import Place
from shuffler.rows.events import TraceColumns
from shuffler.source.dead_letters import DeadLetters
from shuffler.source.files import open_files
from shuffler.source.letters import values_of
from shuffler.source.live.address import SourceAddress
from shuffler.source.live.decoding import fit_rows, kinds_of, schema_of
from shuffler.source.live.interface import Arrival
from shuffler.source.readers import CSV_SUFFIXES, JSON_SUFFIXES, PARQUET_SUFFIXES, Reader

_LOG = logging.getLogger("decopa")
_SUFFIXES = (*PARQUET_SUFFIXES, *CSV_SUFFIXES, *JSON_SUFFIXES)
_UNFINISHED = (".tmp", ".part", ".partial", ".inprogress", ".crdownload")
#: The offset of a file that was read to its end.
DONE = 2**62
BLOCK_ROWS = 65_536


class FolderSource:
    """A `LiveSource` with one partition: files follow each other in time, up to the allowed lateness."""

    replayable = True

    def __init__(
        self,
        address: SourceAddress,
        columns: TraceColumns,
        letters: DeadLetters,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name, self.identity = address.name, address.identity
        self._folder, self._until_end, self._letters, self._sleep = (
            Path(address.topic),
            address.until_end,
            letters,
            sleep,
        )
        self._trace_columns = columns
        self._passed_by: set[str] = set()
        if not self._folder.is_dir():
            raise TraceError(f"no folder '{self._folder}' to follow; check the path")
        given = dict(address.columns)
        if not set(columns.required) <= given.keys():
            given = self._columns_of_first() | given
        self.columns, self.schema = given, schema_of(given)
        self._names: list[str] = self.schema.names
        self._offsets: dict[str, int] = {}
        self._reading: Iterator[Arrival] | None = None
        self._begin_at_latest = address.start == "latest"

    # ------------------------------------------------------------- the interface

    def open(self, offsets: Mapping[str, int] | None, columns: Sequence[str]) -> None:
        self._names, self._reading = list(columns), None
        if offsets is None:
            there = [path.name for path in self._files()] if self._begin_at_latest else []
            offsets = dict.fromkeys(there, DONE)
        self._offsets = dict(offsets)
        for name, rows in self._offsets.items():
            if rows != DONE and not (self._folder / name).is_file():
                raise TraceError(
                    f"{self._folder / name}, of which {rows:,} rows were read before, is gone; put it back"
                )

    def partitions(self) -> Collection[str]:
        return ("",)

    def poll(self, wait_s: float, but: Collection[str] = ()) -> Sequence[Arrival] | None:
        if self._reading is None:
            following = self._next_file()
            if following is None:
                if self._until_end:
                    return None
                self._sleep(wait_s)
                return ()
            self._reading = self._arrivals(following)
        found = next(self._reading, None)
        if found is None:
            self._reading = None
            return ()
        self._offsets |= {name: rows for name, rows in found.offsets.items() if rows >= 0}
        return (found,)

    def lag(self) -> Mapping[str, int]:
        return {}

    def sample(self, column: str) -> pa.Array | None:
        files = self._files()
        if not files:
            return None
        batches = self._opened(files[0]).read([column], BLOCK_ROWS)
        return next((batch.column(0) for batch in batches if batch.num_rows), None)

    def close(self) -> None:
        self._reading = None

    # ------------------------------------------------------------- files

    def _files(self) -> list[Path]:
        """Those that are whole, in the order in which they are read: by the time of their last change, then by name."""
        found = []
        for path in self._folder.iterdir():
            name = path.name.lower()
            if name.startswith((".", "_")) or name.endswith(_UNFINISHED) or not path.is_file():
                continue
            if name.endswith(_SUFFIXES):
                found.append((path.stat().st_mtime_ns, path.name, path))
            elif path.name not in self._passed_by:
                self._passed_by.add(path.name)
                _LOG.warning("%s is passed by: its name ends in none of %s", path, ", ".join(_SUFFIXES))
        return [path for _, _, path in sorted(found)]

    def _next_file(self) -> Path | None:
        begun = [name for name, rows in self._offsets.items() if rows != DONE]
        if begun:
            return self._folder / begun[0]
        return next((path for path in self._files() if path.name not in self._offsets), None)

    def _arrivals(self, path: Path) -> Iterator[Arrival]:
        """The rows of a file that were not read before; the last arrival says that it is done."""
        name, skip = path.name, self._offsets.get(path.name, 0)
        forgotten = {
            old: -1 for old, rows in self._offsets.items() if rows == DONE and not (self._folder / old).exists()
        }
        for old in forgotten:
            del self._offsets[old]
        first = 0
        waiting: Arrival | None = None
        try:
            for batch in self._batches(path):
                place = Place(str(path), first)
                first += batch.num_rows
                if first <= skip:
                    continue
                if first - batch.num_rows < skip:
                    passed = skip - (first - batch.num_rows)
                    batch, place = batch.slice(passed), place.after(passed)
                if waiting is not None:
                    yield waiting
                rows, kept = self._fitted(batch, place)
                waiting = Arrival("", rows, kept, {name: first, **forgotten})
        except TraceError as err:
            if not self._letters.diverting:
                raise
            self._letters.put_values(Place(str(path), first), [(0, str(err), {})])
        empty = pa.RecordBatch.from_pylist([], schema=pa.schema([self.schema.field(one) for one in self._names]))
        last = waiting or Arrival("", empty, Place(str(path), first), {})
        yield Arrival("", last.rows, last.place, {name: DONE, **forgotten})

    def _batches(self, path: Path) -> Iterator[pa.RecordBatch]:
        reader = self._opened(path)
        self._note(path, reader)
        missing = [name for name in self._required if name not in reader.schema.names]
        if missing:
            raise TraceError(f"{path} has no column '{missing[0]}'; its columns are {', '.join(reader.schema.names)}")
        there = [name for name in self._names if name in reader.schema.names]
        words = [one.row for one in reader.misfits if not one.left_out]
        first = 0
        for batch in reader.read(there, BLOCK_ROWS):
            if words:
                numbers = reader.place(first, batch.num_rows).numbers(batch.num_rows)
                first += batch.num_rows
                batch = batch.filter(pa.array(~np.isin(numbers, words)))
            for start in range(0, batch.num_rows, BLOCK_ROWS):
                yield batch.slice(start, BLOCK_ROWS)

    def _note(self, path: Path, reader: Reader) -> None:
        """Puts aside what the reader could not read; of a file that was begun before, that is done."""
        if not self._offsets.get(path.name):
            for one in reader.misfits:
                self._letters.put_values(Place(str(path), one.row), [(0, one.reason, one.values)])

    @property
    def _required(self) -> tuple[str, ...]:
        return self._trace_columns.required

    def _fitted(self, batch: pa.RecordBatch, place: Place) -> tuple[pa.RecordBatch, Place]:
        """The batch with the columns that are wanted; rows with values that do not fit are put aside."""
        schema = pa.schema([self.schema.field(name) for name in self._names])
        rows, bad = fit_rows(batch, schema)
        if not bad:
            return rows, place
        if not self._letters.diverting:
            index, reason = bad[0]
            raise TraceError(
                f"{place.source}: {place.at(index)}: {reason}; say what the column holds with --schema, or put such "
                "rows aside with --bad-rows divert"
            )
        self._letters.put_values(place, [(index, reason, values_of(batch, index)) for index, reason in bad])
        kept = np.ones(batch.num_rows, dtype=np.bool_)
        kept[[index for index, _ in bad]] = False
        return rows, place.only(kept)

    def _columns_of_first(self) -> dict[str, str]:
        """The columns of the first file; waits for one."""
        told = False
        while not (files := self._files()):
            if not told:
                _LOG.warning("%s has no files yet; waiting for the first one, to see what columns it has", self.name)
                told = True
            self._sleep(0.2)
        return kinds_of(self._opened(files[0]).schema)

    def _opened(self, path: Path) -> Reader:
        columns = self._trace_columns
        return open_files([path], ts=columns.ts, texts=(columns.id, columns.type), divert=self._letters.diverting)
