"""The compiled part of `ordering`."""

from __future__ import annotations

from numba import njit

from shuffler.batch import Array


@njit(cache=True, nogil=True)
def sort_runs(primary: Array, others: Array, order: Array) -> None:
    """Sorts `order` (and `others` with it) by the rows of `others` within each run of equal `primary`."""
    rows = primary.shape[0]
    start = 0
    while start < rows:
        stop = start + 1
        while stop < rows and primary[stop] == primary[start]:
            stop += 1
        _sort(others, order, start, stop)
        start = stop


@njit(cache=True, nogil=True)
def _sort(others: Array, order: Array, start: int, stop: int) -> None:
    """Heap sort with a fall back to insertion for short runs: no worst case, no memory."""
    if stop - start <= 16:
        for k in range(start + 1, stop):
            place = k
            while place > start and _less(others, place, place - 1):
                _swap(others, order, place, place - 1)
                place -= 1
        return
    for root in range((stop - start) // 2 - 1, -1, -1):
        _sink(others, order, start, root, stop - start)
    for last in range(stop - start - 1, 0, -1):
        _swap(others, order, start, start + last)
        _sink(others, order, start, 0, last)


@njit(cache=True, nogil=True)
def _sink(others: Array, order: Array, start: int, root: int, count: int) -> None:
    while 2 * root + 1 < count:
        child = 2 * root + 1
        if child + 1 < count and _less(others, start + child, start + child + 1):
            child += 1
        if not _less(others, start + root, start + child):
            return
        _swap(others, order, start + root, start + child)
        root = child


@njit(cache=True, nogil=True)
def _less(others: Array, one: int, other: int) -> bool:
    for column in range(others.shape[1]):
        if others[one, column] != others[other, column]:
            return others[one, column] < others[other, column]  # type: ignore[no-any-return]
    return False


@njit(cache=True, nogil=True)
def _swap(others: Array, order: Array, one: int, other: int) -> None:
    for column in range(others.shape[1]):
        others[one, column], others[other, column] = others[other, column], others[one, column]
    order[one], order[other] = order[other], order[one]
