"""Many queries in one plan: each finds exactly what it finds alone, on however few units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from actors.columnar.jit import interpreted
from actors.sinks.outlet import OutletSpec
from cluster.local import LocalRuntime
from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.choices import WORKLOAD_STRATEGIES
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan, PlanOperator, QueryPlan, View
from decopa.planning.planner import plan_workload
from decopa.planning.price import plan_units
from decopa.planning.strategies.left_deep import left_deep
from decopa.planning.subquery import SubQuery
from decopa.planning.workload.packing import packed
from decopa.planning.workload.views import residue_of
from decopa.query.canonical import Residue
from decopa.query.query import Query
from decopa.runs.result import result_table
from shuffler.routing import feeder, views
from shuffler.routing.views import ViewReader
from shuffler.rows.batch import Batch
from shuffler.source.trace import open_trace
from tests.property.test_matches import ATTRIBUTES
from tests.support.brute_force import brute_force, canonical
from tests.support.crashing import CrashingCluster
from tests.support.engine import expected_rows, matches_of, sortable, table_of
from tests.support.examples import examples
from tests.support.memory import poisoned_memory
from tests.support.plans import random_plan
from tests.support.shared_plans import shared_plans
from tests.support.simulation import SimulatedCluster
from tests.support.strategies import rules_of_one_template, workload_streams, workloads


@pytest.fixture(autouse=True, scope="module")
def _parts_hear_of_watermarks_when_they_must() -> Iterator[None]:
    """As in a workload that is far larger than those drawn here."""
    before, feeder.FEW_PARTS = feeder.FEW_PARTS, 0
    yield
    feeder.FEW_PARTS = before


@st.composite
def workload_plans(draw: st.DrawFn, workload: Sequence[Query]) -> Plan:
    """Random plans of all queries: with fragments and views or without; on units of their own, or on a few that all
    share."""
    if draw(st.integers(0, 3)):
        return draw(shared_plans(workload))
    plan = Plan(tuple(random_plan(draw, branch) for query in workload for branch in query.branches))
    hosts = draw(st.integers(0, 4))
    if not hosts:
        return plan
    weights = Random(draw(st.integers(0, 2**16)))
    rate = draw(st.sampled_from((None, lambda part, operator: weights.random())))
    return packed(plan, hosts, lambda part, operator: weights.random() ** 3, rate)


def assert_each_is_exact(workload: Sequence[Query], tables: Sequence[pa.Table], events: list[dict[str, Any]]) -> None:
    """`tables` are those of the branches of each query, in order."""
    remaining = iter(tables)
    for query in workload:
        found = result_table([query], [next(remaining) for _ in query.branches])
        expected = brute_force(query, events)
        assert sorted(map(canonical, matches_of(query, found))) == list(map(canonical, expected)), query.name
        rows = expected_rows(query, events, expected)
        assert sorted(found.to_pylist(), key=sortable) == sorted(rows, key=sortable), query.name


class SeenRows:
    """What every view of a run let through, as the ids of each row."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: dict[tuple[str, str], list[tuple[int, ...]]] = {}
        made, laid_out = ViewReader.__init__, ViewReader.laid_out

        def remember(reader: ViewReader, plan: Plan, part: Any, operator: Any, *others: Any, **options: Any) -> None:
            made(reader, plan, part, operator, *others, **options)
            key = next(key for key, one in zip(plan.keys, plan.parts, strict=True) if one is part)
            reader.seen = self.rows.setdefault((key, operator.name), [])  # type: ignore
            reader.aliases = sorted(operator.sub_query.aliases)  # type: ignore

        def look(reader: Any, *given: Any) -> Any:
            rows = laid_out(reader, *given)
            columns = [rows.columns[f"{alias}.id"].tolist() for alias in reader.aliases] if rows.length else []
            reader.seen += zip(*columns, strict=True)
            return rows

        monkeypatch.setattr(ViewReader, "__init__", remember)
        monkeypatch.setattr(ViewReader, "laid_out", look)

    def assert_exact(self, plan: Plan, events: list[dict[str, Any]]) -> None:
        """The rows of a view are the matches of its sub-query, each once."""
        for key, part in zip(plan.keys, plan.parts, strict=True):
            for operator in part.views:
                query = operator.sub_query.as_query(part.query)
                expected = [
                    tuple(match[alias][0] for alias in sorted(operator.sub_query.aliases))
                    for match in brute_force(query, events)
                ]
                assert sorted(self.rows[key, operator.name]) == sorted(expected), (key, operator.name)


