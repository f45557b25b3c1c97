"""Matches that alternatives of an OR find at different moments go out once; steady ones when every plan has them."""

from __future__ import annotations

import pyarrow as pa

from decopa.language.text.parser import parse
from decopa.runs.streams.publication import Publication

EITHER = parse("PATTERN OR(SEQ(A a, B b), SEQ(A a, B b, NOT(C c))) WITHIN 10 us")
PLAIN = parse("PATTERN SEQ(A a, B b) WITHIN 10 us")
NESTED = parse("PATTERN SEQ(A a, NOT(SEQ(B b, NOT(C c)))) WITHIN 10 us")


def pairs(*rows: tuple[int, int], end_type: pa.DataType | None = None) -> pa.Table:
    """Matches of events whose id is their time."""
    first, last = ([row[at] for row in rows] for at in range(2))
    ts = end_type or pa.int64()
    return pa.table(
        {
            "query": pa.array(["q"] * len(rows), pa.string()).dictionary_encode(),
            "start_ts": pa.array(first, pa.int64()).cast(ts),
            "end_ts": pa.array(last, pa.int64()).cast(ts),
            "a": pa.array(first, pa.int64()),
            "b": pa.array(last, pa.int64()),
        }
    )


def singles(*ts: int) -> pa.Table:
    return pairs(*((one, one) for one in ts)).drop_columns(["b"])


def ids(table: pa.Table) -> list[tuple[int, int]]:
    return [(row["a"], row["b"]) for row in table.to_pylist()]


def test_a_match_that_another_alternative_brings_later_is_not_new() -> None:
    out = Publication([EITHER])
    assert ids(out.take([pairs((1, 2)), pairs()], [3, -7])) == [(1, 2)]
    assert ids(out.take([pairs((5, 12)), pairs((1, 2))], [13, 3])) == [(5, 12)]
    assert ids(out.take([pairs(), pairs((5, 12), (6, 12))], [30, 20])) == [(6, 12)]


def test_alternatives_in_one_step_are_united() -> None:
    assert ids(Publication([EITHER]).take([pairs((1, 2)), pairs((1, 2))], [3, 3])) == [(1, 2)]


def test_what_cannot_come_again_is_forgotten() -> None:
    out = Publication([EITHER])
    for step in range(1_000):
        out.take([pairs((step, step + 1)), pairs()], [step + 1, step - 9])
    (memory,) = out._memories
    assert memory is not None
    assert len(memory._ends_us) < 50


def test_times_are_compared_in_microseconds_whatever_the_trace_has() -> None:
    out, ms = Publication([EITHER]), pa.timestamp("ms")
    assert out.take([pairs((1, 2), end_type=ms), pairs(end_type=ms)], [1_500, 1_500]).num_rows == 1
    assert out.take([pairs(end_type=ms), pairs((1, 2), end_type=ms)], [9_000, 9_000]).num_rows == 0


def test_several_queries_keep_their_parts_apart() -> None:
    out = Publication([PLAIN, EITHER])
    found = out.take([pairs((1, 2)), pairs((1, 2)), pairs()], [3, 3, 3])
    assert ids(found) == [(1, 2), (1, 2)]


def test_nested_nots_wait_until_every_plan_is_certain() -> None:
    assert NESTED.nesting_of_not == 2
    out = Publication([NESTED], steadily=True)
    assert out.take([singles(1, 5)], [5]).column("a").to_pylist() == [1]
    assert out.take([singles(7)], [5]).num_rows == 0
    assert out.take([singles()], [8]).column("a").to_pylist() == [5, 7]
    assert Publication([NESTED]).take([singles(1, 5)], [5]).num_rows == 2  # without restarts they may go
