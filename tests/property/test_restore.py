"""A run that is saved and taken up by new processes finds what it would have found, on as many units or on others."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given, note, settings
from hypothesis import strategies as st

from actors.jit import interpreted
from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.planning.planner import plan_workload
from decopa.planning.validate import check_structure
from decopa.query.query import Query
from decopa.results import result_table
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


def cuts_of(data: st.DataObject, events: Events) -> list[int]:
    return sorted(data.draw(st.lists(st.integers(0, len(events)), min_size=1, max_size=3)))


def run_in_pieces(
    query: Query, first: ResumableRun, cuts: list[int], end: int, batch_size: int, then: Successor
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


@settings(max_examples=examples(120))
@given(st.data())
def test_a_run_taken_up_from_its_files_finds_exactly_the_matches(data: st.DataObject) -> None:
    query = data.draw(queries())
    events = data.draw(streams(query))
    plan = data.draw(plans(query))
    cuts, batch_size = cuts_of(data, events), data.draw(st.sampled_from((1, 3, 100)))
    chaos = Random(data.draw(st.integers(0, 2**16)))
    note(f"{query}\n{plan.to_json()}")
    table, shufflers = table_of(events, ATTRIBUTES), chaos.randrange(1, 3)

    def taken_up(run: ResumableRun) -> ResumableRun:
        new = ResumableRun(plan, table, chaos, shufflers=shufflers, interleaved=chaos.random() < 0.5)
        new.resume(run.save())
        return new

    with interpreted(), poisoned_memory():
        first = ResumableRun(plan, table, chaos, shufflers=shufflers)
        found, _ = run_in_pieces(query, first, cuts, len(events), batch_size, taken_up)
    expected = brute_force(query, events)
    assert sorted(map(canonical, matches_of(query, found))) == list(map(canonical, expected))
    rows = expected_rows(query, events, expected)
    assert sorted(found.to_pylist(), key=sortable) == sorted(rows, key=sortable)


@settings(max_examples=examples(120))
@given(st.data())
def test_other_numbers_of_units_go_on_where_the_old_ones_were(data: st.DataObject) -> None:
    query = data.draw(queries())
    events = data.draw(streams(query))
    plan = data.draw(plans(query))
    cuts, batch_size = cuts_of(data, events), data.draw(st.sampled_from((1, 3, 100)))
    chaos = Random(data.draw(st.integers(0, 2**16)))
    note(f"{query}\n{plan.to_json()}")
    table = table_of(events, ATTRIBUTES)

    def taken_up(run: ResumableRun) -> ResumableRun:
        other = data.draw(rescaled(plan))
        note(other.to_json())
        check_structure(other)
        new = ResumableRun(other, table, chaos, shufflers=chaos.randrange(1, 4), interleaved=chaos.random() < 0.5)
        new.resume_rescaled(run.save(), run.routing)
        return new

    with interpreted(), poisoned_memory():
        found, _ = run_in_pieces(
            query, ResumableRun(plan, table, chaos, shufflers=2), cuts, len(events), batch_size, taken_up
        )
    assert sorted(map(canonical, matches_of(query, found))) == list(map(canonical, brute_force(query, events)))


@settings(max_examples=examples(30))
@given(st.data())
def test_long_runs_with_full_buffers_can_be_rescaled_many_times(data: st.DataObject) -> None:
    query = data.draw(queries(max_positions=4))
    events = data.draw(long_streams(query))
    plan = data.draw(plans(query))
    cuts, chaos = cuts_of(data, events), Random(data.draw(st.integers(0, 2**16)))
    note(f"{query}\n{plan.to_json()}")
    table = table_of(events, ATTRIBUTES)

    def taken_up(run: ResumableRun) -> ResumableRun:
        new = ResumableRun(data.draw(rescaled(plan)), table, chaos, shufflers=chaos.randrange(1, 3))
        new.resume_rescaled(run.save(), run.routing)
        return new

    with interpreted(), poisoned_memory(), small_buffers():
        found, _ = run_in_pieces(query, ResumableRun(plan, table, chaos), cuts, len(events), 3, taken_up)
    expected = brute_force_by_window(query, events)
    assert sorted(map(canonical, matches_of(query, found))) == list(map(canonical, expected))


@settings(max_examples=examples(30))
@given(st.data())
def test_units_count_on_and_deal_out_as_if_nothing_had_happened(data: st.DataObject) -> None:
    query = data.draw(queries(max_positions=4))
    events = data.draw(streams(query))
    statistics = Statistics(query.window_us, dict.fromkeys(query.event_types, 10.0), default_selectivity=0.5)
    strategy = data.draw(st.sampled_from(("rip", "centralized", "hybrid", "decopa")))
    plan = plan_workload([query], statistics, Capacity(1000, 10_000), units=4, strategy=strategy).plan
    cuts, table, seed = cuts_of(data, events), table_of(events, ATTRIBUTES), data.draw(st.integers(0, 2**16))

    def taken_up(run: ResumableRun) -> ResumableRun:
        new = ResumableRun(plan, table, Random(seed))
        new.resume(run.save())
        return new

    def untouched(run: ResumableRun) -> ResumableRun:
        run.save()
        return run

    with interpreted(), poisoned_memory():
        found, last = run_in_pieces(query, ResumableRun(plan, table, Random(seed)), cuts, len(events), 2, taken_up)
        whole, only = run_in_pieces(query, ResumableRun(plan, table, Random(seed)), cuts, len(events), 2, untouched)
    assert last.counts() == only.counts()
    expected = list(map(canonical, brute_force(query, events)))
    assert sorted(map(canonical, matches_of(query, found))) == expected
    assert sorted(map(canonical, matches_of(query, whole))) == expected
