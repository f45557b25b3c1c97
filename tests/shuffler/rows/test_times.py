"""Times as people have them."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import decopa
from decopa.api import run_detailed
from decopa.choices import TIME_UNITS as UNITS
from decopa.errors import TraceError
from shuffler.rows.columns import MAX_TS_US, BadValues, Place, timestamps_us
from shuffler.rows.events import TraceColumns
from shuffler.rows.times import guessed_unit
from shuffler.source.trace import open_trace

#: 2024-05-01 10:00:00, in seconds.
MORNING_S = 1_714_557_600
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
QUERY = "PATTERN SEQ(A a, B b) WITHIN 10 s"


def events(times: object) -> pa.Table:
    return pa.table({"id": [1, 2, 3], "ts": times, "type": ["A", "B", "B"]})


def micros(values: list[object], unit: str | None = None) -> list[int]:
    return timestamps_us(pa.array(values), "ts", Place("t"), unit).tolist()


@pytest.mark.parametrize("unit", UNITS)
def test_whole_numbers_since_1970_are_taken_in_the_unit_that_makes_them_dates_and_it_is_said(unit: str) -> None:
    per_second = PER_SECOND[unit]
    result = run_detailed(QUERY, events([MORNING_S * per_second + after * per_second for after in (0, 5, 60)]))
    assert result.matches.select(["a", "b"]).to_pylist() == [{"a": 1, "b": 2}]
    if unit == "us":
        assert result.notices == ()
    else:
        assert result.notices == (
            f"took the times in column 'ts' for {UNITS[unit]} since 1970 (the first is 2024-05-01 10:00:00); if they "
            "are microseconds, say --ts-unit us (TraceColumns(unit='us'))",
        )
        assert result.matches["start_ts"].to_pylist() == [dt.datetime(2024, 5, 1, 10)]


def test_what_the_user_says_counts_and_is_not_commented() -> None:
    times = [MORNING_S, MORNING_S + 5, MORNING_S + 60]
    assert (
        run_detailed(QUERY, events(times), trace=decopa.TraceOptions(columns=TraceColumns(unit="us"))).matches.num_rows
        == 2
    )
    source = open_trace(events([1, 6, 61]), columns=TraceColumns(unit="s"))
    assert source.notices == []
    assert [batch.ts.tolist() for batch in source.batches([], 10)] == [[1_000_000, 6_000_000, 61_000_000]]
    with pytest.raises(TraceError, match="unknown unit of times 'h'; choose --ts-unit s, ms, us, ns"):
        TraceColumns(unit="h")


@given(st.lists(st.integers(0, 10**9 - 1), min_size=1))
def test_times_since_the_start_of_a_trace_stay_microseconds(times: list[int]) -> None:
    assert guessed_unit(np.array(times)) == "us"


@given(st.sampled_from(sorted(UNITS)), st.lists(st.integers(1_000_000_000, 1_999_999_999), min_size=1))
def test_dates_of_our_time_are_recognised_in_every_unit(unit: str, seconds: list[int]) -> None:
    assert guessed_unit(np.array(seconds) * PER_SECOND[unit]) == unit


def test_fractions_are_seconds_to_the_nearest_microsecond() -> None:
    assert micros([1.5, 0.1 + 0.2, -0.0000014]) == [1_500_000, 300_000, -1]
    assert micros([1.5], "ms") == [1_500]
    source = open_trace(events([MORNING_S * 1e3, MORNING_S * 1e3 + 0.5, MORNING_S * 1e3 + 1]))
    assert source.notices[0].startswith("took the times in column 'ts' for milliseconds since 1970")


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e300, -1e13])
def test_fractions_out_of_range_are_named(value: float) -> None:
    with pytest.raises(BadValues, match=r"row 2: .* is out of range for seconds"):
        micros([0.0, value])


def test_whole_numbers_out_of_range_are_named() -> None:
    with pytest.raises(BadValues, match=r"row 2: .* is out of range for seconds; check its unit \(--ts-unit\)"):
        micros([0, MAX_TS_US // 1_000_000 + 1], "s")
    assert micros([MAX_TS_US // 1_000_000], "s") == [MAX_TS_US // 1_000_000 * 1_000_000]
    assert micros([1_999, -1], "ns") == [1, -1]


def test_dates_are_times() -> None:
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date(2024, 1, 9)]
    for kind in (pa.date32(), pa.date64()):
        found = decopa.run("PATTERN SEQ(A a, B b) WITHIN 2 d", events(pa.array(days, kind)))
        assert found.to_pylist() == [
            {"query": "q", "start_ts": dt.datetime(2024, 1, 1), "end_ts": dt.datetime(2024, 1, 2), "a": 1, "b": 2}
        ]


def test_text_is_read_as_times_with_and_without_zones() -> None:
    texts = ["2024-05-01T10:00:00", "2024-05-01 10:00:00.25", "2024-05-01T12:00:01+02:00", "2024-05-01T10:00:02Z"]
    after = [value - MORNING_S * 1_000_000 for value in micros([*texts])]
    assert after == [0, 250_000, 1_000_000, 2_000_000]
    assert timestamps_us(pa.array(texts).dictionary_encode(), "ts", Place("t")).tolist() == micros([*texts])


@given(
    st.lists(st.one_of(st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2200, 1, 1)), st.just("soon")), max_size=30)
)
def test_exactly_the_texts_that_are_no_times_are_refused(values: list[dt.datetime | str]) -> None:
    bad = [value == "soon" for value in values]
    texts = pa.array([str(value) for value in values], pa.string())
    if any(bad) and not (all(bad) and len(bad) > 1):
        with pytest.raises(BadValues) as caught:
            timestamps_us(texts, "ts", Place("t"))
        assert caught.value.wrong is not None and caught.value.wrong.tolist() == bad
    elif not any(bad):
        found = timestamps_us(texts, "ts", Place("t"))
        wanted = [(value - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1) for value in values]  # type: ignore[operator]
        assert found.tolist() == wanted
