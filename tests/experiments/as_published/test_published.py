"""The authors' published plans as ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from decopa.choices import Reading
from decopa.planning.roles import Rule
from decopa.planning.validate import violations
from scripts.experiments.as_published.published import PublishedPlan, load, paper_queries, published_plans


@pytest.fixture(scope="module")
def plans(shared: Path) -> list[PublishedPlan]:
    return published_plans(load(shared))


def test_all_seven_queries_have_a_decopa_and_a_hybrid_plan(plans: list[PublishedPlan]) -> None:
    groups = {plan.group for plan in plans}
    assert len(groups) == 7
    assert {(plan.group, plan.kind) for plan in plans} == {
        (one, kind) for one in groups for kind in ("DecoPa", "Hybrid")
    }


def test_published_plans_are_structurally_valid(plans: list[PublishedPlan]) -> None:
    assert [(plan.folder, list(violations(plan.plan))) for plan in plans if list(violations(plan.plan))] == []


def test_units_and_partition_flags_survive(plans: list[PublishedPlan]) -> None:
    plan = next(one for one in plans if one.group == "google_Q2" and one.kind == "DecoPa").plan
    by_text = {operator.sub_query.text(plan.query): operator for operator in plan.operators}
    assert by_text["AND(D,C,I,E)"].units == 9
    assert by_text["AND(I,E)"].units == 8
    assert by_text["AND(I,E)"].partitioned
    assert not by_text["AND(D,C,I)"].partitioned


def test_kleene_operators_keep_their_kind(plans: list[PublishedPlan]) -> None:
    rules = {
        one.kind: {one.plan.rule(operator) for operator in one.plan.operators}
        for one in plans
        if one.group == "google_Q3"
    }
    assert Rule.KLEENE_UNARY in rules["DecoPa"]
    assert Rule.KLEENE_BINARY in rules["Hybrid"]


def test_a_published_plan_sustains_what_its_authors_ran_it_at(plans: list[PublishedPlan]) -> None:
    plan = next(one for one in plans if one.folder.startswith("google_Q3/parallel"))
    assert plan.case.priced(plan.plan).scaling.scaling_factor == pytest.approx(plan.scaling_factor, rel=1e-3)


@pytest.mark.parametrize("reading", Reading)
def test_the_default_planner_sustains_at_least_what_a_published_plan_does(
    plans: list[PublishedPlan], reading: Reading
) -> None:
    for plan in plans:
        theirs = plan.case.priced(plan.plan, reading).scaling.scaling_factor
        assert plan.case.scaling("decopa", plan.units, reading) >= theirs * (1 - 1e-6), plan.folder


def test_table_3_has_six_queries_with_gains_for_four_numbers_of_units(shared: Path) -> None:
    queries = paper_queries(load(shared))
    assert len(queries) == 6
    assert all(set(query.gains) == {5, 10, 15, 20} for query in queries)