def local_tables(plan: Plan, events: pa.Table, batch_size: int, interleaving: Random | None) -> list[pa.Table]:
    runtime = LocalRuntime(plan, open_trace(events), batch_size=batch_size, interleaving=interleaving)
    runtime.run()
    return [sink.table() for sink in runtime.sinks]


@settings(max_examples=examples(30))
@given(st.data())
def test_every_query_of_a_workload_finds_what_it_finds_alone(data: st.DataObject) -> None:
    workload = data.draw(workloads())
    events = data.draw(workload_streams(workload))
    plan = data.draw(workload_plans(workload))
    note(plan.to_json())
    assert Plan.from_json(plan.to_json()) == plan
    batch_size = data.draw(st.sampled_from((1, 2, 5, 100)))
    seed = data.draw(st.one_of(st.none(), st.integers(0, 2**16)))
    ids_are_numbers = all(isinstance(event["id"], int) for event in events)
    with interpreted(), poisoned_memory(), pytest.MonkeyPatch.context() as patch:
        seen = SeenRows(patch)
        tables = local_tables(plan, table_of(events, ATTRIBUTES), batch_size, None if seed is None else Random(seed))
    assert_each_is_exact(workload, tables, events)
    if ids_are_numbers:
        seen.assert_exact(plan, events)


@settings(max_examples=examples(15))
@given(st.data())
def test_processes_that_host_many_queries_find_what_each_finds_alone(data: st.DataObject) -> None:
    workload = data.draw(workloads(max_queries=4))
    events = data.draw(workload_streams(workload))
    plan = data.draw(workload_plans(workload))
    note(plan.to_json())
    chaos = Random(data.draw(st.integers(0, 2**16)))
    with interpreted():
        cluster = SimulatedCluster(
            plan,
            table_of(events, ATTRIBUTES),
            shufflers=data.draw(st.integers(1, 2)),
            batch_size=data.draw(st.sampled_from((1, 3, 100))),
            chaos=chaos,
        )
        cluster.run(workload)
    if plan.hosts:
        assert len(cluster.units) <= plan.hosts
    tables = {sink.name: tuple(taker.table() for taker in sink.takers) for sink in cluster.sinks}
    assert_each_is_exact(workload, cluster.topology.by_part(tables), events)


@settings(max_examples=examples(10))
@given(st.data())
def test_a_workload_survives_crashes(data: st.DataObject) -> None:
    workload = [query for query in data.draw(workloads(max_queries=3)) if len(query.branches) == 1]
    if not workload:
        return
    events = data.draw(workload_streams(workload))
    plan = data.draw(workload_plans(workload))
    chaos = Random(data.draw(st.integers(0, 2**16)))
    with interpreted():
        cluster = CrashingCluster(plan, table_of(events, ATTRIBUTES), shufflers=2, chaos=chaos, crashes=2)
        cluster.run(workload)
    assert_each_is_exact(workload, [pa.concat_tables(one) for one in cluster._published], events)


@settings(max_examples=examples(20))
@given(st.data())
def test_plans_that_share_find_what_each_query_finds_alone(data: st.DataObject) -> None:
    workload = data.draw(workloads())
    events = data.draw(workload_streams(workload))
    rates = Random(data.draw(st.integers(0, 2**16)))
    known = [
        Statistics(
            query.window_us,
            {name: rates.uniform(1, 50) for name in query.event_types},
            default_selectivity=rates.uniform(0.01, 1),
        )
        for query in workload
    ]
    strategy = data.draw(st.sampled_from((*WORKLOAD_STRATEGIES, "decopa-paper")))
    units = data.draw(st.integers(1, 4))
    plan = plan_workload(workload, known, Capacity(1000, 10_000), units=units, strategy=strategy).plan
    note(plan.to_json())
    assert plan.hosts == units and plan_units(plan) <= units
    assert Plan.from_json(plan.to_json()) == plan
    with interpreted(), poisoned_memory():
        tables = local_tables(plan, table_of(events, ATTRIBUTES), 3, None)
        counting = LocalRuntime(plan, open_trace(table_of(events, ATTRIBUTES)), outlet=OutletSpec(count=True))
        counting.run()
    assert_each_is_exact(workload, tables, events)
    assert counting.matches == sum(table.num_rows for table in tables)


