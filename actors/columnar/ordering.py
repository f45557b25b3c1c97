"""One canonical order for matches, whatever order they were found in.

Rows mostly come in order already, so that is looked at first. What is not in order of the first key is sorted by it in
a few passes (`rough_order`). Once the columns are in that order, and read one row after the other, the rows that are
equal in the first key and not in order of the further ones are found, and only these move (`tie_moves`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from actors.columnar import jit
from actors.columnar.order_source import order_source
from shuffler.rows.batch import Array, Indices

#: Below this many rows sorting without compiled code is quick enough, and none has to be loaded.
SMALL = 4_096


@dataclass(frozen=True, slots=True)
class Lists:
    """A list of integers per row: `lengths[row]` values from `flat[starts[row]]` on."""

    starts: Indices
    lengths: Indices
    flat: Array


Key = Array | Lists


@dataclass(frozen=True, slots=True)
class Moves:
    """The row that is at `rows[n]` belongs at `places[n]`; all others stay where they are."""

    places: Indices
    rows: Indices


class Scratch:
    """Memory that sorting needs for a moment, kept for the next time."""

    def __init__(self) -> None:
        self._pair = np.empty((2, 0), dtype=np.int64)

    def pair(self, rows: int) -> tuple[Indices, Indices]:
        if self._pair.shape[1] < rows:
            self._pair = np.empty((2, rows + rows // 4), dtype=np.int64)
        return self._pair[0, :rows], self._pair[1, :rows]


def rough_order(keys: Sequence[Key], scratch: Scratch) -> Indices | None:
    """Row numbers in an order in which the first key ascends, to be used before the next call with the same scratch;
    None if it does as rows are.

    `tie_moves` of the rows in that order does the rest. Keys are columns of integers, or of lists of them, which are
    compared member by member; the first is no list.
    """
    first = keys[0]
    assert not isinstance(first, Lists)
    if len(first) < SMALL:
        return _small_order(keys, len(first))
    if bool((first[1:] >= first[:-1]).all()):
        return None
    order, spare = scratch.pair(len(first))
    arrays = _arrays(keys)
    _compiled(keys).by_first(arrays[0], _second(keys, arrays), order, spare)
    return order


def tie_moves(keys: Sequence[Key]) -> Moves | None:
    """What puts rows whose first key ascends in canonical order: by the further keys where they are equal in the first
    one. None if they are in order."""
    first = keys[0]
    assert not isinstance(first, Lists)
    if len(first) < SMALL:  # `rough_order` has done it
        return None
    compiled, arrays = _compiled(keys), _arrays(keys)
    places: Indices = compiled.untidy_rows(*arrays)
    if not len(places):
        return None
    rows = places.copy()
    compiled.sort_ties(rows, np.empty(len(rows), dtype=np.int64), *arrays)
    return Moves(places, rows)


def load_compiled(keys: Sequence[Key]) -> None:
    """Loads the compiled part for such keys; otherwise the first sorting of many rows does."""
    compiled, arrays = _compiled(keys), _arrays(keys)
    nothing = np.empty(0, dtype=np.int64)
    compiled.untidy_rows(*arrays)
    compiled.by_first(*(np.zeros(1, dtype=np.int64) for _ in range(4)))
    compiled.sort_ties(nothing, nothing, *arrays)


def _compiled(keys: Sequence[Key]) -> Any:
    return jit.load(order_source([isinstance(key, Lists) for key in keys]))


def _arrays(keys: Sequence[Key]) -> list[Array]:
    arrays: list[Array] = []
    for key in keys:
        arrays += [key.starts, key.lengths, key.flat] if isinstance(key, Lists) else [key]
    # One kind of array for compiled code, which would be compiled anew for read-only ones or other strides.
    return [np.require(array, np.int64, ["C", "W"]) for array in arrays]


def _second(keys: Sequence[Key], arrays: Sequence[Array]) -> Array:
    """The second key, or the first one again where that is a list or missing."""
    return arrays[1] if len(keys) > 1 and not isinstance(keys[1], Lists) else arrays[0]


def _small_order(keys: Sequence[Key], rows: int) -> Indices | None:
    if any(isinstance(key, Lists) for key in keys):
        columns = [_lists(key) if isinstance(key, Lists) else key.tolist() for key in keys]
        order: Indices = np.array(sorted(range(rows), key=list(zip(*columns, strict=True)).__getitem__), dtype=np.int64)
    else:
        order = np.lexsort(tuple(reversed(keys)))  # type: ignore[arg-type]
    return None if np.array_equal(order, np.arange(rows)) else order


def _lists(key: Lists) -> list[list[int]]:
    flat = key.flat.tolist()
    return [flat[start : start + length] for start, length in zip(key.starts.tolist(), key.lengths.tolist())]
