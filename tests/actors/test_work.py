"""How much the engine does: candidate pairs, carried columns, stored rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import decopa
from actors.columnar.jit import interpreted
from decopa.api import run_detailed
from decopa.language.text.parser import parse
from decopa.planning.strategies.left_deep import left_deep
from decopa.planning.subquery import SubQuery
from decopa.query.binding import bind
from decopa.query.schema import Column, Kind, Schema
from decopa.runs.result import RunResult
from shuffler.rows.layout import layout_of

NUMBERS = {name: Column(Kind.FLOAT) for name in "xyz"}
SCHEMA = Schema({"id": Column(Kind.INT), "ts": Column(Kind.INT), "k": Column(Kind.INT), **NUMBERS})


def trace(events: int, types: str = "AB", keys: int = 5, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(events),
            "ts": np.cumsum(rng.integers(1, 4, events)),
            "type": [types[n] for n in rng.integers(0, len(types), events)],
            "x": rng.random(events),
            "k": rng.integers(0, keys, events),
        }
    )


def run(text: str, events: pa.Table, **options: object) -> RunResult:
    with interpreted():
        return run_detailed(text, events, **options)  # type: ignore[arg-type]


def pairs_in_window(events: pa.Table, window: int) -> int:
    ts, types = events.column("ts").to_numpy(), np.array(events.column("type").to_pylist())
    a, b = ts[types == "A"], ts[types == "B"]
    return int(sum(((b > time) & (b <= time + window)).sum() for time in a))


@pytest.mark.parametrize("batch_size", [None, 7])
def test_comparisons_are_the_pairs_inside_the_window(batch_size: int | None) -> None:
    events = trace(400)
    for window in (20, 40):
        result = run(
            f"PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN {window} us",
            events,
            trace=decopa.TraceOptions(batch_size=batch_size),
        )
        assert result.comparisons == pairs_in_window(events, window)


def test_doubling_the_window_doubles_the_work_of_a_two_way_join() -> None:
    events = trace(2000)
    one, two = (run(f"PATTERN SEQ(A a, B b) WITHIN {window} us", events).comparisons for window in (30, 60))
    assert 1.8 < two / one < 2.2


def test_equal_keys_are_looked_up_and_not_searched_for() -> None:
    events = trace(2000, keys=50)
    keyed = run("PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 60 us", events)
    searched = run("PATTERN SEQ(A a, B b) WHERE abs(a.k - b.k) < 1 WITHIN 60 us", events)
    assert keyed.matches.num_rows == searched.matches.num_rows > 0
    assert keyed.comparisons < searched.comparisons / 10


def test_a_key_that_follows_from_others_is_used_where_the_middle_is_missing() -> None:
    query = parse("PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k WITHIN 60 us")
    events = trace(2000, types="ABC", keys=50)
    plan = decopa.Plan((left_deep(query, ["a", "c", "b"]),))
    result = run(str(query), events, planning=decopa.Planning(plan=plan))
    first = next(report for report in result.operators if report.sub_query == "SEQ(A,C)")
    assert first.comparisons < 3 * first.emitted
    assert result.matches.num_rows == run(str(query), events).matches.num_rows > 0


def test_no_row_is_stored_that_nothing_can_follow() -> None:
    result = run("PATTERN SEQ(A a, B b) WITHIN 50 us", trace(4000), trace=decopa.TraceOptions(batch_size=100))
    (report,) = result.operators
    # A events of a window and a batch, with room to grow; no B event is ever kept.
    assert report.state_bytes < 100_000


def test_matches_carry_only_what_is_still_needed() -> None:
    query = parse("PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND a.y < c.y AND a.z > 0 WITHIN 1 s RETURN b.z")
    bound = bind(query, SCHEMA)
    layout = layout_of(bound, SubQuery(frozenset("ab")))
    assert set(layout.columns) == {"min_ts", "max_ts", "a.id", "b.id", "a.y", "b.z"}
    assert set(layout_of(bound, SubQuery(frozenset("a"))).columns) == {"min_ts", "a.id", "a.x", "a.y"}
    whole = layout_of(bound, SubQuery(frozenset("abc")))
    assert set(whole.columns) == {"min_ts", "max_ts", "a.id", "b.id", "c.id", "b.z"}


def test_the_result_does_not_depend_on_batches_units_or_the_run() -> None:
    text = "PATTERN SEQ(A a, KL(B b), A c) WHERE a.k = b.k AND b.k = c.k WITHIN 60 us RETURN b.x"
    events = trace(300)
    tables = [
        run(text, events, units=units, runtime="local", trace=decopa.TraceOptions(batch_size=batch_size)).matches
        for units, batch_size in ((None, None), (None, None), (None, 1), (None, 17), (3, None), (7, 50))
    ]
    assert tables[0].num_rows > 50
    assert all(table.equals(tables[0]) for table in tables[1:])


def test_too_much_state_stops_with_the_operator_and_advice() -> None:
    limits = decopa.Limits(max_state_bytes=100_000)
    with pytest.raises(decopa.LimitError, match=r"operator o3 SEQ\(A,B\) holds .* shorter window"):
        run("PATTERN SEQ(A a, B b) WITHIN 1 h", trace(20_000), limits=limits, strategy="left-deep")


def test_too_many_matches_stop_with_the_operator_and_advice() -> None:
    limits = decopa.Limits(max_matches=100)
    with pytest.raises(decopa.LimitError, match=r"operator o3 SEQ\(A,B\) found more than 100 matches"):
        run("PATTERN SEQ(A a, B b) WITHIN 1 h", trace(200), limits=limits, strategy="left-deep")
