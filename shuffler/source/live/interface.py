"""The interface of all live sources: open at offsets, take what arrives, with the offsets to go on from.

A source has *partitions*. Within a partition events come in the order of time, up to the allowed lateness; between
partitions nothing is promised. A source that is *replayable* gives the same rows again when it is opened again at the
same offsets.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from shuffler.rows.columns import Place
from shuffler.source.readers import Reader, StreamReader, after
from shuffler.source.stopping import Stop, StreamStopped

#: How long a source waits for events before it says that none have come.
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Arrival:
    """Rows of one partition in the order of their offsets.

    `offsets` are the entries that change in the source's offsets: opened at those, it goes on after these rows. An
    entry of -1 is removed.
    """

    partition: str
    rows: pa.RecordBatch
    place: Place
    offsets: Mapping[str, int]


class LiveSource(Protocol):
    """Where events keep coming from.

    `identity` says what the offsets belong to, such as a topic: offsets of another are refused.
    """

    name: str
    schema: pa.Schema
    identity: str
    replayable: bool

    def open(self, offsets: Mapping[str, int] | None, columns: Sequence[str]) -> None:
        """Goes to these offsets, or where the user wants to begin; rows have these columns."""
        ...

    def partitions(self) -> Collection[str]:
        """Those that hold the watermark until they have brought an event or are idle."""
        ...

    def poll(self, wait_s: float, but: Collection[str] = ()) -> Sequence[Arrival] | None:
        """What has arrived, after waiting for the first of it; None at the end of the stream.

        Partitions in `but` are far ahead of the others and need not be read now.
        """
        ...

    def lag(self) -> Mapping[str, int]:
        """Events of each partition that are known to wait, -1 for a partition that has ended. Of one that is left out
        nothing is known."""
        ...

    def sample(self, column: str) -> pa.Array | None:
        """Some values of a column, if the source has looked at its first events; else None."""
        ...

    def close(self) -> None: ...


class LiveReader(Reader):
    """A reader of events that keep coming: it hands out arrivals instead of blocks."""

    identity = ""
    replayable = False

    def partitions(self) -> Collection[str]:
        return ("",)

    @abstractmethod
    def arrivals(self, columns: Sequence[str], offsets: Mapping[str, int] | None) -> Iterator[Arrival | None]:
        """What arrives from these offsets on; None whenever nothing has come for a moment."""

    def hold_back(self, partitions: Collection[str]) -> None:
        """These partitions are far ahead of the others and need not be read now."""

    def lag(self) -> Mapping[str, int]:
        return {}

    def sample(self, column: str) -> pa.Array | None:
        """Some values of a column, if they can be had before anything is read."""
        return None


class BatchReader(LiveReader):
    """Record batches from the user's own program, as they come; they can be read once."""

    def __init__(self, stream: StreamReader) -> None:
        self._stream = stream
        self.name, self.schema = stream.name, stream.schema
        self.nullable, self.unreadable = stream.nullable, stream.unreadable

    def read(self, columns: Sequence[str], rows: int, skip: int = 0) -> Iterator[pa.RecordBatch]:
        return self._stream.read(columns, rows, skip)

    def arrivals(self, columns: Sequence[str], offsets: Mapping[str, int] | None) -> Iterator[Arrival | None]:
        first = 0
        for batch in self._stream.read(columns, 0):
            yield Arrival("", batch, Place(self.name, first), {"": first + batch.num_rows})
            first += batch.num_rows


class SourceReader(LiveReader):
    """A live source as a reader; any column may have missing values. It raises StreamStopped once `stop` is set."""

    def __init__(self, source: LiveSource, stop: Stop | None = None) -> None:
        self.source, self._stop = source, stop
        self.name, self.schema, self.unreadable = source.name, source.schema, {}
        self.nullable = frozenset(source.schema.names)
        self.identity, self.replayable = source.identity, source.replayable
        self._held_back: Collection[str] = ()

    def read(self, columns: Sequence[str], rows: int, skip: int = 0) -> Iterator[pa.RecordBatch]:
        arrivals = (arrival.rows for arrival in self.arrivals(columns, None) if arrival is not None)
        yield from after(arrivals, skip)

    def partitions(self) -> Collection[str]:
        return self.source.partitions()

    def hold_back(self, partitions: Collection[str]) -> None:
        self._held_back = partitions

    def lag(self) -> Mapping[str, int]:
        return self.source.lag()

    def sample(self, column: str) -> pa.Array | None:
        return self.source.sample(column)

    def arrivals(self, columns: Sequence[str], offsets: Mapping[str, int] | None) -> Iterator[Arrival | None]:
        self._held_back = ()
        self.source.open(offsets, columns)
        try:
            while (found := self.source.poll(POLL_S, self._held_back)) is not None:
                yield from found
                yield None
                if self._stop is not None and self._stop.is_set():
                    raise StreamStopped
        finally:
            self.source.close()
