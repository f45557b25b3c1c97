"""KL: all non-empty groups of events that fit one match of the rest, by unary and by binary split (4.1, 5.2).

Both work on strip matches, in which the Kleene position holds one event. Strip matches that agree in everything else
form a family; each subset of a family that fits the window and the conditions between members is a match.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from textwrap import indent

import numpy as np

from actors import jit
from actors.pair_writer import Side
from actors.probe import Counters
from actors.operators.base import NOTHING_YET, OperatorSpec
from actors.operators.join import JoinLogic
from actors.operators.store import Store
from decopa.planning.subquery import SubQuery
from decopa.query.kernel import HELPERS, ConditionWriter, Constants
from decopa.query.predicate import Attr, Compare
from shuffler.batch import Array, Batch, Indices, key_of, length_of, start_of
from shuffler.hashing import hash_groups
from shuffler.layout import Layout, member_column
from shuffler.routing import identity_columns

#: Groups per chunk of output.
CHUNK = 16_384


class KleeneUnaryLogic:
    """Takes strip matches, hash-partitioned so that a family meets on one unit."""

    def __init__(self, spec: OperatorSpec) -> None:
        self.counters = Counters()
        source = spec.plan.inputs(spec.operator)[0].sub_query
        self._closure = Closure(spec, source, self.counters)
        self._watermark = NOTHING_YET

    def on_batch(self, side: int, batch: Batch) -> Iterator[Batch]:
        yield from self._closure.extend(batch)

    def on_watermark(self, side: int, watermark_us: int) -> Iterator[Batch]:
        self._watermark = watermark_us
        self._closure.forget(watermark_us)
        return iter(())

    @property
    def output_watermark_us(self) -> int:
        return self._watermark

    @property
    def state_bytes(self) -> int:
        return self._closure.store.nbytes

    @property
    def state_rows(self) -> int:
        return len(self._closure.store)


class KleeneBinaryLogic:
    """Joins the rest of the pattern with the events of the Kleene position and forms groups on the spot."""

    def __init__(self, spec: OperatorSpec) -> None:
        inputs = [source.sub_query for source in spec.plan.inputs(spec.operator)]
        formed = spec.operator.sub_query.closed - inputs[0].closed - inputs[1].closed
        strip = SubQuery(spec.operator.sub_query.aliases, spec.operator.sub_query.closed - formed)
        self._rest_side = 0 if inputs[1].aliases == formed else 1
        self._join = JoinLogic(spec, strip)
        self.counters = self._join.counters
        self._closure = Closure(spec, strip, self.counters)

    def on_batch(self, side: int, batch: Batch) -> Iterator[Batch]:
        for strip in self._join.on_batch(side, batch):
            if side == self._rest_side:
                # A match of the rest is new, so its family is exactly what it finds among the stored events.
                yield from self._closure.start(strip)
            else:
                yield from self._closure.extend(strip)

    def on_watermark(self, side: int, watermark_us: int) -> Iterator[Batch]:
        yield from self._join.on_watermark(side, watermark_us)
        self._closure.forget(self._join.output_watermark_us)

    @property
    def output_watermark_us(self) -> int:
        return self._join.output_watermark_us

    @property
    def state_bytes(self) -> int:
        return self._join.state_bytes + self._closure.store.nbytes

    @property
    def state_rows(self) -> int:
        return self._join.state_rows + len(self._closure.store)


class Closure:
    """Forms the groups of one Kleene position from strip matches."""

    def __init__(self, spec: OperatorSpec, strip: SubQuery, counters: Counters) -> None:
        query = spec.bound.query
        self.alias = next(iter(spec.operator.sub_query.closed - strip.closed))
        self.window_us, self.counters = query.window_us, counters
        self.input = Side.of(spec.bound, strip)
        self.output = Side.of(spec.bound, spec.operator.sub_query)
        self._identity = identity_columns(query, strip, self.alias)
        self._layout = Layout(
            {**self.input.layout.columns, "#arrival": np.dtype(np.int64)},
            self.input.layout.groups,
            self.input.layout.places,
        )
        self.store = Store(self._layout, hashed=self._identity)
        self._arrival = 0
        rest = strip.positive(query) - {self.alias}
        # If some other event must follow the group, a family cannot grow once that event's time has passed.
        self._ends_with_rest = any((self.alias, other) in query.order_constraints for other in rest)
        self._watermark = NOTHING_YET
        self._kernel = _ClosureKernel(spec, self)

    def start(self, batch: Batch) -> Iterator[Batch]:
        """Groups of families that are all in this batch, each in consecutive rows."""
        boundary = np.zeros(batch.length, dtype=np.bool_)
        boundary[:1] = True
        for name in self._identity:
            column = batch.columns[name]
            boundary[1:] |= column[1:] != column[:-1]
        offsets = np.append(np.flatnonzero(boundary), batch.length)
        members = self._in_time_order(batch, offsets)
        everything_new = np.ones(batch.length, dtype=np.int64)
        yield from self._grow(batch, offsets, members, everything_new, 1)
        self._keep(batch)

    def extend(self, batch: Batch) -> Iterator[Batch]:
        """Groups with at least one row of this batch, and any stored rows of the same family."""
        self._arrival += 1
        arrivals = np.full(batch.length, self._arrival, dtype=np.int64)
        self.store.insert(Batch(batch.length, {**batch.columns, "#arrival": arrivals}, batch.heaps))
        store = self.store
        fresh = store.begin + np.flatnonzero(store.columns["#arrival"][store.begin : store.end] == self._arrival)
        offsets, members = self._kernel.families(store, fresh)
        rows = Batch(store.end, store.columns, store.heaps)
        yield from self._grow(rows, offsets, members, store.columns["#arrival"], self._arrival)
        self._drop_complete()

    def forget(self, watermark_us: int) -> None:
        """Drops rows whose family cannot grow any more, given that later strip matches end at the watermark or later."""
        self._watermark = watermark_us
        if watermark_us != NOTHING_YET:
            self.store.evict_before(watermark_us - self.window_us)
            self._drop_complete()

    def _keep(self, batch: Batch) -> None:
        live = self._growing(batch.columns)
        if live.any():
            rows = batch.take(np.flatnonzero(live))
            arrivals = np.zeros(rows.length, dtype=np.int64)
            self.store.insert(Batch(rows.length, {**rows.columns, "#arrival": arrivals}, rows.heaps))

    def _drop_complete(self) -> None:
        if self._ends_with_rest and len(self.store):
            rows = slice(self.store.begin, self.store.end)
            live = self._growing({name: column[rows] for name, column in self.store.columns.items()})
            if int(live.sum()) * 2 <= len(self.store):
                self.store.keep(live)

    def _growing(self, rows: Mapping[str, Array]) -> Array:
        if self._watermark == NOTHING_YET:
            return np.ones(len(rows["min_ts"]), dtype=np.bool_)
        live = rows["min_ts"] >= self._watermark - self.window_us
        if self._ends_with_rest:
            live &= rows[self._layout.place("max_ts")] >= self._watermark
        return live

    def _in_time_order(self, batch: Batch, offsets: Indices) -> Indices:
        """Rows, family by family, in time order; ties in the order of the stream."""
        times = batch.columns[self._layout.place(f"{self.alias}.first")]
        ordinals = batch.columns[f"{self.alias}.ordinal"]
        later = (times[1:] > times[:-1]) | ((times[1:] == times[:-1]) & (ordinals[1:] > ordinals[:-1]))
        inside = np.ones(batch.length, dtype=np.bool_)
        inside[offsets[:-1]] = False
        if bool(np.all(later | ~inside[1:])):
            return np.arange(batch.length, dtype=np.int64)
        family = np.cumsum(~inside)
        return np.lexsort((ordinals, times, family))

    def _grow(self, rows: Batch, offsets: Indices, members: Indices, marks: Array, fresh: int) -> Iterator[Batch]:
        for chunk in self._kernel.groups(rows, offsets, members, marks, fresh, self.counters):
            yield self._output(rows, chunk)

    def _output(self, rows: Batch, chunk: _Groups) -> Batch:
        """The output batch for some groups: the rest from any member's row, the members in a heap."""
        layout, alias = self.output.layout, self.alias
        columns: dict[str, Array] = {}
        member_times = rows.columns[self._layout.place(f"{alias}.first")]
        for name in layout.columns:
            if name == "min_ts":
                columns[name] = chunk.min_ts
            elif name == "max_ts":
                columns[name] = chunk.max_ts
            elif name == f"{alias}.first":
                columns[name] = member_times[chunk.members[chunk.starts]]
            elif name == f"{alias}.last":
                columns[name] = member_times[chunk.members[chunk.starts + chunk.lengths - 1]]
            elif name == start_of(alias):
                columns[name] = chunk.starts
            elif name == length_of(alias):
                columns[name] = chunk.lengths
            elif name == key_of(alias):
                columns[name] = hash_groups(rows.columns[f"{alias}.id"][chunk.members], chunk.lengths)
            else:
                columns[name] = rows.columns[self._layout.place(name)][chunk.members[chunk.starts]]
        heap = {
            name: rows.columns[self._layout.place(f"{alias}.{name}")][chunk.members] for name in layout.groups[alias]
        }
        return Batch(len(chunk.lengths), columns, {**rows.heaps, alias: heap})


