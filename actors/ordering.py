"""One canonical order for matches, whatever order they were found in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shuffler.batch import Array, Indices

#: Below this many rows NumPy alone is quick enough, and no compiled code has to be loaded.
SMALL = 20_000


def canonical_order(keys: Sequence[Array]) -> Indices:
    """Row numbers sorted by the first key, ties by the second, and so on.

    Matches come nearly sorted by the first key (their end), in short runs of equal ends: a stable sort of that key,
    which is fast on such input, then a sort of each run by the other keys.
    """
    rows = len(keys[0])
    if rows < SMALL:
        return np.lexsort(tuple(reversed(keys)))
    from actors.run_sorting import sort_runs

    order = np.argsort(keys[0], kind="stable")
    others = np.empty((rows, len(keys) - 1), dtype=np.int64)
    for column, key in enumerate(keys[1:]):
        others[:, column] = key[order]
    sort_runs(keys[0][order], others, order)
    return order
