"""BlockRing: the newest events of a stream, kept so that another plan can be built from them."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Generic, Protocol, TypeVar

from decopa.choices import DEFAULT_HISTORY_BYTES
from decopa.errors import DecoPaError
from decopa.query.names import duration_text
from shuffler.routing.table import NOTHING_YET
from shuffler.rows.events import EventBatch
from shuffler.source.trace import TraceSource

#: Bytes of history that a run keeps at most, unless told otherwise.
DEFAULT_MAX_BYTES = DEFAULT_HISTORY_BYTES
#: Events that are read together when they are read again.
_REREAD_ROWS = 8192

T = TypeVar("T")


class HistoryGone(DecoPaError):
    """Events that a change needs are not kept any more."""


class History(Protocol[T]):
    """The last events of a stream, for plans that are built from them."""

    #: How far before the last event somebody may ask for them.
    reach_us: int

    def add(self, block: T, last_us: int, size: int) -> None:
        """Takes the next block, whose last event is at `last_us`."""
        ...

    def since(self, from_us: int) -> Iterator[T]:
        """The blocks with all events from this time on; the first one may begin earlier."""
        ...

    def last(self, from_us: int, most: int, rows: Callable[[T], int]) -> list[T]:
        """The blocks with events from this time on that are kept, the newest of them with about `most` events; `rows`
        says how many events a block has."""
        ...


class BlockRing(Generic[T]):
    """Blocks of events as far back as `reach_us` before the last one, and no more than `max_bytes` of them.

    One thread adds blocks, others may ask for the last ones. The newest block always stays. Where the limit takes
    blocks that `reach_us` would keep, a change that needs them is refused (`since`); the run does not need them.
    """

    def __init__(self, reach_us: int, max_bytes: int = DEFAULT_MAX_BYTES, *, from_us: int = NOTHING_YET) -> None:
        """`from_us` says that events up to this time have passed before the ring was there."""
        self.reach_us, self._max_bytes = reach_us, max_bytes
        self._blocks: deque[tuple[T, int, int]] = deque()
        self.bytes = 0
        #: The time of the newest event that is not here any more; none is missing after it.
        self._gone_us = from_us
        self._changing = threading.Lock()

    def __len__(self) -> int:
        return len(self._blocks)

    def last(self, from_us: int, most: int, rows: Callable[[T], int]) -> list[T]:
        found: list[T] = []
        with self._changing:
            newest_first = list(reversed(self._blocks))
        for block, last_us, _ in newest_first:
            if last_us < from_us or most <= 0:
                break
            found.append(block)
            most -= rows(block)
        return found[::-1]

    def add(self, block: T, last_us: int, size: int) -> None:
        """Takes the next block, whose last event is at `last_us`, and drops those that nobody needs any more."""
        with self._changing:
            self._blocks.append((block, last_us, size))
            self.bytes += size
            oldest_us = last_us - self.reach_us
            while len(self._blocks) > 1 and (self._blocks[0][1] < oldest_us or self.bytes > self._max_bytes):
                _, self._gone_us, dropped = self._blocks.popleft()
                self.bytes -= dropped

    def reaches(self, from_us: int) -> bool:
        """Whether all events from this time on are here."""
        return self._gone_us < from_us

    def since(self, from_us: int) -> Iterator[T]:
        """The blocks with all events from this time on; HistoryGone if some are missing."""
        if not self.reaches(from_us):
            kept_us = 0 if not self._blocks else self._blocks[-1][1] - self._gone_us
            needed_us = 0 if not self._blocks else self._blocks[-1][1] - from_us
            raise HistoryGone(
                f"the change needs the events of the last {duration_text(needed_us)}, and only those of "
                f"{duration_text(kept_us)} are kept ({self.bytes / 2**20:,.1f} MiB); keep more history "
                "(keep_history_us, max_history_bytes), or let the rule see new events only (sees='new')"
            )
        return iter([block for block, last_us, _ in self._blocks if last_us >= from_us])


class StoredHistory:
    """The events of a stored trace, which are read again when somebody asks for them: nothing is kept in memory."""

    def __init__(self, source: TraceSource, attributes: Collection[str]) -> None:
        self.reach_us = 0
        self._source, self._attributes = source, attributes
        #: The times of the last events of the batches so far, and how many events there were with each.
        self._ends_us: list[int] = []
        self._events: list[int] = [0]

    def add(self, block: EventBatch, last_us: int, size: int) -> None:
        self._ends_us.append(last_us)
        self._events.append(self._events[-1] + len(block))

    def since(self, from_us: int) -> Iterator[EventBatch]:
        """The batches with all events from this time on, up to the last one that was taken."""
        at = self._events[bisect_left(self._ends_us, from_us)]
        for batch in self._source.batches(self._attributes, _REREAD_ROWS, skip=at):
            wanted = min(len(batch), self._events[-1] - at)
            if wanted:
                yield batch.slice(0, wanted)
            at += wanted
            if wanted < len(batch) or at == self._events[-1]:
                return

    def last(self, from_us: int, most: int, rows: Callable[[EventBatch], int]) -> list[EventBatch]:
        if not self._ends_us:
            return []
        few = bisect_left(self._events, self._events[-1] - most)
        begin = min(max(bisect_left(self._ends_us, from_us), few), len(self._ends_us) - 1)
        return list(self.since(self._ends_us[begin]))
