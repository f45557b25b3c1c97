"""Batch: the columns that travel on every edge of a plan.

A row is an event or a partial match. Fixed-width columns are int64 or float64. The members of a Kleene group lie in
a heap that rows point into (`alias#start`, `alias#length`), so that picking rows copies no group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]
#: alias -> member column -> values
Heaps = Mapping[str, Mapping[str, Array]]


@dataclass(frozen=True, slots=True)
class Batch:
    length: int
    columns: Mapping[str, Array]
    heaps: Heaps

    def take(self, rows: Indices) -> Batch:
        """The given rows; heaps are shared, not copied."""
        return Batch(len(rows), {name: column[rows] for name, column in self.columns.items()}, self.heaps)

    def every(self, step: int, start: int) -> Batch:
        """Rows start, start + step, ...: one hand of a deal."""
        columns = {name: np.ascontiguousarray(column[start::step]) for name, column in self.columns.items()}
        return Batch(len(range(start, self.length, step)), columns, self.heaps)

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self.columns.values())


def start_of(alias: str) -> str:
    """Column with the place in the heap where a row's group begins."""
    return f"{alias}#start"


def length_of(alias: str) -> str:
    """Column with the number of members of a row's group."""
    return f"{alias}#length"


def key_of(alias: str) -> str:
    """Column with a hash of the group's event ids: equal groups have equal keys."""
    return f"{alias}#key"


def flat_members(starts: Indices, lengths: Indices) -> Indices | slice:
    """Heap places of all members of the given groups, group after group; a slice if they lie like that already."""
    if not len(starts):
        return slice(0, 0)
    ends = np.cumsum(lengths)
    total = int(ends[-1])
    if np.array_equal(starts, ends - lengths + starts[0]):
        return slice(int(starts[0]), int(starts[0]) + total)
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total, dtype=np.int64)


def joined(batches: Sequence[Batch]) -> Batch:
    """The rows of batches of one layout, one after the other; heaps hold what the rows point to and no more."""
    first = batches[0]
    columns = {name: np.concatenate([batch.columns[name] for batch in batches]) for name in first.columns}
    heaps: dict[str, dict[str, Array]] = {}
    for alias, members in first.heaps.items():
        places = [flat_members(batch.columns[start_of(alias)], batch.columns[length_of(alias)]) for batch in batches]
        heaps[alias] = {
            name: np.concatenate([batch.heaps[alias][name][place] for batch, place in zip(batches, places)])
            for name in members
        }
        columns[start_of(alias)] = np.cumsum(columns[length_of(alias)]) - columns[length_of(alias)]
    return Batch(sum(batch.length for batch in batches), columns, heaps)
