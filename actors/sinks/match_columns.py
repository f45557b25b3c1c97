"""Columns of found matches, as units write them, and how they become columns of the result.

Values stay where a unit has written them: runs that lie one after the other in one block become one array without being
copied, and an Arrow column of integers or times is that very memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa

from actors.columnar.ordering import Key, Lists, Moves
from actors.columnar.output import Pieces
from decopa.errors import LimitError
from decopa.query.schema import NULL
from shuffler.rows.batch import Array, Indices, flat_members

#: Runs of fewer rows are copied together, so that a result does not consist of crumbs.
_CRUMB = 32_768
#: Makes a column of other matches, or of matches in other places, from a column.
Change = Callable[[Array | pa.Array], Array | pa.Array]


class Values:
    """One result column of some matches: a value each, or a list each if `starts` and `lengths` are set."""

    def __init__(self, flat: Array | pa.Array, starts: Indices | None = None, lengths: Indices | None = None) -> None:
        self.flat, self.starts, self.lengths = flat, starts, lengths

    @classmethod
    def of_groups(cls, flat: Array, starts: Indices, lengths: Indices) -> Values:
        """Lists that may lie anywhere in `flat`; only their members are kept."""
        return cls(flat[flat_members(starts, lengths)], np.cumsum(lengths) - lengths, lengths)

    @classmethod
    def joined(cls, parts: Sequence[Values]) -> Values:
        flat = _joined([part.flat for part in parts])
        if parts[0].starts is None:
            return cls(flat)
        starts, before = [], 0
        for part in parts:
            assert part.starts is not None
            starts.append(part.starts + before)
            before += len(part.flat)
        lengths = [part.lengths for part in parts if part.lengths is not None]
        return cls(flat, np.concatenate(starts), _joined(lengths))

    def key(self) -> Key:
        """What the column is put in order by."""
        assert isinstance(self.flat, np.ndarray)
        if self.starts is None or self.lengths is None:
            return self.flat
        return Lists(self.starts, self.lengths, self.flat)

    def key_at(self, row: int) -> int | list[int]:
        if self.starts is None or self.lengths is None:
            return int(self.flat[row])
        start = int(self.starts[row])
        members: list[int] = self.flat[start : start + int(self.lengths[row])].tolist()
        return members

    def changed(self, change: Change) -> Values:
        """The column with a change applied to what it has per match."""
        if self.starts is None or self.lengths is None:
            return Values(change(self.flat))
        return Values(self.flat, change(self.starts), change(self.lengths))

    def array(self, wanted: pa.DataType, *, nullable: bool = False) -> pa.Array:
        """The column as Arrow."""
        if self.starts is None or self.lengths is None:
            return typed(self.flat, wanted, nullable=nullable)
        flat = typed(_picked(self.flat, flat_members(self.starts, self.lengths)), wanted, nullable=nullable)
        offsets = np.zeros(len(self.lengths) + 1, dtype=np.int64)
        np.cumsum(self.lengths, out=offsets[1:])
        if offsets[-1] >= 2**31:
            raise LimitError("a segment of matches has more than 2^31 group members; use a smaller batch size")
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), flat)


@dataclass(frozen=True)
class Run:
    """Some matches by column: their time span, and values by the name of the result column."""

    start: Array
    end: Array
    values: Mapping[str, Values]

    def __len__(self) -> int:
        return len(self.end)

    @classmethod
    def joined(cls, parts: Sequence[Run]) -> Run:
        if len(parts) == 1:
            return parts[0]
        return cls(
            _joined([part.start for part in parts]),
            _joined([part.end for part in parts]),
            {name: Values.joined([part.values[name] for part in parts]) for name in parts[0].values},
        )

    def take(self, rows: slice) -> Run:
        """Some matches that lie together, not copied."""
        return self._changed(lambda values: values[rows])

    def picked(self, rows: Indices, room: Pieces) -> Run:
        """Copies of the matches with these numbers, in that order; of few they are columns of their own, which keep
        nothing else in memory."""
        return self._changed(lambda values: _picked(values, rows, room if len(rows) >= _CRUMB else None))

    def moved(self, moves: Moves) -> Run:
        """The matches with some of them in other places; this run must not be used any more, its memory is that of the
        new one."""
        return self._changed(lambda values: _moved(values, moves.places, moves.rows))

    def _changed(self, change: Change) -> Run:
        # Columns may share arrays: what changes in place must change once, and what is copied is copied once.
        done: dict[object, Array | pa.Array] = {}

        def once(values: Array | pa.Array) -> Array | pa.Array:
            memory = (values.ctypes.data, values.dtype) if isinstance(values, np.ndarray) else id(values)
            if memory not in done:
                done[memory] = change(values)
            return done[memory]

        values = {name: values.changed(once) for name, values in self.values.items()}
        return Run(once(self.start), once(self.end), values)


def grouped(runs: Sequence[Run]) -> list[Run]:
    """The same matches in fewer runs: those that lie one after the other in memory become one, and so do crumbs.

    What lies together is no crumb and is not copied because a crumb came before it.
    """
    spans: list[list[Run]] = []
    for run in runs:
        if spans and _adjacent(spans[-1][-1].end, run.end):
            spans[-1].append(run)
        else:
            spans.append([run])
    whole: list[Run] = []
    for is_crumb, some in groupby(map(Run.joined, spans), key=lambda run: len(run) < _CRUMB):
        here = tuple(some)
        whole += (Run.joined(here),) if is_crumb else here
    return whole


def typed(values: Array | pa.Array, wanted: pa.DataType, *, nullable: bool = False) -> pa.Array:
    """Engine values as the type that the trace's column has; of whole numbers and microseconds without a copy."""
    if not isinstance(values, np.ndarray):
        return values if values.type == wanted else values.cast(wanted)
    missing = None
    if nullable:
        missing = np.isnan(values) if values.dtype.kind == "f" else values == NULL
    if pa.types.is_boolean(wanted):
        return pa.array(values == 1, mask=missing)
    array = pa.array(values, mask=missing)
    if pa.types.is_timestamp(wanted):
        array = array.view(pa.timestamp("us", wanted.tz))
    return array if array.type == wanted else array.cast(wanted)


