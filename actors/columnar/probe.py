"""Runs the compiled loop in which a batch probes a windowed store.

One loop per pair of sub-queries: a probe row meets the stored rows whose key (their min_ts) lies between a lower and
an upper bound, found by searching from where the previous probe row looked, or, if there are equalities, through the
store's hash index. What is left of the conditions is decided inside the loop, without branches, and the columns of
the matches are written right there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from actors.columnar import jit
from actors.columnar.output import CHUNK, Counters, OutputBlocks
from actors.columnar.pair_writer import PairWriter
from actors.columnar.probe_helpers import PROBE_HELPERS
from actors.columnar.probe_loops import Form
from actors.columnar.probe_source import probe_source
from actors.columnar.store import Store
from shuffler.rows.batch import Array, Batch, Indices
from shuffler.rows.hashing import hash_columns


@dataclass
class ProbeKernel:
    """A compiled probe: `matches` or `count` for joins, `any_match` for negation, as its form says.

    `equal` lists (probe column, store column) that must be equal and are looked up in the hash index.
    """

    writer: PairWriter
    window_us: int
    equal: tuple[tuple[str, str], ...]
    code_of: Callable[[str], int]
    output: OutputBlocks | None = None
    form: Form = Form.EXISTS
    _room: int = CHUNK
    _scratch: tuple[Indices, ...] = field(default=(), repr=False)
    _pairs: tuple[Indices, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        assert (self.output is None) == (self.form in (Form.EXISTS, Form.COUNT))
        self._source = probe_source(self.writer, self.form, hashed=bool(self.equal))
        self._constants = self.writer.constants.arrays(self.code_of)

    @property
    def stored_keys(self) -> list[str] | None:
        """The columns that the probed store must index; None if it needs no index."""
        return [column for _, column in self.equal] or None

    def matches(self, batch: Batch, store: Store, counters: Counters) -> Iterator[tuple[int, dict[str, Array]]]:
        """(rows, columns) of the matches that rows of the batch make with stored rows, in chunks.

        All matches of one probe row are in one chunk: one after the other, or, by end, those of all probe rows that
        end at the same time, in the order of the stored rows.
        """
        assert self.output is not None
        call, arguments = self._prepare(batch, store)
        row = 0
        while row < batch.length:
            if not self._scratch or len(self._scratch[0]) < self._room:
                arrays = 4 if self.form is Form.BY_END else 1
                self._scratch = tuple(np.empty(self._room, dtype=np.int64) for _ in range(arrays))
            columns = self.output.room(self._room)
            gathers = bool(self.writer.gathered)
            if gathers and (not self._pairs or len(self._pairs[0]) < self._room):
                self._pairs = tuple(np.empty(self._room, dtype=np.int64) for _ in range(2))
            written = list(self._pairs) if gathers else [read.of(columns) for read, _ in self.writer.outputs]
            row, found, compared, wanted = call(row, batch.length, *arguments, *self._scratch, *written)
            row, found = int(row), int(found)
            counters.comparisons += int(compared)
            if found:
                if gathers:
                    self._gather(batch, store, columns, found)
                self.output.take(found)
                yield found, {name: column[:found] for name, column in columns.items()}
            elif row < batch.length:  # one probe row alone has more candidates than there is room for
                self._room = 2 * max(self._room, int(wanted))

    def _gather(self, batch: Batch, store: Store, columns: dict[str, Array], found: int) -> None:
        """Writes the columns of the pairs that the loop has found."""
        rows, places = (one[:found] for one in self._pairs)
        for name, (probe, stored) in self.writer.gathered.items():
            out = columns[name][:found]
            if probe is not None:
                batch.columns[probe].take(rows, out=out, mode="clip")
            if stored is not None and probe is not None:
                fold = np.minimum if name == "min_ts" else np.maximum
                fold(out, store.columns[stored].take(places), out=out)
            elif stored is not None:
                store.columns[stored].take(places, out=out, mode="clip")

    def count(self, batch: Batch, store: Store, counters: Counters) -> int:
        """How many matches rows of the batch make with stored rows."""
        call, arguments = self._prepare(batch, store)
        total, compared = call(0, batch.length, *arguments)
        counters.comparisons += int(compared)
        return int(total)

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
        arguments += [read.of(batch.columns) for read in writer.probe_columns]
        arguments += [read.of(store.columns) for read in writer.store_columns]
        arguments += [batch.heaps[alias][name] for alias, name in writer.probe_heaps]
        arguments += [store.heap(alias, name) for alias, name in writer.store_heaps]
        arguments += self._constants
        return jit.load(self._source, helpers=PROBE_HELPERS).probe, arguments


def _time_order(batch: Batch, window_us: int) -> Indices:
    """Rows in order of time, so that the hash index moves forward; disorder within a window or two does no harm."""
    times = batch.columns["min_ts"]
    if not batch.length or int(np.max(np.maximum.accumulate(times) - times)) <= 2 * window_us:
        return np.arange(batch.length, dtype=np.int64)
    return np.argsort(times, kind="stable")
