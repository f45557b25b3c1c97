"""A run that is saved and taken up by new processes finds what it would have found, on as many units or on others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from actors.columnar.jit import interpreted
from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan
from decopa.planning.planner import plan_workload
from decopa.planning.spread import spread_units
from decopa.planning.strategies.left_deep import left_deep
from decopa.planning.validate import check_structure
from decopa.query.query import Query
from decopa.runs.result import result_table
from tests.property.test_matches import ATTRIBUTES
from tests.support.brute_force import brute_force, brute_force_by_window, canonical
from tests.support.engine import expected_rows, matches_of, sortable, table_of
from tests.support.examples import examples
from tests.support.memory import poisoned_memory, small_buffers
from tests.support.plans import plans, rescaled
from tests.support.resuming import ResumableRun
from tests.support.strategies import long_streams, queries, streams

Events = list[dict[str, Any]]
#: Saves a run and returns the one that goes on.
Successor = Callable[[ResumableRun], ResumableRun]

#: Few conditions, so that what units hold at any moment matters for matches to come.
PATTERNS = (
    "AND(A a, B b, C c)",
    "SEQ(A a, B b, C c)",
    "SEQ(A a, B b, C c) WHERE a.s = b.s AND b.s = c.s",
    "SEQ(A a, NOT(B b), C c) WHERE a.s = b.s AND b.s = c.s",
    "AND(A a, KL(B b))",
    "SEQ(A a, KL(B b), C c)",
    "AND(A a, KL(B b), C c) WHERE a.s = c.s",
    "KL(SEQ(A a, B b))",
    "SEQ(C c, KL(SEQ(A a, B b))) WHERE a.s = c.s",
    "AND(A a, B b) WHERE a.s = b.s",
    "SEQ(A a, NOT(B b))",
    "SEQ(A a, NOT(B b), C c) WHERE b.s = c.s",
    "SEQ(NOT(KL(B b)), A a, C c) WHERE a.s = b.s",
    "SEQ(A a, KL(B b), NOT(C c))",
    "NEXT(A a, B b, C c)",
    "NEXT(A a, B b, C c) WHERE FILTER(b.s = a.s) AND FILTER(c.s = b.s)",
    "NEXT(A a, B b) WHERE FILTER(b.s != a.s)",
    "NEXT(KL(A a), B b) WHERE FILTER(b.s = a.s)",
    "STRICT(A a, (B|C) b, A c) WHERE a.s != c.s",
)


@st.composite
def dense_runs(draw: st.DrawFn) -> tuple[Query, Events, list[int]]:
    """A query, events that lie close together, and where to cut among them."""
    query = parse(f"PATTERN {draw(st.sampled_from(PATTERNS))} WITHIN 4 us RETURN a.s")
    chance = Random(draw(st.integers(0, 2**16)))
    text, ts, events = draw(st.booleans()), 0, []
    for number in range(16):
        ts += chance.choice((0, 1, 1, 2))
        event = {
            "id": f"e{number}" if text else number,
            "ts": ts,
            "type": chance.choice("ABC"),
            "s": chance.choice("pq"),
        }
        events.append(event)
    return query, events, sorted(draw(st.lists(st.integers(3, 13), min_size=1, max_size=3)))


def cuts_of(data: st.DataObject, events: Events) -> list[int]:
    return sorted(data.draw(st.lists(st.integers(0, len(events)), min_size=1, max_size=3)))


def run_in_pieces(
    query: Query, first: ResumableRun, cuts: Sequence[int], end: int, batch_size: int, then: Successor
) -> tuple[pa.Table, ResumableRun]:
    """The matches of all runs together, and the last run."""
    run, start = first, 0
    found = []
    for stop in cuts:
        run.feed(start, stop, batch_size)
        found.append(run.take_matches())
        run, start = then(run), stop
    run.feed(start, end, batch_size)
    run.finish()
    found.append(run.take_matches())
    branches = [pa.concat_tables(tables).unify_dictionaries() for tables in zip(*found, strict=True)]
    return result_table([query], branches), run


def restoring(plan: Plan, table: pa.Table, chaos: Random, shufflers: int = 1, interleaved: float = 0.0) -> Successor:
    def taken_up(run: ResumableRun) -> ResumableRun:
        mixed = chaos.random() < interleaved
        new = ResumableRun(plan, table, chaos, shufflers=shufflers, interleaved=mixed)
        new.resume(run.save())
        return new

    return taken_up


def rescaling(data: st.DataObject, plan: Plan, table: pa.Table, chaos: Random) -> Successor:
    def taken_up(run: ResumableRun) -> ResumableRun:
        other = data.draw(rescaled(plan))
        note(other.to_json())
        check_structure(other)
        mixed = chaos.random() < 0.5
        new = ResumableRun(other, table, chaos, shufflers=chaos.randrange(1, 4), interleaved=mixed)
        new.resume_rescaled(run.save(), run.routing)
        return new

    return taken_up


@settings(max_examples=examples(60))
@given(st.data())
def test_a_run_taken_up_from_its_files_finds_exactly_the_matches(data: st.DataObject) -> None:
    query = data.draw(queries())
    events = data.draw(streams(query))
    plan = data.draw(plans(query))
    cuts, batch_size = cuts_of(data, events), data.draw(st.sampled_from((1, 3, 100)))
    chaos = Random(data.draw(st.integers(0, 2**16)))
    note(f"{query}\n{plan.to_json()}")
    table = table_of(events, ATTRIBUTES)
    with interpreted(), poisoned_memory():
        first = ResumableRun(plan, table, chaos, shufflers=2)
        then = restoring(plan, table, chaos, shufflers=2, interleaved=0.5)
        found, _ = run_in_pieces(query, first, cuts, len(events), batch_size, then)
    expected = brute_force(query, events)
    assert sorted(map(canonical, matches_of(query, found))) == list(map(canonical, expected))
    rows = expected_rows(query, events, expected)
    assert sorted(found.to_pylist(), key=sortable) == sorted(rows, key=sortable)


@settings(max_examples=examples(60))
@given(st.data())
def test_other_numbers_of_units_go_on_where_the_old_ones_were(data: st.DataObject) -> None:
    query = data.draw(queries())
    events = data.draw(streams(query))
    plan = data.draw(plans(query))
    cuts, batch_size = cuts_of(data, events), data.draw(st.sampled_from((1, 3, 100)))
    chaos = Random(data.draw(st.integers(0, 2**16)))
    note(f"{query}\n{plan.to_json()}")
    table = table_of(events, ATTRIBUTES)
    with interpreted(), poisoned_memory():
        first = ResumableRun(plan, table, chaos, shufflers=2)
        then = rescaling(data, plan, table, chaos)
        found, _ = run_in_pieces(query, first, cuts, len(events), batch_size, then)
    assert sorted(map(canonical, matches_of(query, found))) == list(map(canonical, brute_force(query, events)))


@pytest.mark.parametrize("way", ["restored", "rescaled"])
@settings(max_examples=examples(60))
@given(st.data())
def test_matches_across_the_cut_are_found_once(way: str, data: st.DataObject) -> None:
    query, events, cuts = data.draw(dense_runs())
    plan = data.draw(plans(query))
    chaos = Random(data.draw(st.integers(0, 2**16)))
    note(f"{query}\n{plan.to_json()}")
    table = table_of(events)
    with interpreted(), poisoned_memory():
        then = restoring(plan, table, chaos) if way == "restored" else rescaling(data, plan, table, chaos)
        first = ResumableRun(plan, table, chaos)
        found, _ = run_in_pieces(query, first, cuts, len(events), data.draw(st.integers(1, 3)), then)
    expected = brute_force_by_window(query, events)
    assert sorted(map(canonical, matches_of(query, found))) == list(map(canonical, expected))
    rows = expected_rows(query, events, expected)
    assert sorted(found.to_pylist(), key=sortable) == sorted(rows, key=sortable)


@pytest.mark.parametrize("counts", [(3, 5), (5, 3), (1, 4)])
def test_a_keyed_next_goes_on_with_other_units_in_mid_stream(counts: tuple[int, int]) -> None:
    text = "NEXT(A a, B b, C c) WHERE FILTER(b.s = a.s) AND FILTER(c.s = b.s)"
    query = parse(f"PATTERN {text} WITHIN 40 us RETURN a.s")
    chaos = Random(1)
    events = [{"id": n, "ts": n, "type": chaos.choice("ABC"), "s": chaos.choice("pqrstu")} for n in range(120)]
    # Two steps of as many units each.
    before, after = (Plan((spread_units(left_deep(query), 2 * units),)) for units in counts)
    table = table_of(events)

    def with_others(run: ResumableRun) -> ResumableRun:
        new = ResumableRun(after, table, chaos)
        new.resume_rescaled(run.save(), run.routing)
        return new

    with interpreted():
        found, _ = run_in_pieces(query, ResumableRun(before, table, chaos), [60], len(events), 7, with_others)
    expected = brute_force(query, events)
    assert sorted(map(canonical, matches_of(query, found))) == list(map(canonical, expected)) and len(expected) > 20


@settings(max_examples=examples(20))
@given(st.data())
def test_long_runs_with_full_buffers_can_be_rescaled_many_times(data: st.DataObject) -> None:
    query = data.draw(queries(max_positions=4))
    events = data.draw(long_streams(query))
    plan = data.draw(plans(query))
    cuts, chaos = cuts_of(data, events), Random(data.draw(st.integers(0, 2**16)))
    note(f"{query}\n{plan.to_json()}")
    table = table_of(events, ATTRIBUTES)
    with interpreted(), poisoned_memory(), small_buffers():
        then = rescaling(data, plan, table, chaos)
        found, _ = run_in_pieces(query, ResumableRun(plan, table, chaos), cuts, len(events), 3, then)
    expected = brute_force_by_window(query, events)
    assert sorted(map(canonical, matches_of(query, found))) == list(map(canonical, expected))


@settings(max_examples=examples(30))
@given(st.data())
def test_units_count_on_and_deal_out_as_if_nothing_had_happened(data: st.DataObject) -> None:
    query, events, cuts = data.draw(dense_runs())
    plan = data.draw(plans(query))
    if data.draw(st.booleans()):
        statistics = Statistics(query.window_us, dict.fromkeys(query.event_types, 10.0), default_selectivity=0.5)
        strategy = data.draw(st.sampled_from(("rip", "centralized", "hybrid")))
        plan = plan_workload([query], statistics, Capacity(1000, 10_000), units=4, strategy=strategy).plan
    note(f"{query}\n{plan.to_json()}")
    table, chaos = table_of(events), Random(0)
    with interpreted(), poisoned_memory():
        then = restoring(plan, table, chaos)
        found, last = run_in_pieces(query, ResumableRun(plan, table, chaos), cuts, len(events), 1, then)
        whole, only = run_in_pieces(query, ResumableRun(plan, table, chaos), (), len(events), 1, then)
    assert last.counts() == only.counts()
    assert sorted(map(canonical, matches_of(query, found))) == sorted(map(canonical, matches_of(query, whole)))