#: Conditions with aggregates over a group that is formed behind a view, beside events that come through it.
HAVING = ("sum(c.x) > a.x", "count(c) = 2 AND c.x > a.x", "max(c.x) - min(c.x) <= b.n OR avg(c.x) = a.x")


@settings(max_examples=examples(8))
@given(st.data())
def test_aggregates_beside_events_of_a_view_find_what_the_query_finds_alone(data: st.DataObject) -> None:
    condition, window = data.draw(st.sampled_from(HAVING)), data.draw(st.sampled_from((6, 12)))
    texts = (f"SEQ(A a, B b, KL(C c)) WHERE {condition}", "SEQ(A a, B b, C d) WHERE a.x < d.x")
    workload = [
        parse(f"QUERY q{number} PATTERN {text} WITHIN {window} us RETURN a.x") for number, text in enumerate(texts)
    ]
    events = data.draw(workload_streams(workload, max_events=10))
    known = [Statistics(window, dict.fromkeys("ABC", 5.0), default_selectivity=0.5) for _ in workload]
    plan = plan_workload(workload, known, Capacity(1000, 10_000), units=2, strategy="sharing-only").plan
    assert plan.parts[plan.reported[0]].views, "the query with the aggregate takes SEQ(A a, B b) from a fragment"
    with interpreted(), poisoned_memory():
        tables = local_tables(plan, table_of(events, ATTRIBUTES), data.draw(st.sampled_from((1, 3, 100))), None)
    assert_each_is_exact(workload, tables, events)


#: NEXTs that begin alike, with FILTER and deciding conditions.
CHAINS = (
    "NEXT(A a, B b, C c)",
    "NEXT(A x, B y, A z) WHERE y.x > x.x",
    "NEXT(A a, B b, C c, A d) WHERE b.x < c.x AND FILTER(d.k = a.k)",
    "NEXT(A a, B b)",
    "NEXT(A a, B b, C c) WHERE FILTER(b.k = a.k) AND c.x > b.x",
    "NEXT(A b, B a, B c) WHERE FILTER(a.k = b.k) AND FILTER(c.n = a.n)",
    "NEXT(A a, B b, C c) WHERE FILTER(b.k = a.k) AND FILTER(c.k = b.k) AND a.x < 1",
    "NEXT(A a, A b, B c) WHERE a.x < 1",
    "NEXT(A a, A b, C c) WHERE a.x < 1 AND b.x < 1",
    "STRICT(A a, B b, C c)",
    "SEQ(A a, B b, C c)",
)


@settings(max_examples=examples(12))
@given(st.data())
def test_chains_that_begin_alike_find_what_each_finds_alone(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.sampled_from(CHAINS), min_size=2, max_size=4))
    workload = [
        parse(f"QUERY q{number} PATTERN {text} WITHIN {data.draw(st.sampled_from((4, 9, 20)))} us")
        for number, text in enumerate(texts)
    ]
    events = data.draw(workload_streams(workload, max_events=11))
    known = [Statistics(query.window_us, dict.fromkeys("ABC", 5.0), default_selectivity=0.5) for query in workload]
    strategy = data.draw(st.sampled_from(("shared", "sharing-only")))
    plan = plan_workload(workload, known, Capacity(1000, 10_000), units=2, strategy=strategy).plan
    note(plan.to_json())
    assert Plan.from_json(plan.to_json()) == plan
    ids_are_numbers = all(isinstance(event["id"], int) for event in events)
    with interpreted(), poisoned_memory(), pytest.MonkeyPatch.context() as patch:
        seen = SeenRows(patch)
        tables = local_tables(plan, table_of(events, ATTRIBUTES), data.draw(st.sampled_from((1, 3, 100))), None)
    assert_each_is_exact(workload, tables, events)
    if ids_are_numbers:
        seen.assert_exact(plan, events)


