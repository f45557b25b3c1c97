from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decopa.errors import PlanError
from decopa.language.text.parser import parse
from decopa.planning.plan import MAX_UNITS, Plan, PlanOperator, QueryPlan
from decopa.planning.roles import Rule
from decopa.planning.strategies.left_deep import left_deep
from decopa.planning.subquery import SubQuery, negated_part, whole
from tests.support.plan_text import leaves, operator, plan_of
from tests.support.plans import plans
from tests.support.strategies import queries

A, B, C, D = leaves("a", "b", "c", "d")
PAIR = plan_of("SEQ(A a, B b)", A, B, operator("q", "a b", "a b", units=2, partitioned=True))


def document() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(Plan((PAIR,)).to_json())
    return loaded


# ----------------------------------------------------------------------- JSON
@given(st.data())
def test_a_plan_survives_json(data: st.DataObject) -> None:
    plan = data.draw(plans(data.draw(queries())))
    assert Plan.from_json(plan.to_json()) == plan


def test_plan_json_says_its_format_version_and_sub_queries() -> None:
    written = document()
    assert (written["format"], written["version"]) == ("decopa-plan", 1)
    assert written["queries"][0]["operators"][2] == {
        "name": "q",
        "sub_query": "SEQ(A,B)",
        "positions": ["a", "b"],
        "closed": [],
        "inputs": ["a", "b"],
        "units": 2,
        "partitioned": True,
        "hosts": [],
    }


@pytest.mark.parametrize("version", [0, 3, "1", None, 1.5, True])
def test_another_version_is_refused(version: object) -> None:
    with pytest.raises(PlanError, match="this decopa reads version 1 and 2"):
        Plan.from_json(json.dumps({**document(), "version": version}))


@pytest.mark.parametrize(
    "text", ["", "nonsense", "[1, 2]", "{}", '{"format": "other"}', "[" * 100_000, "null", '"decopa-plan"']
)
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match=r"of another kind|not JSON"):
        Plan.from_json(text)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("queries",), 3, "the plan: 'queries' must be a list"),
        (("queries", 0), 3, r"queries\[0\]: must be an object"),
        (("queries", 0, "query"), 3, r"queries\[0\]: 'query' must be a text"),
        (("queries", 0, "query"), "PATTERN", r"queries\[0\]: query: line 1, column 8"),
        (("queries", 0, "operators"), None, r"queries\[0\]: 'operators' must be a list"),
        (("queries", 0, "operators", 1), None, r"queries\[0\]: operators\[1\]: must be an object"),
        (("queries", 0, "operators", 1, "units"), "2", "'units' must be a whole number"),
        (("queries", 0, "operators", 1, "units"), True, "'units' must be a whole number"),
        (("queries", 0, "operators", 1, "units"), 0, "units must be between 1 and"),
        (("queries", 0, "operators", 1, "name"), 7, "'name' must be a text"),
        (("queries", 0, "operators", 1, "name"), "", "needs a name"),
        (("queries", 0, "operators", 1, "name"), "a", "two operators are called 'a'"),
        (("queries", 0, "operators", 1, "partitioned"), 1, "'partitioned' must be true or false"),
        (("queries", 0, "operators", 1, "positions"), "ab", "'positions' must be a list"),
        (("queries", 0, "operators", 1, "positions"), [1], "'positions' must be a list of texts"),
        (("queries", 0, "operators", 1, "positions"), [], "at least one position"),
        (("queries", 0, "operators", 1, "positions"), ["z"], "no alias 'z'"),
        (("queries", 0, "operators", 1, "closed"), ["z"], "not part of the sub-query"),
        (("queries", 0, "operators", 2, "inputs"), ["a", "z"], "no operator 'z'"),
        (("queries", 0, "operators", 0, "inputs"), ["q"], "in a circle"),
    ],
)
def test_a_malformed_plan_says_which_field_is_wrong(path: tuple[str | int, ...], value: object, message: str) -> None:
    written: Any = document()
    place = written
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(PlanError, match=message):
        Plan.from_json(json.dumps(written))


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), st.lists, max_leaves=5), st.data())
def test_any_damage_to_a_plan_is_a_plan_or_a_plan_error(value: object, data: st.DataObject) -> None:
    written: Any = document()
    place = written
    while isinstance(place, dict | list) and place:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if data.draw(st.booleans()):
            place[key] = value
            break
        place = place[key]
    with contextlib.suppress(PlanError):  # anything else that escapes fails the test
        Plan.from_json(json.dumps(written))


