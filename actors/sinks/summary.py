"""Figures over matches, computed where matches are found: partial sums that merge to the same result in any order.

Everything that is added up is exact: whole numbers as integers of any size, other numbers as integer multiples of
powers of two, rounded once at the end. So neither the plan nor the number of units shows in a figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from decopa.errors import LimitError
from decopa.query.binding import BoundQuery
from decopa.query.conditions.predicate import Attr
from decopa.query.schema import NULL, Column, Kind
from decopa.query.summary import Aggregate, Summary
from shuffler.rows.batch import Array, Batch, Indices
from shuffler.rows.events import EventFormat
from shuffler.rows.layout import Layout, member_column
from shuffler.rows.strings import StringPool

#: What a group is told apart by: the period it lies in, if there are periods, then the values of GROUP BY.
GroupKey = tuple[Any, ...]
#: Bits of a float's digits, and where they are cut in two so that a billion halves add up within 64 bits.
_DIGITS, _HALF = 53, 27


@dataclass(slots=True)
class Figure:
    """What is known of one attribute in one group: how many values, the least, the most, and their exact sum.

    The sum is that of `parts[exponent] * 2**exponent`; whole numbers have the exponent 0.
    """

    values: int = 0
    least: Any = None
    most: Any = None
    parts: dict[int, int] = field(default_factory=dict)

    def merge(self, other: Figure) -> None:
        self.values += other.values
        self.least = _folded(min, self.least, other.least)
        self.most = _folded(max, self.most, other.most)
        for exponent, part in other.parts.items():
            self.parts[exponent] = self.parts.get(exponent, 0) + part

    @property
    def total(self) -> Fraction:
        return sum((Fraction(part) * Fraction(2) ** exponent for exponent, part in self.parts.items()), Fraction(0))


@dataclass(slots=True)
class Group:
    """The number of matches of a group, and a figure for each attribute that is aggregated."""

    matches: int = 0
    figures: dict[Attr, Figure] = field(default_factory=dict)

    def merge(self, other: Group) -> None:
        self.matches += other.matches
        for attr, figure in other.figures.items():
            self.figures.setdefault(attr, Figure()).merge(figure)


#: What a unit knows of its share of the matches; several merge into that of all.
Groups = dict[GroupKey, Group]


def merged(parts: Iterable[Mapping[GroupKey, Group]]) -> Groups:
    """The groups of all parts, each of which holds other matches."""
    whole: Groups = {}
    for part in parts:
        for key, group in part.items():
            whole.setdefault(key, Group()).merge(group)
    return whole


class SummarySink:
    """Takes the matches of one OR-free query and keeps figures only; with `max_groups` groups at most.

    For a mere count it takes batches that have a length and nothing else.
    """

    def __init__(
        self, bound: BoundQuery, layout: Layout, strings: StringPool, summary: Summary, *, max_groups: int
    ) -> None:
        self._bound, self._layout, self._strings = bound, layout, strings
        self._summary, self._max_groups = summary, max_groups
        self._values = list(dict.fromkeys(one.of for one in summary.aggregates if one.of is not None))
        self.rows = 0
        self.groups: Groups = {}

    def add(self, batch: Batch) -> None:
        self.rows += batch.length
        if self._summary.counts_only:
            self.groups.setdefault((), Group()).matches += batch.length
        elif batch.length:
            self._add_groups(batch)

    def settle(self, watermark_us: int) -> None:
        """Nothing waits: figures do not depend on the order of matches."""

    def _add_groups(self, batch: Batch) -> None:
        number_of, keys = self._numbered(batch)
        groups = []
        for key, matches in zip(keys, np.bincount(number_of, minlength=len(keys)).tolist(), strict=True):
            group = self.groups.setdefault(key, Group())
            group.matches += matches
            groups.append(group)
        if len(self.groups) > self._max_groups:
            raise LimitError(
                f"GROUP BY makes more than {self._max_groups:,} groups; group by something coarser, or raise the limit "
                "(--max-matches, Limits.max_matches)"
            )
        for attr in self._values:
            for group, figure in zip(groups, _figures(self._column(batch, attr), number_of, len(keys)), strict=True):
                group.figures.setdefault(attr, Figure()).merge(figure)

    def _numbered(self, batch: Batch) -> tuple[Indices, list[GroupKey]]:
        """The group of each match by number, and the key behind each number."""
        columns: list[Array] = []
        if self._summary.every_us is not None:
            ends = batch.columns[self._layout.place("max_ts")]
            columns.append(ends // self._summary.every_us * self._summary.every_us)
        columns += [self._column(batch, attr) for attr in self._summary.group_by]
        number_of = np.zeros(batch.length, dtype=np.int64)
        for column in columns:
            distinct, codes = np.unique(column, return_inverse=True)
            _, number_of = np.unique(number_of * len(distinct) + codes.reshape(-1), return_inverse=True)
        number_of = number_of.reshape(-1)
        first = np.zeros(int(number_of.max()) + 1, dtype=np.int64)
        first[number_of[::-1]] = np.arange(batch.length)[::-1]
        parts: list[Sequence[Any]] = [column[first].tolist() for column in columns]
        periods = len(parts) - len(self._summary.group_by)
        for place, attr in enumerate(self._summary.group_by, start=periods):
            parts[place] = self._shown(attr, parts[place])
        return number_of, list(zip(*parts, strict=True)) if parts else [()]

    def _column(self, batch: Batch, attr: Attr) -> Array:
        return batch.columns[self._layout.place(f"{attr.alias}.{member_column(self._bound, attr)}")]

    def _shown(self, attr: Attr, values: Sequence[Any]) -> Sequence[Any]:
        """Values as the user knows them; missing ones are None."""
        column = self._bound.column(attr)
        if column.kind is Kind.STRING:
            texts: Sequence[Any] = self._strings.decode(np.array(values, dtype=np.int64)).to_pylist()
            return texts
        if column.kind is Kind.FLOAT:
            return [None if value != value else value for value in values]
        missing = [value == NULL for value in values]
        kind = bool if column.kind is Kind.BOOL else int
        return [None if absent else kind(value) for value, absent in zip(values, missing, strict=True)]


def summary_table(name: str, form: EventFormat, summary: Summary, groups: Mapping[GroupKey, Group]) -> pa.Table:
    """A row per group, ordered by period and GROUP BY; without grouping there is one row even if nothing matched."""
    if not summary.group_by and summary.every_us is None:
        groups = {(): groups.get((), Group())}
    keys = sorted(groups, key=lambda key: [(value is None, 0 if value is None else value) for value in key])
    columns: dict[str, pa.Array] = {"query": pa.array([name] * len(keys), type=pa.string()).dictionary_encode()}
    if summary.every_us is not None:
        starts = pa.array([key[0] for key in keys], type=pa.int64())
        is_time = pa.types.is_timestamp(form.ts_type)
        columns["from_ts"] = starts.cast(pa.timestamp("us", form.ts_type.tz) if is_time else form.ts_type)
    before = 0 if summary.every_us is None else 1
    shown = {attr: [key[before + place] for key in keys] for place, attr in enumerate(summary.group_by)}
    for attr in summary.group_by:
        if attr not in summary.items:
            columns[str(attr)] = pa.array(shown[attr], type=_key_type(form, attr))
    for item in summary.items:
        if isinstance(item, Attr):
            columns[str(item)] = pa.array(shown[item], type=_key_type(form, item))
        else:
            column = None if item.of is None else form.schema.attributes[item.of.name]
            columns[str(item)] = _aggregate_column(item, column, [groups[key] for key in keys])
    return pa.table(columns)


def _key_type(form: EventFormat, attr: Attr) -> pa.DataType:
    kind = form.schema.attributes[attr.name].kind
    return {Kind.FLOAT: pa.float64(), Kind.INT: pa.int64(), Kind.BOOL: pa.bool_(), Kind.STRING: pa.string()}[kind]


def _aggregate_column(item: Aggregate, column: Column | None, groups: Sequence[Group]) -> pa.Array:
    if item.of is None or column is None:
        return _whole_numbers([group.matches for group in groups], item)
    figures = [group.figures.get(item.of, Figure()) for group in groups]
    if item.function == "avg":
        return pa.array([float(one.total / one.values) if one.values else None for one in figures], type=pa.float64())
    if item.function == "sum":
        sums = [one.total if one.values else None for one in figures]
        if column.kind is Kind.FLOAT:
            return pa.array([None if total is None else float(total) for total in sums], type=pa.float64())
        return _whole_numbers([None if total is None else int(total) for total in sums], item)
    values = [one.least if item.function == "min" else one.most for one in figures]
    return pa.array(values, type=pa.float64() if column.kind is Kind.FLOAT else pa.int64())


def _whole_numbers(values: Sequence[int | None], item: Aggregate) -> pa.Array:
    """64 bits if they are enough, else decimals of up to 76 digits."""
    most = max((abs(value) for value in values if value is not None), default=0)
    if most < 2**63:
        return pa.array(values, type=pa.int64())
    if most >= 10**76:
        raise LimitError(f"{item} has more than 76 digits; use a shorter window or a more selective condition")
    return pa.array(values, type=pa.decimal256(76, 0))


def _figures(values: Array, number_of: Indices, groups: int) -> list[Figure]:
    """A figure for each group from the values of its matches."""
    is_float = values.dtype.kind == "f"
    known = ~np.isnan(values) if is_float else values != NULL
    if not known.all():
        values, number_of = values[known], number_of[known]
    counts = np.bincount(number_of, minlength=groups)
    figures = [Figure(values=count) for count in counts.tolist()]
    order = np.argsort(number_of, kind="stable")
    values, number_of = values[order], number_of[order]
    present = np.flatnonzero(counts)
    if not len(present):
        return figures
    begins = np.searchsorted(number_of, present)
    for number, least, most in zip(
        present.tolist(),
        np.minimum.reduceat(values, begins).tolist(),
        np.maximum.reduceat(values, begins).tolist(),
        strict=True,
    ):
        figures[number].least, figures[number].most = least, most
    if is_float:
        digits, exponents = np.frexp(values)
        whole, exponents = np.ldexp(digits, _DIGITS).astype(np.int64), exponents.astype(np.int64) - _DIGITS
    else:
        whole, exponents = values, np.zeros(len(values), dtype=np.int64)
    for number, exponent, part in _exact_sums(number_of, exponents, whole):
        figures[number].parts[exponent] = figures[number].parts.get(exponent, 0) + part
    return figures


def _exact_sums(number_of: Indices, exponents: Indices, whole: Indices) -> Iterable[tuple[int, int, int]]:
    """The sum of whole numbers for each pair of group and exponent, as integers of any size."""
    least = int(exponents.min())
    width = int(exponents.max()) - least + 1
    pairs, places = np.unique(number_of * width + (exponents - least), return_inverse=True)
    order = np.argsort(places.reshape(-1), kind="stable")
    begins = np.searchsorted(places.reshape(-1)[order], np.arange(len(pairs)))
    ordered = whole[order]
    high = np.add.reduceat(ordered >> _HALF, begins).tolist()
    low = np.add.reduceat(ordered & ((1 << _HALF) - 1), begins).tolist()
    for pair, upper, lower in zip(pairs.tolist(), high, low, strict=True):
        yield pair // width, pair % width + least, (upper << _HALF) + lower


def _folded(fold: Any, one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return fold(one, other)
