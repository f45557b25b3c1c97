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
from decopa.query.conditions.bounds import Bound, bound_of
from decopa.query.conditions.predicate import Attr, Node, Predicate, aliases_of, renamed, rewrite
from decopa.query.conditions.vector import ColumnEvaluator
from decopa.query.schema import Column
from shuffler.rows.batch import Array, Batch, Indices
from shuffler.rows.layout import layout_of, member_column
from shuffler.rows.strings import StringPool


class ViewReader:
    """Reads the matches of a view's source as rows of the view's sub-query; `bound` and `source_bound` are the bound
    queries of the part that has the view and of the one that it takes matches from. With `counting` only the number of
    rows is of interest."""

    def __init__(
        self,
        plan: Plan,
        part: QueryPlan,
        operator: PlanOperator,
        bound: BoundQuery,
        source_bound: BoundQuery,
        strings: StringPool,
        *,
        counting: bool = False,
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
        self.counting = counting
        self._columns = () if counting else tuple(layout_of(bound, operator.sub_query).columns)
        left = residue_of(plan, part, operator)
        self._order = left.order
        self._window_us = left.window_us
        self._filters: list[Predicate] = []
        bounds: list[tuple[str, Bound]] = []
        fixed: list[str] = []
        for predicate in left.conditions:
            lowered, there = _lowered(bound, predicate), renamed(predicate, self._names)
            limit, written = bound_of(lowered), bound_of(there)  # type: ignore[arg-type]
            if limit is None or written is None:
                self._filters.append(lowered)
                fixed.append(str(there))
            else:
                bounds.append((written.shape, limit))
        bounds.sort(key=lambda one: one[0])
        self._bounds = [limit for _, limit in bounds]
        order = tuple(sorted((self._names[before], self._names[after]) for before, after in self._order))
        #: Equal for views that differ in what events are called, in constants and in windows only.
        self.template = (order, tuple(sorted(fixed)), tuple(shape for shape, _ in bounds), self._window_us is None)

    @property
    def constants(self) -> tuple[int | float, ...]:
        """What the rows of a view must stay within, in the order of `figures`."""
        evaluator = self._evaluator(Batch(0, {}, {}))
        found = [evaluator.constant(bound.value) for bound in self._bounds]
        return tuple(found if self._window_us is None else [*found, self._window_us])

    @property
    def comparisons(self) -> tuple[str, ...]:
        """How figures are compared with constants."""
        found = [bound.op for bound in self._bounds]
        return tuple(found if self._window_us is None else [*found, "<="])

    def figures(self, batch: Batch) -> list[Array]:
        """What every row of a batch has to compare with constants."""
        evaluator = self._evaluator(batch)
        found = [evaluator.comparable(bound.of) for bound in self._bounds]
        if self._window_us is not None:
            found.append(batch.columns[self._source.place("max_ts")] - batch.columns["min_ts"])
        return found

    def eligible(self, batch: Batch) -> Batch:
        """The rows that fulfil what all views of the same template demand alike."""
        masks = [self._time(batch, before) < self._time(batch, after) for before, after in self._order]
        if self._filters:
            evaluator = self._evaluator(batch)
            masks += [evaluator.mask(predicate) for predicate in self._filters]
        return batch if not masks else chosen(batch, np.asarray(np.logical_and.reduce(masks)))

    def laid_out(self, batch: Batch, rows: Indices | None = None) -> Batch:
        """Rows that fulfil all that the view's sub-query demands, in its columns: all of a batch, or some."""
        if rows is not None:
            batch = batch.take(rows) if self._columns else Batch(len(rows), {}, {})
        return Batch(batch.length, {name: self._column(batch, name) for name in self._columns}, {})

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
                one = self._column_evaluator(batch, lambda name: self._value(batch, alias, name), self._bound.column)
                return one.derive(derived) if derived.like is None else one.mask(derived.like).astype(np.int64)
        if attribute == "ts":
            return self._time(batch, alias)
        name = member_column(self._bound, Attr(alias, attribute))
        return batch.columns[self._source.place(f"{self._names[alias]}.{name}")]

    def _evaluator(self, batch: Batch) -> ColumnEvaluator:
        return self._column_evaluator(batch, lambda name: self._value(batch, *_split(name)), self._kind)

    def _column_evaluator(
        self, batch: Batch, read: Callable[[str], Array], kind: Callable[[Attr], Column]
    ) -> ColumnEvaluator:
        strings = self._strings
        return ColumnEvaluator(batch.length, read, kind, strings.pin, lambda codes: strings.decode(codes).to_pylist())

    def _time(self, batch: Batch, alias: str) -> Array:
        name = self._names[alias]
        places = (self._source.place(f"{name}.{what}") for what in ("first", "last", "ts"))
        return batch.columns[next(place for place in places if place in batch.columns)]

    def _kind(self, attr: Attr) -> Column:
        return self._bound.column(Attr(*_split(attr.name)))


def chosen(batch: Batch, mask: Array) -> Batch:
    """The rows that a mask flags; the batch itself if it flags all."""
    return batch if mask.all() else batch.take(np.flatnonzero(mask))


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