@dataclass(frozen=True)
class _Groups:
    """A chunk of groups: their members (row numbers) one after the other, and the span of each match."""

    starts: Indices
    lengths: Indices
    members: Indices
    min_ts: Array
    max_ts: Array


class _ClosureKernel:
    """The compiled parts: finding the families of new rows, and walking through their subsets."""

    def __init__(self, spec: OperatorSpec, closure: Closure) -> None:
        self.closure = closure
        bound, alias, layout = spec.bound, closure.alias, closure.input.layout
        self._closed = sorted(closure.input.sub_query.closed)
        self._constants = Constants()
        self._pair_columns: list[str] = []

        def read(attr: Attr) -> str:
            name = layout.place(f"{alias}.{member_column(bound, Attr(alias, attr.name))}")
            if name not in self._pair_columns:
                self._pair_columns.append(name)
            return f"C{self._pair_columns.index(name)}[{attr.alias}]"

        writer = ConditionWriter(read, lambda attr: bound.column(Attr(alias, attr.name)), self._constants)
        checks = [writer.condition(_between_members(pair)) for pair in bound.self_pairs.get(alias, ())]
        self._source = _closure_source(len(closure._identity), len(self._closed), len(self._pair_columns),
                                       self._constants, " & ".join(checks))  # fmt: skip
        self._arrays = self._constants.arrays(spec.code_of)

    def families(self, store: Store, fresh: Indices) -> tuple[Indices, Indices]:
        """For each family with a fresh row: its rows in time order, as offsets into a list of rows."""
        closure = self.closure
        arguments = [store.begin, store.end, store.hashes, store.previous, store.head, store.cursor]
        arguments += [store.columns[closure._layout.place(f"{closure.alias}.first")]]
        arguments += [store.columns[f"{closure.alias}.ordinal"], store.columns["#arrival"], closure._arrival]
        arguments += [store.columns[name] for name in closure._identity]
        for alias in self._closed:
            arguments += [store.columns[start_of(alias)], store.columns[length_of(alias)], store.heap(alias, "id")]
        room = 4 * len(fresh) + 64
        while True:
            offsets, members = np.empty(len(fresh) + 1, dtype=np.int64), np.empty(room, dtype=np.int64)
            families, used = jit.load(self._source).families(fresh, *arguments, offsets, members)
            if used <= room:
                return offsets[: families + 1], members[:used]
            room = int(used)

    def groups(
        self, rows: Batch, offsets: Indices, members: Indices, marks: Array, fresh: int, counters: Counters
    ) -> Iterator[_Groups]:
        """All groups with at least one member whose mark is `fresh`, in chunks."""
        if len(offsets) < 2:
            return
        closure = self.closure
        deepest = int(np.max(np.diff(offsets)))
        state = np.zeros(3, dtype=np.int64)  # family, members chosen, next candidate
        stacks = np.empty((4, deepest + 1), dtype=np.int64)
        room = max(4 * CHUNK, deepest)
        inputs = [rows.columns["min_ts"], rows.columns[closure._layout.place("max_ts")], marks, fresh]
        inputs += [rows.columns[name] for name in self._pair_columns]
        inputs += self._arrays
        grow = jit.load(self._source).groups
        while state[0] < len(offsets) - 1:
            lengths = np.empty(CHUNK, dtype=np.int64)
            spans = np.empty((2, CHUNK), dtype=np.int64)
            chosen = np.empty(room, dtype=np.int64)
            found, used, compared = grow(
                state, stacks, offsets, members, closure.window_us, *inputs, lengths, spans, chosen
            )
            counters.comparisons += int(compared)
            if found:
                lengths = lengths[:found]
                starts = np.cumsum(lengths) - lengths
                yield _Groups(starts, lengths, chosen[:used], spans[0, :found].copy(), spans[1, :found].copy())


