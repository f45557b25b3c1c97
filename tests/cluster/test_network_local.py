"""Networks in one process: what crosses them is what was predicted (A12), and each thing crosses once."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

import decopa
from costmodel.formulas import ENGINE
from costmodel.networks.network import EventSourcedNetwork
from costmodel.networks.transmission import ProjectionRates
from costmodel.statistics import Statistics
from decopa.errors import TraceError
from decopa.language.text.parser import parse
from decopa.planning.network.graphs.graph import NetworkPlan, Vertex
from decopa.planning.network.planner import NetworkOptions, plan_network
from decopa.planning.network.problem.build import network_plan
from decopa.planning.network.problem.instance import Instance
from decopa.planning.network.problem.subplan import NONE, Workspace, single
from decopa.planning.subquery import SubQuery
from decopa.query.query import Query
from decopa.runs.networks.network import NetworkRun, Origins, run_network
from decopa.runs.networks.network_stats import measured_network
from decopa.traces.synthetic import PairSelectivity, SyntheticSpec
from shuffler.source.trace import open_trace

PAIRS = tuple(
    PairSelectivity(one, other, share)
    for (one, other), share in zip(itertools.combinations("ABCD", 2), (0.01, 0.02, 0.05, 0.03, 0.1, 0.2), strict=True)
)


def poisson_trace(events: int, nodes: int = 5, seed: int = 3) -> pa.Table:
    """Poisson arrivals of four types with independent pairs; every event is born at one of the nodes."""
    table = SyntheticSpec(events, rate_per_s=1_000.0, types=4, zipf=1.5, pairs=PAIRS, seed=seed).table()
    homes = np.random.default_rng(seed).choice(nodes, events, p=np.arange(1, nodes + 1) / sum(range(1, nodes + 1)))
    return table.append_column("home", pa.array([f"n{home}" for home in homes]))


def query_over(pattern: str, types: str, window: str = "200 ms") -> Query:
    conditions = [
        pair.predicate(pair.first.lower(), pair.second.lower())
        for pair in PAIRS
        if pair.first in types and pair.second in types
    ]
    return parse(f"PATTERN {pattern} WHERE {' AND '.join(conditions)} WITHIN {window}")


QUERIES = (
    query_over("SEQ(A a, B b, C c)", "ABC"),
    query_over("AND(A a, C c, D d)", "ACD"),
    query_over("SEQ(D d, AND(A a, B b))", "ABD"),
    query_over("SEQ(AND(B b, D d), C c)", "BCD"),
)


def planned_run(query: Query, table: pa.Table, options: NetworkOptions) -> NetworkRun:
    source = open_trace(table)
    measured, _ = measured_network([query], source, "home")
    statistics = Statistics.of(query.window_us, {}, {(pair.first, pair.second): pair.selectivity for pair in PAIRS})
    planned = plan_network([query], measured.network, statistics, options)
    return run_network([query], planned.plan, open_trace(table), "home", rates=planned.rates)


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: str(query.pattern))
@pytest.mark.parametrize("strategy", ["search", "amuse"])
def test_what_crosses_the_network_is_what_was_predicted(query: Query, strategy: str) -> None:
    table = poisson_trace(250_000)
    run = planned_run(query, table, NetworkOptions(strategy, model=ENGINE))
    assert run.matches.equals(decopa.run(query, table))
    assert sum(run.matches_at.values()) == run.matches.num_rows
    expected = sum(edge.expected_rows for edge in run.edges)
    assert run.traffic.total.rows == pytest.approx(expected, rel=0.05)
    if strategy == "search":  # rates differ between nodes, so that (6) holds for none and aMuSE gathers everything
        assert run.traffic.total.rows < 0.8 * run.central_rows
    for edge in run.edges:
        if "born at" in edge.stream:
            assert edge.measured.rows == pytest.approx(edge.expected_rows, rel=1e-9)
        elif edge.expected_rows > 1_000:
            assert edge.measured.rows == pytest.approx(edge.expected_rows, rel=0.10)
        if edge.measured.rows / max(edge.measured.messages, 1) > 2_000:
            assert edge.measured.bytes / edge.measured.rows == pytest.approx(edge.row_bytes, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("query", "first"), [(QUERIES[0], "ab"), (QUERIES[1], "ac"), (QUERIES[2], "ad")],
                         ids=["AB", "AC", "AD"])  # fmt: skip
def test_edges_that_carry_many_matches_carry_as_many_as_predicted(query: Query, first: str) -> None:
    """A projection at the origins of its most frequent type, whose matches all travel to one node."""
    table = poisson_trace(250_000)
    measured, _ = measured_network([query], open_trace(table), "home")
    known = Statistics.of(query.window_us, {}, {(pair.first, pair.second): pair.selectivity for pair in PAIRS})
    rates = ProjectionRates(query, measured.network, known, ENGINE)
    instance, workspace = Instance(rates), Workspace(5)
    leaves = {instance.aliases[leaf.mask.bit_length() - 1]: leaf for leaf in workspace.leaves(instance)}
    mask = leaves[first[0]].mask | leaves[first[1]].mask
    pairs = workspace.joined(instance, mask, leaves["a"].axis, leaves["a"].hosts, [leaves[first[0]], leaves[first[1]]])
    rest = [leaf for alias, leaf in leaves.items() if alias not in first]
    plan = network_plan([(0, workspace.joined(instance, instance.full, NONE, single(0), [pairs, *rest]))])
    run = run_network([query], plan, open_trace(table), "home", rates=[rates])
    assert run.matches.equals(decopa.run(query, table))
    carried = [edge for edge in run.edges if "born at" not in edge.stream and edge.expected_rows > 1_000]
    assert len(carried) >= 3
    for edge in carried:
        assert edge.measured.rows == pytest.approx(edge.expected_rows, rel=0.10)
        assert edge.measured.bytes / edge.measured.rows == pytest.approx(edge.row_bytes, rel=0.02)


def test_a_short_run_is_exact_and_its_primitive_edges_are_as_predicted() -> None:
    table = poisson_trace(20_000)
    run = planned_run(QUERIES[0], table, NetworkOptions("search", model=ENGINE))
    assert run.matches.equals(decopa.run(QUERIES[0], table))
    born = [edge for edge in run.edges if "born at" in edge.stream]
    assert born
    for edge in born:
        assert edge.measured.rows == pytest.approx(edge.expected_rows, rel=1e-9)


def figure_2() -> NetworkPlan:
    """The graph of Fig. 2: C at 1 and 2, L at 2 and 3, F at 1 and 4; v1 and v2 on node 1 both read L."""
    query = parse("PATTERN SEQ(AND(C c, L l), F f) WITHIN 100 us")

    def leaf(alias: str, node: str) -> Vertex:
        return Vertex(f"{alias}@{node}", 0, SubQuery(frozenset(alias)), node)

    def vertex(name: str, aliases: str, node: str, *inputs: str) -> Vertex:
        return Vertex(name, 0, SubQuery(frozenset(aliases)), node, inputs)

    return NetworkPlan(
        (query,),
        tuple("1234"),
        {"C": ("1", "2"), "L": ("2", "3"), "F": ("1", "4")},
        (
            *(leaf(alias, node) for alias, node in ("c1", "c2", "l2", "l3", "f1", "f4")),
            vertex("v1", "lf", "1", "l@2", "l@3", "f@1", "f@4"),
            vertex("v2", "cl", "1", "c@1", "l@2", "l@3"),
            vertex("v3", "cl", "2", "c@2", "l@2", "l@3"),
            vertex("v4", "clf", "1", "v1", "v2"),
            vertex("v5", "clf", "2", "v1", "v3"),
        ),
    )


def robots(events: int = 3_000) -> pa.Table:
    rng = np.random.default_rng(1)
    types = rng.choice(list("CLF"), events, p=[0.6, 0.35, 0.05])
    homes = {"C": "12", "L": "23", "F": "14"}
    born = [homes[name][rng.integers(2)] for name in types]
    times = np.sort(rng.integers(0, 40_000, events))
    return pa.table({"id": range(events), "ts": times, "type": types.tolist(), "home": born})


def test_the_graph_of_figure_2_sends_each_event_to_a_node_once() -> None:
    plan, table = figure_2(), robots()
    run = run_network(plan.queries, plan, open_trace(table), "home")
    crossed = {(edge.stream, edge.target): edge.measured.rows for edge in run.edges}
    at_3 = sum(row["type"] == "L" and row["home"] == "3" for row in table.to_pylist())
    assert crossed["L born at 3", "1"] == at_3  # v1 and v2 read it there
    assert crossed["L born at 3", "2"] == at_3
    assert set(crossed) == {
        ("L born at 3", "1"), ("L born at 3", "2"), ("L born at 2", "1"), ("F born at 4", "1"), ("v1", "2"),
    }  # fmt: skip
    assert run.matches.equals(decopa.run(plan.queries[0], table))
    assert run.matches_at.keys() == {"1", "2"}


def test_an_event_from_an_unknown_node_is_refused() -> None:
    plan = figure_2()
    table = robots(50).drop_columns(["home"]).append_column("home", pa.array(["9"] * 50))
    with pytest.raises(
        TraceError, match="event 0 is born at node '9', which the network does not have; known: 1, 2, 3, 4"
    ):
        run_network(plan.queries, plan, open_trace(table), "home")


def test_an_event_without_origin_is_refused() -> None:
    plan = figure_2()
    table = robots(50).drop_columns(["home"]).append_column("home", pa.array([None] * 50, pa.string()))
    with pytest.raises(TraceError, match="event 0 has no origin: column 'home' is empty"):
        run_network(plan.queries, plan, open_trace(table), "home")


def test_a_network_can_be_measured_by_buckets_of_a_column() -> None:
    table = robots().append_column("machine", pa.array(range(3_000)))
    query = parse("PATTERN SEQ(C c, L l) WITHIN 100 us")
    measured, _ = measured_network([query], open_trace(table), "machine", buckets=4)
    assert measured.network.nodes == tuple("0123")
    assert set(measured.network.event_types) == {"C", "L"}
    statistics = Statistics(query.window_us, {}, default_selectivity=1.0)
    planned = plan_network([query], measured.network, statistics, NetworkOptions("naive"))
    run = run_network([query], planned.plan, open_trace(table), Origins("machine", 4))
    assert run.matches.equals(decopa.run(query, table))


def test_queries_of_one_workload_share_the_events_that_travel() -> None:
    table = robots()
    queries = [
        parse("QUERY one PATTERN SEQ(F f, C c) WITHIN 60 us"),
        parse("QUERY two PATTERN SEQ(C c, F f) WITHIN 90 us"),
    ]
    nodes = {node: {"C": 9.0, "L": 5.0, "F": 1.0} for node in "1234"}
    network = EventSourcedNetwork(60, nodes)
    statistics = Statistics(60, {}, default_selectivity=1.0)
    planned = plan_network(queries, network, statistics, NetworkOptions("search"))
    run = run_network(queries, planned.plan, open_trace(table), "home")
    assert run.matches.num_rows == decopa.run(queries, table).num_rows
    frequent = sum(row["type"] == "F" for row in table.to_pylist())
    assert sum(edge.measured.rows for edge in run.edges) <= 3 * frequent
