"""Closure: all groups of a Kleene position, from strip matches in which the position holds one event.

Strip matches that agree in everything else form a family; each subset of a family that fits the window and the
conditions between members is a match.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from decopa.query.kernel import HELPERS, ConditionWriter, Constants
from decopa.query.members import EARLIER, LATER, of_neighbours
from decopa.query.predicate import Attr
from shuffler.routing.table import NOTHING_YET, identity_columns
from shuffler.rows.batch import Array, Batch, Indices, key_of, length_of, start_of
from shuffler.rows.hashing import hash_groups
from shuffler.rows.layout import Layout, member_column

#: Column that numbers the batch a stored row came with.
ARRIVAL = "#arrival"
#: What the compiled loop calls the rows of two members.
_ROWS = {EARLIER: "one", LATER: "other"}


class Closure:
    """Forms groups as strip matches arrive; each group is formed once, when its last member has arrived."""

    def __init__(self, spec: OperatorSpec, counters: Counters) -> None:
        query = spec.bound.query
        self.alias, strip = spec.roles.alias, spec.roles.strip(spec.operator.sub_query)
        self.window_us, self.counters = query.window_us, counters
        given = Side.of(spec.bound, strip).layout
        self.output = Side.of(spec.bound, spec.operator.sub_query).layout
        self.layout = Layout({**given.columns, ARRIVAL: np.dtype(np.int64)}, given.groups, given.places)
        self.identity = identity_columns(query, strip, self.alias)
        self.store = Store(self.layout, hashed=self.identity, memory=spec.memory)
        rest = strip.positive(query) - {self.alias}
        # If another event must follow the group, a family cannot grow once the watermark has passed that event.
        self._ends_with_rest = any((self.alias, other) in query.order_constraints for other in rest)
        self._watermark = NOTHING_YET
        self._arrival = 0
        self._kernel = _ClosureKernel(spec.bound, self, sorted(strip.closed))
        self._constants = self._kernel.constants.arrays(spec.code_of)
        rows = BLOCK if spec.operator == spec.plan.root else CHUNK
        self._counting = spec.counting
        position = spec.bound.query.position(self.alias)
        related = (*spec.bound.self_pairs.get(self.alias, ()), *spec.bound.members_of(self.alias).all)
        #: Every set of members is a group: nothing relates them, and no size is asked for.
        self._any_subset = not related and not position.runs and (position.least, position.most) == (1, None)
        self._blocks = OutputBlocks(self.output.columns, rows)
        self._heap_blocks = OutputBlocks(self.output.groups[self.alias], 2 * rows)

    def start(self, batch: Batch) -> Iterator[Batch]:
        """Groups of families that are all in this batch, each in consecutive rows."""
        boundary = np.zeros(batch.length, dtype=np.bool_)
        boundary[:1] = True
        for name in self.identity:
            column = batch.columns[name]
            boundary[1:] |= column[1:] != column[:-1]
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
        return Batch(rows.length, {name: rows.columns[name] for name in rows.columns if name != ARRIVAL}, rows.heaps)

    def restore(self, rows: Batch, watermark_us: int) -> None:
        self._watermark = watermark_us
        self._insert(rows, arrival=0)  # before every batch that is to come

    def _insert(self, batch: Batch, arrival: int) -> None:
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
        times = batch.columns[self.layout.place(f"{self.alias}.first")]
        ordinals = batch.columns[f"{self.alias}.ordinal"]
        later = (times[1:] > times[:-1]) | ((times[1:] == times[:-1]) & (ordinals[1:] > ordinals[:-1]))
        if bool(np.all(later | boundary[1:])):
            return np.arange(batch.length, dtype=np.int64)
        return np.lexsort((ordinals, times, np.cumsum(boundary)))

    def _families(self, fresh: Indices) -> tuple[Indices, Indices]:
        """For each family with a fresh row: its rows in time order, as offsets into a list of rows."""
        store = self.store
        arguments: list[Any] = [store.begin, store.end, store.hashes, store.previous, store.head, store.cursor]
        arguments += [store.columns[self.layout.place(f"{self.alias}.first")], store.columns[f"{self.alias}.ordinal"]]
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
        kinds, families = np.unique(np.stack([sizes, news])[:, simple], axis=1, return_counts=True)
        for size, new, times in zip(*kinds.tolist(), families.tolist(), strict=True):
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
        kernel, alias = self._kernel, self.alias
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
                heap = {name: column[:used] for name, column in heap.items()}
                if key_of(alias) in columns:
                    columns[key_of(alias)][:] = hash_groups(heap["id"], columns[length_of(alias)])
                yield Batch(found, columns, {**rows.heaps, alias: heap})


class _ClosureKernel:
    """Source of the compiled parts, and the columns that they read and write."""

    def __init__(self, bound: BoundQuery, closure: Closure, closed: list[str]) -> None:
        alias, layout, output = closure.alias, closure.layout, closure.output
        self.closed, self.constants = closed, Constants()
        self.columns: list[str] = []

        def value(name: str, row: str) -> str:
            place = layout.place(name)
            if place not in self.columns:
                self.columns.append(place)
            return f"C{self.columns.index(place)}[{row}]"

        def read(attr: Attr) -> str:
            return value(f"{alias}.{member_column(bound, Attr(alias, attr.name))}", _ROWS[attr.alias])

        writer = ConditionWriter(read, lambda attr: bound.column(Attr(alias, attr.name)), self.constants)
        checks = [writer.condition(pair) for pair in bound.self_pairs.get(alias, ())]
        single = bound.members_of(alias)
        skips, decides, alone = (
            " & ".join(writer.condition(of_neighbours(one)) for one in conditions)
            for conditions in (single.skips, single.decides, single.alone)
        )
        position = bound.query.position(alias)
        special = {
            "min_ts": "low",
            "max_ts": "high",
            start_of(alias): "used",
            length_of(alias): "depth",
            key_of(alias): "0",  # filled in afterwards
            f"{alias}.first": "",
            f"{alias}.last": "",
        }
        #: (output column, source of its value)
        self.outputs = [(name, special.get(name) or value(name, "row")) for name in output.columns
                        if name not in (f"{alias}.first", f"{alias}.last")]  # fmt: skip
        for name, row in ((f"{alias}.first", "row"), (f"{alias}.last", "other")):
            if name in output.columns:
                self.outputs.append((name, value(f"{alias}.first", row)))
        #: (member column, source of its value)
        self.members = [(name, value(f"{alias}.{name}", "member")) for name in output.groups[alias]]
        self.source = closure_source(
            len(closure.identity),
            len(closed),
            len(self.columns),
            self.constants.loading,
            MemberChecks(" & ".join(checks), skips, decides, alone),
            GroupShape(position.least, position.most, position.runs),
            [source for _, source in self.outputs],
            [source for _, source in self.members],
        )

    def load(self) -> ModuleType:
        return jit.load(self.source, helpers=HELPERS)
