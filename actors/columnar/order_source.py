"""The compiled part of `ordering`: whether rows are in order, and the order that they have to be brought into."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent


def order_source(lists: Sequence[bool]) -> str:
    """The module with `by_first`, `untidy_rows` and `sort_ties`; a flag per key says whether it holds lists.

    The first key is a plain column. A list is given by where it begins, its length and the members of all lists.
    """
    arguments = [f"K{n}" if not is_list else f"B{n}, L{n}, H{n}" for n, is_list in enumerate(lists)]
    steps = [(_LIST if is_list else _PLAIN).replace("<n>", str(n)) for n, is_list in enumerate(lists) if n]
    text = _TEMPLATE.replace("<keys>", ", ".join(arguments))
    return text.replace("    <steps>", indent("\n".join(steps) or "pass", "    "))


_PLAIN = """if K<n>[i] != K<n>[j]:
    return -1 if K<n>[i] < K<n>[j] else 1"""
_LIST = """for m in range(np.uint64(min(L<n>[i], L<n>[j]))):
    one = H<n>[np.uint64(B<n>[i]) + m]
    other = H<n>[np.uint64(B<n>[j]) + m]
    if one != other:
        return -1 if one < other else 1
if L<n>[i] != L<n>[j]:
    return -1 if L<n>[i] < L<n>[j] else 1"""

# Numba takes seconds to compile slices that are assigned and sorting of its own, hence loops.
# Places are unsigned where they index columns: Numba then leaves out the check for negative indices.
_TEMPLATE = '''@jit
def compare(i, j, <keys>):
    """-1, 0 or 1: row i against row j, by all keys but the first."""
    <steps>
    return 0


@jit
def untidy_rows(<keys>):
    """The numbers of the rows that share their first key, which ascends, with rows that they are not in order with."""
    places = np.empty(1024, np.int64)
    used = 0
    start = np.uint64(0)
    in_order = True
    count = np.uint64(K0.shape[0])
    for row in range(np.uint64(1), count + np.uint64(1)):
        before = row - np.uint64(1)
        if row < count and K0[row] == K0[before]:
            if in_order and compare(row, before, <keys>) < 0:
                in_order = False
            continue
        if not in_order:
            tied = np.int64(row - start)
            if used + tied > places.shape[0]:
                larger = np.empty(2 * (used + tied), np.int64)
                for n in range(used):
                    larger[n] = places[n]
                places = larger
            for n in range(tied):
                places[used + n] = np.int64(start) + n
            used += tied
        start = row
        in_order = True
    return places[:used]


@jit
def by_digits(packed, other, low_bits, widest):
    """The integers of `packed` in order of what is above their low bits, at most `widest`; ties stay as they are. They
    are returned in one of the two arrays."""
    bits = np.uint64(0)
    while (widest >> bits) > np.uint64(0):
        bits += np.uint64(1)
    if bits == np.uint64(0):
        return packed
    # As few passes as digits of 13 bits take, all of them as narrow as that allows.
    passes = (bits + np.uint64(12)) // np.uint64(13)
    width = (bits + passes - np.uint64(1)) // passes
    digits = np.uint64(1) << width
    digit_mask = digits - np.uint64(1)
    places = np.empty(np.int64(digits) + 1, np.int64)
    count = np.uint64(packed.shape[0])
    for step in range(passes):
        shift = low_bits + step * width
        for n in range(digits + np.uint64(1)):
            places[n] = 0
        for n in range(count):
            places[((packed[n] >> shift) & digit_mask) + np.uint64(1)] += 1
        for n in range(np.uint64(1), digits + np.uint64(1)):
            places[n] += places[n - np.uint64(1)]
        for n in range(count):
            digit = (packed[n] >> shift) & digit_mask
            other[np.uint64(places[digit])] = packed[n]
            places[digit] += 1
        packed, other = other, packed
    return packed


@jit
def by_merging(values, order, spare):
    """Writes the numbers of the rows to `order`, by their values; rows of equal values stay as they are."""
    count = order.shape[0]
    for row in range(count):
        order[row] = row
    source, target = order, spare
    width = 1
    while width < count:  # runs of this length are in order
        left = 0
        while left < count:
            middle, right = min(left + width, count), min(left + 2 * width, count)
            one, two = left, middle
            for place in range(left, right):
                if one < middle and (two == right or values[source[one]] <= values[source[two]]):
                    target[place] = source[one]
                    one += 1
                else:
                    target[place] = source[two]
                    two += 1
            left = right
        source, target = target, source
        width *= 2
    for row in range(count):
        order[row] = source[row]


@jit
def by_first(K0, K1, order, spare):
    """Writes the numbers of the rows to `order`, by the first key, and by the second one if that costs little; rows of
    equal keys stay as they are. The second key may be the first one again."""
    count = np.uint64(K0.shape[0])
    number_bits = np.uint64(0)
    while (count >> number_bits) > np.uint64(0):
        number_bits += np.uint64(1)
    room = np.uint64(63) - number_bits
    least, most, near, far = K0[0], K0[0], K1[0] - K0[0], K1[0] - K0[0]
    for row in range(count):
        least, most = min(least, K0[row]), max(most, K0[row])
        near, far = min(near, K1[row] - K0[row]), max(far, K1[row] - K0[row])
    widest = np.uint64(most - least)
    if (widest >> room) > np.uint64(0):  # no room for key and row number in one integer
        by_merging(K0, order, spare)
        return
    mask = (np.uint64(1) << number_bits) - np.uint64(1)
    packed, other = order.view(np.uint64), spare.view(np.uint64)
    # Digits of the second key first, as its distance from the first one, which is at most a window.
    distance = np.uint64(far - near)
    if (distance >> room) == np.uint64(0):
        for row in range(count):
            packed[row] = (np.uint64(K1[row] - K0[row] - near) << number_bits) | row
        packed = by_digits(packed, other, number_bits, distance)
        for n in range(count):
            row = packed[n] & mask
            packed[n] = (np.uint64(K0[row] - least) << number_bits) | row
    else:
        for row in range(count):
            packed[row] = (np.uint64(K0[row] - least) << number_bits) | row
    other = spare.view(np.uint64) if packed.ctypes.data == order.ctypes.data else order.view(np.uint64)
    packed = by_digits(packed, other, number_bits, widest)
    for n in range(count):
        order[n] = np.int64(packed[n] & mask)


@jit
def sort_ties(order, spare, <keys>):
    """Sorts row numbers by the further keys where rows are equal in the first one."""
    count = order.shape[0]
    start = 0
    while start < count:
        stop = start + 1
        sorted_until = -1
        while stop < count and K0[order[stop]] == K0[order[start]]:
            if sorted_until < 0 and compare(order[stop], order[stop - 1], <keys>) < 0:
                sorted_until = stop
            stop += 1
        while sorted_until >= 0:  # rows come as a few runs that are in order: neighbours are merged until one is left
            sorted_until = -1
            left = start
            while left < stop:
                middle = left + 1
                while middle < stop and compare(order[middle], order[middle - 1], <keys>) >= 0:
                    middle += 1
                right = middle
                if right < stop:
                    right += 1
                    while right < stop and compare(order[right], order[right - 1], <keys>) >= 0:
                        right += 1
                    for n in range(left, middle):
                        spare[n] = order[n]
                    one, two, place = left, middle, left
                    while one < middle and two < right:
                        if compare(order[two], spare[one], <keys>) < 0:
                            order[place] = order[two]
                            two += 1
                        else:
                            order[place] = spare[one]
                            one += 1
                        place += 1
                    while one < middle:
                        order[place] = spare[one]
                        one += 1
                        place += 1
                    if left > start or right < stop:
                        sorted_until = right
                left = right
        start = stop
'''
