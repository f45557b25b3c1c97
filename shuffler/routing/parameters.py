"""Views of one operator that differ in constants only: a match finds the views that want it by search.

The rows of a batch are put in the order of what is compared, and each view finds its rows as a stretch of that order.
This takes time for the rows, for the views and for what they get, not for rows times views.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from shuffler.routing.views import ViewReader, chosen
from shuffler.rows.batch import Array, Batch, Indices

_HOLDS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "=": np.equal}


class ViewTable:
    """Views of one operator's matches with the same template; `readers` are theirs."""

    def __init__(self, readers: Sequence[ViewReader]) -> None:
        self._readers, self._first = tuple(readers), readers[0]
        self._comparisons = self._first.comparisons
        #: For each figure the constants of all views.
        self._constants = [np.array(values) for values in zip(*(reader.constants for reader in readers), strict=True)]

    def read(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        """The places of views that want rows of a batch, and these rows: those that fulfil all that the view's
        sub-query demands, each once, in the order that they came in."""
        batch = self._first.eligible(batch)
        if not batch.length:
            return
        figures = self._first.figures(batch)
        if not figures:
            for place, reader in enumerate(self._readers):
                yield place, reader.laid_out(batch)
        elif len(self._readers) == 1:
            holds = [_HOLDS[op](one, limit) for op, one, limit in zip(self._comparisons, figures, self._constants)]
            batch = chosen(batch, np.asarray(np.logical_and.reduce(holds)))
            if batch.length:
                yield 0, self._first.laid_out(batch)
        else:
            for place, rows in self._search(figures):
                yield place, self._readers[place].laid_out(batch, rows)

    def _search(self, figures: Sequence[Array]) -> Iterator[tuple[int, Indices]]:
        """The places of views and the rows that each wants, in ascending order."""
        stretches = [
            _Stretches.of(op, figure, limits)
            for op, figure, limits in zip(self._comparisons, figures, self._constants, strict=True)
        ]
        best = min(stretches, key=lambda one: int(one.lengths.sum()))
        others = [
            (_HOLDS[op], figure[best.order], limits.tolist())
            for op, figure, limits, one in zip(self._comparisons, figures, self._constants, stretches, strict=True)
            if one is not best
        ]
        wanting = np.logical_and.reduce([one.lengths > 0 for one in stretches])
        for place in np.flatnonzero(wanting).tolist():
            stretch = slice(best.starts[place], best.stops[place])
            rows = best.order[stretch]
            if others:
                holds = [holds(figure[stretch], limits[place]) for holds, figure, limits in others]
                rows = rows[holds[0] if len(holds) == 1 else np.logical_and.reduce(holds)]
            if len(rows):
                yield place, np.sort(rows)


def tables_of(readers: Sequence[ViewReader]) -> list[tuple[tuple[int, ...], ViewTable]]:
    """Views of one operator's matches by template: the places of each table's views, and the table."""
    found: dict[object, list[int]] = {}
    for place, reader in enumerate(readers):
        found.setdefault(reader.template, []).append(place)
    return [(tuple(places), ViewTable([readers[place] for place in places])) for places in found.values()]


class _Stretches(NamedTuple):
    """An order of the rows by what they have to compare, and where in it the rows that each view's constant lets
    through begin and end."""

    order: Indices
    starts: Indices
    stops: Indices

    @property
    def lengths(self) -> Indices:
        return self.stops - self.starts

    @classmethod
    def of(cls, op: str, figure: Array, limits: Array) -> _Stretches:
        """A missing value, which comes last, is let through by no constant."""
        order = np.argsort(figure, kind="stable")
        values = figure[order]
        first, last = (np.searchsorted(values, limits, side=side) for side in ("left", "right"))
        none = np.zeros(len(limits), dtype=np.int64)
        missing = np.isnan(values).sum() if values.dtype.kind == "f" else 0
        everything = np.full(len(limits), len(values) - missing, dtype=np.int64)
        match op:
            case "<":
                return cls(order, none, first)
            case "<=":
                return cls(order, none, last)
            case ">":
                return cls(order, last, everything)
            case ">=":
                return cls(order, first, everything)
            case _:
                return cls(order, first, last)
