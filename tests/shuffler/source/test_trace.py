"""What a trace looks like once it is opened: batches, kinds of columns, identity, order."""

from __future__ import annotations

import decimal
import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decopa.errors import TraceError
from decopa.query.schema import NULL, Column, Kind
from shuffler.source.trace import BLOCK_ROWS, TraceColumns, open_trace
from tests.support.small_traces import only_batch, trace


def values(table: pa.Table, attribute: str, **options: bool) -> list[object]:
    return only_batch(open_trace(table, **options), attribute).columns[attribute].tolist()


def test_a_table_comes_out_as_columns_in_the_order_of_time() -> None:
    source = open_trace(trace(type=["A", "B", "A"], x=[0.5, 1.5, 2.5]))
    batch = only_batch(source, "x")
    assert batch.ts.tolist() == [0, 10, 20]
    assert batch.ids.tolist() == [0, 1, 2]
    assert [batch.type_names[code] for code in batch.type_codes] == ["A", "B", "A"]
    assert batch.columns["x"].tolist() == [0.5, 1.5, 2.5]
    assert source.row_count == 3
    assert source.schema.event_types == {"A", "B"}
    assert source.notices == []


def test_arrays_have_one_type_each_and_are_read_only() -> None:
    batch = only_batch(open_trace(trace(x=pa.array([1, None, 3], pa.int8()), b=[True, False, None])), "x", "b", "ts")
    assert (batch.ts.dtype, batch.ids.dtype, batch.type_codes.dtype) == (np.int64, np.int64, np.int32)
    for array in (batch.ts, batch.ids, batch.type_codes, *batch.columns.values()):
        assert not array.flags.writeable
        assert array.flags.c_contiguous


@given(rows=st.integers(0, 50), batch_size=st.integers(1, 60), pieces=st.integers(1, 5))
def test_batches_of_any_size_hold_every_event_once(rows: int, batch_size: int, pieces: int) -> None:
    whole = trace(x=np.arange(rows) * 0.5)
    cuts = [rows * piece // pieces for piece in range(pieces + 1)]
    table = pa.concat_tables([whole.slice(a, b - a) for a, b in itertools.pairwise(cuts)])
    batches = list(open_trace(table).batches(["x"], batch_size))
    assert all(1 <= len(batch) <= batch_size for batch in batches)
    assert [event for batch in batches for event in batch.ids.tolist()] == list(range(rows))
    assert [value for batch in batches for value in batch.columns["x"].tolist()] == whole["x"].to_pylist()
    ordinals = [batch.first_ordinal + row for batch in batches for row in range(len(batch))]
    assert ordinals == list(range(rows))


def test_small_blocks_of_a_stream_are_gathered_where_nobody_waits_for_them() -> None:
    whole = pa.table({"id": range(10), "ts": range(10), "type": pa.array(list("ABCDE") * 2).dictionary_encode()})
    small = [whole.slice(start, 1).to_batches()[0] for start in range(10)]
    source = open_trace(iter(small))
    gathered = list(source.batches([], 4, gather=True))
    assert [len(batch) for batch in gathered] == [4, 4, 2]
    assert [one for batch in gathered for one in batch.ids.tolist()] == list(range(10))
    types = [batch.type_names[code] for batch in gathered for code in batch.type_codes]
    assert types == list("ABCDE") * 2


def test_a_bad_row_of_gathered_blocks_is_named_by_its_own_number() -> None:
    rows = [
        pa.record_batch({"id": [n], "ts": [n], "type": pa.array([None if n == 3 else "A"], pa.string())})
        for n in range(5)
    ]
    with pytest.raises(TraceError, match="row 4"):
        list(open_trace(iter(rows)).batches([], 100, gather=True))


def test_type_codes_stay_the_same_over_blocks() -> None:
    rows = 2 * BLOCK_ROWS
    table = trace(type=["A"] * BLOCK_ROWS + ["B", "A"] * (BLOCK_ROWS // 2), x=np.zeros(rows))
    first, second = open_trace(table).batches([], BLOCK_ROWS)
    assert first.type_names[first.type_codes[0]] == "A"
    assert second.type_codes[1] == first.type_codes[0]


def test_a_trace_can_be_read_again() -> None:
    source = open_trace(trace(s=["u", "v", "u"]))
    assert only_batch(source, "s").columns["s"].tolist() == only_batch(source, "s").columns["s"].tolist()


def test_an_empty_table_has_no_batches() -> None:
    table = trace(x=[1.0]).slice(0, 0)
    source = open_trace(table)
    assert list(source.batches(["x"], 10)) == []
    assert source.row_count == 0
    assert source.schema.event_types == frozenset()


def test_a_record_batch_and_a_list_of_them_are_tables() -> None:
    (batch,) = trace(x=[1.0, 2.0]).to_batches()
    assert open_trace(batch).row_count == 2
    assert open_trace([batch.slice(0, 1), batch.slice(1, 1)]).row_count == 2


# ------------------------------------------------------------------ kinds of columns


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.int64(), pa.uint64()])
def test_integers_of_any_width_become_64_bits_with_a_sentinel_for_null(kind: pa.DataType) -> None:
    table = trace(x=pa.array([1, None, 3], kind))
    assert values(table, "x") == [1, NULL, 3]
    assert open_trace(table).schema.attributes["x"] == Column(Kind.INT, nullable=True)


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64(), pa.decimal128(10, 2)])
def test_fractions_become_doubles_with_nan_for_null(kind: pa.DataType) -> None:
    items = [1.5, None, -2.25]
    if pa.types.is_decimal(kind):
        items = [item if item is None else decimal.Decimal(str(item)) for item in items]
    table = trace(x=pa.array(items, kind))
    found = values(table, "x")
    assert found[0] == 1.5
    assert np.isnan(found[1])
    assert found[2] == -2.25
    assert open_trace(table).schema.attributes["x"] == Column(Kind.FLOAT, nullable=True)