def _between_members(pair: Compare) -> Compare:
    """The condition with the left side read from an earlier member and the right side from a later one."""
    assert isinstance(pair.left, Attr) and isinstance(pair.right, Attr)  # `binding` derives anything longer
    return Compare(pair.op, Attr("one", pair.left.name), Attr("other", pair.right.name))


def _closure_source(identity: int, closed: int, pair_columns: int, constants: Constants, check: str) -> str:
    ids = [f"I{n}" for n in range(identity)]
    heaps = [f"{letter}{n}" for n in range(closed) for letter in ("B", "L", "H")]
    same = [f"({name}[row] == {name}[j])" for name in ids] + [f"(L{n}[row] == L{n}[j])" for n in range(closed)]
    verify = [
        f"if same:\n    for m in range(L{n}[row]):\n"
        f"        if H{n}[B{n}[row] + m] != H{n}[B{n}[j] + m]:\n            same = False\n            break"
        for n in range(closed)
    ]
    # Without any identity all rows are one family.
    same_lines = [f"same = {' & '.join(same) or 'True'}", *verify]
    families = _FAMILIES.replace("<identity>", "".join(f"{name}, " for name in ids + heaps)).replace(
        "            <same>", indent("\n".join(same_lines), " " * 12)
    )
    columns = "".join(f"C{n}, " for n in range(pair_columns))
    groups = (
        _GROUPS.replace("<columns>", columns)
        .replace("    <constants>", indent("\n".join(constants.loading) or "pass", " " * 4))
        .replace("<check>", check or "True")
    )
    return "\n\n".join([HELPERS, families, groups])