# ---------------------------------------------------------------------- graph
def test_rules_follow_from_the_sub_queries() -> None:
    plan = plan_of(
        "SEQ(A a, KL(B b), NOT(C c), D d)",
        *(A, B, C, D),
        operator("ad", "a d", "a d"),
        operator("strip", "a b d", "ad b"),
        operator("groups", "a b* d", "strip"),
        operator("q", "a b* c d", "groups c"),
        operator("other groups", "a b* d", "ad b"),
    )
    found = {one.name: plan.rule(one) for one in plan.operators}
    assert found["a"] is Rule.LEAF
    assert found["ad"] is found["strip"] is Rule.JOIN
    assert found["groups"] is Rule.KLEENE_UNARY
    assert found["other groups"] is Rule.KLEENE_BINARY
    assert found["q"] is Rule.NEGATION


def test_the_depth_is_the_longest_way_to_the_root() -> None:
    plan = plan_of("SEQ(A a, B b, C c)", A, B, C, operator("ab", "a b", "a b"), operator("q", "a b c", "ab c"))
    assert plan.depth == {"q": 0, "ab": 1, "c": 1, "a": 2, "b": 2}
    assert plan.root.name == "q"
    assert [leaf.name for leaf in plan.leaves] == ["a", "b", "c"]


def test_a_plan_of_two_roots_has_no_root() -> None:
    with pytest.raises(PlanError, match="has 2"):
        _ = plan_of("SEQ(A a, B b)", A, B).root


def test_operators_in_a_circle_are_refused() -> None:
    with pytest.raises(PlanError, match="in a circle"):
        plan_of("SEQ(A a, B b)", operator("o1", "a", "o2"), operator("o2", "b", "o1"))


@pytest.mark.parametrize("units", [0, -1, MAX_UNITS + 1])
def test_an_operator_has_a_sensible_number_of_units(units: int) -> None:
    with pytest.raises(PlanError, match="units must be between"):
        PlanOperator("o", SubQuery(frozenset({"a"})), units=units)


# ----------------------------------------------------------------- sub-queries
def test_a_sub_query_needs_a_position() -> None:
    with pytest.raises(PlanError, match="at least one position"):
        SubQuery(frozenset())


def test_closed_groups_belong_to_the_sub_query() -> None:
    with pytest.raises(PlanError, match=r"\['b'\] are not part"):
        SubQuery(frozenset({"a"}), frozenset({"b"}))


@pytest.mark.parametrize(
    ("positions", "text"),
    [
        ("a b* c", "SEQ(KL(B),A,C)"),
        ("a b", "SEQ(B,A)"),
        ("b*", "KL(B)"),
        ("a c", "SEQ(A,C)"),
        ("a c d", "SEQ(A,NOT(D),C)"),
    ],
)
def test_a_sub_query_is_written_with_types_only(positions: str, text: str) -> None:
    query = parse("PATTERN SEQ(KL(B b), A a, NOT(D d), C c) WITHIN 1 s")
    assert operator("o", positions).sub_query.text(query) == text


def test_the_whole_query_and_its_negated_parts_are_sub_queries() -> None:
    query = parse("PATTERN SEQ(A a, NOT(SEQ(KL(B b), NOT(C c), D d)), KL(E e)) WITHIN 1 s")
    assert whole(query) == SubQuery(frozenset("abcde"), frozenset("be"))
    outer, inner = query.negations
    assert negated_part(query, outer) == SubQuery(frozenset("bcd"), frozenset("b"))
    assert negated_part(query, inner) == SubQuery(frozenset("c"))
    assert whole(query).positive(query) == {"a", "e"}
    assert negated_part(query, outer).positive(query) == {"b", "d"}
    assert whole(query).negations(query) == (outer,)


# ------------------------------------------------------------------- left-deep
def left_deep_texts(pattern: str) -> list[str]:
    plan = left_deep(parse(f"PATTERN {pattern} WITHIN 1 s"))
    return [one.sub_query.text(plan.query) for one in plan.operators if one.inputs]


@pytest.mark.parametrize(
    ("pattern", "sub_queries"),
    [
        ("A a", []),
        ("SEQ(A a, B b, AND(C c, D d))", ["SEQ(A,B)", "SEQ(A,B,C)", "SEQ(A,B,AND(C,D))"]),
        ("SEQ(A a, KL(B b), C c)", ["SEQ(A,C)", "SEQ(A,KL(B),C)"]),
        ("KL(A a)", ["KL(A)"]),
        ("SEQ(A a, NOT(B b), C c, D d)", ["SEQ(A,C)", "SEQ(A,NOT(B),C)", "SEQ(A,NOT(B),C,D)"]),
        ("SEQ(A a, B b, NOT(C c))", ["SEQ(A,B)", "SEQ(A,B,NOT(C))"]),
    ],
)
def test_the_left_deep_plan_joins_in_query_order(pattern: str, sub_queries: list[str]) -> None:
    assert left_deep_texts(pattern) == sub_queries


def test_the_left_deep_plan_has_one_unit_each() -> None:
    plan = left_deep(parse("PATTERN SEQ(A a, KL(B b), NOT(C c), D d) WITHIN 1 s"))
    assert {(one.units, one.partitioned) for one in plan.operators} == {(1, False)}
    assert isinstance(plan, QueryPlan)