@settings(max_examples=examples(25))
@given(st.data())
def test_rules_that_differ_in_constants_find_what_each_finds_alone(data: st.DataObject) -> None:
    workload = data.draw(rules_of_one_template())
    events = data.draw(workload_streams(workload))
    known = [
        Statistics(one.window_us, dict.fromkeys(one.event_types, 5.0), default_selectivity=0.5) for one in workload
    ]
    units = data.draw(st.integers(1, 3))
    plan = plan_workload(workload, known, Capacity(1000, 10_000), units=units, strategy="shared").plan
    note(plan.to_json())
    assert Plan.from_json(plan.to_json()) == plan
    batch_size = data.draw(st.sampled_from((1, 3, 100)))
    seed = data.draw(st.one_of(st.none(), st.integers(0, 2**16)))
    table = table_of(events, ATTRIBUTES)
    with interpreted(), poisoned_memory(), pytest.MonkeyPatch.context() as patch:
        seen = SeenRows(patch)
        tables = local_tables(plan, table, batch_size, None if seed is None else Random(seed))
        if all(isinstance(event["id"], int) for event in events):
            seen.assert_exact(plan, events)
    with interpreted(), poisoned_memory():
        counting = LocalRuntime(plan, open_trace(table), outlet=OutletSpec(count=True))
        counting.run()
        cluster = SimulatedCluster(plan, table, shufflers=1, batch_size=batch_size, chaos=Random(seed))
        cluster.run(workload)
    assert_each_is_exact(workload, tables, events)
    assert counting.matches == sum(table.num_rows for table in tables)
    elsewhere = {sink.name: tuple(taker.table() for taker in sink.takers) for sink in cluster.sinks}
    assert_each_is_exact(workload, cluster.topology.by_part(elsewhere), events)


# ------------------------------------------------------------------ faults that must show

QUERY = parse("QUERY q PATTERN SEQ(A a, A b, B c) WHERE a.x < b.x WITHIN 5 us")
EVENTS = [
    {"id": number, "ts": ts, "type": kind, "x": x}
    for number, (ts, kind, x) in enumerate(
        ((0, "A", 2.0), (1, "A", 0.5), (2, "A", 3.0), (3, "B", 0.0), (9, "A", 5.0), (10, "B", 0.0))
    )
]


def viewing_plan() -> Plan:
    """The query with its first two events from a fragment that demands neither its condition nor its window."""
    fragment = parse("QUERY f PATTERN SEQ(A p0, A p1) WITHIN 20 us RETURN p0.x, p1.x")
    pair, third, whole = (SubQuery(frozenset(names)) for names in ("ab", "c", "abc"))
    view = PlanOperator("o1", pair, view=View("f", "o3", (("a", "p0"), ("b", "p1"))))
    user = QueryPlan(QUERY, (view, PlanOperator("o2", third), PlanOperator("o3", whole, ("o1", "o2"))))
    return Plan((replace(left_deep(fragment), key="f", fragment=True), user))


def assert_found_exactly() -> None:
    with interpreted():
        tables = local_tables(viewing_plan(), table_of(EVENTS, ATTRIBUTES), 2, None)
    assert_each_is_exact([QUERY], tables, EVENTS)


def test_a_fragment_that_demands_less_finds_the_same() -> None:
    assert_found_exactly()


def without_window(left: Residue) -> Residue:
    return replace(left, window_us=None)


def without_conditions(left: Residue) -> Residue:
    return replace(left, conditions=())


@pytest.mark.parametrize("fault", [without_window, without_conditions])
def test_a_view_that_lets_too_much_through_is_caught(
    fault: Callable[[Residue], Residue], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        seen = SeenRows(patch)
        patch.setattr(views, "residue_of", lambda *given: fault(residue_of(*given)))
        with interpreted():
            local_tables(viewing_plan(), table_of(EVENTS, ATTRIBUTES), 2, None)
        with pytest.raises(AssertionError):
            seen.assert_exact(viewing_plan(), EVENTS)


def test_a_view_that_confuses_events_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out = ViewReader.laid_out

    def confused(reader: ViewReader, *given: Any) -> Batch:
        rows = laid_out(reader, *given)
        columns = dict(rows.columns)
        if rows.length:
            columns["a.id"], columns["b.id"] = columns["b.id"], columns["a.id"]
        return Batch(rows.length, columns, rows.heaps)

    monkeypatch.setattr(ViewReader, "laid_out", confused)
    with pytest.raises(AssertionError):
        assert_found_exactly()
