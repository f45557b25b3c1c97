"""Each rule of structural validity, broken by the smallest plan that breaks it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decopa.errors import PlanError
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.strategies.left_deep import left_deep
from decopa.planning.subquery import SubQuery
from decopa.planning.validate import check_structure, violations
from decopa.query.query import Query
from tests.support.plan_text import leaves, operator, plan_of
from tests.support.plans import plans
from tests.support.strategies import queries

A, B, C, D = leaves("a", "b", "c", "d")
B_DEALT_OUT = replace(B, partitioned=True)
NESTED_NOT = "SEQ(A a, NOT(SEQ(B b, C c)), D d)"


def rules(plan: QueryPlan) -> list[str]:
    return [violation.rule for violation in violations(plan)]


# ----------------------------------------------------------------- valid plans
@given(st.data())
def test_random_plans_made_by_the_rules_are_valid(data: st.DataObject) -> None:
    plan = data.draw(plans(data.draw(queries())))
    assert [violation for part in plan.parts for violation in violations(part)] == []


@given(queries())
def test_the_left_deep_plan_of_every_query_is_valid(query: Query) -> None:
    assert [violation for branch in query.branches for violation in violations(left_deep(branch))] == []


@pytest.mark.parametrize(
    "plan",
    [
        plan_of("A a", A),
        plan_of("SEQ(A a, B b)", A, B_DEALT_OUT, operator("q", "a b", "a b", units=4)),
        plan_of(
            "SEQ(A a, B b, C c)",
            *(A, B, C),
            operator("ac", "a c", "a c"),
            operator("bc", "b c", "b c"),
            operator("q", "a b c", "ac bc"),
        ),
        plan_of("SEQ(A a, KL(B b))", A, B, operator("q", "a b*", "a b")),
        plan_of("SEQ(A a, KL(B b))", A, B, operator("ab", "a b", "a b"), operator("q", "a b*", "ab")),
        plan_of("SEQ(A a, KL(B b))", A, B, operator("group", "b*", "b"), operator("q", "a b*", "a group")),
        plan_of("KL(B b)", B_DEALT_OUT, operator("q", "b*", "b")),
        plan_of(
            "SEQ(A a, NOT(B b), C c)", A, B, C, operator("ac", "a c", "a c", partitioned=True),
            operator("q", "a b c", "ac b", units=3),
        ),
        plan_of(
            NESTED_NOT, A, B, C, D, operator("ad", "a d", "a d"), operator("bc", "b c", "b c"),
            operator("q", "a b c d", "ad bc"),
        ),
    ],
    ids=lambda plan: str(plan.query.pattern),
)  # fmt: skip
def test_a_plan_that_follows_the_rules_is_valid(plan: QueryPlan) -> None:
    assert rules(plan) == []
    check_structure(plan)


# ---------------------------------------------------------------- broken plans
BROKEN = {
    "root": plan_of("SEQ(A a, B b, C c)", A, B, operator("ab", "a b", "a b")),
    "unused": plan_of("SEQ(A a, B b)", A, B, operator("other", "a"), operator("q", "a b", "a b")),
    "duplicate-sub-query": plan_of("SEQ(A a, B b)", A, B, operator("b2", "b"), operator("q", "a b", "a b")),
    "kleene-alias": plan_of("SEQ(A a, B b)", A, B, operator("q", "a b*", "a b")),
    "leaf": plan_of("SEQ(A a, B b)", operator("q", "a b")),
    "arity": plan_of("SEQ(A a, B b, C c)", A, B, C, operator("q", "a b c", "a b c")),
    "cover": plan_of("SEQ(A a, B b, C c)", A, B, operator("q", "a b c", "a b")),
    "two-partitioned": plan_of(
        "SEQ(A a, B b)", replace(A, partitioned=True), B_DEALT_OUT, operator("q", "a b", "a b", units=2)
    ),
    "kleene-unary": plan_of("SEQ(A a, B b)", A, B, operator("ab", "a b", "a b"), operator("q", "a b", "ab")),
    "kleene-binary": plan_of("AND(KL(A a), KL(B b))", A, B, operator("q", "a* b*", "a b")),
    "kleene-input-partitioned": plan_of("SEQ(A a, KL(B b))", A, B_DEALT_OUT, operator("q", "a b*", "a b", units=2)),
    "kleene-lost": plan_of(
        "AND(A a, KL(B b))", A, B, operator("group", "b*", "b"), operator("ab", "a b", "a group"),
        operator("q", "a b*", "ab"),
    ),
    "kleene-mixed": plan_of(
        "AND(A a, KL(B b), C c)", A, B, C, operator("group", "b*", "b"), operator("ab", "a b", "a b"),
        operator("bc", "b* c", "group c"), operator("q", "a b* c", "ab bc"),
    ),
    "negation-closed": plan_of("SEQ(A a, NOT(B b), C c)", A, B, C, operator("ab", "a b", "a b"),
                               operator("q", "a b c", "ab c")),
    "negation": plan_of(
        NESTED_NOT, A, B, C, D, operator("ad", "a d", "a d"), operator("adb", "a b d", "ad b"),
        operator("q", "a b c d", "adb c"),
    ),
    "negation-open-kleene": plan_of(
        "SEQ(KL(A a), NOT(B b), C c)", A, B, C, operator("ac", "a c", "a c"), operator("abc", "a b c", "ac b"),
        operator("q", "a* b c", "abc"),
    ),
    "negated-input-partitioned": plan_of(
        "SEQ(A a, NOT(B b), C c)", A, B_DEALT_OUT, C, operator("ac", "a c", "a c"), operator("q", "a b c", "ac b"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("rule", "plan"), BROKEN.items(), ids=BROKEN)
def test_a_broken_rule_is_named(rule: str, plan: QueryPlan) -> None:
    assert rule in rules(plan)
    with pytest.raises(PlanError, match=r"operator .*\[.+\]$"):
        check_structure(Plan((plan,)))


def test_the_same_input_twice_is_refused() -> None:
    assert rules(plan_of("SEQ(A a, B b)", A, operator("q", "a b", "a a"))) == ["arity"]


def test_a_negation_needs_the_events_its_conditions_name() -> None:
    early = plan_of(
        "SEQ(A a, NOT(B b), C c, D d)", A, B, C, D, operator("ac", "a c", "a c"), operator("abc", "a b c", "ac b"),
        operator("q", "a b c d", "abc d"), where="b.x < d.x",
    )  # fmt: skip
    assert rules(early) == ["negation-closed"]


def test_a_negation_at_the_end_needs_the_whole_match() -> None:
    early = plan_of(
        "AND(SEQ(A a, NOT(B b)), C c)", A, B, C, operator("ab", "a b", "a b"), operator("q", "a b c", "ab c")
    )
    assert rules(early) == ["negation-closed"]


def test_a_violation_says_what_to_change() -> None:
    (found,) = violations(BROKEN["two-partitioned"])
    assert found.operator == "q"
    assert found.message == (
        "inputs a and b are both partitioned, so some pairs never meet; broadcast input b (Def. 5.2)"
    )


def test_groups_are_not_formed_out_of_a_negated_part() -> None:
    """It would look like a binary Kleene split whose other input is the NOT, which would then be ignored."""
    query = parse("PATTERN SEQ(KL(A a), NOT(B b)) WITHIN 10 us")
    whole = SubQuery(frozenset("ab"), frozenset("a"))
    single = (PlanOperator("a", SubQuery(frozenset("a"))), PlanOperator("b", SubQuery(frozenset("b"))))
    plan = QueryPlan(query, (*single, PlanOperator("r", whole, ("a", "b"))))
    assert "out of a negated part" in str(list(violations(plan)))