def test_truth_values_become_0_and_1() -> None:
    table = trace(x=[True, False, None])
    assert values(table, "x") == [1, 0, NULL]
    assert open_trace(table).schema.attributes["x"] == Column(Kind.BOOL, nullable=True)


def test_strings_become_codes_of_the_pool() -> None:
    source = open_trace(trace(x=["u", None, "v"]))
    codes = only_batch(source, "x").columns["x"]
    assert source.strings.decode(codes).to_pylist() == ["u", None, "v"]
    assert source.schema.attributes["x"] == Column(Kind.STRING, nullable=True)


def test_dictionaries_are_what_their_values_are() -> None:
    source = open_trace(
        trace(s=pa.array(["u", "v", "u"]).dictionary_encode(), n=pa.array([5, None, 5]).dictionary_encode())
    )
    batch = only_batch(source, "s", "n")
    assert source.strings.decode(batch.columns["s"]).to_pylist() == ["u", "v", "u"]
    assert batch.columns["n"].tolist() == [5, NULL, 5]
    assert source.schema.attributes["s"] == Column(Kind.STRING, nullable=False)
    assert source.schema.attributes["n"] == Column(Kind.INT, nullable=True)


@pytest.mark.parametrize(
    ("column", "microseconds"),
    [
        (pa.array([2, None], pa.timestamp("s")), 2_000_000),
        (pa.array([2, None], pa.timestamp("ms", "UTC")), 2_000),
        (pa.array([2, None], pa.timestamp("us")), 2),
        (pa.array([2_000, None], pa.timestamp("ns")), 2),
        (pa.array([-1_000, None], pa.timestamp("ns")), -1),
        (pa.array([1, None], pa.date32()), 86_400_000_000),
        (pa.array([2, None], pa.duration("ms")), 2_000),
        (pa.array([2, None], pa.time32("s")), 2_000_000),
        (pa.array([2, None], pa.time64("us")), 2),
    ],
)
def test_times_and_durations_are_whole_microseconds(column: pa.Array, microseconds: int) -> None:
    assert values(trace(x=column), "x") == [microseconds, NULL]


def test_a_column_of_nothing_but_nulls_is_missing_everywhere() -> None:
    assert np.isnan(values(trace(x=pa.nulls(3)), "x")).all()


def test_columns_without_nulls_are_known_not_to_be_nullable() -> None:
    source = open_trace(trace(x=[1.0, 2.0]))
    assert not source.schema.attributes["x"].nullable


