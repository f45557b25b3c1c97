"""Which joins only store their rows while a plan is built from events whose matches are out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from decopa.language.text.parser import parse
from decopa.planning.strategies.left_deep import left_deep
from decopa.planning.warming import absorbing, last_alias


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("SEQ(A a, B b, C c)", "c"),
        ("SEQ(A a, AND(B b, C c))", None),
        ("SEQ(AND(A a, B b), SEQ(C c, D d))", "d"),
        ("SEQ(A a, KL(B b), C c)", "c"),
        ("SEQ(A a, KL(B b))", None),
        ("AND(A a, B b)", None),
    ],
)
def test_the_last_event_of_a_match_is_a_single_one_behind_all_others(text: str, last: str | None) -> None:
    assert last_alias(parse(f"PATTERN {text} WITHIN 5 us")) == last


def absorbed(text: str, order: str) -> list[set[str]]:
    plan = left_deep(parse(f"PATTERN {text} WITHIN 5 us"), tuple(order))
    return [set(one.sub_query.aliases) for one in plan.operators if one.name in absorbing(plan)]


def test_joins_of_the_last_event_and_the_root_absorb() -> None:
    assert absorbed("SEQ(A a, B b, C c, D d)", "abcd") == [{"a", "b", "c", "d"}]
    assert absorbed("SEQ(A a, B b, C c, D d)", "dcba") == [{"c", "d"}, {"b", "c", "d"}, {"a", "b", "c", "d"}]
    assert absorbed("AND(A a, B b, C c)", "abc") == [{"a", "b", "c"}]


@pytest.mark.parametrize("text", ["SEQ(A a, NOT(B b), C c)", "SEQ(A a, C c, NOT(B b))", "SEQ(NEXT(A a, B b), C c)"])
def test_nothing_absorbs_where_something_may_still_be_decided(text: str) -> None:
    query = parse(f"PATTERN {text} WITHIN 5 us")
    assert absorbing(left_deep(query)) == frozenset()


def test_nothing_absorbs_in_a_fragment_or_a_sliced_plan() -> None:
    plan = left_deep(parse("PATTERN SEQ(A a, B b) WITHIN 5 us"))
    assert absorbing(plan) == {plan.root.name}
    assert absorbing(replace(plan, fragment=True)) == absorbing(replace(plan, slices=2)) == frozenset()
