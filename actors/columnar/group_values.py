"""GroupValues: attributes of matches and figures over the members of their groups, as columns of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from decopa.query.binding import BoundQuery
from decopa.query.conditions.predicate import Attr, Expr, Node, Over, Predicate, rewrite
from decopa.query.conditions.typing import column_of_expression
from decopa.query.conditions.vector import ColumnEvaluator
from decopa.query.schema import NULL, Column
from shuffler.rows.batch import Array, Batch, Indices, length_of, start_of
from shuffler.rows.layout import Layout, member_column
from shuffler.rows.strings import StringPool


class GroupValues:
    """Attributes and figures of the groups of a batch of matches, as columns."""

    def __init__(self, bound: BoundQuery, layout: Layout, batch: Batch) -> None:
        self._bound, self._layout, self._batch = bound, layout, batch
        self._named: dict[str, tuple[Array, Column]] = {}

    def mask(self, condition: Predicate, code_of: Callable[[str], int]) -> Array:
        """Which matches fulfil a condition; texts were looked at by the leaves."""
        plain = rewrite(condition, self._column_for)
        return self._evaluator(code_of, lambda codes: [None] * len(codes)).mask(plain)  # type: ignore[arg-type]

    def values(self, expr: Expr, strings: StringPool) -> Array:
        """The values of an expression, or one for all matches."""
        plain = rewrite(expr, self._column_for)
        evaluator = self._evaluator(strings.pin, lambda codes: strings.decode(codes).to_pylist())
        return evaluator.values(plain)  # type: ignore[arg-type]

    def _evaluator(
        self, code_of: Callable[[str], int], texts_of: Callable[[Array], Sequence[str | None]]
    ) -> ColumnEvaluator:
        named = self._named
        return ColumnEvaluator(
            self._batch.length, lambda name: named[name][0], lambda attr: named[attr.name][1], code_of, texts_of
        )

    def _column_for(self, node: Node) -> Node | None:
        """An attribute by its full name for each attribute and figure, with its column at hand."""
        if not isinstance(node, Attr | Over):
            return None
        name = str(node)
        if name not in self._named:
            values = self.figure(node) if isinstance(node, Over) else self._attribute(node)
            self._named[name] = values, column_of_expression(node, self._bound.column)
        return Attr("", name)

    def _attribute(self, attr: Attr) -> Array:
        return self._batch.columns[self._layout.place(f"{attr.alias}.{member_column(self._bound, attr)}")]

    def figure(self, figure: Over) -> Array:
        """An aggregate for each match."""
        alias = figure.of.alias
        starts, lengths = self._batch.columns[start_of(alias)], self._batch.columns[length_of(alias)]
        if figure.function == "count":
            return lengths
        members = self._batch.heaps[alias][member_column(self._bound, figure.of)]
        if figure.function == "first":
            return np.asarray(members[starts])
        if figure.function == "last":
            return np.asarray(members[starts + lengths - 1])
        return _reduced(figure.function, members, starts, lengths)


def _reduced(function: str, members: Array, starts: Indices, lengths: Indices) -> Array:
    """The figure over the values that are not missing; missing where all are."""
    if not len(lengths):
        return np.empty(0, dtype=np.float64 if function == "avg" else members.dtype)
    ends = np.cumsum(lengths)
    begins = ends - lengths
    places = np.repeat(starts - begins, lengths) + np.arange(int(ends[-1]))
    values = members[places]
    is_float = values.dtype.kind == "f"
    known = ~np.isnan(values) if is_float else values != NULL
    counts = np.add.reduceat(known.astype(np.int64), begins)
    missing = np.nan if is_float or function == "avg" else NULL
    if function in ("min", "max"):
        extreme = np.inf if is_float else np.iinfo(np.int64).max
        neutral = extreme if function == "min" else -extreme
        fold = np.minimum if function == "min" else np.maximum
        found = fold.reduceat(np.where(known, values, neutral), begins)
    else:
        found = np.add.reduceat(np.where(known, values, values.dtype.type(0)), begins)
    with np.errstate(all="ignore"):
        found = found / counts if function == "avg" else found
    return np.asarray(np.where(counts > 0, found, missing))