def test_nan_counts_as_missing_if_asked() -> None:
    table = trace(x=[1.0, float("nan"), None])
    assert np.isnan(values(table, "x", nan_as_null=True)).tolist() == [False, True, True]
    assert open_trace(trace(x=[1.0]), nan_as_null=True).schema.attributes["x"].nullable


def test_columns_that_nobody_asks_for_may_hold_anything() -> None:
    source = open_trace(trace(x=[[1], [2]], y=[float("nan")] * 2, z=[b"1", b"2"]))
    assert len(only_batch(source)) == 2
    assert "x" not in source.schema.attributes


# ------------------------------------------------------------------ identity, time, names


def test_an_integer_id_is_the_identity_of_its_event() -> None:
    source = open_trace(trace(id=pa.array([7, 5, 9], pa.uint16())))
    assert only_batch(source, "id").ids.tolist() == [7, 5, 9]
    assert only_batch(source, "id").columns["id"].tolist() == [7, 5, 9]
    assert source.format.id_type == pa.uint16()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_with_string_ids_the_ordinal_is_the_identity(kind: pa.DataType) -> None:
    source = open_trace(trace(id=pa.array(["c", "a", "b"]).cast(kind)))
    batch = only_batch(source, "id")
    assert batch.ids.tolist() == [0, 1, 2]
    assert source.strings.decode(batch.columns["id"]).to_pylist() == ["c", "a", "b"]
    assert source.format.id_type == kind
    assert source.schema.attributes["id"] == Column(Kind.STRING)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_any_unit_become_microseconds(unit: str) -> None:
    table = trace(ts=pa.array([1, 2], pa.timestamp("s")).cast(pa.timestamp(unit)))
    source = open_trace(table)
    assert only_batch(source).ts.tolist() == [1_000_000, 2_000_000]
    assert source.format.ts_type == pa.timestamp(unit)


def test_dates_serve_as_times() -> None:
    assert only_batch(open_trace(trace(ts=pa.array([0, 1], pa.date32())))).ts.tolist() == [0, 86_400_000_000]


def test_time_is_an_attribute_in_microseconds() -> None:
    source = open_trace(trace(ts=pa.array([1, 2], pa.timestamp("s"))))
    assert only_batch(source, "ts").columns["ts"].tolist() == [1_000_000, 2_000_000]
    assert source.schema.attributes["ts"] == Column(Kind.INT)


def test_types_may_be_integers() -> None:
    source = open_trace(trace(type=[3, 1, 3]))
    batch = only_batch(source)
    assert [batch.type_names[code] for code in batch.type_codes] == ["3", "1", "3"]
    assert source.schema.event_types == {"1", "3"}


def test_unused_entries_of_a_type_dictionary_are_no_event_types() -> None:
    types = pa.DictionaryArray.from_arrays(pa.array([0, 2]), pa.array(["A", "B", "C"]))
    assert open_trace(trace(type=types)).schema.event_types == {"A", "C"}


def test_columns_can_have_other_names() -> None:
    table = trace(x=[1.0, 2.0]).rename_columns(
        ["x" if name == "x" else f"my_{name}" for name in trace(x=[1.0]).column_names]
    )
    source = open_trace(table, columns=TraceColumns(id="my_id", ts="my_ts", type="my_type"))
    batch = only_batch(source, "id", "my_id", "ts", "my_ts", "my_type")
    assert batch.columns["id"].tolist() == batch.columns["my_id"].tolist() == [0, 1]
    assert batch.columns["ts"].tolist() == batch.columns["my_ts"].tolist() == [0, 10]
    assert source.strings.decode(batch.columns["my_type"]).to_pylist() == ["A", "A"]


def test_a_column_hidden_by_another_of_its_role_gets_a_notice() -> None:
    source = open_trace(trace(id=[9, 9], event=[1, 2]), columns=TraceColumns(id="event"))
    assert only_batch(source, "id").columns["id"].tolist() == [1, 2]
    assert source.notices == ["'id' means column 'event'; column 'id' is not used"]


# ------------------------------------------------------------------ order


