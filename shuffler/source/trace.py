"""Events in: a trace or a stream, opened, checked, and handed out as batches of numeric columns in time order.

A trace (table or file) gets a first pass over its times, ids and types, which checks everything that can be wrong
with them; `batches` may be called any number of times. A live stream (an iterable of record batches) passes once and
is checked as it goes: events may be out of order by the allowed lateness only (`shuffler.source.lateness`), and ids
must be unique within each arriving batch. Whether an id comes again in a later batch is not checked, because that takes
memory for the whole stream; increasing ids are safe.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from decopa.errors import TraceError, did_you_mean
from decopa.query.schema import Schema
from shuffler.rows.columns import Ints, Place, timestamps_us
from shuffler.rows.events import EventBatch, EventConverter, EventFormat, TraceColumns
from shuffler.rows.strings import StringPool
from shuffler.source.block import Block, gathered
from shuffler.source.checks import Survey, check_columns, check_rows, survey, with_unit
from shuffler.source.dead_letters import BadRows, DeadLetters, StreamLetters
from shuffler.source.files import open_files
from shuffler.source.json_lines import JsonLines
from shuffler.source.lateness import Lateness
from shuffler.source.live.address import SourceAddress, is_address, parse_address
from shuffler.source.live.decoding import kinds_of
from shuffler.source.live.interface import BatchReader, LiveReader
from shuffler.source.live.opening import open_live
from shuffler.source.live.stream import LiveStream
from shuffler.source.readers import Reader, StreamReader, TableReader
from shuffler.source.stopping import Stop
from shuffler.source.stored_rows import StoredTrace

__all__ = ["Block", "EventBatch", "Lateness", "TraceColumns", "TraceSource", "open_trace"]

#: What `open_trace` takes; a list of record batches and anything that exports an Arrow stream (a data frame of pandas
#: or polars) counts as a table.
Events: TypeAlias = (
    pa.Table | pa.RecordBatch | str | Path | SourceAddress | Iterable[pa.RecordBatch] | Sequence[str | Path]
)

#: Rows that are converted together; batches are slices of them.
BLOCK_ROWS = 65_536
DEFAULT_COLUMNS = TraceColumns()
DEFAULT_LATENESS = Lateness()
DEFAULT_BAD_ROWS = BadRows()


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
        live: LiveStream | None = None,
    ) -> None:
        self.notices: list[str] = []
        self.dead_letters = DeadLetters(DEFAULT_BAD_ROWS, reader.name) if letters is None else letters
        self.row_count = None if found is None else found.row_count
        self.lateness = lateness
        self._reader, self._columns = reader, columns
        self._live = live
        self._blocks: _Blocks = self._stored_blocks
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
        #: Whether the first pass has seen what later ones read.
        self._checked = found is not None and reader.in_memory
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

    def batches(
        self, attributes: Collection[str], batch_size: int, *, skip: int = 0, gather: bool = False
    ) -> Iterator[EventBatch]:
        """The events after the first `skip` in time order, in batches of at most `batch_size`, with the attributes.

        With `gather` events that arrive in smaller batches wait for others, for who does not wait for them.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be positive, got {batch_size}")
        first_ordinal = skip
        blocks = self.blocks(attributes, max(batch_size, BLOCK_ROWS), skip=skip)
        for block in gathered(blocks, batch_size) if gather else blocks:
            converted = self._converter.convert(
                block.rows, block.place, attributes, first_ordinal, checked=self._checked
            )
            for start in range(0, len(converted), batch_size):
                yield converted.slice(start, min(start + batch_size, len(converted)))
            first_ordinal += len(converted)

    def blocks(self, attributes: Collection[str], rows: int, *, skip: int = 0) -> Iterator[Block]:
        """The events after the first `skip` in time order as they were read, in blocks of at most about `rows`, with
        these attributes. What is skipped is not read where the reader can seek."""
        for block in self.arrivals(attributes, rows, skip=skip):
            if block is not None:
                yield block

    def arrivals(
        self, attributes: Collection[str], rows: int, saved: bytes | None = None, *, skip: int = 0
    ) -> Iterator[Block | None]:
        """As `blocks`, with None whenever a live source has brought nothing for a moment.

        `saved` is where a source that can be read again was at a checkpoint; it continues there.
        """
        self.require(attributes)
        wanted = self.format.needed_columns(attributes)
        if self._live is not None:
            yield from self._arriving(self._live, wanted, rows, saved)
        # Which rows are left out because of their values shows only when they are read.
        elif self.dead_letters.diverting:
            yield from _after(self._blocks(wanted, rows, 0), skip)
        else:
            yield from (block for block in self._blocks(wanted, rows, skip) if block.rows.num_rows)

    def _arriving(self, live: LiveStream, wanted: list[str], rows: int, saved: bytes | None) -> Iterator[Block | None]:
        first_us: int | None = None
        for block in live.blocks(wanted, rows, saved):
            if block is not None and block.rows.num_rows:
                begin_us, end_us = self._ends_of(block)
                first_us = begin_us if first_us is None else first_us
                self._times_us = (first_us, end_us)
                yield block
            elif block is None:
                yield None
        if live.notice is not None:
            self.notices.append(live.notice)

    @property
    def stored(self) -> StoredTrace | None:
        """Where the rows lie, if others can read them there in time order."""
        stored = self._reader.stored
        in_order = self._live is None and self._blocks == self._stored_blocks and not self.dead_letters.diverting
        return stored if stored is not None and in_order and stored.is_readable_in_groups else None

    @property
    def replayable(self) -> bool:
        """Whether the same events come again when they are asked for again."""
        return self._live is None or self._live.replayable

    @property
    def span_us(self) -> int:
        """Time from the first to the last event of the blocks that were handed out last."""
        return self._times_us[1] - self._times_us[0]

    def _ends_of(self, block: Block) -> tuple[int, int]:
        column = block.rows.column(self._columns.clock)
        ends = (column.slice(0, 1), column.slice(len(column) - 1, 1))
        first, last = (timestamps_us(end, self._columns.clock, block.place, self._columns.unit) for end in ends)
        return int(first[0]), int(last[0])

    @property
    def reached_us(self) -> int:
        """The time of the last event that was handed out."""
        return self._times_us[1]

    @property
    def late_notice(self) -> str | None:
        """How many late events of a live stream were dropped so far; None if none were."""
        return None if self._live is None else self._live.notice

    @property
    def name(self) -> str:
        """Where the events come from, for messages."""
        return self._reader.name

    @property
    def late_events(self) -> int:
        """Events of a live stream that came too late and were left out so far."""
        return 0 if self._live is None else self._live.late_events

    @property
    def late(self) -> Mapping[str, int]:
        """Late events of each partition of a live stream that has any."""
        return {} if self._live is None else self._live.late

    @property
    def kinds(self) -> Mapping[str, str]:
        """What the columns of a live source hold, as `--schema` would say it."""
        return kinds_of(self._reader.schema)

    @property
    def held_rows(self) -> int:
        """Events of a live stream that are held back now, because earlier ones may still come."""
        return 0 if self._live is None else self._live.held_rows

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
            block = Block(batch, self._reader.place(first, batch.num_rows))
            yield self._sifted(block, wanted) if self.dead_letters.diverting else block
            first += batch.num_rows

    def _sifted(self, block: Block, wanted: list[str]) -> Block:
        """The block without bad rows, those that earlier passes found among them."""
        nan_as_null, columns = self.format.nan_as_null, self._columns

        def check(some: pa.RecordBatch, here: Place) -> None:
            check_rows(some, here, columns, wanted[3:], nan_as_null)

        return Block(*self.dead_letters.sift(block.rows, block.place, check))

    def _sorted_blocks(self, wanted: list[str], rows: int, skip: int = 0) -> Iterator[Block]:
        """The columns asked for in memory, in stable time order."""
        blocks = list(self._stored_blocks(wanted, rows))
        numbers = np.concatenate([block.place.numbers(block.rows.num_rows) for block in blocks])
        table = pa.Table.from_batches([block.rows for block in blocks]).unify_dictionaries().combine_chunks()
        place, unit = Place(self._reader.name), self._columns.unit
        parts = [timestamps_us(chunk, self._columns.clock, place, unit) for chunk in table.column(0).chunks]
        order: Ints = np.argsort(np.concatenate(parts), kind="stable")
        for start in range(skip, len(order), rows):
            some = order[start : start + rows]
            for batch in table.take(pa.array(some)).combine_chunks().to_batches():
                yield Block(batch, Place(self._reader.name, start, numbers[some]))


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
    kinds: Mapping[str, str] | None = None,
    stop: Stop | None = None,
) -> TraceSource:
    """Opens a table, a file (Parquet, CSV, JSON lines), a directory of Parquet files, a pattern or list of files, the
    address of a live source, or a live stream.

    Events out of order are sorted, with a notice, or refused with `assume_sorted`. NaN in an attribute that is asked
    for is refused, or a missing value with `nan_as_null`. `lateness` is about live streams, which cannot be sorted as
    a whole: how far their events may be out of order. `bad_rows` says what becomes of rows with unusable values,
    `kinds` what columns of CSV and JSON hold, where they do not show it themselves ({"x": "float"}). A live source
    raises StreamStopped once `stop` is set.
    """
    if isinstance(events, SourceAddress) or is_address(events):
        address = events if isinstance(events, SourceAddress) else parse_address(str(events))
        stream_letters = StreamLetters(bad_rows, address.name)
        live = open_live(address, columns, stream_letters, stop)
        return _live_source(live, columns, lateness, stream_letters, nan_as_null, address.idle_after_s)
    reader = _reader_of(events, columns, kinds or {}, divert=bad_rows.policy == "divert")
    if isinstance(reader, LiveReader):
        stream_letters = StreamLetters(bad_rows, reader.name)
        if isinstance(events, JsonLines):
            events.divert_to(stream_letters)
        return _live_source(reader, columns, lateness, stream_letters, nan_as_null)
    check_columns(reader, columns)
    batches = reader.read((columns.ts,), BLOCK_ROWS)
    columns, guess = with_unit(columns, next((batch.column(0) for batch in batches if batch.num_rows), None))
    letters = DeadLetters(bad_rows, reader.name)
    for misfit in reader.misfits:
        letters.put_values(Place(reader.name, misfit.row), [(0, misfit.reason, misfit.values)])
    found = survey(reader, columns, letters)
    if not found.row_count and isinstance(events, str | Path):
        raise TraceError(f"{reader.name} has no events; check that it is the right file")
    source = TraceSource(reader, columns, found, assume_sorted=assume_sorted, nan_as_null=nan_as_null, letters=letters)
    source.notices += guess
    return source


