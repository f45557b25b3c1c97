"""Blocks of events on their way to the shufflers."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from shuffler.exchange.outbox import FlushPolicy
from shuffler.rows.columns import Place, timestamps_us
from shuffler.rows.events import EventFormat
from shuffler.source.live.position import Position
from shuffler.source.pacing import Replay
from shuffler.source.stopping import StreamStopped
from shuffler.source.stored_rows import MOST_GROUP_ROWS, RowReader, StoredFile, StoredRows, StoredTrace
from shuffler.source.trace import Block, TraceSource

#: Events in a block; a shuffler has two at a time.
BLOCK_ROWS = 131_072
#: A live stream that brings nothing for this long has paused: what waits in outboxes is passed on. As long as rows wait
#: for company there.
PAUSE_S = FlushPolicy().interval_s


#: Rows of a live stream wait for company here, and nowhere after: a message costs about the same whatever it carries,
#: and every process that waited once more would add its wait to the time a match takes.
GATHER_S = 0.02
_LONGEST_GATHER_S = 0.2
#: As many rows have company enough: a stream this fast is never made to wait.
_COMPANY_ROWS = 1_000

#: How often to look whether a stream that pauses was asked to stop.
_LOOK_S = 0.05
#: A block of a paced replay takes no longer than this, since checkpoints begin between blocks.
_BLOCK_S = 0.2
_LEAST_ROWS = 64
#: A portion of a live stream that is behind should be worked off in this time.
_PORTION_S = 0.25
#: How long to wait for the thread that reads; one that waits for standard input ends with the program.
_ENDING_S = 2.0


def gather_s(publish_every_s: float) -> float:
    """How long events of a live stream gather if matches are published only so often: more haste is of no use."""
    return max(GATHER_S, min(_LONGEST_GATHER_S, publish_every_s / 10))


def rows_per_block(replay: Replay) -> int:
    """How many events a block should have. Replays in event time have blocks of any length of time; they are small."""
    if not replay.is_paced:
        return BLOCK_ROWS
    return (
        min(BLOCK_ROWS, max(_LEAST_ROWS, int(replay.rate * _BLOCK_S))) if replay.rate is not None else 4 * _LEAST_ROWS
    )


@dataclass(frozen=True, slots=True)
class FeedBlock:
    """Events in time order: an Arrow stream as bytes, a reference to a table in Ray's object store, or rows of a file
    that the shuffler reads itself. No event is before `first_ts`; the first block's first event has it."""

    content: Any
    rows: int
    place: Place
    first_ts: int
    last_ts: int
    #: Where a live source goes on after this block.
    position: Position | None = None
    #: Whether to pass it on at once, through all processes, since nobody knows when the next one comes.
    urgent: bool = False


@dataclass(frozen=True)
class StoredBlocks:
    """Blocks that are rows of these files."""

    files: tuple[StoredFile, ...]
    blocks: Iterator[FeedBlock]


class BlockSource(Protocol):
    """Events of one format, in time order."""

    @property
    def format(self) -> EventFormat: ...

    @property
    def replayable(self) -> bool:
        """Whether the same events come again when they are asked for again."""
        ...

    def feed_blocks(
        self, attributes: Collection[str], skip: int = 0, saved: bytes | None = None
    ) -> Iterator[FeedBlock | None]:
        """The blocks, without the first `skip` events; None whenever a live source has nothing for a moment.

        A live source goes on from the position that was `saved`, whatever `skip` says.
        """
        ...

    def stored_blocks(
        self, attributes: Collection[str], skip: int = 0, *, whole_groups: bool, timed: bool = False
    ) -> StoredBlocks | None:
        """The same events as rows of files, for shufflers that see the files; None if there are no files to read.

        `whole_groups` makes a block of every row group, since reading a part of one takes reading all of it; else
        blocks are as small as those of `feed_blocks`, for streams that are paced or cut often. Their times are those of
        the first event of all, unless they are `timed`, which takes reading the column of times.
        """
        ...


