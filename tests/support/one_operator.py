"""One matching rule by itself, fed by hand: events and watermarks of either side, in any order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from actors.columnar.jit import interpreted
from actors.operators.base import OperatorSpec
from actors.unit import Channel, ProcessingUnit
from decopa.planning.plan import QueryPlan
from decopa.query.binding import bind
from shuffler.routing.leaves import LeafSplitter
from shuffler.rows.batch import Batch, length_of, start_of
from shuffler.source.trace import open_trace
from tests.support.engine import table_of

Found = tuple[tuple[str, Any], ...]
_ATTRIBUTES: dict[str, type] = {"x": int}


class OneOperator:
    """A unit of an operator of a plan; of the root, if none is named.

    `meets` hands it events of a side that is a leaf, `takes` matches of another operator, `passes` a watermark of a
    side. What they return are the matches that are certain then, as sets of alias and event ids.
    """

    def __init__(self, plan: QueryPlan, name: str | None = None) -> None:
        self._plan, self._source = plan, open_trace(table_of([], _ATTRIBUTES))
        self._operator = plan.operator(name) if name else plan.root
        self._bound = bind(plan.query, self._source.schema)
        self._spec = OperatorSpec(self._bound, plan, self._operator, self._source.strings.pin)
        self.unit = self._new_unit()

    def _new_unit(self) -> ProcessingUnit:
        channels = [Channel(side, "sender") for side in range(len(self._operator.inputs))]
        with interpreted():
            return ProcessingUnit(self._spec, 0, channels, max_state_bytes=1 << 30)

    def meets(self, side: int, *events: tuple[int, int, int]) -> set[Found]:
        """Events of the side's type as (id, ts, x)."""
        return self._read(self.finds(side, *events))

    def takes(self, side: int, batches: Iterator[Batch]) -> set[Found]:
        """What another operator finds."""
        with interpreted():
            return {one for batch in batches for one in self._read(self.unit.on_batch(Channel(side, "sender"), batch))}

    def finds(self, side: int, *events: tuple[int, int, int]) -> Iterator[Batch]:
        """The matches of `meets`, as they are handed to the next operator."""
        (alias,) = self._plan.inputs(self._operator)[side].sub_query.aliases
        kind = self._plan.query.position(alias).type
        rows = [{"id": number, "ts": ts, "type": kind, "x": x} for number, ts, x in events]
        splitter = LeafSplitter(self._bound, self._plan, self._source.strings)
        with interpreted():
            for events_read in open_trace(table_of(rows, _ATTRIBUTES)).batches(list(_ATTRIBUTES), 1024):
                for leaf, part in splitter.split(events_read):
                    if leaf.sub_query.aliases == {alias}:
                        yield from self.unit.on_batch(Channel(side, "sender"), part)

    def passes(self, side: int, watermark_us: int) -> set[Found]:
        """No later event of the side comes before this."""
        return self._read(self.passed(side, watermark_us))

    def passed(self, side: int, watermark_us: int) -> Iterator[Batch]:
        """The matches of `passes`, as they are handed to the next operator."""
        with interpreted():
            yield from self.unit.on_watermark(Channel(side, "sender"), watermark_us)

    def begin_again(self) -> None:
        """A new unit takes over what this one holds."""
        state = self.unit.snapshot()
        self.unit = self._new_unit()
        self.unit.restore(state)

    @property
    def held(self) -> int:
        """Rows that are kept for what may still come."""
        return self.unit.logic.state_rows

    def _read(self, batches: Iterator[Batch]) -> set[Found]:
        return {match for batch in batches for match in self._matches(batch)}

    def _matches(self, batch: Batch) -> Iterator[Found]:
        negated = {alias for one in self._plan.query.negations for alias in one.aliases}
        for row in range(batch.length):
            ids: dict[str, Any] = {}
            for alias in sorted(self._operator.sub_query.aliases - negated):
                if alias in self._operator.sub_query.closed:
                    start = int(batch.columns[start_of(alias)][row])
                    members = batch.heaps[alias]["id"][start : start + int(batch.columns[length_of(alias)][row])]
                    ids[alias] = tuple(int(one) for one in np.sort(members))
                else:
                    ids[alias] = int(batch.columns[f"{alias}.id"][row])
            yield tuple(ids.items())
