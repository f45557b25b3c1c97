"""MatchSink: takes matches off the root operators and makes the result table, in one canonical order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from actors.ordering import canonical_order
from decopa.errors import LimitError
from decopa.query.binding import BoundQuery
from decopa.query.predicate import Attr
from decopa.query.schema import NULL, Kind
from shuffler.batch import Array, Batch, flat_members, length_of, start_of
from shuffler.hashing import hash_groups
from shuffler.layout import Layout, member_column
from shuffler.source import TraceSource


class MatchSink:
    """Collects the matches of one OR-free query as columns.

    Strings are decoded when they arrive: the pool may forget them once the window has passed.
    """

    def __init__(self, bound: BoundQuery, layout: Layout, source: TraceSource) -> None:
        self._bound, self._layout, self._source = bound, layout, source
        query = bound.query
        self.aliases = [alias for alias in query.positive_aliases if query.position(alias).scope == ()]
        self.rows = 0
        self._times: list[tuple[Array, Array]] = []
        self._ids: dict[str, list[_Values]] = {alias: [] for alias in self.aliases}
        self._returned: dict[Attr, list[_Values]] = {attr: [] for attr in query.returns}
        self._texts: dict[str, list[_Values]] = {}
        if bound.schema.attributes["id"].kind is Kind.STRING:
            self._texts = {alias: [] for alias in self.aliases}

    def add(self, batch: Batch) -> None:
        self.rows += batch.length
        self._times.append((batch.columns["min_ts"], batch.columns[self._layout.place("max_ts")]))
        for alias, parts in self._ids.items():
            parts.append(self._read(batch, alias, "id"))
        for alias, parts in self._texts.items():
            parts.append(self._decoded(self._read(batch, alias, "id text")))
        for attr, parts in self._returned.items():
            values = self._read(batch, attr.alias, member_column(self._bound, attr))
            parts.append(self._decoded(values) if self._bound.column(attr).kind is Kind.STRING else values)

    def table(self) -> pa.Table:
        """All matches in canonical order: by end, start, then event ids in query order."""
        start = _joined([one for one, _ in self._times])
        end = _joined([one for _, one in self._times])
        ids = {alias: _Values.joined(parts) for alias, parts in self._ids.items()}
        order = canonical_order([end, start, *(key for values in ids.values() for key in values.sort_keys())])
        columns: dict[str, pa.Array] = {
            "query": pa.DictionaryArray.from_arrays(
                pa.array(np.zeros(self.rows, dtype=np.int32)), pa.array([self._bound.query.name])
            ),
            "start_ts": _typed(start[order], self._source.ts_type),
            "end_ts": _typed(end[order], self._source.ts_type),
        }
        for alias in self.aliases:
            if alias in self._texts:
                columns[alias] = _Values.joined(self._texts[alias]).array(order, self._source.id_type)
            else:
                columns[alias] = ids[alias].array(order, self._source.id_type)
        for attr, parts in self._returned.items():
            columns[f"{attr.alias}.{attr.name}"] = self._returned_array(attr, _Values.joined(parts), order)
        return pa.table(columns)

    def _read(self, batch: Batch, alias: str, column: str) -> _Values:
        if alias not in self._layout.groups:
            return _Values(batch.columns[self._layout.place(f"{alias}.{column}")], None)
        lengths = batch.columns[length_of(alias)]
        places = flat_members(batch.columns[start_of(alias)], lengths)
        return _Values(batch.heaps[alias][column][places], lengths)

    def _decoded(self, values: _Values) -> _Values:
        assert isinstance(values.flat, np.ndarray)
        return _Values(self._source.strings.decode(values.flat), values.lengths)

    def _returned_array(self, attr: Attr, values: _Values, order: Array) -> pa.Array:
        column = self._bound.column(attr)
        kind = {Kind.FLOAT: pa.float64(), Kind.INT: pa.int64(), Kind.BOOL: pa.bool_(), Kind.STRING: pa.string()}
        wanted = kind[column.kind]
        if attr.name == "ts":
            wanted = self._source.ts_type
        elif attr.name == "id":
            wanted = self._source.id_type
        return values.array(order, wanted, nullable=column.nullable)


class _Values:
    """Values of one result column: one per match, or a list per match if `lengths` is set."""

    def __init__(self, flat: Array | pa.Array, lengths: Array | None) -> None:
        self.flat, self.lengths = flat, lengths

    @classmethod
    def joined(cls, parts: Sequence[_Values]) -> _Values:
        if not parts:
            return cls(np.empty(0, dtype=np.int64), None)
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

    def array(self, order: Array, wanted: pa.DataType, *, nullable: bool = False) -> pa.Array:
        """The column as Arrow, its matches in the given order."""
        if self.lengths is None:
            flat = self.flat[order] if isinstance(self.flat, np.ndarray) else self.flat.take(pa.array(order))
            return _typed(flat, wanted, nullable=nullable)
        ends = np.cumsum(self.lengths)
        lengths = self.lengths[order]
        places = flat_members((ends - self.lengths)[order], lengths)
        flat = (
            self.flat[places]
            if isinstance(places, slice) or isinstance(self.flat, np.ndarray)
            else self.flat.take(pa.array(places))
        )
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
        if offsets[-1] < 2**31:
            return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), _typed(flat, wanted, nullable=nullable))
        return pa.LargeListArray.from_arrays(pa.array(offsets), _typed(flat, wanted, nullable=nullable))


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
