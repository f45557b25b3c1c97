"""Payloads become rows in their order; those that do not fit are named, whatever stands around them."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decopa.errors import TraceError
from shuffler.source.live.decoding import Decoder, fit_rows, infer_columns

COLUMNS = {"id": "int", "ts": "int", "type": "string", "x": "float"}
NAMES = list(COLUMNS)
BAD = (b"", b"{", b'{"id": "word", "ts": 1}', b"[1, 2]", b'{"id": 1}\n{"id": 2}', b"\xff\xfe", None)


def good(number: int) -> bytes:
    return json.dumps({"id": number, "ts": number, "type": "A", "x": number / 2, "more": [1]}).encode()


def stream_of(*numbers: int) -> bytes:
    batch = pa.record_batch(
        {"id": pa.array(numbers, pa.int32()), "ts": numbers, "type": pa.array(["A"] * len(numbers)).dictionary_encode()}
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


@given(st.lists(st.one_of(st.integers(0, 1000), st.sampled_from(BAD)), max_size=30))
def test_exactly_the_payloads_that_do_not_fit_are_bad(payloads: list[int | bytes | None]) -> None:
    given = [good(one) if isinstance(one, int) else one for one in payloads]
    decoded = Decoder("json", COLUMNS).decode(given, NAMES)
    fine = [index for index, one in enumerate(payloads) if isinstance(one, int)]
    assert decoded.payloads.tolist() == fine
    assert decoded.rows.column("id").to_pylist() == [payloads[index] for index in fine]
    assert sorted(index for index, _ in decoded.bad) == [i for i in range(len(payloads)) if i not in fine]
    assert all(reason for _, reason in decoded.bad)


def test_only_the_columns_that_are_wanted_are_read() -> None:
    decoded = Decoder("json", COLUMNS).decode([b'{"id": 1, "ts": 2, "type": "A", "x": "no number"}'], ["ts", "id"])
    assert decoded.rows.to_pylist() == [{"ts": 2, "id": 1}]


def test_csv_payloads_are_lines_in_the_order_of_the_schema() -> None:
    payloads = [b'1,5,"A, B",0.5', b"2,6,B,", b"3,seven,B,1", b"4,8", b"5,9,C,2"]
    decoded = Decoder("csv", COLUMNS).decode(payloads, ["ts", "type", "x"])
    assert decoded.rows.to_pylist() == [
        {"ts": 5, "type": "A, B", "x": 0.5},
        {"ts": 6, "type": "B", "x": None},
        {"ts": 9, "type": "C", "x": 2.0},
    ]
    assert [index for index, _ in decoded.bad] == [2, 3]
    assert "seven" in decoded.bad[0][1]


def test_arrow_payloads_have_any_number_of_rows() -> None:
    decoded = Decoder("arrow", COLUMNS).decode([stream_of(1, 2), b"no stream", stream_of(), stream_of(3)], NAMES)
    assert decoded.rows.column("id").to_pylist() == [1, 2, 3]
    assert decoded.rows.schema.field("x").type == pa.float64()
    assert decoded.payloads.tolist() == [0, 0, 3]
    assert [index for index, _ in decoded.bad] == [1]


@pytest.mark.parametrize(
    ("ts", "kind"),
    [("1", "int"), ('"2024-05-01T10:00:00.25"', "time"), ('"2024-05-01T10:00:00Z"', "time"), ('"soon"', "string")],
)
def test_first_payloads_show_what_columns_hold(ts: str, kind: str) -> None:
    payload = b'{"id": 1, "ts": %s, "type": "A", "x": 1.5, "ok": true, "none": null, "list": [1]}' % ts.encode()
    assert infer_columns("json", [payload], "ts", "topic t") == {
        "id": "int",
        "ts": kind,
        "type": "string",
        "x": "float",
        "ok": "bool",
    }


def test_what_most_payloads_hold_counts_if_some_are_bad() -> None:
    payloads = [b"{", b'{"id": "one", "x": 1}', b'{"id": 2, "x": 1}', b'{"id": 3, "x": 0.5}', b'{"id": 4, "x": 2}']
    assert infer_columns("json", payloads, "ts", "topic t") == {"id": "int", "x": "float"}


def test_what_cannot_be_inferred_is_said() -> None:
    with pytest.raises(TraceError, match=r"topic t: CSV payloads do not name their columns.*--schema id=int"):
        infer_columns("csv", [b"1,2"], "ts", "topic t")
    with pytest.raises(TraceError, match="topic t: its first payload cannot be read as json"):
        infer_columns("json", [b"\x00"], "ts", "topic t")
    with pytest.raises(TraceError, match="topic t: its first payload cannot be read as arrow"):
        infer_columns("arrow", [b"{}"], "ts", "topic t")


def test_values_that_cannot_be_cast_are_named_by_row() -> None:
    batch = pa.record_batch({"x": ["1.5", "two", "3"], "id": [1, 2, 3]})
    rows, bad = fit_rows(batch, pa.schema([("id", pa.int64()), ("x", pa.float64()), ("y", pa.string())]))
    assert rows.to_pylist() == [{"id": 1, "x": 1.5, "y": None}, {"id": 3, "x": 3.0, "y": None}]
    assert [index for index, _ in bad] == [1]
    assert "two" in bad[0][1]
