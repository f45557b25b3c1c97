"""Steps of NEXT that follow each other in one process: a first match goes through all of them at once.

Where no condition chooses or decides, the successor of an event depends on times alone. A step then need not write
pairs for the next one to read: the place of the successor among the events of a step leads to the place among those of
the step after it, and the columns of the match are gathered at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from actors.columnar.links import successors
from actors.columnar.output import CHUNK, OutputBlocks
from actors.columnar.pair_writer import Side
from actors.operators.join import owner_of
from decopa.query.query import Query
from shuffler.rows.batch import Array, Batch, Indices
from shuffler.rows.layout import Layout

#: The place of the first input among the rows that a match is gathered from; the events of step n are at n + 1.
_FIRST = 0


@dataclass(frozen=True)
class ChainStep:
    """The inputs and the matches of one NEXT."""

    left: Side
    right: Side
    output: Layout


class ChainGatherer:
    """Finds the matches of all steps together, for first rows that have all successors."""

    def __init__(self, query: Query, steps: Sequence[ChainStep], blocks: OutputBlocks | None) -> None:
        self._window_us, self._blocks = query.window_us, blocks
        self.origins = origins(query, steps)
        self._end = steps[0].left.layout.place("max_ts")

    def complete(self, first: Batch, events: Sequence[Batch]) -> list[Indices]:
        """For the first rows that have all successors, in order: the places of these among the events of each step.

        Rows must be in order of time, and no two events of a step have the same time.
        """
        links: list[Indices] = []
        ends = first.columns[self._end]
        for step in events:
            begins = step.columns["min_ts"]
            link = successors(ends, begins)
            if links:
                # Links never go back, so those that lead to an event without a successor are the last ones.
                reached = links[-1][: int(np.searchsorted(links[-1], len(link)))]
                link = link.take(reached)
            links.append(link)
            ends = begins
        return [link[: len(links[-1])] for link in links]

    def matches(
        self, first: Batch, events: Sequence[Batch], links: Sequence[Indices]
    ) -> Iterator[tuple[int, dict[str, Array]]]:
        """(rows, columns) of the matches that fit into the window, in chunks, without columns if they are counted."""
        for start in range(0, len(links[-1]), CHUNK):
            part = [link[start : start + CHUNK] for link in links]
            begins = first.columns["min_ts"][start : start + len(part[-1])]
            fits = events[-1].columns["min_ts"].take(part[-1]) - begins <= self._window_us
            rows = int(np.count_nonzero(fits))
            places: list[Indices | slice] = [slice(start, start + len(fits)), *part]
            if rows < len(fits):
                kept = np.flatnonzero(fits)
                places = [kept + start, *(link[kept] for link in part)]
            if rows:
                yield rows, {} if self._blocks is None else self._gathered(self._blocks, rows, [first, *events], places)

    def _gathered(
        self, blocks: OutputBlocks, rows: int, batches: Sequence[Batch], places: Sequence[Indices | slice]
    ) -> dict[str, Array]:
        columns = blocks.room(rows)
        for name, (place, column) in self.origins.items():
            _copy(batches[place].columns[column], places[place], columns[name])
        blocks.take(rows)
        return columns

    def within(self, first: Batch, events: Batch, link: Indices) -> int:
        """How many of the first rows have their successor within the window."""
        spans = events.columns["min_ts"].take(link) - first.columns["min_ts"][: len(link)]
        return int(np.count_nonzero(spans <= self._window_us))


def _copy(column: Array, places: Indices | slice, out: Array) -> None:
    if isinstance(places, slice):
        out[:] = column[places]
    else:
        column.take(places, out=out, mode="clip")  # the default mode would write to a buffer first


def origins(query: Query, steps: Sequence[ChainStep]) -> dict[str, tuple[int, str]]:
    """Where each column of the last step's matches comes from."""
    return {name: _origin(query, steps, len(steps) - 1, name) for name in steps[-1].output.columns}


def _origin(query: Query, steps: Sequence[ChainStep], step: int, name: str) -> tuple[int, str]:
    """Where a column of a step's matches comes from: a place among the gathered rows, and the column there."""
    if step < 0:
        return _FIRST, name
    one = steps[step]
    owner = owner_of(name, one.output)
    from_right = name == "max_ts" if owner is None else owner in one.right.sub_query.positive(query)
    if from_right:
        return step + 1, one.right.layout.place(name)
    return _origin(query, steps, step - 1, one.left.layout.place(name))
