"""The compiled loops of `probe`: templates, and what a pair of sub-queries fills in.

A loop comes in three forms: for each probe row its matches one after the other; for all probe rows that end at the same
time their matches together, in the order of the stored rows; and whether a probe row has any match at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from textwrap import indent

from actors.columnar.pair_writer import PairWriter
from decopa.query.kernel import HELPERS


class Form(Enum):
    """What a probe finds."""

    BY_ROW = "by row"
    BY_END = "by end"
    EXISTS = "exists"


def probe_source(writer: PairWriter, form: Form, *, hashed: bool) -> str:
    """The module with the function `probe`."""
    ends = writer.p("max_ts").upper() if form is Form.BY_END else ""
    arguments = ["begin", "end", "window", "key"]
    if hashed:
        arguments += ["order", "p_hash", "s_hash", "previous", "head", "cursor"]
    arguments += [f"P{n}" for n in range(len(writer.probe_columns))]
    arguments += [f"S{n}" for n in range(len(writer.store_columns))]
    arguments += [f"G{n}" for n in range(len(writer.probe_heaps))]
    arguments += [f"H{n}" for n in range(len(writer.store_heaps))]
    arguments += ["floats", "integers"]
    arguments += {
        Form.BY_ROW: ["partners"],
        Form.BY_END: ["partners", "rows", "places", "counts"],
        Form.EXISTS: ["found"],
    }[form]
    if form is not Form.EXISTS:
        arguments += [f"O{n}" for n in range(len(writer.outputs))]
    read = [f"p{n} = P{n}[row]" for n in range(len(writer.probe_columns))]
    load = [*read, f"lower = {_folded('max', writer.lower)}", f"upper = {_folded('min', writer.upper)}"]
    check = [f"ok = {' & '.join(writer.checks) or 'True'}"]
    if writer.group_checks:
        check.append("if ok:")
        check += [indent(block, "    ") for block in writer.group_checks]
    write = [f"O{n}[u] = {value}" for n, (_, value) in enumerate(writer.outputs)]
    text = (_HASHED if hashed else _BAND)[form].replace("<arguments>", ", ".join(arguments))
    text = text.replace("<ends>", ends)
    for mark, lines in {
        "<constants>": writer.constants.loading or ["pass"],
        "<read>": read,
        "<load>": load,
        "<check>": check,
        "<write>": write,
    }.items():
        text = _filled(text, mark, lines)
    return text


def _filled(text: str, mark: str, lines: Sequence[str]) -> str:
    """The template with a line that consists of `mark` replaced by lines of the same indentation."""
    filled = []
    for line in text.split("\n"):
        if line.strip() == mark:
            filled.append(indent("\n".join(lines), line[: line.index(mark)]))
        else:
            filled.append(line)
    return "\n".join(filled)


def _folded(function: str, terms: Sequence[str]) -> str:
    result = terms[0]
    for term in terms[1:]:
        result = f"{function}({result}, {term})"
    return result


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
        counts[: width + 1] = 0
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

# Places are unsigned in the inner loops: Numba then leaves out the check for negative indices, a third of the time.
# Probe rows that follow from one row of an earlier operator share one of their bounds; the anchors are where the first
# of them looked, which is near where the first of the next such run looks.
_BAND = {
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
        if lower != last_lower and upper != last_upper:
            low = anchor_low = first_at_least(key, anchor_low, begin, end, lower)
            high = anchor_high = first_at_least(key, anchor_high, begin, end, upper + 1)
        elif lower != last_lower:
            low = first_at_least(key, low, begin, end, lower)
        elif upper != last_upper:
            high = first_at_least(key, high, begin, end, upper + 1)
        last_lower = lower
        last_upper = upper
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
            if lower != last_lower and upper != last_upper:
                low = anchor_low = first_at_least(key, anchor_low, begin, end, lower)
                high = anchor_high = first_at_least(key, anchor_high, begin, end, upper + 1)
            elif lower != last_lower:
                low = first_at_least(key, low, begin, end, lower)
            elif upper != last_upper:
                high = first_at_least(key, high, begin, end, upper + 1)
            last_lower = lower
            last_upper = upper
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
_HASHED = {
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
