"""What must hold for a trace: its columns, the unit of its times, time order, and ids that are there and unique."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from decopa.choices import DEFAULT_TIME_UNITS, TIME_UNITS
from decopa.errors import TraceError
from shuffler.rows.columns import (
    MAX_TS_US,
    BadValues,
    Ints,
    Place,
    check_text,
    identities,
    is_text,
    numbers,
    shown,
    timestamps_us,
    type_labels,
)
from shuffler.rows.events import TraceColumns
from shuffler.rows.times import guessed_unit, shown_time
from shuffler.source.dead_letters import DeadLetters
from shuffler.source.readers import Reader

#: Rows that the first pass looks at together.
SURVEY_ROWS = 262_144
#: Rows that are looked at together for the types that occur.
_FIRST_LOOK = 8_192


@dataclass(frozen=True, slots=True)
class Survey:
    """What the first pass over a trace found; `disorder` says where time first went back, if it did.

    `times_us` are those of the earliest and the latest event, (0, 0) if there is none.
    """

    row_count: int
    event_types: frozenset[str]
    disorder: str | None
    times_us: tuple[int, int] = (0, 0)


class TimeOrder:
    """Watches timestamps go by; equal ones are in order."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._last_us: int | None = None

    def see(self, ts: Ints, array: pa.Array, place: Place, *, rise: bool = False) -> str | None:
        """Where this block goes back in time, against itself or the block before; None if it does not. `rise` says
        that it is known not to go back against itself."""
        if not len(ts):
            return None
        start = self._last_us if self._last_us is not None else int(ts[0])
        self._last_us = int(ts[-1])
        if rise and int(ts[0]) >= start:
            return None
        backward = ts[1:] < ts[:-1]
        if int(ts[0]) >= start and not backward.any():
            return None
        index = 0 if int(ts[0]) < start else int(np.argmax(backward)) + 1
        return (
            f"{place.source}: column '{self._column}', {place.at(index)}: {shown(array, index)} is earlier "
            "than the row before"
        )


class IdOrder:
    """Watches ids go by: as long as they strictly increase they are unique, at no cost in memory."""

    def __init__(self) -> None:
        self.increasing = True
        self._last: pa.Scalar | None = None
        self._last_number: int | None = None

    def see(self, ids: Ints | pa.Array, increase: bool = False) -> None:
        """The next ids; `increase` says that these are known to, among themselves."""
        if not self.increasing or not len(ids):
            return
        if isinstance(ids, np.ndarray):
            before, self._last_number = self._last_number, int(ids[-1])
            follows = before is None or int(ids[0]) > before
            self.increasing = follows and (increase or bool((ids[1:] > ids[:-1]).all()))
            return
        column = ids
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if self._last is not None:
            self.increasing = bool(pc.greater(column[0], self._last).as_py())
        self._last = column[-1]
        rising = pc.all(pc.greater(column[1:], column[:-1])).as_py()
        self.increasing = self.increasing and rising is not False


def survey(reader: Reader, columns: TraceColumns, letters: DeadLetters) -> Survey:
    """One pass over times, ids and types; ids that do not increase are compared exactly, in memory."""
    names = (columns.clock, columns.id, columns.type)
    order, ids = TimeOrder(columns.clock), IdOrder()
    types: set[str] = set()
    disorder: str | None = None
    rows = first = 0
    earliest: list[int] = []
    latest: list[int] = []
    for batch in reader.read(names, SURVEY_ROWS):
        place = reader.place(first, batch.num_rows)
        first += batch.num_rows
        if letters.diverting:
            batch, place = letters.sift(batch, place, lambda some, here: check_rows(some, here, columns))
        ts, rise = _times(batch.column(0), columns, place)
        disorder = disorder or order.see(ts, batch.column(0), place, rise=rise)
        if len(ts):
            earliest.append(int(ts[0] if disorder is None else ts.min()))
            latest.append(int(ts[-1] if disorder is None else ts.max()))
        ids.see(*_identities(batch.column(1), columns, place))
        labels = type_labels(batch.column(2), columns.type, place)
        types.update(_distinct(labels))
        rows += batch.num_rows
    repeated = 0 if ids.increasing else _check_all_ids(reader, columns, letters, first)
    times_us = (min(earliest), max(latest)) if earliest else (0, 0)
    return Survey(rows - repeated, frozenset(types), disorder, times_us)


def _times(array: pa.Array, columns: TraceColumns, place: Place) -> tuple[Ints, bool]:
    """The times of a block, checked, and whether they are known to rise: the ends of such a block speak for all."""
    if _is_plain(array) and columns.unit in (None, "us"):
        values: Ints = array.to_numpy()
        if not (values[1:] < values[:-1]).any():
            for row in (0, len(array) - 1):
                timestamps_us(array.slice(row, 1), columns.clock, place.after(row), columns.unit)
            return values, True
    return timestamps_us(array, columns.clock, place, columns.unit), False


def _identities(array: pa.Array, columns: TraceColumns, place: Place) -> tuple[Ints | pa.Array, bool]:
    """The ids of a block, checked, and whether they are known to increase: the first of such a block speaks for all."""
    if _is_plain(array):
        values: Ints = array.to_numpy()
        if (values[1:] > values[:-1]).all():
            identities(array.slice(0, 1), columns.id, place)
            return values, True
    return identities(array, columns.id, place), False


def _is_plain(array: pa.Array) -> bool:
    """Whether values are there and are what the engine works on."""
    return bool(len(array)) and bool(pa.types.is_int64(array.type)) and not array.null_count