def _live_source(
    reader: LiveReader,
    columns: TraceColumns,
    lateness: Lateness,
    letters: StreamLetters,
    nan_as_null: bool,
    idle_after_s: float | None = None,
) -> TraceSource:
    check_columns(reader, columns)
    columns, guess = with_unit(columns, reader.sample(columns.ts))
    live = LiveStream(reader, columns, lateness, letters, nan_as_null=nan_as_null, idle_after_s=idle_after_s)
    source = TraceSource(
        reader,
        columns,
        None,
        assume_sorted=False,
        nan_as_null=nan_as_null,
        lateness=lateness,
        letters=letters,
        live=live,
    )
    source.notices += guess
    return source


def _reader_of(events: Events, columns: TraceColumns, kinds: Mapping[str, str], *, divert: bool) -> Reader:
    paths = [events] if isinstance(events, str | Path) else events
    if isinstance(paths, list | tuple) and paths and all(isinstance(path, str | Path) for path in paths):
        texts = (columns.id, columns.type)
        return open_files([Path(path) for path in paths], ts=columns.ts, texts=texts, kinds=kinds, divert=divert)
    if isinstance(events, pa.RecordBatch):
        return TableReader(pa.Table.from_batches([events]))
    if isinstance(events, list | tuple) and events and all(isinstance(batch, pa.RecordBatch) for batch in events):
        return TableReader(pa.Table.from_batches(events))
    if hasattr(events, "__arrow_c_stream__") and not isinstance(events, pa.RecordBatchReader):
        return TableReader(pa.table(events))
    if isinstance(events, Iterable):
        return BatchReader(StreamReader(events))
    raise TraceError(f"cannot read events from {type(events).__name__}; pass a pyarrow.Table, a path or RecordBatches")
