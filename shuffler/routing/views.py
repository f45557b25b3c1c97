"""Matches of one part -> rows of another part's leaf: renamed, filtered and cut down to the columns needed there.

Views are to operators what leaves are to event types. Conditions are decided in the form that the query was bound to,
with the same derived columns that its own leaves would have.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from decopa.errors import PlanError
from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.workload.views import residue_of, source_of
from decopa.query.binding import BoundQuery
from decopa.query.predicate import Attr, Node, Predicate, aliases_of, rewrite
from decopa.query.schema import Column
from decopa.query.vector import ColumnEvaluator
from shuffler.rows.batch import Array, Batch
from shuffler.rows.layout import layout_of, member_column
from shuffler.rows.strings import StringPool


class ViewReader:
    """Reads the matches of a view's source as rows of the view's sub-query; `bound` and `source_bound` are the bound
    queries of the part that has the view and of the one that it takes matches from."""

    def __init__(
        self,
        plan: Plan,
        part: QueryPlan,
        operator: PlanOperator,
        bound: BoundQuery,
        source_bound: BoundQuery,
        strings: StringPool,
    ) -> None:
        assert operator.view is not None
        if bound.lasting or source_bound.lasting:
            raise PlanError(
                "events that last are not shared between queries; choose another strategy, as --strategy decopa"
            )
        self._bound, self._strings = bound, strings
        self._names = operator.view.names
        _, source = source_of(plan, operator.view)
        self._source = layout_of(source_bound, source.sub_query)
        self._columns = tuple(layout_of(bound, operator.sub_query).columns)
        left = residue_of(plan, part, operator)
        self._order = left.order
        self._window_us = left.window_us
        self._filters = [_lowered(bound, predicate) for predicate in left.conditions]

    def read(self, batch: Batch) -> Batch:
        """The rows that fulfil all that the view's sub-query demands, each once, in the order that they came in."""
        mask = self._mask(batch)
        if mask is not None:
            if not mask.any():
                return Batch(0, {}, {})
            if not mask.all():
                batch = batch.take(np.flatnonzero(mask))
        return Batch(batch.length, {name: self._column(batch, name) for name in self._columns}, {})

    def _mask(self, batch: Batch) -> Array | None:
        masks = []
        if self._window_us is not None:
            masks.append(batch.columns[self._source.place("max_ts")] - batch.columns["min_ts"] <= self._window_us)
        masks += [self._time(batch, before) < self._time(batch, after) for before, after in self._order]
        if self._filters:
            evaluator = self._evaluator(batch, lambda name: self._value(batch, *_split(name)), self._kind)
            masks += [evaluator.mask(predicate) for predicate in self._filters]
        return np.asarray(np.logical_and.reduce(masks)) if masks else None

    def _column(self, batch: Batch, name: str) -> Array:
        """A column of the view's layout."""
        if name in ("min_ts", "max_ts"):
            return batch.columns[self._source.place(name)]
        alias, attribute = _split(name)
        if attribute in ("first", "last"):
            return self._time(batch, alias)
        if attribute in ("id", "id text"):
            return batch.columns[f"{self._names[alias]}.{attribute}"]
        return self._value(batch, alias, attribute)

    def _value(self, batch: Batch, alias: str, attribute: str) -> Array:
        """An attribute of an event, or a column that is derived from its attributes."""
        for derived in self._bound.derived.get(alias, ()):
            if derived.name == attribute:
                one = self._evaluator(batch, lambda name: self._value(batch, alias, name), self._bound.column)
                return one.derive(derived) if derived.like is None else one.mask(derived.like).astype(np.int64)
        if attribute == "ts":
            return self._time(batch, alias)
        name = member_column(self._bound, Attr(alias, attribute))
        return batch.columns[self._source.place(f"{self._names[alias]}.{name}")]

    def _evaluator(self, batch: Batch, read: Callable[[str], Array], kind: Callable[[Attr], Column]) -> ColumnEvaluator:
        strings = self._strings
        return ColumnEvaluator(batch.length, read, kind, strings.pin, lambda codes: strings.decode(codes).to_pylist())

    def _time(self, batch: Batch, alias: str) -> Array:
        name = self._names[alias]
        places = (self._source.place(f"{name}.{what}") for what in ("first", "last", "ts"))
        return batch.columns[next(place for place in places if place in batch.columns)]

    def _kind(self, attr: Attr) -> Column:
        return self._bound.column(Attr(*_split(attr.name)))


def _lowered(bound: BoundQuery, predicate: Predicate) -> Predicate:
    """A condition of the query as it was bound, with attributes whose names say whose they are."""
    if len(aliases_of(predicate)) > 1:
        predicate = next(one.predicate for one in bound.conditions if one.written == predicate)

    def qualified(node: Node) -> Node | None:
        return Attr("", f"{node.alias}.{node.name}") if isinstance(node, Attr) else None

    return rewrite(predicate, qualified)  # type: ignore[return-value]


def _split(name: str) -> tuple[str, str]:
    alias, _, attribute = name.partition(".")
    return alias, attribute
