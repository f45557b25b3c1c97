"""MatchSink: takes matches off the root operators and makes the result table, in one canonical order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from actors.columnar.ordering import canonical_order, load_compiled
from decopa.errors import LimitError
from decopa.query.binding import BoundQuery
from decopa.query.predicate import Attr
from decopa.query.query import Query
from decopa.query.schema import NULL, Kind
from shuffler.routing.table import END_OF_STREAM
from shuffler.rows.batch import Array, Batch, Indices, flat_members, length_of, start_of
from shuffler.rows.events import EventFormat
from shuffler.rows.hashing import hash_groups
from shuffler.rows.layout import Layout, member_column
from shuffler.rows.strings import StringPool


def bound_aliases(query: Query) -> list[str]:
    """The aliases that a match of an OR-free query binds."""
    return [alias for alias in query.positive_aliases if query.position(alias).scope == ()]


#: Matches are put in order and turned into Arrow arrays in segments of at least this many.
SEGMENT = 1 << 18
#: Numbers that a column of lists is put in order by, see `_Values.sort_keys`.
_GROUP_KEYS = 4


class MatchSink:
    """Collects the matches of one OR-free query as columns.

    Matches that nothing can precede any more are put in order as the run goes on (`settle`), so that memory for them
    is needed once. Strings are decoded when they arrive: the pool may forget them once the window has passed.
    """

    def __init__(self, bound: BoundQuery, layout: Layout, form: EventFormat, strings: StringPool) -> None:
        self._bound, self._layout, self._form, self._strings = bound, layout, form, strings
        self.aliases = bound_aliases(bound.query)
        self.rows = 0
        self._settled: list[pa.RecordBatch] = []
        self._open: list[_Segment] = []
        self._texts = self.aliases if bound.schema.attributes["id"].kind is Kind.STRING else []

    def warm_up(self) -> None:
        """Loads what putting many matches in order needs, for half a second, so that the first ones need not wait."""
        nothing = self._ordered(self._nothing())
        keys = sum(_GROUP_KEYS if alias in self._layout.groups else 1 for alias in self.aliases)
        load_compiled(1 + keys)
        nothing.column("end_ts").to_numpy(zero_copy_only=False)  # makes Arrow import pandas

    def add(self, batch: Batch) -> None:
        self.rows += batch.length
        returned = {}
        for attr in self._bound.query.returns:
            values = self._read(batch, attr.alias, member_column(self._bound, attr))
            returned[attr] = self._decoded(values) if self._bound.column(attr).kind is Kind.STRING else values
        self._open.append(
            _Segment(
                batch.columns["min_ts"],
                batch.columns[self._layout.place("max_ts")],
                {alias: self._read(batch, alias, "id") for alias in self.aliases},
                {alias: self._decoded(self._read(batch, alias, "id text")) for alias in self._texts},
                returned,
            )
        )

    def settle(self, watermark_us: int) -> None:
        """Puts matches that end before the watermark, which no later match can precede, into their final place; a few
        wait for more, unless the stream has ended."""
        waiting = sum(len(segment.end) for segment in self._open)
        if not waiting or (waiting < SEGMENT and watermark_us != END_OF_STREAM):
            return
        segment = _Segment.joined(self._open)
        final = segment.end < watermark_us
        if bool(final.all()):
            self._open = []
            self._settled.append(self._ordered(segment))
        elif bool(final.any()):
            self._open = [segment.take(np.flatnonzero(~final))]
            self._settled.append(self._ordered(segment.take(np.flatnonzero(final))))

    def table(self) -> pa.Table:
        """All matches in canonical order: by end, start, then event ids in query order."""
        parts = list(self._settled)
        if self._open or not parts:
            parts.append(self._ordered(_Segment.joined(self._open) if self._open else self._nothing()))
        return pa.Table.from_batches(parts)

    def take(self) -> pa.Table:
        """As `table`, and forgets them: what comes later is counted anew."""
        matches = self.table()
        self._settled, self._open, self.rows = [], [], 0
        return matches

    def _ordered(self, segment: _Segment) -> pa.RecordBatch:
        keys = [key for alias in self.aliases for key in segment.ids[alias].sort_keys()]
        # Among matches that end together, a later start is a smaller distance to it: fewer bits to sort by.
        order = canonical_order([segment.end, segment.start - segment.end, *keys])
        columns: dict[str, pa.Array] = {
            "query": pa.DictionaryArray.from_arrays(
                pa.array(np.zeros(len(order), dtype=np.int32)), pa.array([self._bound.query.name])
            ),
            "start_ts": _typed(segment.start[order], self._form.ts_type),
            "end_ts": _typed(segment.end[order], self._form.ts_type),
        }
        ids = segment.texts or segment.ids
        for alias in self.aliases:
            columns[alias] = ids[alias].array(order, self._form.id_type)
        for attr, values in segment.returned.items():
            columns[f"{attr.alias}.{attr.name}"] = self._returned_array(attr, values, order)
        return pa.RecordBatch.from_pydict(columns)

    def _nothing(self) -> _Segment:
        empty = np.empty(0, dtype=np.int64)

        def values(alias: str, text: bool, dtype: Any) -> _Values:
            flat = pa.array([], type=pa.string()) if text else np.empty(0, dtype=dtype)
            return _Values(flat, empty if alias in self._layout.groups else None)

        returned = {}
        for attr in self._bound.query.returns:
            kind = self._bound.column(attr).kind
            dtype = np.float64 if kind is Kind.FLOAT else np.int64
            returned[attr] = values(attr.alias, kind is Kind.STRING, dtype)
        ids = {alias: values(alias, False, np.int64) for alias in self.aliases}
        return _Segment(empty, empty, ids, {alias: values(alias, True, None) for alias in self._texts}, returned)

    def _read(self, batch: Batch, alias: str, column: str) -> _Values:
        if alias not in self._layout.groups:
            return _Values(batch.columns[self._layout.place(f"{alias}.{column}")], None)
        lengths = batch.columns[length_of(alias)]
        places = flat_members(batch.columns[start_of(alias)], lengths)
        return _Values(batch.heaps[alias][column][places], lengths)

    def _decoded(self, values: _Values) -> _Values:
        assert isinstance(values.flat, np.ndarray)
        return _Values(self._strings.decode(values.flat), values.lengths)

    def _returned_array(self, attr: Attr, values: _Values, order: Indices) -> pa.Array:
        column = self._bound.column(attr)
        kind = {Kind.FLOAT: pa.float64(), Kind.INT: pa.int64(), Kind.BOOL: pa.bool_(), Kind.STRING: pa.string()}
        wanted = kind[column.kind]
        if attr.name == "ts":
            wanted = self._form.ts_type
        elif attr.name == "id":
            wanted = self._form.id_type
        return values.array(order, wanted, nullable=column.nullable)


@dataclass(frozen=True)
class _Segment:
    """Some matches, by column."""

    start: Array
    end: Array
    ids: dict[str, _Values]
    texts: dict[str, _Values]
    returned: dict[Attr, _Values]

    @classmethod
    def joined(cls, parts: Sequence[_Segment]) -> _Segment:
        first = parts[0]
        return cls(
            _joined([part.start for part in parts]),
            _joined([part.end for part in parts]),
            {alias: _Values.joined([part.ids[alias] for part in parts]) for alias in first.ids},
            {alias: _Values.joined([part.texts[alias] for part in parts]) for alias in first.texts},
            {attr: _Values.joined([part.returned[attr] for part in parts]) for attr in first.returned},
        )

    def take(self, rows: Indices) -> _Segment:
        return _Segment(
            self.start[rows],
            self.end[rows],
            {alias: values.take(rows) for alias, values in self.ids.items()},
            {alias: values.take(rows) for alias, values in self.texts.items()},
            {attr: values.take(rows) for attr, values in self.returned.items()},
        )


class _Values:
    """Values of one result column: one per match, or a list per match if `lengths` is set."""

    def __init__(self, flat: Array | pa.Array, lengths: Array | None) -> None:
        self.flat, self.lengths = flat, lengths

    @classmethod
    def joined(cls, parts: Sequence[_Values]) -> _Values:
        lengths = None if parts[0].lengths is None else _joined([p.lengths for p in parts if p.lengths is not None])
        if isinstance(parts[0].flat, np.ndarray):
            return cls(_joined([part.flat for part in parts]), lengths)
        return cls(pa.concat_arrays([part.flat for part in parts]), lengths)

    def sort_keys(self) -> list[Array]:
        """Numbers that order the column; lists by first member, length, last member, then by a hash of the ids."""
        assert isinstance(self.flat, np.ndarray)
        if self.lengths is None:
            return [self.flat]
        if not len(self.lengths):
            return [self.lengths]
        ends = np.cumsum(self.lengths)
        first, last = self.flat[ends - self.lengths], self.flat[ends - 1]
        return [first, self.lengths, last, hash_groups(self.flat, self.lengths)]

    def take(self, rows: Indices) -> _Values:
        """The values of some matches, in the given order."""
        if self.lengths is None:
            return _Values(_picked(self.flat, rows), None)
        ends, lengths = np.cumsum(self.lengths), self.lengths[rows]
        return _Values(_picked(self.flat, flat_members((ends - self.lengths)[rows], lengths)), lengths)

    def array(self, order: Indices, wanted: pa.DataType, *, nullable: bool = False) -> pa.Array:
        """The column as Arrow, its matches in the given order."""
        values = self.take(order)
        flat = _typed(values.flat, wanted, nullable=nullable)
        if values.lengths is None:
            return flat
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(values.lengths)])
        if offsets[-1] >= 2**31:
            raise LimitError("a segment of matches has more than 2^31 group members; use a smaller batch size")
        return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), flat)


def _picked(values: Array | pa.Array, places: Indices | slice) -> Array | pa.Array:
    if isinstance(values, np.ndarray) or isinstance(places, slice):
        return values[places]
    return values.take(pa.array(places))


def check_limit(matches: int, max_matches: int, title: str) -> None:
    if matches > max_matches:
        raise LimitError(
            f"operator {title} found more than {max_matches:,} matches; "
            "use a shorter window or a more selective condition, or raise the limit (--max-matches, Limits.max_matches)"
        )


def _joined(parts: Sequence[Array]) -> Array:
    if not parts:
        return np.empty(0, dtype=np.int64)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _typed(values: Array | pa.Array, wanted: pa.DataType, *, nullable: bool = False) -> pa.Array:
    """Engine values as the type that the trace's column has."""
    if not isinstance(values, np.ndarray):
        return values if values.type == wanted else values.cast(wanted)
    missing = None
    if nullable:
        missing = np.isnan(values) if values.dtype.kind == "f" else values == NULL
    if pa.types.is_timestamp(wanted):
        return pa.array(values, type=pa.int64(), mask=missing).cast(pa.timestamp("us", wanted.tz)).cast(wanted)
    if pa.types.is_boolean(wanted):
        return pa.array(values == 1, mask=missing)
    array = pa.array(values, mask=missing)
    return array if array.type == wanted else array.cast(wanted)
