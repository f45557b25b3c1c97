"""Having: conditions with aggregates over the members of groups, decided on whole batches of matches.

An operator decides what its matches can show and none of its inputs could: all events named are there, and the groups
are formed. Whatever the plan, each condition is decided on every way to the root.
"""

from __future__ import annotations

import numpy as np

from actors.operators.base import OperatorSpec
from decopa.planning.subquery import SubQuery
from decopa.query.binding import BoundQuery
from decopa.query.predicate import Attr, Node, Over, Predicate, aliases_of, groups_of, rewrite
from decopa.query.schema import NULL, Column
from decopa.query.typing import column_of_expression
from decopa.query.vector import ColumnEvaluator
from shuffler.rows.batch import Array, Batch, Indices, length_of, start_of
from shuffler.rows.layout import Layout, layout_of, member_column


class Having:
    """The conditions that one operator decides; made by `having_of`."""

    def __init__(self, spec: OperatorSpec, conditions: tuple[Predicate, ...]) -> None:
        self._bound, self._code_of = spec.bound, spec.code_of
        self._layout = layout_of(spec.bound, spec.operator.sub_query)
        self._conditions = conditions

    def passing(self, batch: Batch) -> Batch:
        """The matches that fulfil all of them."""
        if not batch.length:
            return batch
        values = GroupValues(self._bound, self._layout, batch)
        mask = np.logical_and.reduce([values.mask(one, self._code_of) for one in self._conditions])
        return batch if bool(mask.all()) else batch.take(np.flatnonzero(mask))


def having_of(spec: OperatorSpec) -> Having | None:
    """What an operator decides on the groups of its matches; None if that is nothing."""
    inputs = [source.sub_query for source in spec.plan.inputs(spec.operator)]
    conditions = tuple(
        one
        for one in spec.bound.having
        if _shows(spec.operator.sub_query, one) and not any(_shows(source, one) for source in inputs)
    )
    return Having(spec, conditions) if conditions else None


def _shows(sub_query: SubQuery, condition: Predicate) -> bool:
    return aliases_of(condition) <= sub_query.aliases and groups_of(condition) <= sub_query.closed


class GroupValues:
    """Attributes and figures of the groups of a batch of matches, as columns."""

    def __init__(self, bound: BoundQuery, layout: Layout, batch: Batch) -> None:
        self._bound, self._layout, self._batch = bound, layout, batch
        self._named: dict[str, tuple[Array, Column]] = {}

    def mask(self, condition: Predicate, code_of: object) -> Array:
        plain: Predicate = rewrite(condition, self._column_for)  # type: ignore[assignment]
        evaluator = ColumnEvaluator(
            self._batch.length,
            lambda name: self._named[name][0],
            lambda attr: self._named[attr.name][1],
            code_of,  # type: ignore[arg-type]
            lambda codes: [None] * len(codes),  # texts are looked at by the leaves
        )
        return evaluator.mask(plain)

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
