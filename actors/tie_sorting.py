"""The compiled part of `ordering`."""

from __future__ import annotations

import numpy as np
from numba import njit

from shuffler.batch import Array, Indices

_SHORT = 24


@njit(cache=True, nogil=True)
def sort_ties(prefix: Array, keys: tuple[Array, ...], order: Indices) -> None:
    """Sorts `order` by `keys` within each run of equal `prefix`, which is sorted and parallel to it."""
    scratch = np.empty((2, 1024), dtype=np.int64)
    rows = order.shape[0]
    start = 0
    while start < rows:
        stop = start + 1
        while stop < rows and prefix[stop] == prefix[start]:
            stop += 1
        if stop - start > 1:
            if stop - start > scratch.shape[1]:
                scratch = np.empty((2, 2 * (stop - start)), dtype=np.int64)
            _sort(keys, 0, order[start:stop], scratch)
        start = stop


@njit(cache=True, nogil=True)
def _sort(keys: tuple[Array, ...], which: int, run: Indices, scratch: Array) -> None:
    """Sorts a run by one key after the other: by the first that differs, then each part that is equal in it."""
    count = run.shape[0]
    while which < len(keys) and _constant(keys[which], run):
        which += 1
    if which == len(keys):
        return
    values = scratch[0, :count]
    for place in range(count):
        values[place] = keys[which][run[place]]
    if count <= _SHORT:
        for last in range(1, count):
            value, row = values[last], run[last]
            place = last
            while place > 0 and values[place - 1] > value:
                values[place] = values[place - 1]
                run[place] = run[place - 1]
                place -= 1
            values[place] = value
            run[place] = row
    else:
        rows = scratch[1, :count]
        rows[:] = run
        by_value = np.argsort(values)
        for place in range(count):
            run[place] = rows[by_value[place]]
    key = keys[which]
    start = 0
    while start < count:
        stop = start + 1
        while stop < count and key[run[stop]] == key[run[start]]:
            stop += 1
        if stop - start > 1:
            _sort(keys, which + 1, run[start:stop], scratch)
        start = stop


@njit(cache=True, nogil=True)
def _constant(key: Array, run: Indices) -> bool:
    first = key[run[0]]
    for row in run:  # noqa: SIM110 (compiled: a generator expression would not be)
        if key[row] != first:
            return False
    return True
