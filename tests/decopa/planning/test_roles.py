"""Roles are decided in one place: rule, main side, formed alias, decided NOT, dealt-out side, units that work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decopa.language.text.parser import parse
from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.planning.roles import BOTH, Roles, Rule, roles_of
from decopa.planning.subquery import SubQuery
from decopa.planning.validate import violations
from tests.support.plans import random_plan
from tests.support.strategies import queries

ROOT = Path(__file__).resolve().parents[3]
QUERY = parse("PATTERN SEQ(A a, KL(B b), NOT(C c), D d) WITHIN 10 s")


def part(aliases: str, closed: str = "") -> SubQuery:
    return SubQuery(frozenset(aliases), frozenset(closed))


@pytest.mark.parametrize(
    ("sub_query", "inputs", "rule", "main", "formed"),
    [
        (part("a"), [], Rule.LEAF, 0, ""),
        (part("ad"), [part("a"), part("d")], Rule.JOIN, 0, ""),
        (part("ab", "b"), [part("ab")], Rule.KLEENE_UNARY, 0, "b"),
        (part("ab", "b"), [part("a"), part("b")], Rule.KLEENE_BINARY, 0, "b"),
        (part("ab", "b"), [part("b"), part("a")], Rule.KLEENE_BINARY, 1, "b"),
        (part("abcd", "b"), [part("abd", "b"), part("c")], Rule.NEGATION, 0, ""),
        (part("abcd", "b"), [part("c"), part("abd", "b")], Rule.NEGATION, 1, ""),
    ],
)
def test_roles_follow_from_the_sub_queries(
    sub_query: SubQuery, inputs: list[SubQuery], rule: Rule, main: int, formed: str
) -> None:
    roles = roles_of(QUERY, sub_query, inputs)
    assert (roles.rule, roles.main, roles.formed) == (rule, main, frozenset(formed))
    assert (roles.negation is not None) == (rule is Rule.NEGATION)
    if rule is Rule.NEGATION:
        assert roles.negation == QUERY.negations[0]
        assert inputs[roles.other] == part("c")
    if formed:
        assert roles.strip(sub_query) == part("ab")


def test_only_a_join_may_deal_out_either_side() -> None:
    assert roles_of(QUERY, part("ad"), [part("a"), part("d")]).may_deal == (0, 1)
    assert roles_of(QUERY, part("ab", "b"), [part("b"), part("a")]).may_deal == (1,)
    assert roles_of(QUERY, part("a"), []).may_deal == ()


def test_an_operator_with_broadcast_inputs_works_on_one_unit() -> None:
    operators = (
        PlanOperator("a", part("a"), partitioned=True),
        PlanOperator("d", part("d")),
        PlanOperator("ad", part("ad"), ("a", "d"), units=3),
    )
    plan = QueryPlan(parse("PATTERN SEQ(A a, D d) WITHIN 10 s"), operators)
    assert plan.roles(plan.root) == Roles(Rule.JOIN, dealt=0, active_units=3)
    broadcast = QueryPlan(plan.query, (PlanOperator("a", part("a")), *operators[1:]))
    assert broadcast.roles(broadcast.root) == Roles(Rule.JOIN, dealt=None, active_units=1)


@given(st.data())
def test_what_a_valid_plan_deals_out_may_be_dealt_out(data: st.DataObject) -> None:
    query = data.draw(queries()).branches[0]
    plan = random_plan(data.draw, query)
    assert not list(violations(plan))
    for operator in plan.operators:
        roles = plan.roles(operator)
        flags = [side for side, source in enumerate(plan.inputs(operator)) if source.partitioned]
        assert roles.dealt == (BOTH if len(flags) == 2 else flags[0] if flags else None)
        assert roles.dealt is None or roles.dealt in roles.may_deal


def test_no_other_module_derives_roles() -> None:
    """Groups are formed where closed aliases differ, and the least deep scope is positive: one module says so."""
    derivation = re.compile(r"\.closed - \w+(\[\w+\])?(\.sub_query)?\.closed|key=lambda \w+: len\([^)]*\.scope\(")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for package in ("decopa", "shuffler", "actors", "cluster")
        for path in (ROOT / package).rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if derivation.search(line)
    ]
    assert found == []
