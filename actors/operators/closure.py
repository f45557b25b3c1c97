"""Closure: all groups of a KL, from strip matches in which it has one member.

Strip matches that agree in everything else form a family; each subset of a family that fits the window and the
conditions between members is a match. Where members are of several events, each must begin after the one before has
ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from actors.columnar import jit
from actors.columnar.output import BLOCK, CHUNK, Counters, OutputBlocks
from actors.columnar.pair_writer import Side
from actors.columnar.store import Store
from actors.operators.base import OperatorSpec
from actors.operators.closure_source import GroupShape, MemberChecks, closure_source
from decopa.query.binding import BoundQuery
from decopa.query.conditions.kernel import HELPERS, ConditionWriter, Constants
from decopa.query.conditions.members import EARLIER, LATER, of_neighbours
from decopa.query.conditions.predicate import Attr
from shuffler.routing.table import NOTHING_YET, identity_columns
from shuffler.rows.batch import Array, Batch, Indices, key_of, length_of, start_of
from shuffler.rows.hashing import hash_groups
from shuffler.rows.layout import Layout, member_column

#: Column that numbers the batch a stored row came with.
ARRIVAL = "#arrival"
#: Columns that say when a member of several events begins and ends.
_SPAN = ("#begin", "#end")
#: What the compiled loop calls the rows of two members.
_ROWS = {EARLIER: "one", LATER: "other"}


class Closure:
    """Forms groups as strip matches arrive; each group is formed once, when its last member has arrived."""

    def __init__(self, spec: OperatorSpec, counters: Counters) -> None:
        query = spec.bound.query
        strip = spec.roles.strip(spec.operator.sub_query)
        #: The KL alias whose groups are formed, or all those whose events make up a member, the earliest first.
        self.aliases = tuple(alias for alias in query.aliases if alias in spec.roles.formed)
        self.window_us, self.counters = query.window_us, counters
        given = Side.of(spec.bound, strip).layout
        self.output = Side.of(spec.bound, spec.operator.sub_query).layout
        added = (ARRIVAL,) if len(self.aliases) == 1 else (ARRIVAL, *_SPAN)
        columns = {**given.columns, **dict.fromkeys(added, np.dtype(np.int64))}
        self.layout = Layout(columns, given.groups, given.places)
        #: The column that members are put in order by, ties by the place of their first event in the stream.
        self._begin = _SPAN[0] if len(self.aliases) > 1 else given.place(f"{self.aliases[0]}.first")
        self._ordinal = f"{self.aliases[0]}.ordinal"
        self.identity = identity_columns(query, strip, spec.roles.formed)
        self.store = Store(self.layout, hashed=self.identity, memory=spec.memory)
        rest = strip.positive(query) - spec.roles.formed
        # If another event must follow the group, a family cannot grow once the watermark has passed that event.
        order = query.order_constraints
        self._ends_with_rest = any((alias, other) in order for alias in self.aliases for other in rest)
        self._watermark = NOTHING_YET
        self._arrival = 0
        self._kernel = _ClosureKernel(spec.bound, self, sorted(strip.closed))
        self._constants = self._kernel.constants.arrays(spec.code_of)
        rows = BLOCK if spec.operator == spec.plan.root else CHUNK
        self._counting = spec.counting
        position = spec.bound.query.position(self.aliases[0])
        related = [
            one for alias in self.aliases
            for one in (*spec.bound.self_pairs.get(alias, ()), *spec.bound.members_of(alias).all)
        ]  # fmt: skip
        plain = not related and not position.runs and len(self.aliases) == 1
        #: Every set of members is a group: nothing relates them, and no size is asked for.
        self._any_subset = plain and (position.least, position.most) == (1, None)
        self._blocks = OutputBlocks(self.output.columns, rows)
        self._heap_blocks = OutputBlocks(
            {f"{alias}.{name}": kind for alias in self.aliases for name, kind in self.output.groups[alias].items()},
            2 * rows,
        )

    def start(self, batch: Batch) -> Iterator[Batch]:
        """Groups of families that are all in this batch, each in consecutive rows."""
        boundary = np.zeros(batch.length, dtype=np.bool_)
        boundary[:1] = True
        for name in self.identity:
            column = batch.columns[name]
            boundary[1:] |= column[1:] != column[:-1]
        batch = self._with_spans(batch)
        offsets = np.append(np.flatnonzero(boundary), batch.length)
        members = self._in_time_order(batch, boundary)
        yield from self._groups(batch, offsets, members, np.ones(batch.length, dtype=np.int64), fresh=1)
        growing = self._growing(batch.columns)
        if growing.any():
            self._insert(batch.take(np.flatnonzero(growing)), arrival=0)

    def extend(self, batch: Batch) -> Iterator[Batch]:
        """Groups with at least one row of this batch, and any stored rows of the same family."""
        self._arrival += 1
        self._insert(batch, self._arrival)
        store = self.store
        arrivals = store.columns[ARRIVAL]
        fresh = store.begin + np.flatnonzero(arrivals[store.begin : store.end] == self._arrival)
        offsets, members = self._families(fresh)
        rows = Batch(store.end, store.columns, store.heaps)
        yield from self._groups(rows, offsets, members, arrivals, fresh=self._arrival)
        self._drop_complete()

    def forget(self, watermark_us: int) -> None:
        """Drops rows whose family cannot grow any more, now that later events come at the watermark or after."""
        self._watermark = watermark_us
        if watermark_us != NOTHING_YET:
            self.store.evict_before(watermark_us - self.window_us)
            self._drop_complete()

    def snapshot(self) -> Batch:
        """The stored rows whose family may still grow."""
        rows = self.store.snapshot(self._growing(self.store.view()))
        kept = {name: column for name, column in rows.columns.items() if name not in (ARRIVAL, *_SPAN)}
        return Batch(rows.length, kept, rows.heaps)

    def restore(self, rows: Batch, watermark_us: int) -> None:
        self._watermark = watermark_us
        self._insert(rows, arrival=0)  # before every batch that is to come

    def _with_spans(self, batch: Batch) -> Batch:
        """The rows with the times at which members of several events begin and end."""
        if len(self.aliases) == 1:
            return batch
        times = [batch.columns[self.layout.place(f"{alias}.ts")] for alias in self.aliases]
        spans = zip(_SPAN, (np.minimum.reduce(times), np.maximum.reduce(times)), strict=True)
        return Batch(batch.length, {**batch.columns, **dict(spans)}, batch.heaps)

    def _insert(self, batch: Batch, arrival: int) -> None:
        batch = self._with_spans(batch)
        arrivals = np.full(batch.length, arrival, dtype=np.int64)
        self.store.insert(Batch(batch.length, {**batch.columns, ARRIVAL: arrivals}, batch.heaps))

    def _drop_complete(self) -> None:
        if self._ends_with_rest and len(self.store):
            growing = self._growing(self.store.view())
            if int(growing.sum()) * 2 <= len(self.store):
                self.store.keep(growing)

    def _growing(self, rows: Mapping[str, Array]) -> Array:
        """Flags of the rows whose family may still get members."""
        if self._watermark == NOTHING_YET:
            return np.ones(len(rows["min_ts"]), dtype=np.bool_)
        growing = np.asarray(rows["min_ts"] >= self._watermark - self.window_us)
        if self._ends_with_rest:
            growing &= rows[self.layout.place("max_ts")] >= self._watermark
        return growing

    def _in_time_order(self, batch: Batch, boundary: Array) -> Indices:
        """Rows, family by family, in time order; ties in the order of the stream."""
        times, ordinals = batch.columns[self._begin], batch.columns[self._ordinal]
        later = (times[1:] > times[:-1]) | ((times[1:] == times[:-1]) & (ordinals[1:] > ordinals[:-1]))
        if bool(np.all(later | boundary[1:])):
            return np.arange(batch.length, dtype=np.int64)
        return np.lexsort((ordinals, times, np.cumsum(boundary)))

    def _families(self, fresh: Indices) -> tuple[Indices, Indices]:
        """For each family with a fresh row: its rows in time order, as offsets into a list of rows."""
        store = self.store
        arguments: list[Any] = [store.begin, store.end, store.hashes, store.previous, store.head, store.cursor]
        arguments += [store.columns[self._begin], store.columns[self._ordinal]]
        arguments += [store.columns[ARRIVAL], self._arrival]
        arguments += [store.columns[name] for name in self.identity]
        for alias in self._kernel.closed:
            arguments += [store.columns[start_of(alias)], store.columns[length_of(alias)], store.heap(alias, "id")]
        room = 4 * len(fresh) + 64
        while True:
            offsets, members = np.empty(len(fresh) + 1, dtype=np.int64), np.empty(room, dtype=np.int64)
            families, used = self._kernel.load().families(fresh, *arguments, offsets, members)
            if used <= room:
                return offsets[: families + 1], members[:used]
            room = int(used)

    def _groups(self, rows: Batch, offsets: Indices, members: Indices, marks: Array, *, fresh: int) -> Iterator[Batch]:
        """All groups with at least one member whose mark is `fresh`, in chunks."""
        if len(offsets) < 2:
            return
        if self._counting:
            yield Batch(self._number_of_groups(rows, offsets, members, marks, fresh), {}, {})
            return
        yield from self._written_groups(rows, offsets, members, marks, fresh)

    def _number_of_groups(self, rows: Batch, offsets: Indices, members: Indices, marks: Array, fresh: int) -> int:
        """How many groups `_groups` would form. In a family that fits the window as a whole, and without conditions
        between members, that is every subset with a fresh member: nothing has to be formed to count them."""
        sizes, total = np.diff(offsets), 0
        begins = rows.columns["min_ts"][members]
        ends = rows.columns[self.layout.place("max_ts")][members]
        spans = np.maximum.reduceat(ends, offsets[:-1]) - np.minimum.reduceat(begins, offsets[:-1])
        simple = spans <= self.window_us if self._any_subset else np.zeros(len(sizes), dtype=np.bool_)
        is_fresh = (marks[members] == fresh).astype(np.int64)
        news = np.add.reduceat(is_fresh, offsets[:-1])
        # Families of the same size with as many fresh members have the same number of groups: one number for both.
        above = int(sizes.max()) + 1
        kinds, families = np.unique(sizes[simple] * above + news[simple], return_counts=True)
        for kind, times in zip(kinds.tolist(), families.tolist(), strict=True):
            size, new = divmod(kind, above)
            total += times * (2**size - 2 ** (size - new))
        self.counters.comparisons += int(sizes[simple].sum())
        if not simple.all():
            kept = np.repeat(~simple, sizes)
            odd = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes[~simple])])
            total += sum(batch.length for batch in self._written_groups(rows, odd, members[kept], marks, fresh))
        return total

    def _written_groups(
        self, rows: Batch, offsets: Indices, members: Indices, marks: Array, fresh: int
    ) -> Iterator[Batch]:
        kernel = self._kernel
        deepest = int(np.max(np.diff(offsets)))
        state = np.zeros(3, dtype=np.int64)  # family, members chosen, next candidate
        stacks = np.empty((5, deepest + 1), dtype=np.int64)
        inputs = [rows.columns["min_ts"], rows.columns[self.layout.place("max_ts")], marks, fresh]
        inputs += [rows.columns[name] for name in kernel.columns]
        inputs += self._constants
        grow = kernel.load().groups
        while state[0] < len(offsets) - 1:
            columns, heap = self._blocks.room(CHUNK), self._heap_blocks.room(max(2 * CHUNK, deepest))
            written = [columns[name] for name, _ in kernel.outputs] + [heap[name] for name, _ in kernel.members]
            found, used, compared = grow(state, stacks, offsets, members, self.window_us, *inputs, *written)
            found, used = int(found), int(used)
            self.counters.comparisons += int(compared)
            if found:
                self._blocks.take(found)
                self._heap_blocks.take(used)
                columns = {name: column[:found] for name, column in columns.items()}
                heaps = {
                    alias: {name: heap[f"{alias}.{name}"][:used] for name in self.output.groups[alias]}
                    for alias in self.aliases
                }
                for alias in self.aliases:
                    if key_of(alias) in columns:
                        columns[key_of(alias)][:] = hash_groups(heaps[alias]["id"], columns[length_of(alias)])
                yield Batch(found, columns, {**rows.heaps, **heaps})


class _ClosureKernel:
    """Source of the compiled parts, and the columns that they read and write."""

    def __init__(self, bound: BoundQuery, closure: Closure, closed: list[str]) -> None:
        aliases, layout, output = closure.aliases, closure.layout, closure.output
        self.closed, self.constants = closed, Constants()
        self.columns: list[str] = []

        def value(name: str, row: str) -> str:
            place = layout.place(name)
            if place not in self.columns:
                self.columns.append(place)
            return f"C{self.columns.index(place)}[{row}]"

        pairs: list[str] = []
        singles: list[list[str]] = [[], [], []]  # skips, decides, alone
        for alias in aliases:
            writer = self._writer(bound, alias, value)
            pairs += [writer.condition(pair) for pair in bound.self_pairs.get(alias, ())]
            members = bound.members_of(alias)
            for found, conditions in zip(singles, (members.skips, members.decides, members.alone), strict=True):
                found += [writer.condition(of_neighbours(one)) for one in conditions]
        if len(aliases) > 1:  # members of several events come one after the other
            singles[1].append(f"({value(_SPAN[1], 'one')} < {value(_SPAN[0], 'other')})")
        position = bound.query.position(aliases[0])
        special = {"min_ts": "low", "max_ts": "high"}
        times: list[tuple[str, str]] = []
        for alias in aliases:
            special |= {start_of(alias): "used", length_of(alias): "depth"}
            special[key_of(alias)] = "0"  # filled in afterwards
            for name, row in ((f"{alias}.first", "row"), (f"{alias}.last", "other")):
                special[name] = ""
                if name in output.columns:
                    times.append((name, value(f"{alias}.first", row)))
        #: (output column, source of its value)
        self.outputs = [
            (name, special.get(name) or value(name, "row")) for name in output.columns if special.get(name) != ""
        ]
        self.outputs += times
        #: (member column, source of its value)
        self.members = [
            (f"{alias}.{name}", value(f"{alias}.{name}", "member"))
            for alias in aliases
            for name in output.groups[alias]
        ]
        skips, decides, alone = (" & ".join(found) for found in singles)
        self.source = closure_source(
            len(closure.identity),
            len(closed),
            len(self.columns),
            self.constants.loading,
            MemberChecks(" & ".join(pairs), skips, decides, alone),
            GroupShape(position.least, position.most, position.runs, moments=len(aliases) == 1),
            [source for _, source in self.outputs],
            [source for _, source in self.members],
        )

    def _writer(self, bound: BoundQuery, alias: str, value: Callable[[str, str], str]) -> ConditionWriter:
        """Writes conditions between members of a group, on their events called `alias`."""

        def read(attr: Attr) -> str:
            return value(f"{alias}.{member_column(bound, Attr(alias, attr.name))}", _ROWS[attr.alias])

        return ConditionWriter(read, lambda attr: bound.column(Attr(alias, attr.name)), self.constants)

    def load(self) -> ModuleType:
        return jit.load(self.source, helpers=HELPERS)