def test_unsorted_events_are_sorted_with_a_notice() -> None:
    source = open_trace(trace(ts=[30, 10, 20], id=[0, 1, 2], type=["A", "B", "C"], x=["u", "v", "w"]))
    batch = only_batch(source, "x")
    assert batch.ts.tolist() == [10, 20, 30]
    assert batch.ids.tolist() == [1, 2, 0]
    assert [batch.type_names[code] for code in batch.type_codes] == ["B", "C", "A"]
    assert source.strings.decode(batch.columns["x"]).to_pylist() == ["v", "w", "u"]
    assert source.notices == ["timestamps were not in order: sorted 3 events"]


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 50))
def test_sorting_keeps_the_order_of_equal_times(times: list[int], batch_size: int) -> None:
    table = trace(ts=pa.array(times, pa.int64()))
    found = [event for batch in open_trace(table).batches([], batch_size) for event in batch.ids.tolist()]
    assert found == sorted(range(len(times)), key=lambda row: times[row])


def test_equal_times_are_in_order() -> None:
    assert open_trace(trace(ts=[5, 5, 5]), assume_sorted=True).notices == []


# ------------------------------------------------------------------ live streams


def stream(*tables: pa.Table) -> Iterator[pa.RecordBatch]:
    for table in tables:
        yield from table.to_batches()


def test_a_live_stream_is_handed_on_batch_by_batch() -> None:
    arrived: list[int] = []

    def events() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            arrived.append(number)
            yield from trace(id=[number], ts=[number], x=[0.5]).to_batches()

    source = open_trace(events())
    assert source.row_count is None
    assert source.schema.event_types is None
    assert source.schema.attributes["x"].nullable
    for number, batch in enumerate(source.batches(["x"], 10)):
        assert arrived == list(range(number + 1))
        assert batch.ids.tolist() == [number]
        assert batch.first_ordinal == number


def test_a_record_batch_reader_is_a_live_stream() -> None:
    source = open_trace(trace(x=[1.0, 2.0]).to_reader())
    assert source.row_count is None
    assert only_batch(source, "x").columns["x"].tolist() == [1.0, 2.0]


def test_a_live_stream_passes_once() -> None:
    source = open_trace(stream(trace(x=[1.0])))
    list(source.batches([], 10))
    with pytest.raises(TraceError, match="a live stream passes once"):
        list(source.batches([], 10))


def test_a_live_stream_may_not_go_back_in_time() -> None:
    source = open_trace(stream(trace(id=[1], ts=[20]), trace(id=[2], ts=[10])))
    with pytest.raises(TraceError, match="row 2: 10 is earlier than the row before; a live stream must come in time"):
        list(source.batches([], 10))


def test_ids_that_repeat_within_a_live_batch_are_refused() -> None:
    source = open_trace(stream(trace(id=[5, 4, 5])))
    with pytest.raises(TraceError, match="row 3: id 5 was used in row 1 already"):
        list(source.batches([], 10))


def test_the_batches_of_a_stream_must_have_the_same_columns() -> None:
    source = open_trace(stream(trace(x=[1.0]), trace(x=["u"])))
    with pytest.raises(TraceError, match="the columns of a batch differ"):
        list(source.batches([], 10))


def test_a_stream_without_a_batch_is_refused() -> None:
    with pytest.raises(TraceError, match="ended before its first batch"):
        open_trace(iter([]))


def test_a_stream_of_something_else_is_refused() -> None:
    with pytest.raises(TraceError, match=r"must consist of pyarrow.RecordBatch, got dict"):
        open_trace(iter([{"id": 1}]))


def test_the_time_span_is_known_before_anything_is_read() -> None:
    assert open_trace(trace(ts=[5, 20, 45])).span_us == 40
    assert open_trace(trace(ts=[45, 5, 20])).span_us == 40
    source = open_trace(trace(ts=[5, 20, 45]))
    list(source.blocks([], 10, skip=2))
    assert source.span_us == 40


def test_the_time_span_of_a_stream_is_that_of_what_has_passed() -> None:
    source = open_trace(iter(trace(ts=[5, 20, 45]).to_batches()))
    assert source.span_us == 0
    list(source.blocks([], 10))
    assert source.span_us == 40
