"""One canonical order for matches, whatever order they were found in.

Rows mostly come in order already, so that is looked at first. What is not in order is sorted by the first key in a few
passes, and by the further keys where rows are equal in the first one.
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


def canonical_order(keys: Sequence[Key]) -> Indices | None:
    """Row numbers sorted by the first key, ties by the second, and so on; None if rows are in order as they are.

    Keys are columns of integers, or of lists of them, which are compared member by member; the first is no list.
    """
    first = keys[0]
    assert not isinstance(first, Lists)
    if len(first) < SMALL:
        return _small_order(keys, len(first))
    compiled = _compiled(keys)
    arrays = _arrays(keys)
    disorder = compiled.disorder(*arrays)
    if disorder == 0:
        return None
    order: Indices = np.arange(len(first), dtype=np.int64)
    spare = np.empty(len(first), dtype=np.int64)
    if disorder == 2:
        compiled.by_first(arrays[0], _second(keys, arrays), order, spare)
    compiled.sort_ties(order, spare, *arrays)
    return order


def in_order(keys: Sequence[Key]) -> bool:
    """Whether rows are in the order of `canonical_order`."""
    first = keys[0]
    assert not isinstance(first, Lists)
    if len(first) < SMALL:
        return _small_order(keys, len(first)) is None
    return bool(_compiled(keys).disorder(*_arrays(keys)) == 0)


def load_compiled(keys: Sequence[Key]) -> None:
    """Loads the compiled part for such keys; otherwise the first sorting of many rows does."""
    compiled, arrays = _compiled(keys), _arrays(keys)
    nothing = np.empty(0, dtype=np.int64)
    compiled.disorder(*arrays)
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
