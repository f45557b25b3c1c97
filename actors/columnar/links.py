"""The compiled parts of `succession_chain` and `succession_scan`: places of next events, and values at places."""

from __future__ import annotations

import numpy as np
from numba import njit

from shuffler.rows.batch import Array, Indices


def successors(ends: Array, begins: Array) -> Indices:
    """For each end, the place of the first beginning after it, as far as there is one; both are in ascending order."""
    links = np.empty(len(ends), dtype=np.int64)
    return links[: _link(ends, begins, links)]


@njit(cache=True, nogil=True)
def _link(ends: Array, begins: Array, links: Indices) -> int:
    """Writes the links and returns how many rows have one."""
    # Nobody can foresee which of two streams has the next event, so the merge has no branch for it. It waits for its
    # last comparison instead. Two merges at once, one from either end, wait half as long.
    low, low_at, high, high_at = 0, 0, len(ends) - 1, len(begins)
    while low <= high and low_at < high_at:
        links[low] = low_at
        passed = begins[low_at] <= ends[low]
        low_at += passed
        low += 1 - passed
        if low > high:
            break
        links[high] = high_at
        later = begins[high_at - 1] > ends[high]
        high_at -= later
        high -= 1 - later
    for row in range(low, high + 1):
        links[row] = high_at
    known = len(ends)
    while known > 0 and links[known - 1] == len(begins):
        known -= 1
    return known


def pick(column: Array, places: Array, out: Array) -> None:
    """Writes the values at places, which must be there."""
    _pick(column, places, out)


@njit(cache=True, nogil=True)
def _pick(column: Array, places: Array, out: Array) -> None:
    for row in range(len(places)):
        out[row] = column[places[row]]


def is_rising(times: Array) -> bool:
    """Whether all times are in order and different."""
    return bool(_is_rising(times))


@njit(cache=True, nogil=True)
def _is_rising(times: Array) -> bool:
    wrong = 0
    for row in range(1, len(times)):
        wrong += times[row] <= times[row - 1]
    return wrong == 0
