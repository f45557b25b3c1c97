"""Plans as processes that exchange messages: the same matches, whatever the network does to the messages."""

from __future__ import annotations

from random import Random

from hypothesis import given, note, settings
from hypothesis import strategies as st

from actors.columnar.jit import interpreted
from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.planning.planner import plan_workload
from tests.property.test_matches import ATTRIBUTES
from tests.support.brute_force import brute_force, canonical
from tests.support.engine import expected_rows, matches_of, sortable, table_of
from tests.support.examples import examples
from tests.support.plans import plans
from tests.support.simulation import SimulatedCluster
from tests.support.strategies import queries, streams


@settings(max_examples=examples(150))
@given(st.data())
def test_messages_that_are_late_repeated_or_overtaken_change_nothing(data: st.DataObject) -> None:
    query = data.draw(queries())
    events = data.draw(streams(query))
    plan = data.draw(plans(query))
    note(f"{query}\n{plan.to_json()}")
    shufflers, batch_size = data.draw(st.integers(1, 3)), data.draw(st.sampled_from((1, 3, 100)))
    chaos = Random(data.draw(st.integers(0, 2**16)))
    with interpreted():
        cluster = SimulatedCluster(
            plan, table_of(events, ATTRIBUTES), shufflers=shufflers, batch_size=batch_size, chaos=chaos
        )
        found = cluster.run([query])
    expected = brute_force(query, events)
    assert sorted(map(canonical, matches_of(query, found))) == list(map(canonical, expected))
    rows = expected_rows(query, events, expected)
    assert sorted(found.to_pylist(), key=sortable) == sorted(rows, key=sortable)


@settings(max_examples=examples(30))
@given(st.data())
def test_plans_that_share_or_copy_units_find_the_same_as_processes(data: st.DataObject) -> None:
    query = data.draw(queries(max_positions=4))
    events = data.draw(streams(query))
    statistics = Statistics(query.window_us, dict.fromkeys(query.event_types, 10.0), default_selectivity=0.5)
    strategy = data.draw(st.sampled_from(("rip", "centralized", "hybrid", "decopa")))
    plan = plan_workload([query], statistics, Capacity(1000, 10_000), units=4, strategy=strategy).plan
    with interpreted():
        cluster = SimulatedCluster(
            plan, table_of(events, ATTRIBUTES), shufflers=2, batch_size=3, chaos=Random(data.draw(st.integers(0, 99)))
        )
        found = cluster.run([query])
    assert sorted(map(canonical, matches_of(query, found))) == list(map(canonical, brute_force(query, events)))
