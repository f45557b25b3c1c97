"""Arrow columns -> the int64 and float64 columns of the engine, checked value by value.

The rules are those of `decopa.query.schema`; what does not fit is refused with the column and the row. Rows are
counted from 1, without a CSV's header.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from decopa.choices import DEFAULT_TIME_UNITS, TIME_UNITS
from decopa.errors import TraceError
from decopa.query.schema import NULL, Kind
from shuffler.rows.strings import StringPool, distinct_texts
from shuffler.rows.times import parsed, rounded, scaled

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Values = Ints | Floats
TypeIndices = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

#: Farthest timestamp from 1970, in microseconds (about 146,000 years): adding a window never leaves 64 bits.
MAX_TS_US = 2**62
_MAX_INT64 = 2**63 - 1
#: Microseconds per unit, as a fraction: multiply by the first, divide by the second.
_MICROS = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000), "D": (86_400_000_000, 1)}


class BadValues(TraceError):
    """Rows with values that cannot be used. The message is about the first one; `wrong` marks all that break the same
    rule, and `reason` names it. (Both have defaults because an error that comes from another process has its message
    only.)"""

    def __init__(self, message: str, wrong: Mask | None = None, reason: str = "") -> None:
        super().__init__(message)
        self.wrong, self.reason = wrong, reason


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block of rows was read, for messages; `order` holds the original row numbers if rows were sorted.

    Rows of a broker are numbered by their `offset`, from 0, and are called so.
    """

    source: str
    first_row: int = 0
    order: Ints | None = None
    by_offset: bool = False

    def row(self, index: int) -> int:
        """The row number (from 1) that a user would look up for row `index` of the block."""
        return (self.first_row + index if self.order is None else int(self.order[index])) + 1

    def at(self, index: int) -> str:
        """Row `index` of the block as messages name it: `row 7`, or `offset 6`."""
        return f"offset {self.row(index) - 1}" if self.by_offset else f"row {self.row(index)}"

    def after(self, rows: int) -> Place:
        """The place of what follows the first `rows` rows of the block."""
        order = None if self.order is None else self.order[rows:]
        return Place(self.source, self.first_row + rows, order, self.by_offset)

    def numbers(self, rows: int) -> Ints:
        """The original numbers (from 0) of the first `rows` rows of the block."""
        return np.arange(self.first_row, self.first_row + rows) if self.order is None else self.order[:rows]

    def only(self, kept: Mask) -> Place:
        """The place of the rows that are kept."""
        return Place(self.source, order=self.numbers(len(kept))[kept], by_offset=self.by_offset)

    def error(self, column: str, index: int, problem: str) -> TraceError:
        return TraceError(f"{self.source}: column '{column}', {self.at(index)}: {problem}")

    def refusal(self, column: str, wrong: Mask, problem: str, array: pa.Array | None = None) -> BadValues:
        """The error for rows whose value in the column is wrong; of the first one `array` has the value."""
        index = int(np.argmax(wrong))
        value = "" if array is None else f"{shown(array, index)} "
        message = f"{self.source}: column '{column}', {self.at(index)}: {value}{problem}"
        return BadValues(message, wrong, f"column '{column}': {problem}")


