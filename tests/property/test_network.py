"""The promise of network plans: exactly the matches of the query, each at one sink, whatever plan and network (A11)."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from actors.columnar.jit import interpreted
from cluster.network.local import LocalNetwork, in_order
from costmodel.networks.network import EventSourcedNetwork
from costmodel.statistics import Statistics
from decopa.planning.network.graphs.graph import NetworkPlan
from decopa.planning.network.planner import STRATEGIES, NetworkOptions, plan_network
from decopa.planning.network.planners.workload import WorkloadEffort
from decopa.query.query import Query
from decopa.runs.result import result_table
from shuffler.source.trace import open_trace
from tests.support.brute_force import brute_force, canonical
from tests.support.engine import expected_rows, matches_of, sortable, table_of
from tests.support.examples import examples
from tests.support.memory import poisoned_memory
from tests.support.strategies import VALUES, queries, streams

ATTRIBUTES = {name: type(values[0]) for name, values in VALUES.items()} | {"home": str}
#: Little search: plans need not be good here, only different.
EFFORT = WorkloadEffort(boxes=12, rounds=1)


@st.composite
def networks(draw: st.DrawFn, query: Query) -> EventSourcedNetwork:
    """Two to five nodes; every type of the query has at least one producer, at a rate of its own."""
    nodes = [f"n{number}" for number in range(draw(st.integers(2, 5)))]
    rates: dict[str, dict[str, float]] = {node: {} for node in nodes}
    for event_type in sorted({*query.event_types, "Unrelated"}):
        for node in draw(st.sets(st.sampled_from(nodes), min_size=1)):
            rates[node][event_type] = draw(st.sampled_from((0.1, 1.0, 7.0, 200.0)))
    return EventSourcedNetwork(query.window_us, rates)


@st.composite
def planned(draw: st.DrawFn, query: Query, network: EventSourcedNetwork) -> NetworkPlan:
    strategy = draw(st.sampled_from(("search", "search", *STRATEGIES)))
    if strategy == "exhaustive" and len(set(query.event_types)) > 3:
        strategy = "search"
    options = NetworkOptions(strategy, reducers=draw(st.booleans()), boxes=draw(st.booleans()), effort=EFFORT)
    selectivity = draw(st.sampled_from((0.001, 0.05, 0.5)))
    statistics = Statistics(query.window_us, {}, default_selectivity=selectivity)
    return plan_network([query], network, statistics, options).plan


@settings(max_examples=examples(120))
@given(st.data())
def test_every_network_plan_finds_exactly_the_matches_of_the_query(data: st.DataObject) -> None:
    query = data.draw(queries(max_positions=4))
    network = data.draw(networks(query))
    events: list[dict[str, Any]] = data.draw(streams(query))
    for event in events:
        event["home"] = data.draw(st.sampled_from(network.producers(event["type"])))
    plan = data.draw(planned(query, network))
    seed = data.draw(st.one_of(st.none(), st.integers(0, 2**16)))
    note(f"{query}\n{plan.to_json()}")
    with interpreted(), poisoned_memory():
        runtime = LocalNetwork(
            NetworkPlan.from_json(plan.to_json()),
            open_trace(table_of(events, ATTRIBUTES)),
            "home",
            batch_size=data.draw(st.sampled_from((1, 3, 100))),
            interleaving=None if seed is None else Random(seed),
        )
        runtime.run()
        result = result_table([query], runtime.matches())
    # Lists, not sets: a match that appears twice, or at two sinks, must fail.
    expected = brute_force(query, events)
    assert sorted(map(canonical, matches_of(query, result))) == list(map(canonical, expected))
    rows = expected_rows(query, events, expected)
    assert sorted(result.to_pylist(), key=sortable) == sorted(rows, key=sortable)


@settings(max_examples=examples(60))
@given(st.data())
def test_a_run_that_goes_on_from_a_cut_finds_the_same_matches(data: st.DataObject) -> None:
    """What a lost process would be started with: states of all hosts, and the events after the cut."""
    query = data.draw(queries(max_positions=4))
    network = data.draw(networks(query))
    events: list[dict[str, Any]] = data.draw(streams(query))
    for event in events:
        event["home"] = data.draw(st.sampled_from(network.producers(event["type"])))
    plan = data.draw(planned(query, network))
    table = table_of(events, ATTRIBUTES)
    after = data.draw(st.integers(0, len(events)))
    note(f"{query}\n{plan.to_json()}")
    with interpreted(), poisoned_memory():
        first = LocalNetwork(plan, open_trace(table), "home", batch_size=1, interleaving=Random(after))
        for place, batch in enumerate(first.batches()):
            if place < after:
                first.feed(batch)
        states, before = first.cut(1)
        second = LocalNetwork(plan, open_trace(table), "home", batch_size=1, states=states)
        for place, batch in enumerate(second.batches()):
            if place >= after:
                second.feed(batch)
        second.finish()
        found = [in_order([*before.get(part, ()), table]) for part, table in enumerate(second.matches())]
        result = result_table([query], found)
    expected = brute_force(query, events)
    assert sorted(map(canonical, matches_of(query, result))) == list(map(canonical, expected))
