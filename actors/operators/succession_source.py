"""The compiled loops of `succession`: both inputs in order of time, with a list of waiting rows for each key.

Where no FILTER chooses among single events, the successor is the first event that comes later. A loop that merges both
inputs finds it without lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import indent

from actors.columnar.pair_writer import Checks, PairWriter
from decopa.query.conditions import kernel

HELPERS = kernel.HELPERS


def needs_lists(skips: Checks, *, moments: bool) -> bool:
    """Whether rows have to wait in lists, because the first row that comes later need not be their successor."""
    return not moments or bool(skips.plain or skips.groups)


def succession_source(writer: PairWriter, skips: Checks, decides: Checks, *, moments: bool) -> str:
    """The module with `succeed`: `skips` say whether a row is a candidate for a waiting one, `decides` whether the two
    are a match. With `moments` the second input has single events that do not last, so that those of one time are
    neighbours."""
    columns = [f"P{n}" for n in range(len(writer.probe_columns))]
    columns += [f"S{n}" for n in range(len(writer.store_columns))]
    columns += [f"G{n}" for n in range(len(writer.probe_heaps))]
    columns += [f"H{n}" for n in range(len(writer.store_heaps))]
    columns += ["floats", "integers", *(f"O{n}" for n in range(len(writer.outputs)))]
    load = [f"p{n} = P{n}[row]" for n in range(len(writer.probe_columns))]
    parts = {
        "<columns>": ", ".join(columns),
        "<constants>": _block(writer.constants.loading, 4),
    }
    if not needs_lists(skips, moments=moments):
        return _filled(_MERGE, parts | {
            "<load>": _block(load, 12),
            "<decides>": _block(_check(decides), 12),
            "<write>": _block(_writes(writer), 16),
        })  # fmt: skip
    return _filled(_SUCCEED, parts | {
        "<load>": _block(load, 8),
        "<final>": "(row + 1 == right_rows) | (r_begin[min(row + 1, right_rows - 1)] != begin)" if moments else "False",
        "<skips>": _block(_check(skips), 16),
        "<decides>": _block(_check(decides), 20),
        "<write>": _block(_writes(writer), 24),
    })  # fmt: skip


def scan_source(steps: int) -> str:
    """The module with `scan`, which goes back through events and writes, for each first one, the places of its chain.

    `p2_3` is the place of the event of step 3 that follows the next one of step 2. Values are chosen, not branched to,
    since a processor cannot foresee the type of the next event.
    """
    known = [f"p{first}_{last}" for first in range(1, steps + 1) for last in range(first, steps + 1)]
    update = []
    for first in range(1, steps + 1):  # in this order a step reads those after it before they change
        update.append(f"taken = mask & {1 << first}")
        update += [f"p{first}_{last} = p{first + 1}_{last} if taken else p{first}_{last}"
                   for last in range(first + 1, steps + 1)]  # fmt: skip
        update.append(f"p{first}_{first} = base + i if taken else p{first}_{first}")
    return _filled(_SCAN, {
        "<out>": ", ".join(f"O{n}" for n in range(steps + 1)),
        "<load>": _block([f"{name} = state[{n}]" for n, name in enumerate(known)], 4),
        "<write>": _block([f"O{n}[at] = p1_{n}" for n in range(1, steps + 1)], 8),
        "<update>": _block(update, 8),
        "<save>": _block([f"state[{n}] = {name}" for n, name in enumerate(known)], 4),
    })  # fmt: skip


def _filled(text: str, parts: Mapping[str, str]) -> str:
    for mark, source in parts.items():
        text = text.replace(mark, source)
    return text


def _writes(writer: PairWriter) -> list[str]:
    return [f"O{n}[k] = {value}" for n, (_, value) in enumerate(writer.outputs)]


def _check(checks: Checks) -> list[str]:
    lines = [f"ok = {' & '.join(checks.plain) or 'True'}"]
    if checks.groups:
        lines += ["if ok:", *(indent(block, "    ") for block in checks.groups)]
    return lines


def _block(lines: list[str], depth: int) -> str:
    return indent("\n".join(lines or ["pass"]), " " * depth).lstrip()


# A row that waits is in the list of its key. Once it has found its successor, `met_end` and `met_begin` say when the
# chosen event ends and begins, so that others of the same time are successors, too. It leaves the list with the next
# later row, or at once if no other row of that time can come (`final`). A row whose window has passed goes as well.
# Of a key, rows whose first event ends earlier end no later, so the first one in order of time that begins after a
# waiting row is its successor.
_SUCCEED = """@jit
def succeed(places, room, window, l_begin, l_end, l_hash, r_begin, r_chosen, r_end, r_hash, head, link, met_end,
            met_begin, waits, <columns>):
    <constants>
    mask = head.shape[0] - 1
    keyed = mask > 0
    left_rows = l_end.shape[0]
    right_rows = r_end.shape[0]
    i = places[0]
    row = places[1]
    waiting = places[2]
    k = 0
    compared = 0
    bucket = 0
    while row < right_rows:
        end = r_end[row]
        begin = r_begin[row]
        chosen = r_chosen[row]
        while i < left_rows and l_end[i] < end:
            if keyed:
                bucket = l_hash[i] & mask
            link[i] = head[bucket]
            head[bucket] = i
            waiting += 1
            i += 1
        if k + waiting > room:
            break
        if keyed:
            bucket = r_hash[row] & mask
        <load>
        final = <final>
        before = -1
        j = head[bucket]
        while j >= 0:
            following = link[j]
            gone = l_begin[j] < end - window
            if not waits[j]:
                gone |= (met_end[j] != chosen) | (met_begin[j] != begin)
            if gone:
                waits[j] = False
                waiting -= 1
                if before < 0:
                    head[bucket] = following
                else:
                    link[before] = following
                j = following
                continue
            compared += 1
            if l_end[j] < begin:
                <skips>
                if ok:
                    waits[j] = False
                    met_end[j] = chosen
                    met_begin[j] = begin
                    <decides>
                    if ok:
                        <write>
                        k += 1
                    if final:
                        waiting -= 1
                        if before < 0:
                            head[bucket] = following
                        else:
                            link[before] = following
                        j = following
                        continue
            before = j
            j = following
        row += 1
    places[0] = i
    places[1] = row
    places[2] = waiting
    return k, compared
