"""Store: the partial matches of one input that a unit keeps, in columns sorted by time.

Rows are ordered by a key column (min_ts unless said otherwise), so that a window is a range of rows and eviction
cuts off the front. Arrival order does not matter: late rows are merged into the tail. With `hashed` columns a chained
index over the same order serves equality joins; its links are made by the probing kernel (see `actors.columnar.probe`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from actors.columnar.jit import is_interpreted
from actors.columnar.memory import StateMemory
from shuffler.rows.batch import Array, Batch, Indices, flat_members, length_of, start_of
from shuffler.rows.hashing import hash_columns
from shuffler.rows.layout import Layout

_SMALLEST = 1024
#: Rows behind the first place of a merge from which on compiled code, which has to be loaded, moves them.
MANY = 4_096
#: Deferred rows are at most one in so many.
_SHARE_DEFERRED = 4
_MOST_DEFERRED_BYTES = 16 * 2**20


class Store:
    def __init__(
        self,
        layout: Layout,
        *,
        key: str = "min_ts",
        hashed: Sequence[str] | None = None,
        memory: StateMemory | None = None,
    ) -> None:
        self.layout, self.key_name = layout, key
        self._memory = memory or StateMemory()
        self.hashed = None if hashed is None else tuple(hashed)
        self.begin = self.end = 0
        self.columns: dict[str, Array] = {name: np.empty(0, dtype) for name, dtype in layout.columns.items()}
        if key not in self.columns:
            self.columns[key] = np.empty(0, dtype=np.int64)
        self.hashes = self.previous = np.empty(0, dtype=np.int64)
        self.head = np.empty(0, dtype=np.int64)
        #: Rows before cursor[0] are linked into the index; a one-element array so that kernels can move it.
        self.cursor = np.zeros(1, dtype=np.int64)
        self._heaps = {alias: _Heap(members, self._memory) for alias, members in layout.groups.items()}
        self._deferred: list[Batch] = []
        #: Bytes of columns and index, which change when there is more room.
        self._reserved = 0

    def __len__(self) -> int:
        return self.end - self.begin

    @property
    def key(self) -> Array:
        return self.columns[self.key_name]

    @property
    def nbytes(self) -> int:
        """Bytes held, room for growth included: what counts against the state limit."""
        held = self._reserved
        for batch in self._deferred:
            held += batch.nbytes
        for heap in self._heaps.values():
            held += heap.nbytes
        return held

    def heap(self, alias: str, member: str) -> Array:
        return self._heaps[alias].columns[member]

    def rows(self, start: int, stop: int) -> Batch:
        """A copy of the rows at the given places."""
        columns = {name: column[start:stop].copy() for name, column in self.columns.items()}
        return Batch(stop - start, columns, self.heaps)

    def view(self) -> dict[str, Array]:
        """The columns of the rows held, which the next insertion may overwrite."""
        return {name: column[self.begin : self.end] for name, column in self.columns.items()}

    def snapshot(self, wanted: Array | None = None) -> Batch:
        """A copy of the rows that are not deferred, or of those flagged in `wanted`. Heaps are shared, see `heaps`."""
        if wanted is None:
            return self.rows(self.begin, self.end)
        return Batch(int(wanted.sum()), {name: column[wanted] for name, column in self.view().items()}, self.heaps)

    @property
    def heaps(self) -> dict[str, dict[str, Array]]:
        """Member columns by alias. The arrays stay valid when the store moves on: it appends or makes new ones."""
        return {alias: dict(heap.columns) for alias, heap in self._heaps.items()}

    def insert(self, batch: Batch) -> None:
        """Adds rows, wherever in time they belong."""
        if not batch.length:
            return
        self._make_room(batch.length)
        columns = dict(batch.columns)
        for alias, heap in self._heaps.items():
            columns[start_of(alias)] = heap.append(batch, alias)
        arriving = columns[self.key_name]
        if batch.length > 1 and not bool(np.all(arriving[1:] >= arriving[:-1])):
            order = np.argsort(arriving, kind="stable")
            columns = {name: column[order] for name, column in columns.items()}
            arriving = columns[self.key_name]
        hashes = None
        if self.hashed is not None:
            hashes = hash_columns([columns[name] for name in self.hashed], batch.length)
        place = self.end
        if len(self) and arriving[0] < self.key[self.end - 1]:
            place = self.begin + int(np.searchsorted(self.key[self.begin : self.end], arriving[0], side="right"))
        if place < self.end:
            self._merge_tail(place, columns, hashes)
        else:
            stop = self.end + batch.length
            for name, column in self.columns.items():
                column[self.end : stop] = columns[name]
            if hashes is not None:
                self.hashes[self.end : stop] = hashes
        self.end += batch.length

    def defer(self, batch: Batch) -> None:
        """As `insert`, for rows that nobody looks for yet: those that belong between many others wait for more of their
        kind, up to a share of the rows held, so that these are moved a bounded number of times. `settle` inserts them.
        """
        if self._heaps or not self._belongs_before_many(batch):
            self.insert(batch)
            return
        # A copy: whoever made the batch may use its memory again.
        columns = {name: np.array(batch.columns[name]) for name in self.columns}
        self._deferred.append(Batch(batch.length, columns, {}))
        self._settle_if_many()

    def settle(self) -> None:
        """Inserts what was deferred."""
        waiting, self._deferred = self._deferred, []
        if waiting:
            columns = {name: np.concatenate([batch.columns[name] for batch in waiting]) for name in self.columns}
            self.insert(Batch(sum(batch.length for batch in waiting), columns, {}))

    @property
    def deferred(self) -> int:
        """Rows that wait to be inserted."""
        return sum(batch.length for batch in self._deferred)

    def _belongs_before_many(self, batch: Batch) -> bool:
        if not batch.length or len(self) < MANY:
            return False
        return bool(batch.columns[self.key_name].min() < self.key[self.end - MANY])

    def _settle_if_many(self) -> None:
        """Few enough to stay out of the memory that is accounted for, whatever is held or has been spilled."""
        waiting = sum(batch.nbytes for batch in self._deferred)
        if self.deferred * _SHARE_DEFERRED >= len(self) or waiting > _MOST_DEFERRED_BYTES:
            self.settle()

    def drop(self) -> None:
        """Forgets all rows."""
        self._deferred = []
        self._clear()

    def evict_before(self, key: int) -> None:
        """Drops all rows with a key below the given one; deferred ones once they are inserted."""
        if len(self) and self.key[self.begin] < key:
            self.begin += int(np.searchsorted(self.key[self.begin : self.end], key, side="left"))
            if not len(self):
                self._clear()
            self._settle_if_many()

    def keep(self, wanted: Array) -> None:
        """Keeps only the rows for which `wanted` (one flag per row) is true."""
        kept = self.rows(self.begin, self.end).take(np.flatnonzero(wanted))
        self._clear()
        self.insert(kept)

    def take_before(self, key: int) -> Batch:
        """Removes and returns all rows with a key below the given one."""
        stop = self.begin + int(np.searchsorted(self.key[self.begin : self.end], key, side="left"))
        taken = self.rows(self.begin, stop)
        self.begin = stop
        return taken

    def _clear(self) -> None:
        self.begin = self.end = 0
        self.cursor[0] = 0
        self.head.fill(-1)
        for heap in self._heaps.values():
            heap.clear()

    def _merge_tail(self, place: int, columns: dict[str, Array], hashes: Array | None) -> None:
        """Merges rows into the rows from `place` on; only these move, so only these lose their links."""
        self._unlink_from(place)
        if self.end - place >= MANY and not is_interpreted():
            self._shift_in(place, columns, hashes)
            return
        order = np.argsort(np.concatenate([self.key[place : self.end], columns[self.key_name]]), kind="stable")
        stop = place + len(order)
        for name, column in self.columns.items():
            column[place:stop] = np.concatenate([column[place : self.end], columns[name]])[order]
        if hashes is not None:
            self.hashes[place:stop] = np.concatenate([self.hashes[place : self.end], hashes])[order]

    def _shift_in(self, place: int, columns: dict[str, Array], hashes: Array | None) -> None:
        """As `_merge_tail`. Partial matches that come from many units are small batches all over the window: what
        counts is how fast the rows behind them move."""
        from actors.columnar.merging import shift_in

        places = place + np.searchsorted(self.key[place : self.end], columns[self.key_name], side="right")
        for name, column in self.columns.items():
            shift_in(column, self.end, places, np.ascontiguousarray(columns[name], dtype=column.dtype))
        if hashes is not None:
            shift_in(self.hashes, self.end, places, hashes)

    def _unlink_from(self, place: int) -> None:
        """Takes the rows from `place` on out of the index."""
        cursor = int(self.cursor[0])
        if self.hashed is not None and cursor > place:
            # Going backwards, the last write to a bucket is the one of its earliest row: what stood there before.
            rows = np.arange(cursor - 1, place - 1, -1)
            self.head[self.hashes[rows] & (len(self.head) - 1)] = self.previous[rows]
            self.cursor[0] = place

    def _make_room(self, count: int) -> None:
        capacity = len(self.key)
        if self.end + count <= capacity:
            return
        live = len(self)
        for alias, heap in self._heaps.items():
            rows = slice(self.begin, self.end)
            starts, lengths = self.columns[start_of(alias)], self.columns[length_of(alias)]
            starts[rows] = heap.compact(starts[rows], lengths[rows])
        # Double unless dropping what was evicted frees half: each row is then moved a bounded number of times.
        wanted = max(_SMALLEST, 2 * (live + count))
        for name, column in self.columns.items():
            moved = self._memory.empty(wanted, column.dtype)
            moved[:live] = column[self.begin : self.end]
            self.columns[name] = moved
        if self.hashed is not None:
            hashes = self._memory.empty(wanted, np.int64)
            hashes[:live] = self.hashes[self.begin : self.end]
            self.hashes, self.previous = hashes, self._memory.empty(wanted, np.int64)
            self.head = self._memory.empty(1 << (2 * wanted - 1).bit_length(), np.int64)
            self.head.fill(-1)
        self.cursor[0] = 0
        self.begin, self.end = 0, live
        self._reserved = sum(one.nbytes for one in (*self.columns.values(), self.hashes, self.previous, self.head))


def load_merging() -> None:
    """Loads the compiled part for the kinds of columns that there are; otherwise the first large merge does."""
    if not is_interpreted():
        from actors.columnar.merging import shift_in

        nowhere = np.empty(0, dtype=np.int64)
        for kind in (np.int64, np.float64):
            shift_in(np.empty(0, dtype=kind), 0, nowhere, np.empty(0, dtype=kind))


class _Heap:
    """Members of Kleene groups, appended one after the other; rows point into it."""

    def __init__(self, members: dict[str, np.dtype], memory: StateMemory) -> None:
        self._memory = memory
        self.columns: dict[str, Array] = {name: np.empty(0, dtype) for name, dtype in members.items()}
        self.used = 0

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self.columns.values())

    def append(self, batch: Batch, alias: str) -> Indices:
        """Copies the groups of a batch to the end; returns where they begin now."""
        lengths = batch.columns[length_of(alias)]
        places = flat_members(batch.columns[start_of(alias)], lengths)
        count = int(lengths.sum())
        self._grow(count)
        for name, column in self.columns.items():
            column[self.used : self.used + count] = batch.heaps[alias][name][places]
        starts = self.used + np.cumsum(lengths) - lengths
        self.used += count
        return starts

    def compact(self, starts: Indices, lengths: Indices) -> Indices:
        """Keeps only the groups of the given rows, in new arrays; returns where they begin now."""
        places = flat_members(starts, lengths)
        self.used = int(lengths.sum())
        for name, column in self.columns.items():
            kept = self._memory.empty(self.used, column.dtype)
            kept[:] = column[places]
            self.columns[name] = kept
        return np.cumsum(lengths) - lengths

    def clear(self) -> None:
        self.columns = {name: np.empty(0, dtype=column.dtype) for name, column in self.columns.items()}
        self.used = 0

    def _grow(self, count: int) -> None:
        capacity = len(next(iter(self.columns.values())))
        if self.used + count <= capacity:
            return
        for name, column in self.columns.items():
            grown = self._memory.empty(max(_SMALLEST, 2 * (self.used + count)), column.dtype)
            grown[: self.used] = column[: self.used]
            self.columns[name] = grown
