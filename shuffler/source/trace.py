"""Events in: a trace or a stream, opened, checked, and handed out as batches of numeric columns in time order.

A trace (table or file) gets a first pass over its times, ids and types, which checks everything that can be wrong
with them; `batches` may be called any number of times. A live stream (an iterable of record batches) passes once and
is checked as it goes: events may be out of order by the allowed lateness only (`shuffler.source.lateness`), and ids
must be unique within each arriving batch. Whether an id comes again in a later batch is not checked, because that takes
memory for the whole stream; increasing ids are safe.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from decopa.errors import TraceError, did_you_mean
from decopa.query.schema import Schema
from shuffler.rows.columns import Ints, Place, identities, timestamps_us
from shuffler.rows.events import EventBatch, EventConverter, EventFormat, TraceColumns
from shuffler.rows.strings import StringPool
from shuffler.source.checks import IdOrder, Survey, check_rows, check_unique, survey
from shuffler.source.dead_letters import BadRows, DeadLetters
from shuffler.source.lateness import ArrivalBuffer, Lateness, Run
from shuffler.source.readers import Reader, StreamReader, TableReader, open_file

__all__ = ["EventBatch", "Lateness", "TraceColumns", "TraceSource", "open_trace"]

#: What `open_trace` takes; a list of record batches and anything that exports an Arrow stream (a data frame of pandas
#: or polars) counts as a table.
Events: TypeAlias = pa.Table | pa.RecordBatch | str | Path | Iterable[pa.RecordBatch]

#: Rows that are converted together; batches are slices of them.
BLOCK_ROWS = 65_536
DEFAULT_COLUMNS = TraceColumns()
DEFAULT_LATENESS = Lateness()
DEFAULT_BAD_ROWS = BadRows()


@dataclass(frozen=True, slots=True)
class Block:
    """Rows as they were read, and where."""

    rows: pa.RecordBatch
    place: Place


_Blocks = Callable[[list[str], int, int], Iterator[Block]]


class TraceSource:
    """A trace or stream that was opened; made by `open_trace`.

    `notices` are lines that the user should see. `unusable` says why a column of the trace is no attribute.
    `row_count` and `schema.event_types` are None for a live stream. The notice about late events of a stream comes
    when the stream has ended.
    """

    def __init__(
        self,
        reader: Reader,
        columns: TraceColumns,
        found: Survey | None,
        *,
        assume_sorted: bool,
        nan_as_null: bool,
        lateness: Lateness = DEFAULT_LATENESS,
        letters: DeadLetters | None = None,
    ) -> None:
        self.notices: list[str] = []
        self.dead_letters = DeadLetters(DEFAULT_BAD_ROWS, reader.name) if letters is None else letters
        self.row_count = None if found is None else found.row_count
        self.lateness = lateness
        self._reader, self._columns = reader, columns
        self._arrivals = ArrivalBuffer(lateness, columns.clock)
        self._blocks: _Blocks = self._arriving_blocks if found is None else self._stored_blocks
        if found is not None and found.disorder is not None:
            if assume_sorted:
                raise TraceError(f"{found.disorder}; sort the trace, or leave out --assume-sorted (assume_sorted)")
            self._blocks = self._sorted_blocks
            self.notices.append(f"timestamps were not in order: sorted {found.row_count:,} events")
        self.format = EventFormat.of(
            reader.schema,
            columns,
            nullable=reader.nullable,
            event_types=None if found is None else found.event_types,
            nan_as_null=nan_as_null,
        )
        for name in ("id", "ts", *(() if columns.end is None else ("end",))):
            column = self.format.column_of[name]
            if name in reader.schema.names and column != name:
                self.notices.append(f"'{name}' means column '{column}'; column '{name}' is not used")
        self._converter = EventConverter(self.format)
        self._times_us = (0, 0) if found is None else found.times_us
        self.unusable = dict(reader.unreadable) | {
            name: f"holds {reader.schema.field(name).type}, which a query cannot use"
            for name in reader.schema.names
            if name not in self.schema.attributes
        }

    def require(self, attributes: Iterable[str]) -> None:
        """Refuses the first attribute that the trace does not have, or that queries cannot use."""
        for name in attributes:
            if name in self.unusable:
                raise TraceError(f"{self._reader.name}: column '{name}': {self.unusable[name]}")
            if name not in self.schema.attributes:
                raise TraceError(
                    f"{self._reader.name} has no column '{name}'{did_you_mean(name, self.schema.attributes)}"
                )

    def batches(self, attributes: Collection[str], batch_size: int) -> Iterator[EventBatch]:
        """All events in time order, in batches of at most `batch_size`, with these attributes."""
        if batch_size < 1:
            raise ValueError(f"batch_size must be positive, got {batch_size}")
        first_ordinal = 0
        for block in self.blocks(attributes, max(batch_size, BLOCK_ROWS)):
            converted = self._converter.convert(block.rows, block.place, attributes, first_ordinal)
            for start in range(0, len(converted), batch_size):
                yield converted.slice(start, min(start + batch_size, len(converted)))
            first_ordinal += len(converted)

    def blocks(self, attributes: Collection[str], rows: int, *, skip: int = 0) -> Iterator[Block]:
        """The events after the first `skip` in time order as they were read, in blocks of at most about `rows`, with
        these attributes. What is skipped is not read where the reader can seek."""
        self.require(attributes)
        wanted = self.format.needed_columns(attributes)
        # Which rows are left out because of their values shows only when they are read.
        seeks = self.row_count is not None and not self.dead_letters.diverting
        first_us: int | None = None
        for block in self._blocks(wanted, rows, skip) if seeks else _after(self._blocks(wanted, rows, 0), skip):
            if block.rows.num_rows:
                if self.row_count is None:
                    begin_us, end_us = self._ends_of(block)
                    first_us = begin_us if first_us is None else first_us
                    self._times_us = (first_us, end_us)
                yield block

    @property
    def span_us(self) -> int:
        """Time from the first to the last event; of a live stream, of those that have been handed out so far."""
        return self._times_us[1] - self._times_us[0]

    def _ends_of(self, block: Block) -> tuple[int, int]:
        column = block.rows.column(self._columns.clock)
        ends = (column.slice(0, 1), column.slice(len(column) - 1, 1))
        first, last = (timestamps_us(end, self._columns.clock, block.place) for end in ends)
        return int(first[0]), int(last[0])

    @property
    def reached_us(self) -> int:
        """The time of the last event that was handed out."""
        return self._times_us[1]

    @property
    def late_notice(self) -> str | None:
        """How many late events of a live stream were dropped so far; None if none were."""
        return self._arrivals.notice

    @property
    def name(self) -> str:
        """Where the events come from, for messages."""
        return self._reader.name

    @property
    def late_events(self) -> int:
        """Events of a live stream that came too late and were dropped so far."""
        return self._arrivals.late_events

    @property
    def held_rows(self) -> int:
        """Events of a live stream that are held back now, because earlier ones may still come."""
        return self._arrivals.held_rows

    @property
    def schema(self) -> Schema:
        return self.format.schema

    @property
    def strings(self) -> StringPool:
        return self._converter.strings

    # ------------------------------------------------------------- ways to read

    def _stored_blocks(self, wanted: list[str], rows: int, skip: int = 0) -> Iterator[Block]:
        first = skip
        for batch in self._reader.read(wanted, rows, skip):
            block = Block(batch, Place(self._reader.name, first))
            yield self._sifted(block, wanted) if self.dead_letters.diverting else block
            first += batch.num_rows

    def _sifted(self, block: Block, wanted: list[str]) -> Block:
        """The block without bad rows, those that earlier passes found among them."""
        rows, place, known = block.rows, block.place, self.dead_letters.rows
        numbers = place.numbers(rows.num_rows)
        if len(known) and (kept := ~np.isin(numbers, known)).sum() < len(numbers):
            rows, place = rows.filter(pa.array(kept)), place.only(kept)
        nan_as_null, columns = self.format.nan_as_null, self._columns

        def check(some: pa.RecordBatch, here: Place) -> None:
            check_rows(some, here, columns, wanted[3:], nan_as_null)

        return Block(*self.dead_letters.sift(rows, place, check))

    def _sorted_blocks(self, wanted: list[str], rows: int, skip: int = 0) -> Iterator[Block]:
        """The columns asked for in memory, in stable time order."""
        blocks = list(self._stored_blocks(wanted, rows))
        numbers = np.concatenate([block.place.numbers(block.rows.num_rows) for block in blocks])
        table = pa.Table.from_batches([block.rows for block in blocks]).unify_dictionaries().combine_chunks()
        parts = [
            timestamps_us(chunk, self._columns.clock, Place(self._reader.name)) for chunk in table.column(0).chunks
        ]
        order: Ints = np.argsort(np.concatenate(parts), kind="stable")
        for start in range(skip, len(order), rows):
            some = order[start : start + rows]
            for batch in table.take(pa.array(some)).combine_chunks().to_batches():
                yield Block(batch, Place(self._reader.name, start, numbers[some]))

    def _arriving_blocks(self, wanted: list[str], rows: int, skip: int = 0) -> Iterator[Block]:
        """Blocks of a live stream, checked as they arrive and put in order."""
        names, ids = self._columns, IdOrder()
        for block in self._stored_blocks(wanted, rows):
            ids.see(identities(block.rows.column(names.id), names.id, block.place))
            if not ids.increasing:
                block = Block(*self.dead_letters.sift(block.rows, block.place, self._check_unique))
            ts = timestamps_us(block.rows.column(names.clock), names.clock, block.place)
            leaving = self._arrivals.arrive(block.rows, ts, block.place)
            yield from self._cut(leaving, rows)
        if self._arrivals.notice is not None:
            self.notices.append(self._arrivals.notice)
        yield from self._cut(self._arrivals.end(), rows)

    def _check_unique(self, rows: pa.RecordBatch, place: Place) -> None:
        check_unique(pa.chunked_array([rows.column(self._columns.id)]), self._columns.id, place)

    def _cut(self, run: Run | None, rows: int) -> Iterator[Block]:
        if run is None:
            return
        for start in range(0, len(run), rows):
            part = run.slice(start, start + rows)
            yield Block(part.rows, Place(self._reader.name, order=part.numbers))


def _after(blocks: Iterator[Block], skip: int) -> Iterator[Block]:
    """The blocks without the first `skip` events."""
    for block in blocks:
        passed = min(skip, block.rows.num_rows)
        skip -= passed
        if passed < block.rows.num_rows:
            yield Block(block.rows.slice(passed), block.place.after(passed)) if passed else block


def open_trace(
    events: Events,
    *,
    columns: TraceColumns = DEFAULT_COLUMNS,
    assume_sorted: bool = False,
    nan_as_null: bool = False,
    lateness: Lateness = DEFAULT_LATENESS,
    bad_rows: BadRows = DEFAULT_BAD_ROWS,
) -> TraceSource:
    """Opens a table, a file (Parquet, CSV, JSON lines), a directory of Parquet files, or a live stream.

    Events out of order are sorted, with a notice, or refused with `assume_sorted`. NaN in an attribute that is asked
    for is refused, or a missing value with `nan_as_null`. `lateness` is about live streams, which cannot be sorted as
    a whole: how far their events may be out of order. `bad_rows` says what becomes of rows with unusable values.
    """
    reader = _reader_of(events, columns)
    _check_columns(reader, columns)
    found, letters = None, DeadLetters(bad_rows, reader.name)
    if not isinstance(reader, StreamReader):
        found = survey(reader, columns, letters)
        if not found.row_count and isinstance(events, str | Path):
            raise TraceError(f"{reader.name} has no events; check that it is the right file")
    return TraceSource(
        reader,
        columns,
        found,
        assume_sorted=assume_sorted,
        nan_as_null=nan_as_null,
        lateness=lateness,
        letters=letters,
    )


def _reader_of(events: Events, columns: TraceColumns) -> Reader:
    if isinstance(events, str | Path):
        return open_file(Path(events), times=(columns.ts, columns.clock), categorical=columns.type)
    if isinstance(events, pa.RecordBatch):
        return TableReader(pa.Table.from_batches([events]))
    if isinstance(events, list | tuple) and events and all(isinstance(batch, pa.RecordBatch) for batch in events):
        return TableReader(pa.Table.from_batches(events))
    if hasattr(events, "__arrow_c_stream__") and not isinstance(events, pa.RecordBatchReader):
        return TableReader(pa.table(events))
    if isinstance(events, Iterable):
        return StreamReader(events)
    raise TraceError(f"cannot read events from {type(events).__name__}; pass a pyarrow.Table, a path or RecordBatches")


def _check_columns(reader: Reader, columns: TraceColumns) -> None:
    """The three columns that every trace has are there, and no name stands for two."""
    names = reader.schema.names
    roles = {"id": columns.id, "ts": columns.ts, "type": columns.type}
    for role, name in (roles if columns.end is None else roles | {"end": columns.end}).items():
        if name in reader.unreadable:
            raise TraceError(f"{reader.name}: column '{name}': {reader.unreadable[name]}")
        if name not in names:
            listed = ", ".join(names) if names else "none"
            raise TraceError(
                f"{reader.name} has no column '{name}'; its columns are {listed}; name the right one with "
                f"--{role} (TraceColumns({role}=...))"
            )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise TraceError(f"{reader.name}: two columns are called '{twice}'; rename one")
