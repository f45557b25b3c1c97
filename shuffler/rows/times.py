"""Times as people have them: text, fractions of seconds, whole numbers of any unit -> microseconds."""

from __future__ import annotations

import datetime as dt

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
#: Times since 1970 that are taken for dates of our time, in seconds: September 2001 to June 2033.
_OUR_TIME_S = (1_000_000_000, 2_000_000_000)


def scaled(values: Ints, unit: str, limit_us: int) -> tuple[Ints, Mask]:
    """Whole numbers of a unit in microseconds, and which of them are out of range; finer parts are cut off."""
    if unit == "ns":
        return values // 1_000, np.zeros(len(values), dtype=np.bool_)
    factor = 1_000_000 // _PER_SECOND[unit]
    limit = limit_us // factor
    if not len(values) or (values.min() >= -limit and values.max() <= limit):  # as a rule, and then nothing is copied
        return values if factor == 1 else values * factor, np.zeros(len(values), dtype=np.bool_)
    wrong = (values > limit) | (values < -limit)
    return np.where(wrong, 0, values) * factor, wrong


def rounded(values: npt.NDArray[np.float64], unit: str, limit_us: int) -> tuple[Ints, Mask]:
    """Fractions of a unit, to the nearest microsecond, and which of them are out of range or no numbers."""
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is out of range
        micros = values * (1_000_000 / _PER_SECOND[unit])
    wrong = ~(np.abs(micros) <= limit_us)
    return np.rint(np.where(wrong, 0.0, micros)).astype(np.int64), wrong


def parsed(array: pa.Array) -> tuple[Ints, Mask]:
    """Text in ISO 8601 in microseconds, and which of it is no time; what has a zone becomes UTC."""
    if pa.types.is_string_view(array.type):  # Arrow cannot cast these to times
        array = array.cast(pa.string())
    values: Ints = np.zeros(len(array), dtype=np.int64)
    wrong = np.zeros(len(array), dtype=np.bool_)

    def read(first: int, stop: int) -> None:
        some = array.slice(first, stop - first)
        for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
            try:
                values[first:stop] = some.cast(kind).view(pa.int64()).fill_null(0).to_numpy()
                return
            except pa.ArrowInvalid:
                continue
        if stop - first == 1:
            wrong[first] = True
            return
        middle = (first + stop) // 2
        read(first, middle)
        read(middle, stop)

    if len(array):
        read(0, len(array))
    return values, wrong


def guessed_unit(values: Ints) -> str:
    """The unit in which whole numbers are dates of our time, all of them; microseconds if there is none."""
    if len(values):
        low, high = int(values.min()), int(values.max())
        for unit, per_second in _PER_SECOND.items():
            if _OUR_TIME_S[0] * per_second <= low and high < _OUR_TIME_S[1] * per_second:
                return unit
    return "us"


def shown_time(value: int, unit: str) -> str:
    """A whole number of a unit since 1970 as a date."""
    seconds = value // _PER_SECOND[unit]
    return (dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)).isoformat(sep=" ")
