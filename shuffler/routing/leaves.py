"""Events -> leaf batches: picks the events of each position, filters them and lays out the columns it needs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from decopa.errors import PlanError
from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.query.binding import BoundQuery
from decopa.query.pattern import ANY_TYPE
from decopa.query.vector import ColumnEvaluator
from shuffler.rows.batch import Array, Batch, Indices
from shuffler.rows.events import EventBatch
from shuffler.rows.layout import Layout, layout_of
from shuffler.rows.strings import StringPool


class LeafSplitter:
    """Splits batches of events among the leaves of a plan; conditions on one event are decided here."""

    def __init__(self, bound: BoundQuery, plan: QueryPlan, strings: StringPool) -> None:
        if bound.lasting and plan.slices > 1:
            raise PlanError(
                "slices cut the stream by time, so an event that lasts may be in several; choose another strategy"
            )
        self._bound, self._code_of, self._texts_of = bound, strings.pin, lambda codes: strings.decode(codes).to_pylist()
        self._clock = "end" if bound.schema.intervals else "ts"
        self._leaves = [(leaf, layout_of(bound, leaf.sub_query)) for leaf in plan.leaves]

    def split(self, events: EventBatch, mine: Array | None = None) -> Iterator[tuple[PlanOperator, Batch]]:
        """The batch of each leaf, in plan order; leaves without events are left out. `mine` flags events to look at."""
        by_types: dict[tuple[str, ...], _Rows] = {}
        for leaf, layout in self._leaves:
            (alias,) = leaf.sub_query.aliases
            types = self._types(alias)
            if types not in by_types:
                by_types[types] = _Rows.of_types(events, types, mine, self._clock)
            batch = self._batch(alias, layout, by_types[types])
            if batch.length:
                yield leaf, batch

    def passing(self, events: EventBatch, mine: Array | None = None) -> Array:
        """Flags the events that some leaf takes."""
        flags = np.zeros(len(events), dtype=bool)
        for leaf, _ in self._leaves:
            (alias,) = leaf.sub_query.aliases
            rows = _Rows.of_types(events, self._types(alias), mine, self._clock)
            flags[self._passing(alias, rows).places] = True
        return flags

    def _types(self, alias: str) -> tuple[str, ...]:
        """The types of the events that a position looks at: of all events where it decides on the type itself."""
        position = self._bound.query.position(alias)
        return (ANY_TYPE,) if position.strict else position.types

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
        if name == "max_ts":  # of events that last
            return rows.read(self._clock) + self._bound.query.position(alias).delay_us
        attribute = name.partition(".")[2]
        if attribute == "id":
            return rows.identities()
        if attribute == "ordinal":
            return rows.ordinals()
        for derived in self._bound.derived.get(alias, ()):
            if derived.name == attribute and derived.types:
                return rows.is_of(derived.types)
            if derived.name == attribute and derived.like is not None:
                return self._evaluator(rows).mask(derived.like).astype(np.int64)
            if derived.name == attribute:
                return self._evaluator(rows).derive(derived)
        return rows.read("id" if attribute == "id text" else attribute)

    def _evaluator(self, rows: _Rows) -> ColumnEvaluator:
        return ColumnEvaluator(len(rows.places), rows.read, self._bound.column, self._code_of, self._texts_of)


class _Rows:
    """Some rows of a batch of events; a column is gathered when it is first read."""

    def __init__(self, events: EventBatch, places: Indices, clock: str) -> None:
        self.events, self.places, self.clock = events, places, clock
        self._gathered: dict[str, Array] = {}

    @classmethod
    def of_types(cls, events: EventBatch, types: tuple[str, ...], mine: Array | None, clock: str) -> _Rows:
        """The events of one of the types; each event is taken once, however many types there are. `clock` is the
        attribute that events are ordered by."""
        if ANY_TYPE in types:
            return cls(events, np.arange(len(events.ts)) if mine is None else np.flatnonzero(mine), clock)
        wanted = _of_types(events, types)
        if wanted is None:
            return cls(events, np.empty(0, dtype=np.int64), clock)
        return cls(events, np.flatnonzero(wanted if mine is None else wanted & mine), clock)

    def is_of(self, types: tuple[str, ...]) -> Array:
        """1 for each event of one of the types, 0 for the others."""
        wanted = _of_types(self.events, types)
        none = np.zeros(len(self.places), dtype=np.int64)
        return none if wanted is None else wanted.take(self.places).astype(np.int64)

    def where(self, mask: Array) -> _Rows:
        return _Rows(self.events, self.places[mask], self.clock)

    def read(self, attribute: str) -> Array:
        if attribute not in self._gathered:
            column = self.events.ts if attribute == self.clock else self.events.columns[attribute]
            self._gathered[attribute] = column.take(self.places)
        return self._gathered[attribute]

    def identities(self) -> Array:
        return self.events.ids.take(self.places)

    def ordinals(self) -> Array:
        given = self.events.ordinals
        return self.places + self.events.first_ordinal if given is None else given.take(self.places)


def _of_types(events: EventBatch, types: tuple[str, ...]) -> Array | None:
    """Flags of the events of one of the types; None if none of them occurs."""
    codes = [events.type_names.index(name) for name in types if name in events.type_names]
    if len(codes) <= 1:
        return events.type_codes == codes[0] if codes else None
    wanted = np.zeros(len(events.type_names), dtype=np.bool_)
    wanted[codes] = True
    return np.asarray(wanted[events.type_codes])