class TraceBlocks:
    """A trace or live stream that this process reads."""

    def __init__(
        self,
        source: TraceSource,
        rows: int = BLOCK_ROWS,
        *,
        stopped: threading.Event | None = None,
        gather_s: float = GATHER_S,
        portions: bool = False,
    ) -> None:
        """Once `stopped` is set, a live stream raises StreamStopped. `portions` are explained at `_in_portions`; the
        stream cannot be taken up again between two of them."""
        self._portions = portions
        self._source, self._rows, self._stopped, self._gather_s = source, rows, stopped or threading.Event(), gather_s

    @property
    def format(self) -> EventFormat:
        return self._source.format

    @property
    def replayable(self) -> bool:
        return self._source.replayable

    def feed_blocks(
        self, attributes: Collection[str], skip: int = 0, saved: bytes | None = None
    ) -> Iterator[FeedBlock | None]:
        if self._source.row_count is None:
            arrivals = self._source.arrivals(attributes, self._rows, saved=saved)
            blocks = _with_pauses(arrivals, self._stopped, self._gather_s)
            for block in _in_portions(blocks, self._rows) if self._portions else blocks:
                yield None if block is None else replace(pack_block(block, self.format), urgent=True)
            return
        for block in self._source.blocks(attributes, self._rows, skip=skip):
            yield pack_block(block, self.format)

    def stored_blocks(
        self, attributes: Collection[str], skip: int = 0, *, whole_groups: bool, timed: bool = False
    ) -> StoredBlocks | None:
        stored = self._source.stored
        if stored is None:
            return None
        most = MOST_GROUP_ROWS if whole_groups else self._rows
        return StoredBlocks(stored.files, self._places(stored, attributes, most, skip, timed=timed))

    def _places(
        self, stored: StoredTrace, attributes: Collection[str], most: int, skip: int, *, timed: bool
    ) -> Iterator[FeedBlock]:
        first_row, reader = skip, RowReader()
        first_ts = last_ts = None
        for rows in stored.places(self._source.format.needed_columns(attributes), most, skip):
            place = Place(self._source.name, first_row)
            if first_ts is None or timed:
                first_ts = last_ts = self._time_of(reader, rows, 0, place)
            # Else the last time is not read: it matters where a stream settles, which a stored trace does at its end.
            if timed:
                last_ts = self._time_of(reader, rows, rows.rows - 1, place)
            assert last_ts is not None
            yield FeedBlock(rows, rows.rows, place, first_ts, last_ts)
            first_row += rows.rows

    def _time_of(self, reader: RowReader, rows: StoredRows, row: int, place: Place) -> int:
        """The time of one of the rows; the reader keeps the column of times of a row group."""
        ts = self.format.columns.clock
        one = reader.read(replace(rows, first=rows.first + row, rows=1, columns=(ts,), dictionary=None))
        return int(timestamps_us(one.column(ts).chunk(0), ts, place.after(row), self.format.columns.unit)[0])


def pack_block(block: Block, form: EventFormat) -> FeedBlock:
    columns, rows = form.columns, block.rows.num_rows
    clock = columns.clock
    first, last = (
        int(timestamps_us(block.rows.column(clock).slice(row, 1), clock, block.place, columns.unit)[0])
        for row in (0, rows - 1)
    )
    return FeedBlock(_stream_of(block.rows), rows, block.place, first, last, block.position)


def _stream_of(rows: pa.RecordBatch) -> pa.Buffer:
    """The rows as an Arrow stream: unlike a pickled slice it holds nothing but them."""
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_batch(rows)
    return stream.getvalue()


def _in_portions(
    blocks: Iterator[Block | None], most: int, clock: Callable[[], float] = time.monotonic
) -> Iterator[Block | None]:
    """The blocks in pieces that are taken within `_PORTION_S`, as far as the pieces before tell, and of `most` rows.

    What arrives while a plan cannot keep up comes in blocks that are the longer, the further it is behind. The plan can
    change between two blocks only, so that one which is overloaded would never be replaced.
    """
    portion = most
    for block in blocks:
        if block is None:
            yield None
            continue
        first, rows = 0, block.rows.num_rows
        while first < rows:
            count, began_s = min(portion, rows - first), clock()
            yield replace(block, rows=block.rows.slice(first, count), place=block.place.after(first))
            took_s = clock() - began_s
            first += count
            if took_s > _PORTION_S:
                portion = max(_LEAST_ROWS, int(count * _PORTION_S / took_s))
            else:
                portion = min(most, 2 * portion)


def _with_pauses(blocks: Iterator[Block | None], stopped: threading.Event, gather_s: float) -> Iterator[Block | None]:
    """The blocks as they come, with None again and again while the next one takes a while.

    A thread reads ahead. It ends when nobody wants its blocks any more, at the latest with the next thing that arrives.
    Between two small blocks it leaves events time to gather where they arrive; only after a pause the second block need
    not wait, since a burst seldom arrives in one piece.
    """
    arrived: queue.Queue[Block | BaseException | None] = queue.Queue(maxsize=2)
    left = threading.Event()

    def put(item: Block | BaseException | None) -> None:
        while not left.is_set():
            try:
                arrived.put(item, timeout=0.5)
                return
            except queue.Full:
                continue

    def read() -> None:
        due_s = 0.0
        try:
            for block in blocks:
                if block is not None:
                    put(block)
                    if block.rows.num_rows < _COMPANY_ROWS:
                        now_s = time.monotonic()
                        due_s = max(due_s + gather_s, now_s)
                        left.wait(due_s - now_s)
                if left.is_set():
                    return
            put(None)
        except BaseException as err:
            put(err)
        finally:
            close = getattr(blocks, "close", None)
            if close is not None:
                close()

    reader = threading.Thread(target=read, name="decopa-reader", daemon=True)
    reader.start()
    paused = False
    try:
        while not stopped.is_set():
            try:
                item = arrived.get(timeout=_LOOK_S if paused else PAUSE_S)
            except queue.Empty:
                paused = True
                yield None
                continue
            paused = False
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
        raise StreamStopped
    finally:
        left.set()
        reader.join(timeout=_ENDING_S)
