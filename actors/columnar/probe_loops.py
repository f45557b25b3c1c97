"""Templates of the compiled loops of `probe`.

A loop comes in four forms: for each probe row its matches one after the other; for all probe rows that end at the same
time their matches together, in the order of the stored rows; how many matches there are; and whether a probe row has
any match at all. Lines that consist of a mark such as `<load>` are filled in by `probe_source`.
"""

from __future__ import annotations

from enum import Enum
from textwrap import indent


class Form(Enum):
    """What a probe finds."""

    BY_ROW = "by row"
    BY_END = "by end"
    COUNT = "count"
    EXISTS = "exists"


#: The candidates of a row in a band: the range of the stored rows whose key is between its bounds.
SEEK = """if lower != last_lower and upper != last_upper:
    low = anchor_low = first_at_least(key, anchor_low, begin, end, lower)
    high = anchor_high = first_at_least(key, anchor_high, begin, end, upper + 1)
elif lower != last_lower:
    low = first_at_least(key, low, begin, end, lower)
elif upper != last_upper:
    high = first_at_least(key, high, begin, end, upper + 1)
last_lower = lower
last_upper = upper"""

# Places are unsigned in the inner loops: Numba then leaves out the check for negative indices, a third of the time.
# Probe rows that follow from one row of an earlier operator share one of their bounds; the anchors are where the first
# of them looked, which is near where the first of the next such run looks.
BAND = {
    Form.BY_ROW: """@jit
def probe(i, count, <arguments>):
    <constants>
    room = partners.shape[0]
    compared = 0
    k = 0
    low = high = anchor_low = anchor_high = begin
    last_lower = last_upper = NULL
    wanted = 0
    while i < count:
        row = np.uint64(i)
        <load>
        <seek>
        wanted = high - low
        if wanted > room - k:
            break
        stop = np.uint64(k)
        for j in range(np.uint64(low), np.uint64(high)):
            <check>
            partners[stop] = j
            stop += np.uint64(ok)
        for u in range(np.uint64(k), stop):
            j = np.uint64(partners[u])
            <write>
        k = np.int64(stop)
        compared += max(wanted, 0)
        i += 1
    return i, k, compared, wanted
""",
    Form.BY_END: """@jit
def probe(i, count, <arguments>):
    <constants>
    room = partners.shape[0]
    compared = 0
    k = 0
    low = high = anchor_low = anchor_high = begin
    last_lower = last_upper = NULL
    wanted = 0
    full = False
    while i < count:
        first = i
        ended = <ends>[np.uint64(i)]
        stop = np.uint64(k)
        looked = 0
        least = end
        most = begin
        while i < count and <ends>[np.uint64(i)] == ended:
            row = np.uint64(i)
            <load>
            <seek>
            wanted = np.int64(stop) - k + high - low
            if wanted > room - k:
                full = True
                break
            start = stop
            for j in range(np.uint64(low), np.uint64(high)):
                <check>
                partners[stop] = j
                stop += np.uint64(ok)
            if stop > start:
                for u in range(start, stop):
                    rows[u] = row
                    places[u] = u
                least = min(least, low)
                most = max(most, high)
            looked += max(high - low, 0)
            i += 1
        if full:
            i = first
            break
        if stop > np.uint64(k) and rows[np.uint64(k)] != rows[stop - np.uint64(1)]:
            rank(partners, k, np.int64(stop), least, most, places, counts)
        for n in range(np.uint64(k), stop):
            j = np.uint64(partners[n])
            row = np.uint64(rows[n])
            u = np.uint64(places[n])
            <read>
            <write>
        compared += looked
        k = np.int64(stop)
    return i, k, compared, wanted
""",
    Form.COUNT: """@jit
def probe(i, count, <arguments>):
    <constants>
    compared = 0
    total = 0
    low = high = anchor_low = anchor_high = begin
    last_lower = last_upper = NULL
    while i < count:
        row = np.uint64(i)
        <load>
        <seek>
        for j in range(np.uint64(low), np.uint64(high)):
            <check>
            total += np.int64(ok)
        compared += max(high - low, 0)
        i += 1
    return total, compared
""",
    Form.EXISTS: """@jit
def probe(i, count, <arguments>):
    <constants>
    compared = 0
    low = begin
    while i < count:
        row = np.uint64(i)
        <load>
        low = first_at_least(key, low, begin, end, lower)
        place = low
        while place < end and key[place] <= upper:
            compared += 1
            j = np.uint64(place)
            <check>
            if ok:
                found[row] = True
                break
            place += 1
        i += 1
    return compared
""",
}

