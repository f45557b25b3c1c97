"""The compiled part of `parameters`: which rows lie within the ranges of every view.

`codes` has a line for each figure; a view wants the rows whose code of each figure is one of `widths` from `lows` on,
which have a line for each figure, too. Rows stand in the order of the first figure, so that those that it lets through
are a stretch, from `begins` to `ends`; other figures are looked at within the stretch only.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shuffler.rows.batch import Array, Indices

#: A view that wants less than one row in so many finds them in its stretch and sorts them; others look at all in order.
_SPARSE = 16


@njit(cache=True, nogil=True)
def count_wanted(codes: Array, lows: Array, widths: Array, begins: Indices, ends: Indices) -> Indices:
    """How many rows each view wants."""
    figures, views = lows.shape
    found = np.zeros(views, dtype=np.int64)
    for view in range(views):
        begin, end = begins[view], ends[view]
        total = 0
        if figures == 1:
            total = max(0, end - begin)
        elif figures == 2:
            total = _within(codes[1][begin:end], lows[1, view], widths[1, view])
        elif figures == 3:
            one, low, width = codes[1][begin:end], lows[1, view], widths[1, view]
            other, low2, width2 = codes[2][begin:end], lows[2, view], widths[2, view]
            for place in range(len(one)):
                fits = (np.uint16(one[place] - low) < width) & (np.uint16(other[place] - low2) < width2)
                total += int(fits)
        else:
            for place in range(begin, end):
                total += int(_wanted(codes, lows, widths, view, place))
        found[view] = total
    return found


@njit(cache=True, nogil=True)
def wanted_rows(
    codes: Array, order: Indices, lows: Array, widths: Array, begins: Indices, ends: Indices, counts: Indices
) -> Indices:
    """The rows that each view wants, in ascending order, one view after the other; `order` has the rows by the first
    figure."""
    rows = order.shape[0]
    found = np.empty(counts.sum(), dtype=np.int64)
    place_of = np.empty(rows, dtype=np.int64)
    for place in range(rows):
        place_of[order[place]] = place
    used = 0
    for view in range(lows.shape[1]):
        if counts[view] == 0:
            continue
        first = used
        sparse = counts[view] * _SPARSE < rows
        begin, end = (begins[view], ends[view]) if sparse else (0, rows)
        for number in range(begin, end):
            place = number if sparse else place_of[number]
            if _wanted(codes, lows, widths, view, place):
                found[used] = order[place]
                used += 1
        if sparse:
            found[first:used].sort()
    return found


@njit(cache=True, nogil=True)
def _within(codes: Array, low: int, width: int) -> int:
    total = 0
    for place in range(len(codes)):
        total += int(np.uint16(codes[place] - low) < width)
    return total


@njit(cache=True, nogil=True)
def _wanted(codes: Array, lows: Array, widths: Array, view: int, place: int) -> bool:
    wanted = True
    for figure in range(lows.shape[0]):
        wanted &= np.uint16(codes[figure, place] - lows[figure, view]) < widths[figure, view]
    return wanted
