"""Events as NumPy columns in time order, for measuring: from an Arrow table, without the engine's shuffler.

Columns hold values the way `decopa.query.schema` says: int64 or float64, strings as codes, NULL or NaN where a value
is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from decopa.errors import TraceError
from decopa.query.pattern import ANY_TYPE
from decopa.query.schema import NULL, Column, Kind, Schema

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

#: Code of a string constant that no event holds.
UNSEEN = -1


@dataclass(frozen=True)
class EventColumns:
    """Events in time order: times in microseconds, types, attributes as numeric columns of equal length.

    `type_names[code]` is the type behind a type code, `kinds` says what every attribute of the trace holds (`columns`
    may have fewer), and `codes` gives the code of each string that occurs in any of the columns.
    """

    ts: Ints
    type_codes: Ints
    type_names: tuple[str, ...]
    columns: Mapping[str, Array]
    kinds: Mapping[str, Column]
    codes: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def schema(self) -> Schema:
        return Schema({**self.kinds, "ts": Column(Kind.INT)}, frozenset(self.type_names))

    def rows_of(self, event_type: str) -> Ints:
        """The numbers of the events of a type, ascending; of several as in A|B, and of all for *."""
        if event_type == ANY_TYPE:
            return np.arange(len(self.ts))
        if event_type in self.type_names:
            return np.flatnonzero(self.type_codes == self.type_names.index(event_type))
        codes = [self.type_names.index(name) for name in event_type.split("|") if name in self.type_names]
        return np.flatnonzero(np.isin(self.type_codes, codes))

    def column(self, name: str) -> Array:
        return self.ts if name == "ts" else self.columns[name]

    def code_of(self, text: str) -> int:
        return self.codes.get(text, UNSEEN)

    @cached_property
    def _texts(self) -> dict[int, str]:
        return {code: text for text, code in self.codes.items()}

    def texts_of(self, codes: Array) -> list[str | None]:
        """The strings behind codes; None for missing ones."""
        return [self._texts.get(code) for code in codes.tolist()]

    @classmethod
    def from_table(
        cls,
        table: pa.Table,
        *,
        attributes: Collection[str] | None = None,
        id: str = "id",
        ts: str = "ts",
        type: str = "type",
    ) -> EventColumns:
        """The events of a trace with the given attributes (default: all that conditions can use).

        `id`, `ts` and `type` name the columns that hold these.
        """
        for role, name in (("id", id), ("ts", ts), ("type", type)):
            if name not in table.column_names:
                raise TraceError(
                    f"the trace has no column '{name}'; its columns are {', '.join(table.column_names)}; "
                    f"name the right one with --{role}"
                )
        times = _times(table.column(ts), ts)
        order = np.argsort(times, kind="stable")
        codes: dict[str, int] = {}
        columns: dict[str, Array] = {}
        kinds: dict[str, Column] = {}
        for name in table.column_names:
            attribute, column = "id" if name == id else name, table.column(name)
            kind = _kind(column.type)
            if kind is not None and name != ts:
                kinds[attribute] = Column(kind, nullable=bool(column.null_count))
                if attributes is None or attribute in attributes:
                    columns[attribute] = _numeric(column.combine_chunks(), kind, codes)[order]
        if table.column(type).null_count:
            raise TraceError(f"column '{type}': {table.column(type).null_count} events have no type; leave them out")
        names: dict[str, int] = {}
        type_codes = _codes(table.column(type).cast(pa.string()).combine_chunks(), names)
        return cls(times[order], type_codes[order], tuple(names), columns, kinds, codes)


def _times(column: pa.ChunkedArray, name: str) -> Ints:
    if column.null_count:
        raise TraceError(f"column '{name}': {column.null_count} events have no time; leave them out")
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        column = _in_microseconds(column)
    if not pa.types.is_integer(column.type):
        raise TraceError(f"column '{name}' holds {column.type}, not times; make it timestamps or whole microseconds")
    return np.asarray(column.cast(pa.int64()).to_numpy())


def _in_microseconds(clock: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Timestamps and dates as whole microseconds; what is finer is cut off."""
    zone = clock.type.tz if pa.types.is_timestamp(clock.type) else None
    return pc.cast(clock, pa.timestamp("us", zone), safe=False).cast(pa.int64())


def _kind(arrow: pa.DataType) -> Kind | None:
    value = arrow.value_type if pa.types.is_dictionary(arrow) else arrow
    if pa.types.is_string(value) or pa.types.is_large_string(value):
        return Kind.STRING
    if pa.types.is_boolean(value):
        return Kind.BOOL
    if pa.types.is_integer(value) or pa.types.is_timestamp(value) or pa.types.is_date(value):
        return Kind.INT
    return Kind.FLOAT if pa.types.is_floating(value) or pa.types.is_decimal(value) else None


def _numeric(values: pa.Array, kind: Kind, codes: dict[str, int]) -> Array:
    if kind is Kind.STRING:
        return _codes(values, codes)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if kind is Kind.FLOAT:
        return np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    if not pa.types.is_integer(values.type) and kind is Kind.INT:
        values = _in_microseconds(values)
    return np.asarray(values.cast(pa.int64()).fill_null(NULL).to_numpy(zero_copy_only=False), dtype=np.int64)


def _codes(values: pa.Array, codes: dict[str, int]) -> Ints:
    """One code per string, the same in every column, so that strings of two columns can be compared."""
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    known = [NULL if text is None else codes.setdefault(text, len(codes)) for text in encoded.dictionary.to_pylist()]
    indices = encoded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
    codes_of: Ints = np.array([*known, NULL], dtype=np.int64)
    return np.asarray(codes_of[indices])
