"""EventBatch: events as numeric columns, and how the rows of a trace become one, in any process.

`EventFormat` says what the rows of a trace look like; it is plain data and travels to whoever converts rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from costmodel.sampling.events import EventColumns
from decopa.choices import DEFAULT_ID, DEFAULT_TS, DEFAULT_TYPE, TIME_UNITS
from decopa.errors import TraceError
from decopa.query.schema import Column, Kind, Schema
from shuffler.rows.columns import (
    Ints,
    Place,
    TypeCodes,
    TypeIndices,
    Values,
    attribute_values,
    identities,
    kind_of,
    timestamps_us,
    type_labels,
)
from shuffler.rows.strings import StringPool


@dataclass(frozen=True, slots=True)
class TraceColumns:
    """What the user calls the columns that every trace has, and the unit of times that are numbers.

    Without a unit whole numbers are microseconds, unless they look like dates in another unit, and fractions seconds.
    With `end`, events last from `ts` to `end`; they are then known, and ordered, by their end.
    """

    id: str = DEFAULT_ID
    ts: str = DEFAULT_TS
    type: str = DEFAULT_TYPE
    unit: str | None = None
    end: str | None = None

    def __post_init__(self) -> None:
        if self.unit is not None and self.unit not in TIME_UNITS:
            raise TraceError(f"unknown unit of times '{self.unit}'; choose --ts-unit {', '.join(TIME_UNITS)}")
        if len({self.id, self.ts, self.type}) < 3:
            raise TraceError(
                f"id, ts and type need a column each, got '{self.id}', '{self.ts}' and '{self.type}'; "
                "name them with --id, --ts and --type"
            )
        if self.end is not None and self.end in (self.id, self.ts, self.type):
            raise TraceError(f"the end of events needs a column of its own, got '{self.end}'; name it with --end")

    @property
    def clock(self) -> str:
        """The column that events are ordered by: when they are over."""
        return self.ts if self.end is None else self.end

    @property
    def required(self) -> tuple[str, ...]:
        """The columns that every row must have a value in."""
        return (self.id, self.ts, self.type) if self.end is None else (self.id, self.ts, self.type, self.end)


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events in time order; arrays are read-only and of equal length. `ts` is the time that they are ordered by, which
    is the end of events that last; their start is then the attribute `ts` in `columns`.

    `ids` is the identity of each event, unique in the stream: its id if that is an integer, else its ordinal.
    `type_names[code]` is the type behind a type code. `columns` holds the attributes asked for, by name. `ordinals` are
    the events' places in the stream, where they do not simply count up from `first_ordinal`.
    """

    ts: Ints
    ids: Ints
    type_codes: TypeIndices
    type_names: tuple[str, ...]
    first_ordinal: int
    columns: Mapping[str, Values]
    ordinals: Ints | None = None

    def __len__(self) -> int:
        return len(self.ts)

    def slice(self, start: int, stop: int) -> EventBatch:
        return EventBatch(
            self.ts[start:stop],
            self.ids[start:stop],
            self.type_codes[start:stop],
            self.type_names,
            self.first_ordinal + start,
            {name: values[start:stop] for name, values in self.columns.items()},
            None if self.ordinals is None else self.ordinals[start:stop],
        )


