"""Arrivals: rows of an input that wait until it is complete up to them, for rules that go by the order of time."""

from __future__ import annotations

import numpy as np

from shuffler.rows.batch import Batch, joined
from shuffler.rows.layout import Layout


class Arrivals:
    """Rows of one input, in the batches they came in, until both inputs are complete up to them."""

    def __init__(self, layout: Layout) -> None:
        self.end = layout.place("max_ts")
        self.empty = layout.empty()
        self._names = tuple(layout.columns)
        self._members = {alias: tuple(columns) for alias, columns in layout.groups.items()}
        self.batches: list[Batch] = []
        self.rows = 0

    @property
    def nbytes(self) -> int:
        return sum(batch.nbytes for batch in self.batches)

    def add(self, batch: Batch) -> None:
        if batch.length:
            # A copy: whoever made the batch may use its memory again.
            columns = {name: np.array(batch.columns[name]) for name in self._names}
            # Whoever formed the groups may have needed more of their members than is needed from here on.
            heaps = {
                alias: {name: batch.heaps[alias][name] for name in names} for alias, names in self._members.items()
            }
            self.batches.append(Batch(batch.length, columns, heaps))
            self.rows += batch.length

    def clear(self) -> None:
        self.batches, self.rows = [], 0

    def take_before(self, time_us: int) -> Batch:
        """Removes and returns the rows that end before a time."""
        ready, later = [], []
        for batch in self.batches:
            ends = batch.columns[self.end]
            before = ends < time_us
            count = int(np.count_nonzero(before))
            if count == batch.length:
                ready.append(batch)
            elif not count:
                later.append(batch)
            elif bool(before[:count].all()):  # as a rule they come in order, so that both parts are slices
                ready.append(sliced(batch, 0, count))
                later.append(sliced(batch, count, batch.length))
            else:
                ready.append(batch.take(np.flatnonzero(before)))
                later.append(batch.take(np.flatnonzero(~before)))
        self.batches, self.rows = later, sum(batch.length for batch in later)
        if len(ready) == 1:
            return ready[0]
        return joined(ready) if ready else self.empty


def sliced(batch: Batch, start: int, stop: int) -> Batch:
    """Some rows that lie together, not copied."""
    return Batch(stop - start, {name: column[start:stop] for name, column in batch.columns.items()}, batch.heaps)


def by_end(batch: Batch, end: str) -> Batch:
    """The rows by end, ties in the order they are in."""
    ends = batch.columns[end]
    ordered = bool((ends[1:] >= ends[:-1]).all())
    return batch if ordered else batch.take(np.argsort(ends, kind="stable"))


def in_time_order(batch: Batch, end: str, chosen_end: str = "min_ts") -> Batch:
    """The rows by end, ties by the end and then the beginning of their first event: the order in which successors are
    looked for."""
    if end == "min_ts":
        return by_end(batch, end)
    ends = batch.columns[end]
    if bool((ends[1:] > ends[:-1]).all()):
        return batch
    return batch.take(np.lexsort((batch.columns["min_ts"], batch.columns[chosen_end], ends)))
