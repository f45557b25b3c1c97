"""Events -> leaf batches: picks the events of each position, filters them and lays out the columns it needs."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np

from decopa.errors import PlanError
from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.query.binding import BoundQuery, Derived
from decopa.query.conditions.predicate import Predicate, renamed
from decopa.query.conditions.vector import ColumnEvaluator
from decopa.query.pattern import ANY_TYPE
from shuffler.routing.type_index import Rows, TypeIndex
from shuffler.rows.batch import Array, Batch
from shuffler.rows.events import EventBatch
from shuffler.rows.layout import layout_of
from shuffler.rows.strings import StringPool

#: What every alias is called where leaves of different queries are compared.
_ANY = "_"


@dataclass(frozen=True)
class _Leaf:
    """A leaf and its work; keys are equal where leaves of other queries do the same."""

    operator: PlanOperator
    alias: str
    types: tuple[str, ...]
    filters: tuple[Predicate, ...]
    filters_key: Hashable
    #: Name of the column -> name of the attribute, or the column to derive with its key.
    columns: dict[str, str | tuple[Derived, Hashable]]


class LeafSplitter:
    """Splits batches of events among the leaves of a plan; conditions on one event are decided here."""

    def __init__(self, bound: BoundQuery, plan: QueryPlan, strings: StringPool) -> None:
        if bound.lasting and plan.slices > 1:
            raise PlanError(
                "slices cut the stream by time, so an event that lasts may be in several; choose another strategy"
            )
        self._bound, self._code_of, self._texts_of = bound, strings.pin, lambda codes: strings.decode(codes).to_pylist()
        self._clock = "end" if bound.schema.intervals else "ts"
        self._leaves = [self._leaf(leaf) for leaf in plan.leaves]

    @property
    def event_types(self) -> frozenset[str]:
        """The types that some leaf takes; `ANY_TYPE` among them if one takes all."""
        return frozenset(name for leaf in self._leaves for name in leaf.types)

    def split(self, events: EventBatch | TypeIndex, mine: Array | None = None) -> Iterator[tuple[PlanOperator, Batch]]:
        """The batch of each leaf, in plan order; leaves without events are left out. `mine` flags events to look at.

        An index is worth making where several plans look at the same events: equal leaves are then built once.
        """
        index = events if isinstance(events, TypeIndex) else TypeIndex(events)
        for leaf in self._leaves:
            rows = self._passing(leaf, index.rows(leaf.types, mine))
            if len(rows):
                columns = {name: self._column(leaf, name, what, rows) for name, what in leaf.columns.items()}
                yield leaf.operator, Batch(len(rows), columns, {})

    def numbers(self, index: TypeIndex) -> dict[str, int]:
        """How many events of its types each leaf gets to see."""
        return {leaf.operator.name: index.count(leaf.types) for leaf in self._leaves}

    def passing(self, events: EventBatch, mine: Array | None = None) -> Array:
        """Flags the events that some leaf takes."""
        flags, index = np.zeros(len(events), dtype=bool), TypeIndex(events)
        for leaf in self._leaves:
            flags[self._passing(leaf, index.rows(leaf.types, mine)).places] = True
        return flags

    def _leaf(self, operator: PlanOperator) -> _Leaf:
        (alias,) = operator.sub_query.aliases
        position = self._bound.query.position(alias)
        # A position that decides on the type itself looks at all events.
        types = (ANY_TYPE,) if position.strict else position.types
        filters = self._bound.filters.get(alias, ())
        derived = {one.name: one for one in self._bound.derived.get(alias, ())}
        columns: dict[str, str | tuple[Derived, Hashable]] = {}
        for name in layout_of(self._bound, operator.sub_query).columns:
            attribute = "ts" if name == "min_ts" else name.partition(".")[2]
            columns[name] = (derived[attribute], _key(derived[attribute], alias)) if attribute in derived else attribute
        named = tuple(str(renamed(one, {alias: _ANY})) for one in filters)
        return _Leaf(operator, alias, types, filters, named, columns)

    def _passing(self, leaf: _Leaf, rows: Rows) -> Rows:
        """The rows that fulfil the conditions on this position alone."""
        if not leaf.filters or not len(rows):
            return rows

        def mask() -> Array:
            evaluator = self._evaluator(rows)
            return np.asarray(np.logical_and.reduce([evaluator.mask(predicate) for predicate in leaf.filters]))

        return rows.where(leaf.filters_key, mask)

    def _column(self, leaf: _Leaf, name: str, what: str | tuple[Derived, Hashable], rows: Rows) -> Array:
        if name == "max_ts":  # of events that last
            return self._read(rows, self._clock) + self._bound.query.position(leaf.alias).delay_us
        if isinstance(what, tuple):
            derived, key = what
            return rows.column(key, lambda: self._derived(derived, rows))
        if what == "id":
            return rows.identities()
        if what == "ordinal":
            return rows.ordinals()
        return self._read(rows, "id" if what == "id text" else what)

    def _derived(self, derived: Derived, rows: Rows) -> Array:
        if derived.types:
            return rows.is_of(derived.types)
        if derived.like is not None:
            return self._evaluator(rows).mask(derived.like).astype(np.int64)
        return self._evaluator(rows).derive(derived)

    def _read(self, rows: Rows, attribute: str) -> Array:
        return rows.times() if attribute == self._clock else rows.read(attribute)

    def _evaluator(self, rows: Rows) -> ColumnEvaluator:
        return ColumnEvaluator(
            len(rows), lambda name: self._read(rows, name), self._bound.column, self._code_of, self._texts_of
        )


def _key(derived: Derived, alias: str) -> Hashable:
    """What a derived column is, whatever its event is called."""
    parts = derived.inputs if derived.like is None else (derived.like,)
    texts = tuple(str(renamed(part, {alias: _ANY})) for part in parts)
    return "derived", texts, derived.axis, derived.types, derived.column