"""

# Left rows go by their ends, so the place of the next right row only moves forward. Finding it takes no branch, since a
# processor cannot foresee which of two streams has the next event; `link` has the places. Right rows of one time are
# neighbours and arrive together, so a row that has found the first of them has found all; `nth` counts them. One loop
# goes through rows and ties alike: a loop for ties inside, which almost always has one round, took three times as long.
_MERGE = """@jit
def succeed(places, room, window, l_begin, l_end, l_hash, r_begin, r_chosen, r_end, r_hash, head, link, met_end,
            met_begin, waits, <columns>):
    <constants>
    left_rows = l_end.shape[0]
    right_rows = r_begin.shape[0]
    if places[2] == 0:
        i = 0
        row = 0
        while i < left_rows and row < right_rows:
            link[i] = row
            passed = r_begin[row] <= l_end[i]
            row += passed
            i += 1 - passed
        places[2] = i + 1
    known = places[2] - 1
    k = 0
    compared = 0
    j = places[0]
    nth = places[3]
    while j < known and k < room:
        row = link[j] + nth
        begin = r_begin[row]
        if l_begin[j] >= begin - window:
            compared += 1
            <load>
            <decides>
            if ok:
                <write>
                k += 1
        nth += 1
        if row + 1 == right_rows or r_begin[row + 1] != begin:
            waits[j] = False
            j += 1
            nth = 0
    places[0] = j
    places[1] = right_rows if j == known else 0
    places[3] = nth
    return k, compared
"""

# Every event is written as if it were a first one; what is no first one is written over. So there is room for one more
# row than there are events. An unsigned index takes half the time: nothing checks whether it counts from the end.
_SCAN = """@jit
def scan(codes, masks, count, base, state, row, <out>):
    <load>
    for i in range(count - 1, -1, -1):
        mask = masks[np.uint64(codes[np.uint64(i)])]
        at = np.uint64(row - 1)
        O0[at] = base + i
        <write>
        row -= mask & 1
        <update>
    <save>
    return row
"""