# The index links each stored row to the previous one of its bucket, in key order; `cursor` rows from the front are
# linked. It first moves back to the first probe row's upper bound, unlinking, then forward with the probe rows, so that
# a walk down the chain meets few rows outside the band.
_REWIND = """    cur = max(cursor[0], begin)
    rewound = False
"""
_MOVE = """        if not rewound:
            while cur > begin and key[cur - 1] > upper:
                cur -= 1
                head[s_hash[cur] & mask] = previous[cur]
            rewound = True
        while cur < end and key[cur] <= upper:
            bucket = s_hash[cur] & mask
            previous[cur] = head[bucket]
            head[bucket] = cur
            cur += 1
        link = head[p_hash[row] & mask]
        while link >= begin and key[link] > upper:
            link = previous[link]
"""
HASHED = {
    Form.BY_ROW: """@jit
def probe(i, count, <arguments>):
    <constants>
    room = partners.shape[0]
    mask = head.shape[0] - 1
    compared = 0
    k = 0
    full = False
"""
    + _REWIND
    + """    while i < count:
        row = np.uint64(order[i])
        <load>
"""
    + _MOVE
    + """        stop = k
        looked = 0
        while link >= begin and key[link] >= lower:
            if stop == room:
                full = True
                break
            looked += 1
            j = np.uint64(link)
            <check>
            partners[stop] = link
            stop += ok
            link = previous[j]
        if full:
            break
        compared += looked
        both = np.uint64(k + stop)
        for u in range(np.uint64(k), np.uint64(stop)):
            j = np.uint64(partners[both - u - np.uint64(1)])  # the chain runs backwards in time
            <write>
        k = stop
        i += 1
    cursor[0] = cur
    return i, k, compared, room
""",
    Form.BY_END: """@jit
def probe(i, count, <arguments>):
    <constants>
    room = partners.shape[0]
    mask = head.shape[0] - 1
    compared = 0
    k = 0
    full = False
"""
    + _REWIND
    + """    while i < count:
        first = i
        ended = <ends>[np.uint64(order[i])]
        stop = k
        looked = 0
        least = end
        most = begin
        while i < count and <ends>[np.uint64(order[i])] == ended:
            row = np.uint64(order[i])
            <load>
"""
    + indent(_MOVE, "    ")
    + """            while link >= begin and key[link] >= lower:
                if stop == room:
                    full = True
                    break
                looked += 1
                j = np.uint64(link)
                <check>
                partners[stop] = link
                rows[stop] = row
                stop += ok
                if ok:
                    least = min(least, link)
                    most = max(most, link + 1)
                link = previous[j]
            if full:
                break
            i += 1
        if full:
            i = first
            break
        compared += looked
        if stop - k == 1:
            places[k] = k
        elif stop > k:
            rank(partners, k, stop, least, most, places, counts)
        for n in range(np.uint64(k), np.uint64(stop)):
            j = np.uint64(partners[n])
            row = np.uint64(rows[n])
            u = np.uint64(places[n])
            <read>
            <write>
        k = stop
    cursor[0] = cur
    return i, k, compared, room
""",
    Form.COUNT: """@jit
def probe(i, count, <arguments>):
    <constants>
    mask = head.shape[0] - 1
    compared = 0
    total = 0
"""
    + _REWIND
    + """    while i < count:
        row = np.uint64(order[i])
        <load>
"""
    + _MOVE
    + """        while link >= begin and key[link] >= lower:
            compared += 1
            j = np.uint64(link)
            <check>
            total += np.int64(ok)
            link = previous[j]
        i += 1
    cursor[0] = cur
    return total, compared
""",
    Form.EXISTS: """@jit
def probe(i, count, <arguments>):
    <constants>
    mask = head.shape[0] - 1
    compared = 0
"""
    + _REWIND
    + """    while i < count:
        row = np.uint64(order[i])
        <load>
"""
    + _MOVE
    + """        while link >= begin and key[link] >= lower:
            compared += 1
            j = np.uint64(link)
            <check>
            if ok:
                found[row] = True
                break
            link = previous[j]
        i += 1
    cursor[0] = cur
    return compared
""",
}