def _adjacent(one: Array, other: Array) -> bool:
    """Whether both are views of one array of their kind, the other from where the one ends."""
    if one.base is None or one.base is not other.base or not (one.flags.c_contiguous and other.flags.c_contiguous):
        return False
    if not one.dtype == other.dtype == one.base.dtype:  # columns of several kinds share `Pieces`
        return False
    return bool(one.ctypes.data + one.nbytes == other.ctypes.data)


def _joined(parts: Sequence[Array | pa.Array]) -> Array | pa.Array:
    first = parts[0]
    if len(parts) == 1:
        return first
    if not isinstance(first, np.ndarray):
        return pa.concat_arrays(parts)
    if all(_adjacent(one, other) for one, other in pairwise(parts)):
        block = first.base
        assert block is not None
        begin = (first.ctypes.data - block.ctypes.data) // first.itemsize
        return block[begin : begin + sum(map(len, parts))]
    return np.concatenate(parts)


def _picked(values: Array | pa.Array, places: Indices | slice, room: Pieces | None = None) -> Array | pa.Array:
    if isinstance(places, slice):
        return values[places]
    if not isinstance(values, np.ndarray):
        return values.take(pa.array(places))
    out = None if room is None else room.column(len(places), values.dtype)
    return values.take(places, out=out, mode="clip")  # without a check of each place, in half the time


def _moved(values: Array | pa.Array, places: Indices, rows: Indices) -> Array | pa.Array:
    if not isinstance(values, np.ndarray):
        order = np.arange(len(values), dtype=np.int64)
        order[places] = rows
        return values.take(pa.array(order))
    if not values.flags.writeable:
        values = values.copy()
    values[places] = values.take(rows, mode="clip")
    return values
