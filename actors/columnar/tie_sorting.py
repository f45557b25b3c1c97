"""The compiled part of `ordering`."""

from __future__ import annotations

import numpy as np
from numba import njit

from shuffler.rows.batch import Array, Indices

_SHORT = 24


@njit(cache=True, nogil=True)
def sort_ties(prefix: Array, keys: tuple[Array, ...], order: Indices) -> None:
    """Sorts `order` by `keys` within each run of equal `prefix`, which is sorted and parallel to it."""
    scratch = np.empty((3, 1024), dtype=np.int64)
    rows = order.shape[0]
    start = 0
    while start < rows:
        stop = start + 1
        while stop < rows and prefix[stop] == prefix[start]:
            stop += 1
        if stop - start > 1:
            if stop - start > scratch.shape[1]:
                scratch = np.empty((3, 2 * (stop - start)), dtype=np.int64)
            _sort_run(keys, order[start:stop], scratch)
        start = stop


@njit(cache=True, nogil=True)
def _sort_run(keys: tuple[Array, ...], run: Indices, scratch: Array) -> None:
    """Sorts a run by one key after the other; each further key only within parts that are equal in those before."""
    count = run.shape[0]
    begins = scratch[2, :count]  # 1 where a part begins
    begins[:] = 0
    begins[0] = 1
    for key in keys:
        parts = 0
        start = 0
        while start < count:
            stop = start + 1
            while stop < count and begins[stop] == 0:
                stop += 1
            if stop - start > 1 and not _constant(key, run[start:stop]):
                _sort_by(key, run[start:stop], scratch)
                for place in range(start + 1, stop):
                    if key[run[place]] != key[run[place - 1]]:
                        begins[place] = 1
            parts += 1
            start = stop
        if parts == count:
            return


@njit(cache=True, nogil=True)
def _sort_by(key: Array, run: Indices, scratch: Array) -> None:
    count = run.shape[0]
    values, rows = scratch[0, :count], scratch[1, :count]
    for place in range(count):
        values[place] = key[run[place]]
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
        rows[:] = run
        by_value = np.argsort(values)
        for place in range(count):
            run[place] = rows[by_value[place]]


@njit(cache=True, nogil=True)
def _constant(key: Array, run: Indices) -> bool:
    first = key[run[0]]
    for row in run:  # noqa: SIM110 (compiled: a generator expression would not be)
        if key[row] != first:
            return False
    return True
