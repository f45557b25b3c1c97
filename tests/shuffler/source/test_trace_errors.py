"""Bad traces: each is refused with one line that says what is wrong, where, and how to fix it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from decopa.errors import TraceError
from shuffler.source.checks import SURVEY_ROWS
from shuffler.source.trace import TraceColumns, open_trace
from tests.support.small_traces import trace


def refusal(table: pa.Table, *attributes: str, **options: bool) -> str:
    """The message with which opening the table or reading the attributes fails."""
    with pytest.raises(TraceError) as caught:
        list(open_trace(table, **options).batches(attributes, 100))
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("role", ["id", "ts", "type"])
def test_a_missing_column_is_named_with_those_that_exist_and_the_option(role: str) -> None:
    message = refusal(trace(x=[1.0]).drop_columns([role]))
    others = ", ".join(name for name in ("id", "ts", "type", "x") if name != role)
    assert message == (
        f"the table has no column '{role}'; its columns are {others}; "
        f"name the right one with --{role} (TraceColumns({role}=...))"
    )


def test_a_table_without_columns_is_refused() -> None:
    assert "its columns are none" in refusal(pa.table({}))


def test_two_columns_of_one_name_are_refused() -> None:
    table = pa.table([[1], [1], ["A"], [1.0], [2.0]], names=["id", "ts", "type", "x", "x"])
    assert "two columns are called 'x'" in refusal(table)


def test_one_column_cannot_have_two_roles() -> None:
    with pytest.raises(TraceError, match="id, ts and type need a column each"):
        TraceColumns(id="ts")


def test_an_unknown_attribute_comes_with_the_nearest_name() -> None:
    assert refusal(trace(price=[1.0]), "prise") == "the table has no column 'prise'; did you mean 'price'?"


def test_an_attribute_that_holds_lists_is_refused() -> None:
    assert "column 'x': holds list<item: int64>, which a query cannot use" in refusal(trace(x=[[1], [2]]), "x")


def test_something_that_is_no_trace_is_refused() -> None:
    with pytest.raises(TraceError, match="cannot read events from int"):
        open_trace(5)


# ------------------------------------------------------------------ ids


def test_a_missing_id_is_refused() -> None:
    assert refusal(trace(id=[1, None, 3])) == "the table: column 'id', row 2: has no id; every event needs its own"


@pytest.mark.parametrize("ids", [[1, 2, 3, 2, 1], ["a", "b", "c", "b", "a"]])
def test_the_first_repeated_id_is_named(ids: list[object]) -> None:
    message = refusal(trace(id=ids))
    assert f"column 'id', row 4: id {ids[1]} was used in row 2 already" in message


def test_repeated_ids_in_a_dictionary_are_found() -> None:
    table = trace(id=pa.array(["a", "b", "a"]).dictionary_encode())
    assert "row 3: id a was used in row 1 already" in refusal(table)


def test_an_id_repeated_far_away_is_found() -> None:
    ids = np.arange(SURVEY_ROWS + 10)
    ids[-1] = 3
    assert f"row {len(ids)}: id 3 was used in row 4 already" in refusal(trace(id=ids))


def test_an_id_repeated_across_two_blocks_of_the_first_pass_is_found() -> None:
    ids = np.arange(SURVEY_ROWS + 1)
    ids[-1] = ids[-2]
    assert f"row {len(ids)}: id {ids[-1]} was used in row {len(ids) - 1} already" in refusal(trace(id=ids))


def test_fractions_are_no_ids() -> None:
    assert "column 'id' holds double, but event ids are integers or strings" in refusal(trace(id=[1.0, 2.0]))


def test_an_id_of_more_than_63_bits_is_refused() -> None:
    message = refusal(trace(id=pa.array([1, 2**63], pa.uint64())))
    assert "column 'id', row 2: 9223372036854775808 is too large for 64 signed bits" in message


# ------------------------------------------------------------------ times


def test_a_missing_time_is_refused() -> None:
    message = refusal(trace(ts=[1, None]))
    assert message == "the table: column 'ts', row 2: has no timestamp; give it one or leave the event out"


@pytest.mark.parametrize("times", [[1.0, 2.0], ["then", "now"], [1.0, float("nan")]])
def test_times_that_are_no_times_are_refused(times: list[object]) -> None:
    assert "not times; make it timestamps or whole microseconds" in refusal(trace(ts=times))


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_a_time_that_overflows_microseconds_is_refused(unit: str) -> None:
    message = refusal(trace(ts=pa.array([0, 2**62 + 1], pa.timestamp(unit))))
    assert "column 'ts', row 2: " in message
    assert "is out of range for microseconds" in message


@pytest.mark.parametrize("far", [2**62 + 1, -(2**62) - 1, -(2**63) + 1])
def test_an_integer_time_that_leaves_no_room_for_a_window_is_refused(far: int) -> None:
    assert f"row 1: {far} is out of range for microseconds; check its unit" in refusal(trace(ts=[far]))


@pytest.mark.parametrize("column", [pa.array([-(2**63)]), pa.array([-(2**63)]).cast(pa.timestamp("us"))])
def test_the_smallest_integer_is_no_time(column: pa.Array) -> None:
    assert "column 'ts', row 1: " in refusal(trace(ts=column))


def test_a_time_finer_than_microseconds_is_refused() -> None:
    message = refusal(trace(ts=pa.array([1_000, 1_001], pa.timestamp("ns"))))
    assert "column 'ts', row 2: " in message
    assert "is finer than a microsecond; round it" in message


def test_unsorted_times_are_refused_if_said_to_be_sorted() -> None:
    assert refusal(trace(ts=[10, 30, 20]), assume_sorted=True) == (
        "the table: column 'ts', row 3: 20 is earlier than the row before; "
        "sort the trace, or leave out --assume-sorted (assume_sorted)"
    )


def test_disorder_between_two_pieces_of_a_table_is_found() -> None:
    table = pa.concat_tables([trace(id=[1, 2], ts=[30, 40]), trace(id=[3, 4], ts=[10, 20])])
    assert "row 3: 10 is earlier" in refusal(table, assume_sorted=True)


# ------------------------------------------------------------------ types and attributes


def test_a_missing_type_is_refused() -> None:
    assert "column 'type', row 2: has no event type" in refusal(trace(type=["A", None]))


def test_a_missing_type_hidden_in_a_dictionary_is_refused() -> None:
    types = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["A", None]))
    assert "column 'type', row 2: has no event type" in refusal(trace(type=types))


def test_fractions_are_no_types() -> None:
    assert "column 'type' holds double, but event types are strings or integers" in refusal(trace(type=[1.0]))


def test_nan_is_refused_with_its_row_and_the_way_out() -> None:
    assert refusal(trace(x=[1.0, None, float("nan")]), "x") == (
        "the table: column 'x', row 3: NaN; pass nan_as_null (--nan-as-null) to treat NaN as missing"
    )


def test_the_row_named_is_that_of_the_trace_before_it_was_sorted() -> None:
    table = trace(ts=[30, 20, 10], x=[float("nan"), 1.0, 1.0])
    assert "column 'x', row 1: NaN" in refusal(table, "x")


def test_the_value_that_stands_for_null_is_refused() -> None:
    assert "column 'x', row 2: -9223372036854775808 means 'missing' in here" in refusal(trace(x=[None, -(2**63)]), "x")


def test_an_attribute_of_more_than_63_bits_is_refused() -> None:
    table = trace(x=pa.array([None, 2**64 - 1], pa.uint64()))
    assert "column 'x', row 2: 18446744073709551615 is too large" in refusal(table, "x")


def test_a_batch_has_at_least_one_event() -> None:
    with pytest.raises(ValueError, match="batch_size must be positive"):
        list(open_trace(trace(x=[1.0])).batches([], 0))


def test_an_empty_table_needs_no_types() -> None:
    source = open_trace(pa.table({"id": [], "ts": [], "type": []}))
    assert list(source.batches(["id"], 10)) == []