def _distinct(labels: pa.Array) -> list[str]:
    """The texts of a column without nulls, each once; of a dictionary those that occur."""
    if not pa.types.is_dictionary(labels.type):
        return list(pc.unique(labels).to_pylist())
    codes = labels.indices.to_numpy(zero_copy_only=False)
    occurs = np.zeros(len(labels.dictionary), dtype=np.bool_)
    for start in range(0, len(codes), _FIRST_LOOK):
        occurs[codes[start : start + _FIRST_LOOK]] = True
        if occurs.all():  # as a rule soon: the rest need not be looked at
            break
    return list(labels.dictionary.filter(pa.array(occurs)).to_pylist())


def _check_all_ids(reader: Reader, columns: TraceColumns, letters: DeadLetters, rows: int) -> int:
    """Refuses the first id that appeared before, or puts all such rows aside and returns how many there are."""
    ids = pa.chunked_array([batch.column(0) for batch in reader.read((columns.id,), SURVEY_ROWS)])
    place, before = reader.place(0, rows), len(letters)
    if before:
        kept = ~np.isin(place.numbers(rows), letters.rows)
        ids, place = ids.filter(pa.array(kept)), place.only(kept)
    try:
        check_unique(ids, columns.id, place)
    except BadValues as bad:
        if not letters.diverting:
            raise
        table = pa.table([ids], names=[columns.id]).unify_dictionaries().combine_chunks()
        letters.put(table.to_batches()[0], bad, place)
    return len(letters) - before


def check_rows(
    rows: pa.RecordBatch,
    place: Place,
    columns: TraceColumns,
    attributes: Collection[str] = (),
    nan_as_null: bool = False,
) -> None:
    """Refuses rows that could not be converted; `attributes` are columns beside those that every trace has."""
    timestamps_us(rows.column(columns.clock), columns.clock, place, columns.unit)
    identities(rows.column(columns.id), columns.id, place)
    type_labels(rows.column(columns.type), columns.type, place)
    for name in attributes:
        column = rows.column(name)
        if is_text(column.type):
            check_text(column, name, place)
        else:
            numbers(column, name, place, nan_as_null=nan_as_null)


def check_unique(ids: pa.ChunkedArray, column: str, place: Place) -> None:
    """Refuses ids that appeared before; exact, whatever the order."""
    codes = ids if pa.types.is_integer(ids.type) else _string_codes(ids)
    values = codes.to_numpy()
    in_order = np.sort(values)
    if not (in_order[1:] == in_order[:-1]).any():
        return
    by_value = np.argsort(values, kind="stable")
    repeats = by_value[1:][values[by_value[1:]] == values[by_value[:-1]]]
    second = int(repeats.min())
    first = int(np.argmax(values == values[second]))
    problem = f"id {ids[second]} was used in {place.at(first)} already; every event needs its own id"
    wrong = np.zeros(len(values), dtype=np.bool_)
    wrong[repeats] = True
    message = f"{place.source}: column '{column}', {place.at(second)}: {problem}"
    raise BadValues(message, wrong, f"column '{column}': an earlier row has the same id")


def _string_codes(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """Equal numbers for equal strings."""
    if pa.types.is_dictionary(ids.type):
        ids = ids.cast(ids.type.value_type)
    encoded = ids.dictionary_encode().unify_dictionaries()
    return pa.chunked_array([chunk.indices for chunk in encoded.chunks])


def check_columns(reader: Reader, columns: TraceColumns) -> None:
    """The three columns that every trace has are there, and no name stands for two."""
    names = reader.schema.names
    roles = {"id": columns.id, "ts": columns.ts, "type": columns.type}
    for role, name in (roles if columns.end is None else roles | {"end": columns.end}).items():
        if name in reader.unreadable:
            raise TraceError(f"{reader.name}: column '{name}': {reader.unreadable[name]}")
        if name not in names:
            listed = ", ".join(names) if names else "none"
            raise TraceError(
                f"{reader.name} has no column '{name}'; its columns are {listed}; name the right one with "
                f"--{role} (TraceColumns({role}=...))"
            )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise TraceError(f"{reader.name}: two columns are called '{twice}'; rename one")


def with_unit(columns: TraceColumns, first: pa.Array | None) -> tuple[TraceColumns, list[str]]:
    """The columns with the unit of times, guessed from the first of them if nobody has said it, and what to tell.

    It stays what it is from then on: later times of a stream that begins at 0 may look like another unit.
    """
    if columns.unit is not None or first is None or first.null_count == len(first):
        return columns, []
    kind = first.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return columns, []
    values = first.drop_null().to_numpy(zero_copy_only=False)
    whole = values
    if not pa.types.is_int64(kind) or values.min() < -MAX_TS_US or values.max() > MAX_TS_US:
        whole = values[np.isfinite(values) & (np.abs(values) <= MAX_TS_US)].astype(np.int64)
    unit, default = guessed_unit(whole), DEFAULT_TIME_UNITS["int" if pa.types.is_integer(kind) else "float"]
    if unit in ("us", default):
        return replace(columns, unit=default), []
    told = (
        f"took the times in column '{columns.ts}' for {TIME_UNITS[unit]} since 1970 (the first is "
        f"{shown_time(int(whole[0]), unit)}); if they are {TIME_UNITS[default]}, say --ts-unit {default} "
        f"(TraceColumns(unit='{default}'))"
    )
    return replace(columns, unit=unit), [told]
