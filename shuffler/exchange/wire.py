"""Batches as bytes: Arrow record batches whose schema both ends derive from the query.

Codes of strings mean something in one process only, so they travel with the strings they stand for and are
translated on arrival. Rows of a Kleene group travel as lists.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from decopa.query.binding import BoundQuery
from decopa.query.conditions.predicate import Attr
from decopa.query.schema import NULL, Kind
from shuffler.rows.batch import Array, Batch, flat_members, length_of, start_of
from shuffler.rows.layout import INT, Layout
from shuffler.rows.strings import StringPool

_TEXTS = pa.schema([("code", pa.int64()), ("text", pa.string())])
#: A batch on the wire: its rows, and the strings they use if there are any.
Encoded = tuple[pa.Buffer, ...]
#: What a compressed buffer begins with, before its codec and the size of what it holds; no Arrow message begins so.
_COMPRESSED = b"decopa"
_HEAD = struct.Struct("<6s6sQ")
#: Smaller buffers are not worth it.
_LEAST_BYTES = 512


def compressed(encoded: Encoded, codec: str) -> Encoded:
    """The same in fewer bytes, for a network that is slower than compressing; `BatchCodec.decode` takes both."""
    return tuple(buffer if buffer.size < _LEAST_BYTES else _shrunk(buffer, codec) for buffer in encoded)


def _shrunk(buffer: pa.Buffer, codec: str) -> pa.Buffer:
    head = _HEAD.pack(_COMPRESSED, codec.encode(), buffer.size)
    return pa.py_buffer(head + pa.compress(buffer, codec, asbytes=True))


def _expanded(buffer: pa.Buffer) -> pa.Buffer:
    if buffer.size < _HEAD.size or bytes(buffer[: len(_COMPRESSED)]) != _COMPRESSED:
        return buffer
    _, codec, size = _HEAD.unpack(buffer[: _HEAD.size])
    return pa.decompress(buffer[_HEAD.size :], size, codec.rstrip(b"\0").decode())


class BatchCodec:
    """Encodes and decodes the batches of one layout; `strings` is the pool of the process it works in."""

    def __init__(self, bound: BoundQuery, layout: Layout, strings: StringPool) -> None:
        self._layout, self._strings = layout, strings
        self._starts = {start_of(alias) for alias in layout.groups}
        self._plain = [name for name in layout.columns if name not in self._starts]
        self._members = [(alias, name) for alias, members in layout.groups.items() for name in members]
        self._schema = pa.schema(
            [(name, _arrow(layout.columns[name])) for name in self._plain]
            + [(f"{alias}/{name}", pa.large_list(_arrow(layout.groups[alias][name]))) for alias, name in self._members]
        )
        self._texts = [name for name in self._plain if "." in name and _is_text(bound, *name.split(".", 1))]
        self._member_texts = [(alias, name) for alias, name in self._members if _is_text(bound, alias, name)]

    @property
    def description(self) -> str:
        """The columns with their types, in order: two codecs with equal ones understand each other."""
        texts = {*self._texts, *(f"{alias}/{name}" for alias, name in self._member_texts)}
        return ", ".join(f"{field.name} {'text' if field.name in texts else field.type}" for field in self._schema)

    def encode(self, batches: Sequence[Batch]) -> Encoded:
        """The rows of all batches, one after the other."""
        plain = {name: _joined([batch.columns[name] for batch in batches]) for name in self._plain}
        arrays = [_array(plain[name]) for name in self._plain]
        members: dict[tuple[str, str], Array] = {}
        for alias, name in self._members:
            members[alias, name] = _joined([_group_members(batch, alias, name) for batch in batches])
            ends = np.cumsum(plain[length_of(alias)])
            offsets = _array(np.concatenate([np.zeros(1, dtype=np.int64), ends]))
            arrays.append(pa.LargeListArray.from_arrays(offsets, _array(members[alias, name])))
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        codes = [plain[name] for name in self._texts] + [members[key] for key in self._member_texts]
        if not codes:
            return (rows.serialize(),)
        return rows.serialize(), self._strings_of(codes).serialize()

    def decode(self, encoded: Encoded, *, trusted: bool = True) -> Batch:
        """The rows with string codes of this process. Columns are copies: kernels are compiled for arrays that may be
        written, and the buffer can go.

        What does not come from a process of the same run is not `trusted`: a ValueError says what is wrong with it, and
        what is compressed is refused.
        """
        if trusted:
            encoded = tuple(map(_expanded, encoded))
        else:
            self._check(encoded)
        rows = pa.ipc.read_record_batch(encoded[0], self._schema)
        columns = {name: _values(rows.column(place)) for place, name in enumerate(self._plain)}
        heaps: dict[str, dict[str, Array]] = {alias: {} for alias in self._layout.groups}
        for place, (alias, name) in enumerate(self._members, start=len(self._plain)):
            heaps[alias][name] = _values(rows.column(place).flatten())
        for alias in self._layout.groups:
            lengths = columns[length_of(alias)]
            columns[start_of(alias)] = np.cumsum(lengths) - lengths
        if len(encoded) > 1 and rows.num_rows:
            self._translate(encoded[1], columns, heaps)
        return Batch(rows.num_rows, {name: columns[name] for name in self._layout.columns}, heaps)

    def _check(self, encoded: Encoded) -> None:
        """Whether `decode` can rely on the structure: lengths of groups, no nulls, a string for every code."""
        rows = pa.ipc.read_record_batch(encoded[0], self._schema)
        rows.validate(full=True)
        if any(column.null_count for column in rows.columns):
            raise ValueError("a value is missing")
        for alias, name in self._members:
            lengths, lists = rows.column(length_of(alias)), rows.column(f"{alias}/{name}")
            if not lists.value_lengths().equals(lengths) or lists.flatten().null_count:
                raise ValueError(f"the members of '{alias}' do not fit its lengths")
        names = [*self._texts, *(f"{alias}/{name}" for alias, name in self._member_texts)]
        if len(encoded) != (2 if names else 1):
            raise ValueError("strings are missing")
        if names:
            pairs = pa.ipc.read_record_batch(encoded[1], _TEXTS)
            pairs.validate(full=True)
            columns = [rows.column(name) for name in names]
            flat = [column.flatten() if pa.types.is_large_list(column.type) else column for column in columns]
            used = np.unique(np.concatenate([column.to_numpy() for column in flat]))
            known = pairs.column(0)
            if pairs.column(1).null_count or not np.array_equal(known.to_numpy(), used[used != NULL]):
                raise ValueError("the strings are not those that the rows use")

    def _strings_of(self, codes: Sequence[Array]) -> pa.RecordBatch:
        distinct = np.unique(np.concatenate(codes))
        distinct = distinct[distinct != NULL]
        return pa.RecordBatch.from_arrays([pa.array(distinct), self._strings.decode(distinct)], schema=_TEXTS)

    def _translate(self, texts: pa.Buffer, columns: dict[str, Array], heaps: dict[str, dict[str, Array]]) -> None:
        pairs = pa.ipc.read_record_batch(texts, _TEXTS)
        latest = columns[self._layout.place("max_ts")]
        theirs = np.concatenate([[NULL], pairs.column(0).to_numpy()])
        mine = np.concatenate([[NULL], self._strings.encode(pairs.column(1), int(latest.max()))])
        for name in self._texts:
            columns[name] = mine[np.searchsorted(theirs, columns[name])]
        for alias, name in self._member_texts:
            heaps[alias][name] = mine[np.searchsorted(theirs, heaps[alias][name])]


def _is_text(bound: BoundQuery, alias: str, name: str) -> bool:
    """Whether a column of an alias holds string codes; ids, ordinals, times and derived columns do not."""
    if name == "id text":
        return True
    if name in ("id", "ordinal", "first", "last"):
        return False
    return bound.column(Attr(alias, name)).kind is Kind.STRING


def _arrow(dtype: np.dtype) -> pa.DataType:
    return pa.int64() if dtype == INT else pa.float64()


def _joined(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _group_members(batch: Batch, alias: str, name: str) -> Array:
    places = flat_members(batch.columns[start_of(alias)], batch.columns[length_of(alias)])
    return batch.heaps[alias][name][places]


def _values(array: pa.Array) -> Array:
    """The numbers of an array without nulls, as a copy. Arrow's own way asks pandas first, whose import takes half a
    second: the first event of every unit would wait for it."""
    dtype = np.dtype(np.int64) if array.type == pa.int64() else np.dtype(np.float64)
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.empty(0, dtype)
    return np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize).copy()


def _array(values: Array) -> pa.Array:
    """The other way round, for the same reason."""
    kind = pa.int64() if values.dtype == np.int64 else pa.float64()
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])
