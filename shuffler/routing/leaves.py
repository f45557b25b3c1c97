"""Events -> leaf batches: picks the events of each position, filters them and lays out the columns it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.query.binding import BoundQuery
from decopa.query.vector import ColumnEvaluator
from shuffler.rows.batch import Array, Batch, Indices
from shuffler.rows.events import EventBatch
from shuffler.rows.layout import Layout, layout_of


class LeafSplitter:
    """Splits batches of events among the leaves of a plan; conditions on one event are decided here."""

    def __init__(self, bound: BoundQuery, plan: QueryPlan, code_of: Callable[[str], int]) -> None:
        self._bound, self._code_of = bound, code_of
        self._leaves = [(leaf, layout_of(bound, leaf.sub_query)) for leaf in plan.leaves]

    def split(self, events: EventBatch, mine: Array | None = None) -> Iterator[tuple[PlanOperator, Batch]]:
        """The batch of each leaf, in plan order; leaves without events are left out. `mine` flags events to look at."""
        by_type: dict[str, _Rows] = {}
        for leaf, layout in self._leaves:
            (alias,) = leaf.sub_query.aliases
            event_type = self._bound.query.position(alias).type
            if event_type not in by_type:
                by_type[event_type] = _Rows.of_type(events, event_type, mine)
            batch = self._batch(alias, layout, by_type[event_type])
            if batch.length:
                yield leaf, batch

    def passing(self, events: EventBatch, mine: Array | None = None) -> Array:
        """Flags the events that some leaf takes."""
        flags = np.zeros(len(events), dtype=bool)
        for leaf, _ in self._leaves:
            (alias,) = leaf.sub_query.aliases
            rows = _Rows.of_type(events, self._bound.query.position(alias).type, mine)
            flags[self._passing(alias, rows).places] = True
        return flags

    def _passing(self, alias: str, rows: _Rows) -> _Rows:
        """The rows that fulfil the conditions on this position alone."""
        filters = self._bound.filters.get(alias, ())
        if filters and len(rows.places):
            evaluator = self._evaluator(rows)
            mask = np.logical_and.reduce([evaluator.mask(predicate) for predicate in filters])
            if not mask.all():
                return rows.where(mask)
        return rows

    def _batch(self, alias: str, layout: Layout, rows: _Rows) -> Batch:
        rows = self._passing(alias, rows)
        columns = {name: self._column(alias, name, rows) for name in layout.columns}
        return Batch(len(rows.places), columns, {})

    def _column(self, alias: str, name: str, rows: _Rows) -> Array:
        if name == "min_ts":
            return rows.read("ts")
        attribute = name.partition(".")[2]
        if attribute == "id":
            return rows.identities()
        if attribute == "ordinal":
            return rows.ordinals()
        for derived in self._bound.derived.get(alias, ()):
            if derived.name == attribute:
                return self._evaluator(rows).derive(derived)
        return rows.read("id" if attribute == "id text" else attribute)

    def _evaluator(self, rows: _Rows) -> ColumnEvaluator:
        return ColumnEvaluator(len(rows.places), rows.read, self._bound.column, self._code_of)


class _Rows:
    """Some rows of a batch of events; a column is gathered when it is first read."""

    def __init__(self, events: EventBatch, places: Indices) -> None:
        self.events, self.places = events, places
        self._gathered: dict[str, Array] = {}

    @classmethod
    def of_type(cls, events: EventBatch, event_type: str, mine: Array | None) -> _Rows:
        if event_type not in events.type_names:
            return cls(events, np.empty(0, dtype=np.int64))
        wanted = events.type_codes == events.type_names.index(event_type)
        return cls(events, np.flatnonzero(wanted if mine is None else wanted & mine))

    def where(self, mask: Array) -> _Rows:
        return _Rows(self.events, self.places[mask])

    def read(self, attribute: str) -> Array:
        if attribute not in self._gathered:
            column = self.events.ts if attribute == "ts" else self.events.columns[attribute]
            self._gathered[attribute] = column.take(self.places)
        return self._gathered[attribute]

    def identities(self) -> Array:
        return self.events.ids.take(self.places)

    def ordinals(self) -> Array:
        given = self.events.ordinals
        return self.places + self.events.first_ordinal if given is None else given.take(self.places)
