"""The events of a trace in blocks, divided among the network nodes where they are born, and when each block is due."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cluster.network.heartbeats import Heartbeats
from cluster.network.origins import OriginColumn
from shuffler.rows.columns import Ints, Place
from shuffler.rows.events import EventBatch, EventConverter
from shuffler.source.pacing import Replay, Seconds
from shuffler.source.trace import TraceSource


@dataclass(frozen=True)
class OriginBlock:
    """Consecutive events, as they were read and converted. `parts` are the rows of each node, `watermarks` how far each
    node is after them; `due_s` says when each event arrives, in seconds after the start, if the replay is paced."""

    rows: pa.RecordBatch
    place: Place
    events: EventBatch
    parts: Mapping[str, Ints]
    watermarks: Mapping[str, int]
    due_s: Seconds | None = None

    def __len__(self) -> int:
        return len(self.events)

    def of_types(self, event_types: Collection[str]) -> int:
        """How many of the events have one of these types."""
        codes = [code for code, name in enumerate(self.events.type_names) if name in event_types]
        return int(np.isin(self.events.type_codes, codes).sum())

    def of(self, node: str) -> tuple[pa.RecordBatch, Ints, Place, int]:
        """What the source of a node is fed: its rows, their places in the stream and in the file, its watermark."""
        mine = self.parts[node]
        picked = [column.take(pa.array(mine)) for column in self.rows.columns]
        rows = pa.RecordBatch.from_arrays(picked, schema=self.rows.schema)
        flags = np.zeros(len(self), dtype=bool)
        flags[mine] = True
        return rows, mine + self.events.first_ordinal, self.place.only(flags), self.watermarks[node]


class OriginBlocks:
    """Reads a trace whose column `origin` says where events are born; `buckets` is explained at `OriginColumn`,
    `replay` and `together_s` at `NetworkRayOptions`."""

    def __init__(
        self,
        source: TraceSource,
        origin: str,
        nodes: tuple[str, ...],
        *,
        attributes: Collection[str],
        block_rows: int,
        buckets: int | None = None,
        heartbeats: Heartbeats | None = None,
        replay: Replay | None = None,
        together_s: float = 0.05,
    ) -> None:
        self._source, self._attributes, self._block_rows = source, attributes, block_rows
        self._heartbeats = heartbeats or Heartbeats(nodes)
        self._replay, self._together_s = replay or Replay(), together_s
        self._converter = EventConverter(source.format)
        self._origins = OriginColumn(origin, nodes, source, buckets=buckets, strings=self._converter.strings)

    def after(self, skip: int) -> Iterator[OriginBlock]:
        """The blocks that follow the first `skip` events of the trace."""
        needed = sorted({*self._attributes, self._origins.attribute})
        seen, begin_us = 0, None
        for block in self._source.blocks(needed, self._block_rows):
            rows, place, first = block.rows, block.place, seen
            seen += rows.num_rows
            if seen <= skip:
                continue
            if first < skip:
                rows, place, first = rows.slice(skip - first), place.after(skip - first), skip
            events = self._converter.convert(rows, place, [self._origins.attribute], first)
            begin_us = int(events.ts[0]) if begin_us is None else begin_us
            due_s = self._replay.arrivals(events.ts, first - skip, begin_us) if self._replay.is_paced else None
            for start, stop in self._pieces(events.ts, due_s):
                due = None if due_s is None else due_s[start:stop]
                yield self._block(
                    rows.slice(start, stop - start), place.after(start), events.slice(start, stop), begin_us, due
                )

    def _block(
        self, rows: pa.RecordBatch, place: Place, events: EventBatch, begin_us: int, due_s: Seconds | None
    ) -> OriginBlock:
        parts = {node: np.flatnonzero(flags) for node, flags in self._origins.flags(events).items()}
        own = {node: int(events.ts[mine[-1]]) for node, mine in parts.items() if len(mine)}
        watermarks = self._heartbeats.after(begin_us, int(events.ts[-1]), own)
        return OriginBlock(rows, place, events, parts, watermarks, due_s)

    def _pieces(self, ts: Ints, due_s: Seconds | None) -> Iterator[tuple[int, int]]:
        """What is fed together: all, or runs of events that are due within the same short time."""
        if due_s is None:
            yield from self._heartbeats.pieces(ts)
            return
        ticks = (due_s / self._together_s).astype(np.int64)
        yield from itertools.pairwise([0, *(np.flatnonzero(np.diff(ticks)) + 1).tolist(), len(ts)])
