"""The compiled part of `store`: rows are put between those that are there, in place."""

from __future__ import annotations

from numba import njit

from shuffler.rows.batch import Array, Indices


@njit(cache=True, nogil=True)
def shift_in(column: Array, end: int, places: Indices, values: Array) -> None:
    """Puts each value before the row at its place; the rows of the column end at `end`, and there is room behind.

    Places are ascending and counted as before. Rows move once, from the last on, and those before the first place stay.
    """
    for number in range(len(values) - 1, -1, -1):
        place, by = places[number], number + 1
        for row in range(end - 1, place - 1, -1):
            column[row + by] = column[row]
        column[place + number] = values[number]
        end = place
