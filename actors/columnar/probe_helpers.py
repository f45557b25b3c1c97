"""Compiled functions that the loops of `probe` call: searching in a sorted column, and ranking pairs."""

from __future__ import annotations

from decopa.query.conditions.kernel import HELPERS

# Neighbouring probe rows look at neighbouring places, so a few steps from the last place are usually enough.
_SEARCH = '''@jit
def first_at_least(values, hint, begin, end, wanted):
    """The first place in values[begin:end], which is sorted, with a value >= wanted; looks near hint first."""
    place = min(max(hint, begin), end)
    if place < end and values[place] < wanted:
        near = min(place + 16, end)
        while place < near and values[place] < wanted:
            place += 1
        if place < near or place == end:
            return place
        low = place
        step = 16
        while place < end and values[place] < wanted:
            low = place + 1
            step *= 2
            place = low + step
        high = min(place, end)
    else:
        near = max(place - 16, begin)
        while place > near and values[place - 1] >= wanted:
            place -= 1
        if place > near or place == begin:
            return place
        high = place
        step = 16
        while place > begin and values[place - 1] >= wanted:
            high = place - 1
            step *= 2
            place = max(high - step, begin)
        low = place
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low
'''

# Many pairs of few stored rows are counted, few pairs of many are sorted; both keep pairs of one stored row in order.
_RANKS = '''@jit
def rank(partners, begin, end, least, most, places, counts):
    """For each pair, places[] says where it goes in begin..end, by stored row; `least` and `most` bound these."""
    found = end - begin
    width = most - least
    if width < counts.shape[0] and width <= 4 * found:
        for n in range(np.uint64(width + 1)):  # assigning a slice takes longer to compile
            counts[n] = 0
        for n in range(np.uint64(begin), np.uint64(end)):
            counts[np.uint64(partners[n] - least + 1)] += 1
        counts[0] = begin
        for n in range(np.uint64(1), np.uint64(width + 1)):
            counts[n] += counts[n - np.uint64(1)]
        for n in range(np.uint64(begin), np.uint64(end)):
            bucket = np.uint64(partners[n] - least)
            places[n] = counts[bucket]
            counts[bucket] += 1
        return
    if found <= 32:
        for n in range(begin, end):
            place = begin
            for other in range(begin, end):
                place += (partners[other] < partners[n]) | ((partners[other] == partners[n]) & (other < n))
            places[n] = place
        return
    order = np.argsort(partners[begin:end], kind="mergesort")
    for n in range(found):
        places[begin + order[n]] = begin + n
'''

PROBE_HELPERS = f"{HELPERS}\n\n{_SEARCH}\n\n{_RANKS}"
