"""One canonical order for matches, whatever order they were found in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shuffler.rows.batch import Array, Indices

#: Below this many rows NumPy alone is quick enough, and no compiled code has to be loaded.
SMALL = 20_000
_BITS = 63


def canonical_order(keys: Sequence[Array]) -> Indices:
    """Row numbers sorted by the first key (integers all), ties by the second, and so on.

    The first key, as many leading bits of the second as there is room for, and the row number are packed into one
    integer: sorting plain integers is many times faster than sorting by columns. Rows that are still equal are few;
    they are compared column by column.
    """
    rows = len(keys[0])
    if rows < SMALL:
        return np.lexsort(tuple(reversed(keys)))
    number_bits = (rows - 1).bit_length()
    first_least, first_bits = _range(keys[0])
    if first_bits + number_bits > _BITS:
        return np.lexsort(tuple(reversed(keys)))
    packed = keys[0] - first_least
    if len(keys) > 1:
        least, bits = _range(keys[1])
        room = min(bits, _BITS - first_bits - number_bits)
        if bits < _BITS:
            packed = (packed << room) | ((keys[1] - least) >> (bits - room))
    packed = (packed << number_bits) | np.arange(rows, dtype=np.int64)
    packed.sort(kind="stable")  # matches are found nearly in order, which this kind of sorting makes use of
    order: Indices = packed & ((1 << number_bits) - 1)
    if len(keys) > 1:
        from actors.columnar.tie_sorting import sort_ties

        packed >>= number_bits
        sort_ties(packed, tuple(np.ascontiguousarray(key) for key in keys[1:]), order)
    return order


def load_compiled(further_keys: int) -> None:
    """Loads the compiled part for so many keys after the first; otherwise the first sorting of many rows does."""
    from actors.columnar.tie_sorting import sort_ties

    nothing = np.empty(0, dtype=np.int64)
    sort_ties(nothing, (nothing,) * further_keys, nothing)


def _range(key: Array) -> tuple[int, int]:
    """The least value, and how many bits the differences to it take."""
    least, most = int(key.min()), int(key.max())
    return least, (most - least).bit_length()
