"""The promise of the whole engine: exactly the matches of the query, whatever the plan and the order of arrival."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from actors.columnar.jit import interpreted
from decopa.errors import PlanError
from decopa.planning.plan import Plan
from decopa.planning.validate import check_structure, violations
from decopa.query.query import Query
from decopa.runs.execute import execute
from decopa.runs.preparation.prepare import prepare
from decopa.runs.spec import Planning, RunSpec, TraceOptions
from shuffler.rows.events import TraceColumns
from tests.support.brute_force import brute_force, brute_force_by_window, canonical
from tests.support.engine import expected_rows, matches_of, sortable, table_of
from tests.support.examples import examples
from tests.support.memory import poisoned_memory, small_buffers
from tests.support.plans import damaged_plans, plans
from tests.support.strategies import VALUES, long_streams, queries, streams

ATTRIBUTES = {name: type(values[0]) for name, values in VALUES.items()}


def run(
    query: Query,
    events: Sequence[dict[str, Any]],
    *,
    plan: Plan | None = None,
    batch_size: int | None = None,
    interleaving: Random | None = None,
    end: str | None = None,
) -> Any:
    planning = Planning(plan=plan, strategy="left-deep")
    spec = RunSpec(TraceOptions(batch_size=batch_size, columns=TraceColumns(end=end)), planning, runtime="local")
    table = table_of(events, ATTRIBUTES | ({} if end is None else {end: int}))
    return execute(prepare(spec, [query], table), interleaving=interleaving).matches


@settings(max_examples=examples(250))
@given(st.data())
def test_every_plan_finds_exactly_the_matches_of_the_query(data: st.DataObject) -> None:
    query = data.draw(queries())
    events = data.draw(streams(query))
    plan = data.draw(plans(query))
    batch_size = data.draw(st.sampled_from((1, 2, 3, 5, None)))
    seed = data.draw(st.one_of(st.none(), st.integers(0, 2**16)))
    note(f"{query}\n{plan.to_json()}")
    with interpreted(), poisoned_memory():
        result = run(
            query, events, plan=plan, batch_size=batch_size, interleaving=None if seed is None else Random(seed)
        )
    # Lists, not sets: a match that appears twice must fail.
    expected = brute_force(query, events)
    assert sorted(map(canonical, matches_of(query, result))) == list(map(canonical, expected))
    rows = expected_rows(query, events, expected)
    assert sorted(result.to_pylist(), key=sortable) == sorted(rows, key=sortable)


@settings(max_examples=examples(60))
@given(st.data())
def test_long_streams_and_full_buffers_lose_and_add_nothing(data: st.DataObject) -> None:
    query = data.draw(queries(max_positions=4))
    events = data.draw(long_streams(query))
    plan = data.draw(plans(query))
    batch_size = data.draw(st.sampled_from((1, 3, 7, None)))
    note(f"{query}\n{plan.to_json()}")
    with interpreted(), poisoned_memory(), small_buffers():
        result = run(query, events, plan=plan, batch_size=batch_size, interleaving=Random(batch_size))
    assert sorted(map(canonical, matches_of(query, result))) == list(
        map(canonical, brute_force_by_window(query, events))
    )


@settings(max_examples=examples(40))
@given(st.data())
def test_the_result_table_is_the_same_whatever_the_plan_the_batches_and_the_order(data: st.DataObject) -> None:
    query = data.draw(queries())
    events = data.draw(streams(query))
    plan = data.draw(plans(query))
    with interpreted(), poisoned_memory():
        plain = run(query, events)
        other = run(query, events, plan=plan, batch_size=2, interleaving=Random(data.draw(st.integers(0, 2**16))))
    assert other.equals(plain)


@settings(max_examples=examples(120))
@given(st.data())
def test_a_plan_that_the_rules_accept_finds_exactly_the_matches(data: st.DataObject) -> None:
    query = data.draw(queries(max_positions=4))
    plan = data.draw(damaged_plans(query))
    if any(True for part in plan.parts for _ in violations(part)):
        with pytest.raises(PlanError):
            check_structure(plan)
        return
    events = data.draw(streams(query))
    note(f"{query}\n{plan.to_json()}")
    with interpreted(), poisoned_memory():
        result = run(query, events, plan=plan, batch_size=2)
    assert sorted(map(canonical, matches_of(query, result))) == list(map(canonical, brute_force(query, events)))


@pytest.mark.slow
@settings(max_examples=examples(80))
@given(st.data())
def test_compiled_kernels_find_what_interpreted_ones_find(data: st.DataObject) -> None:
    query = data.draw(queries(max_positions=4))
    events = data.draw(streams(query))
    plan = data.draw(plans(query))
    with interpreted(), poisoned_memory():
        expected = run(query, events, plan=plan)
    assert run(query, events, plan=plan).equals(expected)
