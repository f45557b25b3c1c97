"""The result table: its order, and that matches found in order are not copied."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import decopa
from actors.columnar.jit import interpreted
from actors.columnar.output import OutputBlocks
from actors.sinks import sink as sink_module
from actors.sinks.outlet import OutletSpec
from actors.sinks.sink import MatchSink
from cluster.local import LocalRuntime
from decopa.choices import Order
from decopa.planning.plan import Plan
from decopa.planning.strategies.left_deep import left_deep
from decopa.planning.subquery import whole
from decopa.query.binding import bind
from shuffler.routing.table import END_OF_STREAM
from shuffler.rows.batch import Batch
from shuffler.rows.layout import layout_of
from shuffler.source.trace import open_trace

PAIR = "PATTERN SEQ(A a, B b) WITHIN 10 us"
TRIPLE = "PATTERN SEQ(A a, B b, C c) WITHIN 40 us"


def trace(types: str, times: list[int] | None = None) -> pa.Table:
    times = list(range(len(types))) if times is None else times
    return pa.table({"id": list(range(len(types))), "ts": times, "type": list(types)})


@pytest.fixture
def new_sink() -> Iterator[object]:
    def make(order: Order) -> MatchSink:
        source = open_trace(trace("AB"))
        query = decopa.parse(PAIR)
        bound = bind(query, source.schema)
        return MatchSink(bound, layout_of(bound, whole(query)), source.format, source.strings, order)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sink_module, "SEGMENT", 1)
        yield make


def pairs(*rows: tuple[int, int, int, int]) -> Batch:
    """Rows of (start, end, id of a, id of b)."""
    start, end, a, b = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return Batch(len(rows), {"min_ts": start, "max_ts": end, "a.id": a, "b.id": b}, {})


def ids(table: pa.Table) -> list[tuple[int, int]]:
    return list(zip(table.column("a").to_pylist(), table.column("b").to_pylist(), strict=True))


LATE, EARLY, TIE = (1, 9, 1, 9), (2, 5, 2, 5), (1, 5, 1, 5)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (Order.CANONICAL, [(1, 5), (2, 5), (1, 9)]),
        (Order.END, [(2, 5), (1, 5), (1, 9)]),
        (Order.ANY, [(1, 9), (2, 5), (1, 5)]),
    ],
)
def test_matches_come_in_the_order_that_was_asked_for(order: Order, expected: list[object], new_sink) -> None:  # type: ignore[no-untyped-def]
    sink = new_sink(order)
    sink.add(pairs(LATE, EARLY))
    sink.add(pairs(TIE))
    sink.settle(END_OF_STREAM)
    assert ids(sink.table()) == expected


def test_a_match_waits_until_nothing_can_come_before_it(new_sink) -> None:  # type: ignore[no-untyped-def]
    sink = new_sink(Order.CANONICAL)
    sink.add(pairs(LATE))
    sink.settle(9)
    sink.add(pairs(EARLY))
    sink.settle(6)
    sink.add(pairs((8, 9, 0, 9), (0, 9, 8, 9)))
    sink.settle(END_OF_STREAM)
    assert ids(sink.table()) == [(2, 5), (8, 9), (1, 9), (0, 9)]


def test_matches_in_order_are_not_copied(new_sink) -> None:  # type: ignore[no-untyped-def]
    sink = new_sink(Order.CANONICAL)
    blocks = OutputBlocks(dict.fromkeys(("min_ts", "max_ts", "a.id", "b.id"), np.dtype(np.int64)), 100)
    first = blocks.room(100)
    for begin in (0, 3, 6):
        columns = blocks.room(3)
        for number, column in enumerate(columns.values()):
            column[:] = np.arange(begin, begin + 3) + number
        blocks.take(3)
        sink.add(Batch(3, columns, {}))
        sink.settle(begin + 3)
    (chunk,) = pa.chunked_array(sink.take().column("end_ts").chunks[:1]).chunks
    assert chunk.buffers()[1].address == first["max_ts"].ctypes.data


def test_columns_that_share_memory_change_places_together() -> None:
    source = open_trace(trace("AB"))
    query = decopa.parse("PATTERN SEQ(A a, B b) WITHIN 10 us RETURN a.id, b.ts")
    bound = bind(query, source.schema)
    sink = MatchSink(bound, layout_of(bound, whole(query)), source.format, source.strings)
    rows = [(number, number + 1, number, number) for number in range(20)]
    sink.add(pairs(rows[1], rows[0], *rows[2:]))
    table = sink.table()
    assert ids(table) == [(number, number) for number in range(20)]
    assert table.column("a.id").to_pylist() == list(range(20))
    assert table.column("b.ts").to_pylist() == table.column("end_ts").to_pylist() == list(range(1, 21))


@pytest.mark.parametrize("aliases", ["cba", "bca", "acb", "cab"])
def test_a_sequence_comes_in_the_order_of_its_ends_if_single_events_join_last(aliases: str) -> None:
    plan = Plan((left_deep(decopa.parse(TRIPLE), list(aliases)),))
    with interpreted():
        found = LocalRuntime(plan, open_trace(trace("AABBCCABCBACCBABC")), batch_size=5, outlet=OutletSpec(Order.ANY))
        found.run()
    (table,) = found.outcomes
    assert isinstance(table, pa.Table)
    ends = table.column("end_ts").to_pylist()
    assert len(ends) > 20
    assert ends == sorted(ends)


@pytest.mark.parametrize("aliases", ["cba", "bca", "acb", "cab"])
def test_then_it_comes_in_canonical_order(aliases: str) -> None:
    plan = Plan((left_deep(decopa.parse(TRIPLE), list(aliases)),))
    events = trace("AABBCCABCBACCBABC")
    with interpreted():
        found = LocalRuntime(plan, open_trace(events), batch_size=5, outlet=OutletSpec(Order.ANY))
        found.run()
        expected = decopa.run(TRIPLE, events, strategy="left-deep", runtime="local")
    (table,) = found.outcomes
    assert isinstance(table, pa.Table)
    assert table.combine_chunks().equals(expected.combine_chunks())