def is_text(kind: pa.DataType) -> bool:
    """Strings, plain or as a dictionary."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_clock(kind: pa.DataType) -> bool:
    """Points in time that have a place on the time line."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def kind_of(kind: pa.DataType) -> Kind | None:
    """The kind that an Arrow type has in queries; None if conditions cannot use it (lists, structs, binary)."""
    if is_text(kind):
        return Kind.STRING
    if pa.types.is_dictionary(kind):
        return kind_of(kind.value_type)
    if pa.types.is_boolean(kind):
        return Kind.BOOL
    if pa.types.is_integer(kind) or is_clock(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
        return Kind.INT
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return Kind.FLOAT
    return None


def timestamps_us(
    array: pa.Array, column: str, place: Place, unit: str | None = None, *, checked: bool = False
) -> Ints:
    """Timestamps of events in microseconds; every event needs one.

    `unit` is that of numbers; without it whole numbers are microseconds, and others seconds. Values that were `checked`
    before are not looked at again where they are used as they are.
    """
    if checked and pa.types.is_int64(array.type) and unit in (None, "us"):
        return _filled(array)
    if is_text(array.type):
        return _times_in_text(array, column, place)
    if not (is_clock(array.type) or pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        raise TraceError(
            f"{place.source}: column '{column}' holds {array.type}, not times; make it timestamps or numbers, or name "
            "another column with --ts (TraceColumns(ts=...))"
        )
    _refuse_null(array, column, place, "has no timestamp; give it one or leave the event out")
    if is_clock(array.type):
        return _clock_us(array, column, place)
    if pa.types.is_floating(array.type):
        unit = unit or DEFAULT_TIME_UNITS["float"]
        values, wrong = rounded(array.cast(pa.float64()).to_numpy(), unit, MAX_TS_US)
    else:
        unit = unit or DEFAULT_TIME_UNITS["int"]
        # The number that means missing is out of range for all units that numbers are scaled up from.
        in_range = pa.types.is_int64(array.type) and unit != "ns"
        whole = _filled(array) if in_range else _integers(array, column, place)
        values, wrong = scaled(whole, unit, MAX_TS_US)
    _refuse(wrong, array, column, place, f"is out of range for {TIME_UNITS[unit]}; check its unit (--ts-unit)")
    return values


def _times_in_text(array: pa.Array, column: str, place: Place) -> Ints:
    texts = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    _refuse_null(texts, column, place, "has no timestamp; give it one or leave the event out")
    check_text(texts, column, place)
    values, wrong = parsed(texts)
    if len(wrong) > 1 and wrong.all():
        raise TraceError(
            f"{place.source}: column '{column}' holds text such as '{shown(texts, 0)}', not times; name another column "
            "with --ts (TraceColumns(ts=...))"
        )
    if wrong.any():
        problem = "is no time; write it like 2024-05-01 10:00:00.25, or name another column with --ts"
        raise place.refusal(column, wrong, problem, texts)
    _refuse(np.abs(values) > MAX_TS_US, texts, column, place, "is out of range for microseconds")
    return values


def identities(array: pa.Array, column: str, place: Place, *, checked: bool = False) -> Ints | pa.Array:
    """Event ids: int64 values, or the strings themselves; `checked` as for times."""
    if checked and pa.types.is_int64(array.type):
        return _filled(array)
    if not (pa.types.is_integer(array.type) or is_text(array.type)):
        raise TraceError(
            f"{place.source}: column '{column}' holds {array.type}, but event ids are integers or strings; "
            "convert it or name another column with --id (TraceColumns(id=...))"
        )
    _refuse_null(array, column, place, "has no id; every event needs its own")
    if is_text(array.type):
        check_text(array, column, place)
        return array
    return _integers(array, column, place)


def check_text(array: pa.Array, column: str, place: Place) -> None:
    """Refuses text that is not UTF-8: Parquet files may hold anything."""
    texts = array.dictionary if pa.types.is_dictionary(array.type) else array
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        wrong = np.array([not _is_utf8(scalar) for scalar in texts], dtype=np.bool_)
        if texts is not array:
            wrong = wrong[array.indices.fill_null(0).to_numpy(zero_copy_only=False)] & ~_nulls(array)
        if wrong.any():
            raise place.refusal(column, wrong, "is not UTF-8 text") from None


def _is_utf8(scalar: pa.Scalar) -> bool:
    try:
        scalar.as_py()
    except UnicodeDecodeError:
        return False
    return True


def type_labels(array: pa.Array, column: str, place: Place) -> pa.Array:
    """Event types as strings (or a dictionary of them); whole numbers serve as names, too."""
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if pa.types.is_integer(kind):
        array = array.cast(pa.string())
    elif not is_text(kind):
        raise TraceError(
            f"{place.source}: column '{column}' holds {array.type}, but event types are strings or integers; "
            "convert it or name another column with --type (TraceColumns(type=...))"
        )
    _refuse_null(array, column, place, "has no event type; give it one or leave the event out")
    check_text(array, column, place)
    return array


def attribute_values(
    array: pa.Array, column: str, place: Place, *, pool: StringPool, now_us: int, nan_as_null: bool
) -> Values:
    """An attribute of any kind but None; `now_us` is the last time of the block."""
    if is_text(array.type):
        check_text(array, column, place)
        return pool.encode(array, now_us)
    return numbers(array, column, place, nan_as_null=nan_as_null)


def numbers(array: pa.Array, column: str, place: Place, *, nan_as_null: bool) -> Values:
    """An attribute that holds no text."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return numbers(array.dictionary_decode(), column, place, nan_as_null=nan_as_null)
    if pa.types.is_boolean(kind):
        return _filled(array.cast(pa.int64()))
    if pa.types.is_integer(kind):
        return _integers(array, column, place)
    if kind_of(kind) is Kind.INT:
        return _clock_us(array, column, place)
    values: Floats = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
    missing = np.isnan(values)
    if not nan_as_null and np.count_nonzero(missing) != array.null_count:
        problem = "NaN; pass nan_as_null (--nan-as-null) to treat NaN as missing"
        raise place.refusal(column, missing & ~_nulls(array), problem)
    return values


class TypeCodes:
    """Event types as small integers that stay the same over a whole trace; `names[code]` is the type."""

    def __init__(self) -> None:
        self._code_of: dict[str, int] = {}
        self.names: tuple[str, ...] = ()

    def encode(self, labels: pa.Array) -> TypeIndices:
        """Codes of a column without nulls; `names` is a new tuple only when a new type appeared."""
        positions, texts = distinct_texts(labels)
        distinct = [self._code_of.setdefault(str(text), len(self._code_of)) for text in texts]
        if len(self._code_of) > len(self.names):
            self.names = tuple(self._code_of)
        if positions.dtype == np.int32 and distinct == list(range(len(distinct))):
            return positions.view(np.int32)  # a dictionary that stays the same has the codes already
        codes: TypeIndices = np.array(distinct, dtype=np.int32)[positions]
        return codes


def _integers(array: pa.Array, column: str, place: Place) -> Ints:
    if pa.types.is_uint64(array.type):
        _refuse(array.fill_null(0).to_numpy() > _MAX_INT64, array, column, place, "is too large for 64 signed bits")
    values = _filled(array if pa.types.is_int64(array.type) else array.cast(pa.int64()))
    if not array.null_count and (not len(values) or values.min() != NULL):
        return values
    if np.count_nonzero(values == NULL) != array.null_count:
        _refuse((values == NULL) & ~_nulls(array), array, column, place, "means 'missing' in here; change it")
    return values


def _clock_us(array: pa.Array, column: str, place: Place) -> Ints:
    """Timestamps, dates, times of day and durations in microseconds, exactly."""
    unit = "D" if pa.types.is_date32(array.type) else "ms" if pa.types.is_date64(array.type) else array.type.unit
    times, divisor = _MICROS[unit]
    raw = array.view(pa.int32()).cast(pa.int64()) if array.type.bit_width == 32 else array.view(pa.int64())
    values: Ints = raw.fill_null(0).to_numpy()
    if divisor > 1:
        _refuse(
            values % divisor != 0, array, column, place, "is finer than a microsecond; round it to microseconds first"
        )
    # The most negative value has no absolute one, hence two comparisons.
    limit = MAX_TS_US * divisor // times if divisor == 1 else _MAX_INT64
    _refuse((values > limit) | (values < -limit), array, column, place, "is out of range for microseconds")
    if (times, divisor) != (1, 1):
        values = values * times // divisor
    return np.where(_nulls(array), NULL, values) if array.null_count else values


def _filled(array: pa.Array) -> Ints:
    """An int64 column with NULL for missing values."""
    filled: Ints = (array.fill_null(NULL) if array.null_count else array).to_numpy(zero_copy_only=False)
    return filled


def _nulls(array: pa.Array) -> Mask:
    mask: Mask = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def _refuse(wrong: Mask, array: pa.Array, column: str, place: Place, problem: str) -> None:
    """Raises for the first row that is wrong, naming its value."""
    if wrong.any():
        raise place.refusal(column, wrong, problem, array)


def _refuse_null(array: pa.Array, column: str, place: Place, problem: str) -> None:
    hidden = pa.types.is_dictionary(array.type) and array.dictionary.null_count  # null as a value of the dictionary
    if array.null_count or hidden:
        missing = pc.is_null(array.dictionary_decode() if hidden else array).to_numpy(zero_copy_only=False)
        if missing.any():
            raise place.refusal(column, missing, problem)


def shown(array: pa.Array, index: int) -> str:
    """A value as messages show it; a time outside the calendar as its raw number, text that is not UTF-8 as bytes."""
    one = array.slice(index, 1)
    if pa.types.is_dictionary(one.type):
        one = one.dictionary_decode()
    try:
        return str(one[0].as_py())
    except (ValueError, OverflowError):
        if is_text(one.type):
            return repr(one.cast(pa.large_binary())[0].as_py())
        return f"{one.view(pa.int32() if one.type.bit_width == 32 else pa.int64())[0].as_py()} ({array.type})"
