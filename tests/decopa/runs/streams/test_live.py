"""`decopa.watch`: matches come while the stream goes on, each once, and only when they are certain."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import decopa
from actors.columnar.jit import interpreted
from decopa.api import watch
from decopa.errors import DecoPaError, StatisticsError, TraceError
from decopa.runs.spec import TraceOptions
from shuffler.source.lateness import Lateness
from tests.property.test_matches import ATTRIBUTES
from tests.support.brute_force import brute_force, canonical
from tests.support.engine import matches_of, table_of
from tests.support.examples import examples
from tests.support.strategies import queries, streams

PAIRS = "PATTERN SEQ(A a, B b) WITHIN 10 us"
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("type", pa.string())])


def batch(*events: tuple[int, str]) -> pa.RecordBatch:
    """Events whose id is their time."""
    rows = [{"id": ts, "ts": ts, "type": kind} for ts, kind in events]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def ids(table: pa.Table) -> list[tuple[int, ...]]:
    return [tuple(row[name] for name in table.column_names[3:]) for row in table.to_pylist()]


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    with interpreted():
        yield


def test_a_match_comes_before_the_next_events_are_asked_for() -> None:
    asked = []

    def arriving() -> Iterator[pa.RecordBatch]:
        for number, one in enumerate([batch((1, "A")), batch((2, "B")), batch((3, "B"))]):
            asked.append(number)
            yield one

    matches = iter(watch(PAIRS, arriving()))
    assert ids(next(matches)) == [(1, 2)]
    assert asked == [0, 1]
    assert ids(next(matches)) == [(1, 3)]
    assert next(matches, None) is None


def test_a_not_holds_a_match_until_it_is_decided() -> None:
    held = "PATTERN SEQ(A a, B b, NOT(C c)) WITHIN 10 us"
    stream = [batch((1, "A"), (2, "B")), batch((11, "B")), batch((12, "C"))]
    found = [ids(table) for table in watch(held, iter(stream))]
    assert found == [[(1, 2), (1, 11)]]  # both with the event at 12, which is past the window


def test_alternatives_bring_a_match_once() -> None:
    either = "PATTERN OR(SEQ(A a, B b), SEQ(A a, B b, NOT(C c))) WITHIN 10 us"
    stream = [batch((1, "A"), (2, "B")), batch((30, "A")), batch((31, "B")), batch((90, "A"))]
    assert [ids(table) for table in watch(either, iter(stream))] == [[(1, 2)], [(30, 31)]]


def test_events_that_may_be_late_are_waited_for() -> None:
    stream = [batch((1, "A"), (4, "B")), batch((3, "B")), batch((9, "A"))]
    run = watch(PAIRS, iter(stream), trace=TraceOptions(lateness=Lateness(allowed_us=5)))
    assert [ids(table) for table in run] == [[(1, 3), (1, 4)]]


def test_a_callback_gets_every_batch_and_the_summary_says_how_far_it_came() -> None:
    found: list[pa.Table] = []
    summary = watch(f"QUERY p {PAIRS}", iter([batch((1, "A")), batch((2, "B"))])).for_each(found.append)
    assert [ids(table) for table in found] == [[(1, 2)]]
    assert (summary.events, summary.reached_us, summary.ended, summary.matches) == (2, 2, True, {"p": 1})


def test_a_run_that_is_stopped_leaves_open_what_is_open() -> None:
    held = "PATTERN SEQ(A a, B b, NOT(C c)) WITHIN 10 us"
    run = watch(held, iter([batch((1, "A"), (2, "B")), batch((20, "A"), (21, "B")), batch((22, "A"))]))
    found = []
    for table in run:
        found.append(ids(table))
        run.stop()
    assert found == [[(1, 2)]]
    summary = run.summary()
    assert not summary.ended and summary.reached_us == 21


def test_a_loop_that_is_left_ends_the_run() -> None:
    closed = []

    def arriving() -> Iterator[pa.RecordBatch]:
        try:
            for ts in range(0, 1_000, 2):
                yield batch((ts, "A"), (ts + 1, "B"))
        finally:
            closed.append(True)

    with watch(PAIRS, arriving()) as run:
        for _ in run:
            break
    assert closed and run.summary().events == 2


def test_json_lines_come_from_a_pipe() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as stream, os.fdopen(writing, "w", buffering=1) as lines:
        for ts, kind in ((1, "A"), (2, "B")):
            lines.write(json.dumps({"id": ts, "ts": ts, "type": kind}) + "\n")
        run = watch(PAIRS, stream)
        matches = iter(run)
        assert ids(next(matches)) == [(1, 2)]
        lines.write(json.dumps({"id": 3, "ts": 3, "type": "B"}) + "\n")
        assert ids(next(matches)) == [(1, 3)]
        run.stop()  # the pipe is open, nothing comes: the run ends all the same
        assert next(matches, None) is None
        assert not run.summary().ended


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DecoPaError, match="unknown runtime 'spark'"):
        watch(PAIRS, iter([batch((1, "A"))]), runtime="spark")
    with pytest.raises(StatisticsError, match="cannot be measured before it runs"):
        watch(PAIRS, iter([batch((1, "A"))]), strategy="decopa")
    late = watch(PAIRS, iter([batch((5, "A")), batch((1, "B"))]))
    with pytest.raises(TraceError, match="earlier than the row before"):
        list(late)


def test_watch_is_public() -> None:
    assert decopa.watch is watch


@settings(max_examples=examples(30))
@given(st.data())
def test_batches_together_are_the_matches_of_the_whole_stream(data: st.DataObject) -> None:
    query = data.draw(queries(max_positions=4))
    events = data.draw(streams(query))
    chaos = Random(data.draw(st.integers(0, 99)))
    table = table_of(events, ATTRIBUTES)
    cuts = sorted({0, len(events), *(chaos.randrange(len(events) + 1) for _ in range(3))})
    parts = [table.slice(start, end - start).to_batches() for start, end in itertools.pairwise(cuts)]
    batches = [pa.RecordBatch.from_pylist([], schema=table.schema), *itertools.chain(*parts)]
    found = [match for one in watch(query, iter(batches), units=3, runtime="local") for match in matches_of(query, one)]
    assert sorted(map(canonical, found)) == list(map(canonical, brute_force(query, events)))
