"""Worked examples of the DecoPa paper: order, sub-queries, plans and who gets which event."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import decopa
from actors.columnar.jit import interpreted
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.strategies.left_deep import left_deep
from decopa.planning.subquery import SubQuery, whole
from decopa.planning.validate import violations
from decopa.query.query import Query
from shuffler.routing.partitioner import Broadcast, HashByEventIds, Partitioner, RoundRobin
from shuffler.routing.table import RoutingTable
from shuffler.rows.batch import Batch
from tests.support.engine import table_of
from tests.support.golden_form import pattern_of
from tests.support.plan_text import leaves, operator, plan_of
from tests.support.shared import decopa_entries, decopa_entry, needs_golden

pytestmark = needs_golden


def query_of(golden: Any) -> Query:
    return Query(pattern_of(golden), (), 1_000)


def text(query: Query, *types: str, closed: tuple[str, ...] = ()) -> str:
    """A sub-query by its types, which are the aliases of golden patterns."""
    return SubQuery(frozenset(types), frozenset(closed)).text(query)


# ----------------------------------------------------- order and sub-queries
@pytest.mark.parametrize("entry", decopa_entries("decopa_omega"), ids=lambda entry: entry["id"])
def test_order_constraints_are_those_of_the_paper(entry: dict[str, Any]) -> None:
    found = query_of(entry["inputs"]["pattern"]).order_constraints
    assert sorted(map(list, found)) == entry["expected"]


@pytest.mark.parametrize("entry", decopa_entries("decopa_named_splits"), ids=lambda entry: entry["id"])
def test_the_named_splits_have_the_sub_queries_of_the_figure(entry: dict[str, Any]) -> None:
    query = query_of(entry["inputs"]["pattern"])
    assert [text(query, "C", "D"), whole(query).text(query)] == entry["expected"]["syntactic"]
    composite = [one for one in left_deep(query).operators if one.inputs]
    assert [one.sub_query.text(query) for one in composite] == entry["expected"]["left-deep"]


@pytest.mark.parametrize("entry", decopa_entries("decopa_kleene_splits"), ids=lambda entry: entry["id"])
def test_the_kleene_splits_have_the_inputs_of_the_figure(entry: dict[str, Any]) -> None:
    query = query_of(entry["inputs"]["pattern"])
    assert [text(query, "A"), text(query, "B", "C")] == entry["expected"]["binary"]
    assert [text(query, "A", "B", "C")] == entry["expected"]["unary"]


def test_every_set_of_types_of_the_running_example_is_a_sub_query() -> None:
    query = query_of(["SEQ", "A", "B", ["AND", "C", "D"]])
    subsets = [types for size in range(1, 5) for types in itertools.combinations("ABCD", size)]
    assert len({text(query, *types) for types in subsets}) == decopa_entry("decopa-valid-subqueries")["expected"]


def test_the_second_plan_of_the_motivating_example_joins_sub_queries_that_share_a_type() -> None:
    query = query_of(["SEQ", "A", "B", "C"])
    assert [text(query, "A", "C"), text(query, "B", "C")] == decopa_entry("decopa-s22-names")["expected"]


def test_the_distance_condition_of_listing_1_is_on_every_pair() -> None:
    aliases = decopa_entry("decopa-listing-q1")["expected"]
    events = ", ".join(f"Ride {alias}" for alias in aliases)
    query = parse(
        f"PATTERN AND({events}) WHERE FORALL (i, j) IN ({', '.join(aliases)}): "
        "dist_km(i.lat, i.lon, j.lat, j.lon) >= 6 WITHIN 24 h"
    )
    assert len(query.where) == 10


# ---------------------------------------------------------------------- plans
def plan_from(entry: dict[str, Any]) -> QueryPlan:
    """The golden operators with the sub-queries that the paper's text gives them: o1 to o4 are A to D."""
    kleene = entry["inputs"].get("kleene_binary", {})
    query = query_of(["SEQ", "A", ["KL", "B"]] if kleene else ["SEQ", "A", "B", ["AND", "C", "D"]])
    sub_queries: dict[str, SubQuery] = {}
    operators = []
    for name, golden in entry["inputs"]["operators"].items():
        if golden["pre"]:
            inputs = [sub_queries[source] for source in golden["pre"]]
            closed = sub_queries[kleene[name]].aliases if name in kleene else frozenset()
            sub_queries[name] = SubQuery(frozenset().union(*(one.aliases for one in inputs)), closed)
        else:
            sub_queries[name] = SubQuery(frozenset({{"o1": "A", "o2": "B", "o3": "C", "o4": "D"}.get(name, name)}))
        units = 1 if name == "o8" else 2
        operators.append(PlanOperator(name, sub_queries[name], tuple(golden["pre"]), units, bool(golden["part"])))
    return QueryPlan(query, tuple(operators))


