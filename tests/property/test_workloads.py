"""Many queries in one plan: each finds exactly what it finds alone, on however few units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from actors.columnar.jit import interpreted
from cluster.local import LocalRuntime
from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.choices import WORKLOAD_STRATEGIES
from decopa.planning.plan import Plan
from decopa.planning.planner import plan_workload
from decopa.planning.price import plan_units
from decopa.planning.workload.packing import packed
from decopa.query.query import Query
from decopa.runs.result import result_table
from shuffler.routing import feeder
from shuffler.routing.views import ViewReader
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
from tests.support.strategies import workload_streams, workloads


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
    return packed(plan, hosts, lambda part, operator: weights.random())


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
        made, read = ViewReader.__init__, ViewReader.read

        def remember(reader: ViewReader, plan: Plan, part: Any, operator: Any, *others: Any) -> None:
            made(reader, plan, part, operator, *others)
            key = next(key for key, one in zip(plan.keys, plan.parts, strict=True) if one is part)
            reader.seen = self.rows.setdefault((key, operator.name), [])  # type: ignore
            reader.aliases = sorted(operator.sub_query.aliases)  # type: ignore

        def look(reader: Any, batch: Any) -> Any:
            rows = read(reader, batch)
            columns = [rows.columns[f"{alias}.id"].tolist() for alias in reader.aliases] if rows.length else []
            reader.seen += zip(*columns, strict=True)
            return rows

        monkeypatch.setattr(ViewReader, "__init__", remember)
        monkeypatch.setattr(ViewReader, "read", look)

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
    strategy = data.draw(st.sampled_from(WORKLOAD_STRATEGIES))
    units = data.draw(st.integers(1, 4))
    plan = plan_workload(workload, known, Capacity(1000, 10_000), units=units, strategy=strategy).plan
    note(plan.to_json())
    assert plan.hosts == units and plan_units(plan) <= units
    assert Plan.from_json(plan.to_json()) == plan
    with interpreted(), poisoned_memory():
        tables = local_tables(plan, table_of(events, ATTRIBUTES), 3, None)
    assert_each_is_exact(workload, tables, events)
