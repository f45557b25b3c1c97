"""Runs the compiled loop in which a batch probes a windowed store.

One loop per pair of sub-queries: a probe row meets the stored rows whose key (their min_ts) lies between a lower and
an upper bound, found by searching from where the previous probe row looked, or, if there are equalities, through the
store's hash index. What is left of the conditions is decided inside the loop, without branches, and the columns of
the matches are written right there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from textwrap import indent
from typing import Any

import numpy as np

from actors.columnar import jit
from actors.columnar.output import CHUNK, Counters, OutputBlocks
from actors.columnar.pair_writer import PairWriter
from actors.columnar.store import Store
from decopa.query.kernel import HELPERS
from shuffler.rows.batch import Array, Batch, Indices
from shuffler.rows.hashing import hash_columns


@dataclass
class ProbeKernel:
    """A compiled probe: `matches` for joins, `any_match` for negation.

    `equal` lists (probe column, store column) that must be equal and are looked up in the hash index.
    """

    writer: PairWriter
    window_us: int
    equal: tuple[tuple[str, str], ...]
    code_of: Callable[[str], int]
    output: OutputBlocks | None = None
    _room: int = CHUNK
    _scratch: Indices | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._source = _source(self.writer, hashed=bool(self.equal), exists=self.output is None)
        self._constants = self.writer.constants.arrays(self.code_of)

    @property
    def stored_keys(self) -> list[str] | None:
        """The columns that the probed store must index; None if it needs no index."""
        return [column for _, column in self.equal] or None

    def matches(self, batch: Batch, store: Store, counters: Counters) -> Iterator[tuple[int, dict[str, Array]]]:
        """(rows, columns) of the matches that rows of the batch make with stored rows, in chunks.

        All matches of one probe row are in one chunk, one after the other.
        """
        assert self.output is not None
        call, arguments = self._prepare(batch, store)
        row = 0
        while row < batch.length:
            if self._scratch is None or len(self._scratch) < self._room:
                self._scratch = np.empty(self._room, dtype=np.int64)
            columns = self.output.room(self._room)
            written = [columns[name] for name, _ in self.writer.outputs]
            row, found, compared, wanted = call(row, batch.length, *arguments, self._scratch, *written)
            row, found = int(row), int(found)
            counters.comparisons += int(compared)
            if found:
                self.output.take(found)
                yield found, {name: column[:found] for name, column in columns.items()}
            elif row < batch.length:  # one probe row alone has more candidates than there is room for
                self._room = 2 * max(self._room, int(wanted))

    def any_match(self, batch: Batch, store: Store, counters: Counters) -> Array:
        """For each row of the batch, whether any stored row fulfils all conditions."""
        found = np.zeros(batch.length, dtype=np.bool_)
        if batch.length and len(store):
            call, arguments = self._prepare(batch, store)
            counters.comparisons += int(call(0, batch.length, *arguments, found))
        return found

    def _prepare(self, batch: Batch, store: Store) -> tuple[Callable[..., Any], list[Any]]:
        writer = self.writer
        arguments: list[Any] = [store.begin, store.end, self.window_us, store.key]
        if self.equal:
            hashes = hash_columns([batch.columns[name] for name, _ in self.equal], batch.length)
            arguments += [
                _time_order(batch, self.window_us),
                hashes,
                store.hashes,
                store.previous,
                store.head,
                store.cursor,
            ]
        arguments += [batch.columns[name] for name in writer.probe_columns]
        arguments += [store.columns[name] for name in writer.store_columns]
        arguments += [batch.heaps[alias][name] for alias, name in writer.probe_heaps]
        arguments += [store.heap(alias, name) for alias, name in writer.store_heaps]
        arguments += self._constants
        return jit.load(self._source, helpers=_HELPERS).probe, arguments


def _time_order(batch: Batch, window_us: int) -> Indices:
    """Rows in order of time, so that the hash index moves forward; disorder within a window or two does no harm."""
    times = batch.columns["min_ts"]
    if not batch.length or int(np.max(np.maximum.accumulate(times) - times)) <= 2 * window_us:
        return np.arange(batch.length, dtype=np.int64)
    return np.argsort(times, kind="stable")


def _source(writer: PairWriter, *, hashed: bool, exists: bool) -> str:
    arguments = ["begin", "end", "window", "key"]
    if hashed:
        arguments += ["order", "p_hash", "s_hash", "previous", "head", "cursor"]
    arguments += [f"P{n}" for n in range(len(writer.probe_columns))]
    arguments += [f"S{n}" for n in range(len(writer.store_columns))]
    arguments += [f"G{n}" for n in range(len(writer.probe_heaps))]
    arguments += [f"H{n}" for n in range(len(writer.store_heaps))]
    arguments += ["floats", "integers"]
    arguments += ["found"] if exists else ["partners", *(f"O{n}" for n in range(len(writer.outputs)))]
    load = [f"p{n} = P{n}[row]" for n in range(len(writer.probe_columns))]
    load += [f"lower = {_folded('max', writer.lower)}", f"upper = {_folded('min', writer.upper)}"]
    check = [f"ok = {' & '.join(writer.checks) or 'True'}"]
    if writer.group_checks:
        check.append("if ok:")
        check += [indent(block, "    ") for block in writer.group_checks]
    write = [f"O{n}[u] = {value}" for n, (_, value) in enumerate(writer.outputs)]
    text = (_HASHED if hashed else _BAND)[exists].replace("<arguments>", ", ".join(arguments))
    for mark, lines in {
        "<constants>": writer.constants.loading or ["pass"],
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

_HELPERS = f"{HELPERS}\n\n{_SEARCH}"

# Places are unsigned in the inner loops: Numba then leaves out the check for negative indices, a third of the time.
# Probe rows that follow from one row of an earlier operator share one of their bounds; the anchors are where the first
# of them looked, which is near where the first of the next such run looks.
_BAND = {
    False: """@jit
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
    True: """@jit
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
    False: """@jit
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
        for u in range(np.uint64(k), np.uint64(stop)):
            j = np.uint64(partners[u])
            <write>
        k = stop
        i += 1
    cursor[0] = cur
    return i, k, compared, room
""",
    True: """@jit
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