@pytest.mark.parametrize("entry", decopa_entries("decopa_valid_plan"), ids=lambda entry: entry["id"])
def test_plans_are_valid_as_the_paper_says(entry: dict[str, Any]) -> None:
    found = [violation.rule for violation in violations(plan_from(entry))]
    assert (not found) == entry["expected"]
    assert set(found) <= {"two-partitioned", "kleene-input-partitioned"}


# -------------------------------------------------------------------- routing
def rows(count: int) -> Batch:
    return Batch(count, {"row": np.arange(count)}, {})


def receivers(partitioner: Partitioner, batch: Batch) -> list[list[int]]:
    """The units that get each row."""
    got: list[list[int]] = [[] for _ in range(batch.length)]
    for unit, part in partitioner.split(batch):
        for row in part.columns["row"]:
            got[row].append(unit)
    return got


@pytest.mark.parametrize("entry", decopa_entries("decopa_route"), ids=lambda entry: entry["id"])
def test_matches_go_to_the_units_of_the_example(entry: dict[str, Any]) -> None:
    targets = entry["inputs"]["targets"]
    partitioner = RoundRobin(len(targets)) if entry["inputs"]["part"] else Broadcast(len(targets))
    found = receivers(partitioner, rows(entry["inputs"]["n_events"]))
    assert [[targets[unit] for unit in units] for units in found] == entry["expected"]


def test_the_shuffler_sends_the_stream_of_the_example_to_its_units() -> None:
    entry = decopa_entry("decopa-ex4-shuffle")
    plan = plan_from(decopa_entry("decopa-ex3-plan"))
    units = {"o5": [3, 4], "o6": [5, 6], "o8": [0]}
    routing = RoutingTable(plan)
    routes = {
        min(leaf.sub_query.aliases): [(edge.target.name, edge.partitioner()) for edge in routing.edges_from(leaf)]
        for leaf in plan.leaves
    }
    found = []
    for event_type in entry["inputs"]["events"]:
        got = [
            units[target][number]
            for target, partitioner in routes[event_type]
            for number in receivers(partitioner, rows(1))[0]
        ]
        found.append(sorted(got))
    assert found == entry["expected"]


# ------------------------------------------------------------- Kleene groups
def test_hashed_strip_matches_form_the_groups_of_the_example() -> None:
    entry = decopa_entry("decopa-unary-hash")
    events = [{"id": name, "ts": place, "type": name[0].upper()} for place, name in enumerate(["a1", "b1", "a2", "b2"])]
    plan = plan_of(
        "SEQ(A a, KL(B b))",
        *leaves("a", "b"),
        operator("strip", "a b", "a b", partitioned=True),
        operator("q", "a b*", "strip", units=2),
    )
    with interpreted():
        result = decopa.run(
            plan.query,
            table_of(events, {"id": str}),
            planning=decopa.Planning(plan=Plan((plan,))),
            trace=decopa.TraceOptions(batch_size=1),
        )
    assert sorted([row["a"], row["b"]] for row in result.to_pylist()) == entry["expected"]


@pytest.mark.parametrize("entry", decopa_entries("decopa_kleene_groups"), ids=lambda entry: entry["id"])
def test_strip_matches_of_one_group_meet_on_one_unit_only_if_hashed(entry: dict[str, Any]) -> None:
    strip = entry["inputs"]["strip_matches"]
    keys = np.array([int(match["a"][1:]) for match in strip])
    batch = Batch(len(strip), {"a.id": keys, "row": np.arange(len(strip))}, {})
    hashed = receivers(HashByEventIds(2, ["a.id"]), batch)
    assert hashed[0] == hashed[1]
    dealt_out = receivers(RoundRobin(2), batch)
    assert [units[0] for units in dealt_out] == [0, 1, 0]
