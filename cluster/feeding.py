"""Blocks of events on their way to the shufflers."""

from __future__ import annotations

import queue
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from shuffler.exchange.outbox import FlushPolicy
from shuffler.rows.columns import Place, timestamps_us
from shuffler.rows.events import EventFormat
from shuffler.source.pacing import Replay
from shuffler.source.stopping import StreamStopped
from shuffler.source.trace import Block, TraceSource

#: Events in a block; a shuffler has two at a time.
BLOCK_ROWS = 131_072
#: A live stream that brings nothing for this long has paused: what waits in outboxes is passed on. As long as rows wait
#: for company there.
PAUSE_S = FlushPolicy().interval_s


#: How often to look whether a stream that pauses was asked to stop.
_LOOK_S = 0.05
#: A block of a paced replay takes no longer than this, since checkpoints begin between blocks.
_BLOCK_S = 0.2
_LEAST_ROWS = 64


def rows_per_block(replay: Replay) -> int:
    """How many events a block should have. Replays in event time have blocks of any length of time; they are small."""
    if not replay.is_paced:
        return BLOCK_ROWS
    return (
        min(BLOCK_ROWS, max(_LEAST_ROWS, int(replay.rate * _BLOCK_S))) if replay.rate is not None else 4 * _LEAST_ROWS
    )


@dataclass(frozen=True, slots=True)
class FeedBlock:
    """Events in time order: an Arrow stream as bytes, or a reference to a table in Ray's object store."""

    content: Any
    rows: int
    place: Place
    first_ts: int
    last_ts: int


class BlockSource(Protocol):
    """Events of one format, in time order."""

    @property
    def format(self) -> EventFormat: ...

    @property
    def replayable(self) -> bool:
        """Whether the same events come again when they are asked for again."""
        ...

    def feed_blocks(self, attributes: Collection[str], skip: int = 0) -> Iterator[FeedBlock | None]:
        """The blocks, without the first `skip` events; None stands for a pause."""
        ...


class TraceBlocks:
    """A trace or live stream that this process reads."""

    def __init__(self, source: TraceSource, rows: int = BLOCK_ROWS, *, stopped: threading.Event | None = None) -> None:
        """Once `stopped` is set, a live stream raises StreamStopped."""
        self._source, self._rows, self._stopped = source, rows, stopped or threading.Event()

    @property
    def format(self) -> EventFormat:
        return self._source.format

    @property
    def replayable(self) -> bool:
        return self._source.row_count is not None

    def feed_blocks(self, attributes: Collection[str], skip: int = 0) -> Iterator[FeedBlock | None]:
        blocks = self._source.blocks(attributes, self._rows, skip=skip)
        for block in blocks if self.replayable else _with_pauses(blocks, self._stopped):
            yield None if block is None else pack_block(block, self.format)


def pack_block(block: Block, form: EventFormat) -> FeedBlock:
    ts, rows = form.columns.clock, block.rows.num_rows
    first, last = (int(timestamps_us(block.rows.column(ts).slice(row, 1), ts, block.place)[0]) for row in (0, rows - 1))
    return FeedBlock(_stream_of(block.rows), rows, block.place, first, last)


def _stream_of(rows: pa.RecordBatch) -> pa.Buffer:
    """The rows as an Arrow stream: unlike a pickled slice it holds nothing but them."""
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_batch(rows)
    return stream.getvalue()


def _with_pauses(blocks: Iterator[Block], stopped: threading.Event) -> Iterator[Block | None]:
    """The blocks as they come, with one None whenever the next one takes a while."""
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
        try:
            for block in blocks:
                put(block)
                if left.is_set():
                    return
            put(None)
        except BaseException as err:
            put(err)

    reader = threading.Thread(target=read, name="decopa-reader", daemon=True)
    reader.start()
    paused = False
    try:
        while not stopped.is_set():
            try:
                item = arrived.get(timeout=_LOOK_S if paused else PAUSE_S)
            except queue.Empty:
                if not paused:
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
