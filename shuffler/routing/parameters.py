"""Views of one operator that differ in constants only: a match finds the views that want it by search.

What a row has to compare is replaced by its place among the constants of all views. The rows of a batch are put in the
order of that, and each view looks up where its stretch of that order begins and ends. What else
it compares is decided within the stretch, by compiled loops over small numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from shuffler.routing.parameter_loops import count_wanted, wanted_rows
from shuffler.routing.views import ViewReader, chosen
from shuffler.rows.batch import Array, Batch, Indices

#: Views of one table: constants have numbers of 16 bits.
_MOST_VIEWS = 60_000
_HOLDS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "=": np.equal}


class ViewTable:
    """Views of one operator's matches with the same template; `readers` are theirs."""

    def __init__(self, readers: Sequence[ViewReader]) -> None:
        self._readers, self._first = tuple(readers), readers[0]
        self._comparisons = self._first.comparisons
        self._counting = all(reader.counting for reader in readers)
        #: For each figure the constants of all views.
        self._constants = [np.array(values) for values in zip(*(reader.constants for reader in readers), strict=True)]
        self._limits = [_Limits(op, values) for op, values in zip(self._comparisons, self._constants, strict=True)]

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
                yield place, rows if isinstance(rows, Batch) else self._readers[place].laid_out(batch, rows)

    def _search(self, figures: Sequence[Array]) -> Iterator[tuple[int, Batch | Indices]]:
        """The places of views and the rows that each wants, in ascending order; or how many, where that is all that
        is asked for."""
        coded = [limits.codes(figure) for limits, figure in zip(self._limits, figures, strict=True)]
        stretches = [limits.stretches(codes) for limits, codes in zip(self._limits, coded, strict=True)]
        lengths = [int((ends - begins).sum()) for begins, ends in stretches]
        # The figure that leaves least to look at is the first.
        ranked = sorted(range(len(figures)), key=lengths.__getitem__)
        order = np.argsort(coded[ranked[0]], kind="stable")
        codes = np.array([coded[one][order] for one in ranked])
        lows = np.array([self._limits[one].lows for one in ranked])
        widths = np.array([self._limits[one].widths for one in ranked])
        begins, ends = stretches[ranked[0]]
        counts = count_wanted(codes, lows, widths, begins, ends)
        wanting = np.flatnonzero(counts)
        numbered = zip(wanting.tolist(), counts[wanting].tolist(), strict=True)
        if self._counting:
            for place, count in numbered:
                yield place, Batch(count, {}, {})
            return
        rows, begin = wanted_rows(codes, order, lows, widths, begins, ends, counts), 0
        for place, count in numbered:
            yield place, rows[begin : begin + count]
            begin += count


def tables_of(readers: Sequence[ViewReader]) -> list[tuple[tuple[int, ...], ViewTable]]:
    """Views of one operator's matches by template: the places of each table's views, and the table."""
    found: dict[object, list[int]] = {}
    for place, reader in enumerate(readers):
        found.setdefault(reader.template, []).append(place)
    groups = [tuple(places[begin : begin + _MOST_VIEWS]) for places in found.values()
              for begin in range(0, len(places), _MOST_VIEWS)]  # fmt: skip
    return [(places, ViewTable([readers[place] for place in places])) for places in groups]


class _Limits:
    """What one figure is compared with by all views.

    The code of a value says between which of the constants it lies. A view wants `widths` codes from `lows` on.
    """

    def __init__(self, op: str, constants: Array) -> None:
        self._op = op
        self._values, places = np.unique(constants, return_inverse=True)
        places, everything = places.reshape(-1), len(self._values) + 1
        nothing = np.zeros(len(places), dtype=np.int64)
        match op:
            case "<" | "<=":
                lows, highs = nothing, places + 1
            case ">" | ">=":
                lows, highs = places + 1, nothing + everything
            case _:
                lows, highs = places, places + 1
        self.lows, self.widths = lows.astype(np.uint16), (highs - lows).astype(np.uint16)

    def codes(self, figure: Array) -> Array:
        """A missing value gets a code that no view wants."""
        values = self._values
        found = np.searchsorted(values, figure, side="right" if self._op in ("<", ">=") else "left")
        if self._op == "=":
            found[values[np.minimum(found, len(values) - 1)] != figure] = len(values)
        elif self._op in (">", ">=") and figure.dtype.kind == "f":
            found[np.isnan(figure)] = 0
        return found.astype(np.uint16)

    def stretches(self, codes: Array) -> tuple[Indices, Indices]:
        """Where the rows that each view wants begin and end, in the order of their codes."""
        places = np.zeros(len(self._values) + 2, dtype=np.int64)
        np.cumsum(np.bincount(codes, minlength=len(self._values) + 1), out=places[1:])
        lows = self.lows.astype(np.int64)
        return places[lows], places[lows + self.widths]