@dataclass(frozen=True, slots=True)
class EventFormat:
    """What the rows of a trace look like.

    `column_of` gives the user's column behind an attribute; `id_type` and `ts_type` are those of the user's columns,
    so that results can have the same.
    """

    columns: TraceColumns
    column_of: Mapping[str, str]
    schema: Schema
    id_type: pa.DataType
    ts_type: pa.DataType
    nan_as_null: bool = False

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        columns: TraceColumns,
        *,
        nullable: Collection[str],
        event_types: frozenset[str] | None = None,
        nan_as_null: bool = False,
    ) -> EventFormat:
        """The format of rows with this Arrow schema; `nullable` names the columns in which values may be missing, and
        `event_types` those that occur, if that is known."""
        column_of = {name: name for name in schema.names} | {"id": columns.id, "ts": columns.ts}
        if columns.end is not None:
            column_of["end"] = columns.end
        attributes: dict[str, Column] = {}
        for name, column in column_of.items():
            kind = kind_of(schema.field(column).type)
            if column in (columns.ts, columns.end):
                attributes[name] = Column(Kind.INT)
            elif kind is not None:
                required = column in (columns.id, columns.type)
                may_miss = column in nullable or (kind is Kind.FLOAT and nan_as_null)
                attributes[name] = Column(kind, nullable=may_miss and not required)
        id_type, ts_type = (schema.field(name).type for name in (columns.id, columns.clock))
        whole_us = pa.types.is_integer(ts_type) and columns.unit in (None, "us")
        if not whole_us and not pa.types.is_timestamp(ts_type):
            ts_type = pa.timestamp("us")  # of text, dates, fractions and other units matches have timestamps
        found = Schema(attributes, event_types, columns.end is not None)
        return cls(columns, column_of, found, id_type, ts_type, nan_as_null=nan_as_null)

    def needed_columns(self, attributes: Collection[str]) -> list[str]:
        """The user's columns that must be read to have these attributes: time, id and type first."""
        fixed = (self.columns.clock, self.columns.id, self.columns.type)
        return list(dict.fromkeys((*fixed, *(self.column_of[name] for name in attributes))))


class EventConverter:
    """Turns rows into EventBatches; strings become codes of its own pool."""

    def __init__(self, form: EventFormat) -> None:
        self.strings = StringPool()
        self._form = form
        self._types = TypeCodes()

    def convert(
        self,
        rows: pa.RecordBatch,
        place: Place,
        attributes: Collection[str],
        first_ordinal: int,
        *,
        checked: bool = False,
    ) -> EventBatch:
        """The rows, which must not be none, with these attributes; what does not fit is refused with its place.

        `checked` says that times and ids are known to fit.
        """
        names = self._form.columns
        ts = timestamps_us(rows.column(names.clock), names.clock, place, names.unit, checked=checked)
        ids = identities(rows.column(names.id), names.id, place, checked=checked)
        if not isinstance(ids, np.ndarray):
            ids = np.arange(first_ordinal, first_ordinal + len(ts), dtype=np.int64)
        codes = self._types.encode(type_labels(rows.column(names.type), names.type, place))
        columns: dict[str, Values] = {}
        for name in attributes:
            column = self._form.column_of[name]
            if column == names.clock:
                columns[name] = ts
                continue
            if column == names.ts:
                columns[name] = _starts(rows.column(column), ts, names, place)
                continue
            values, now_us = rows.column(column), int(ts[-1])
            columns[name] = attribute_values(
                values, column, place, pool=self.strings, now_us=now_us, nan_as_null=self._form.nan_as_null
            )
        # Arrow's own arrays are read-only; make all so, to have one array type for compiled code.
        for array in (ts, ids, codes, *columns.values()):
            array.flags.writeable = False
        return EventBatch(ts, ids, codes, self._types.names, first_ordinal, columns)


def measured_columns(batches: Sequence[EventBatch], form: EventFormat, strings: StringPool) -> EventColumns:
    """Converted events, one batch or more, as the columns that statistics are measured on; `strings` is the pool of
    the converter."""
    last = batches[-1]
    return EventColumns(
        np.concatenate([batch.ts for batch in batches]),
        np.concatenate([batch.type_codes for batch in batches]).astype(np.int64),
        last.type_names,
        {name: np.concatenate([batch.columns[name] for batch in batches]) for name in last.columns},
        form.schema.attributes,
        strings.codes(),
    )


def _starts(column: pa.Array, ends: Ints, names: TraceColumns, place: Place) -> Ints:
    """The times at which events begin; none begins after its end."""
    starts = timestamps_us(column, names.ts, place, names.unit)
    late = np.flatnonzero(starts > ends)
    if len(late):
        raise TraceError(
            f"{place.source}: column '{names.end}', row {place.row(int(late[0]))}: the event ends before it begins "
            f"('{names.ts}'); correct it, or name the columns the other way round with --ts and --end"
        )
    return starts
