"""A live source in memory whose partitions bring their events in an order that a random generator draws."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from random import Random

import numpy as np
import pyarrow as pa

from shuffler.rows.columns import Place
from shuffler.rows.events import TraceColumns
from shuffler.source.dead_letters import BadRows, StreamLetters
from shuffler.source.lateness import Lateness
from shuffler.source.live.interface import Arrival, SourceReader
from shuffler.source.live.stream import LiveStream
from shuffler.source.trace import TraceSource


class ScriptedSource:
    """A `LiveSource`. Every pass draws anew which partition brings how many rows next."""

    name = identity = "scripted"
    replayable = True

    def __init__(self, partitions: Mapping[str, pa.Table], chaos: Random) -> None:
        self._tables, self._chaos = partitions, chaos
        self.schema = next(iter(partitions.values())).schema
        self._at: dict[str, int] = {}
        self._columns: list[str] = self.schema.names

    def open(self, offsets: Mapping[str, int] | None, columns: Sequence[str]) -> None:
        self._at = dict.fromkeys(self._tables, 0) | dict(offsets or {})
        self._columns = list(columns)

    def partitions(self) -> Collection[str]:
        return list(self._tables)

    def poll(self, wait_s: float, but: Collection[str] = ()) -> Sequence[Arrival] | None:
        rest = [name for name, table in self._tables.items() if self._at[name] < table.num_rows]
        if not rest:
            return None
        names = self._chaos.sample(rest, self._chaos.randint(0, len(rest)))
        return [self._arrival(name) for name in names if name not in but]

    def lag(self) -> Mapping[str, int]:
        return {name: table.num_rows - self._at[name] for name, table in self._tables.items()}

    def sample(self, column: str) -> pa.Array | None:
        return None

    def close(self) -> None:
        self._at = {}

    def _arrival(self, name: str) -> Arrival:
        first, table = self._at[name], self._tables[name]
        rows = table.slice(first, self._chaos.randint(1, 6)).select(self._columns).combine_chunks()
        self._at[name] = first + rows.num_rows
        numbers = np.arange(first, first + rows.num_rows)
        return Arrival(name, rows.to_batches()[0], Place(name, order=numbers, by_offset=True), {name: self._at[name]})


def dealt_out(events: pa.Table, partitions: int, chaos: Random) -> dict[str, pa.Table]:
    """Each event in one partition, in the order of the table."""
    place = np.array([chaos.randrange(partitions) for _ in range(events.num_rows)])
    return {str(number): events.filter(pa.array(place == number)) for number in range(partitions)}


def scripted_trace(source: ScriptedSource, lateness: Lateness | None = None) -> TraceSource:
    """The source as `open_trace` would open it."""
    columns, letters = TraceColumns(), StreamLetters(BadRows(), source.name)
    reader, lateness = SourceReader(source), lateness or Lateness()
    live = LiveStream(reader, columns, lateness, letters, clock=lambda: 0.0)
    return TraceSource(
        reader, columns, None, assume_sorted=False, nan_as_null=False, lateness=lateness, letters=letters, live=live
    )