_FAMILIES = '''@jit
def families(fresh, begin, end, s_hash, previous, head, cursor, times, ordinals, arrival, current, <identity>offsets, members):
    """Rows of every family that has a fresh row, in time order. Returns how many families and rows there are; if
    there are more rows than room, nothing else is valid."""
    mask = head.shape[0] - 1
    cur = max(cursor[0], begin)
    while cur < end:
        bucket = s_hash[cur] & mask
        previous[cur] = head[bucket]
        head[bucket] = cur
        cur += 1
    cursor[0] = cur
    room = members.shape[0]
    count = 0
    used = 0
    offsets[0] = 0
    for n in range(fresh.shape[0]):
        row = fresh[n]
        start = used
        j = head[s_hash[row] & mask]
        leads = False
        while j >= begin:
            <same>
            if same:
                if not leads:
                    if arrival[j] == current:
                        if j != row:  # another fresh row comes first in the chain and speaks for the family
                            break
                        leads = True
                if used < room:
                    members[used] = j
                used += 1
            j = previous[j]
        if not leads:
            used = start
            continue
        if used <= room:
            for k in range(start + 1, used):  # the chain runs backwards in time, so this is nearly sorted
                moving = members[k]
                place = k
                while place > start and (
                    times[members[place - 1]] > times[moving]
                    or (times[members[place - 1]] == times[moving] and ordinals[members[place - 1]] > ordinals[moving])
                ):
                    members[place] = members[place - 1]
                    place -= 1
                members[place] = moving
        count += 1
        offsets[count] = used
    return count, used
'''

_GROUPS = '''@jit
def groups(state, stacks, offsets, members, window, min_ts, max_ts, marks, fresh, <columns>floats, integers, lengths, spans, chosen):
    """Walks through the subsets of each family depth first, writing those with a fresh member, until the family list
    or the room ends; `state` and `stacks` keep the place."""
    <constants>
    picked, lows, highs, news = stacks[0], stacks[1], stacks[2], stacks[3]
    family, depth, candidate = state[0], state[1], state[2]
    count = offsets.shape[0] - 1
    found = 0
    used = 0
    compared = 0
    while family < count:
        begin = offsets[family]
        size = offsets[family + 1] - begin
        last_fresh = size - 1
        while last_fresh >= 0 and marks[members[begin + last_fresh]] != fresh:
            last_fresh -= 1
        while True:
            if candidate >= size or (candidate > last_fresh and (depth == 0 or news[depth - 1] == 0)):
                if depth == 0:
                    break
                depth -= 1
                candidate = picked[depth] + 1
                continue
            if found == lengths.shape[0] or used + depth + 1 > chosen.shape[0]:
                state[0], state[1], state[2] = family, depth, candidate
                return found, used, compared
            other = members[begin + candidate]
            low = min_ts[other]
            high = max_ts[other]
            new = 1 if marks[other] == fresh else 0
            if depth > 0:
                low = min(low, lows[depth - 1])
                high = max(high, highs[depth - 1])
                new += news[depth - 1]
            compared += 1
            if high - low > window:  # members come in time order, so every later one is too far as well
                candidate = size
                continue
            ok = True
            for d in range(depth):
                one = members[begin + picked[d]]
                if not (<check>):
                    ok = False
                    break
            if ok:
                picked[depth] = candidate
                lows[depth] = low
                highs[depth] = high
                news[depth] = new
                depth += 1
                if new > 0:
                    for d in range(depth):
                        chosen[used + d] = members[begin + picked[d]]
                    used += depth
                    lengths[found] = depth
                    spans[0, found] = low
                    spans[1, found] = high
                    found += 1
            candidate += 1
        family += 1
        candidate = 0
    state[0], state[1], state[2] = family, 0, 0
    return found, used, compared
'''
