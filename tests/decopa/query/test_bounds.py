"""Conditions that follow from others by their constants."""

from __future__ import annotations

import pytest

from decopa.language.text.parser import parse
from decopa.query.conditions.bounds import bound_of, follows, weakest
from decopa.query.conditions.predicate import Predicate
from decopa.query.template import member_of, weakest_member


def condition(text: str) -> Predicate:
    (one,) = parse(f"PATTERN SEQ(A a, B b) WHERE {text} WITHIN 1 s").where
    return one


@pytest.mark.parametrize(
    ("weak", "strong"),
    [
        ("a.x < 5", "a.x < 3"),
        ("a.x < 5", "a.x < 5"),
        ("a.x >= -2", "a.x >= 0.5"),
        ("a.x < 5", "3 > a.x"),
        ("abs(a.x - b.x) <= 2", "abs(a.x - b.x) <= 1"),
        ("a.k IN ('x', 'y')", "a.k = 'y'"),
    ],
)
def test_a_stricter_constant_fulfils_the_weaker_condition(weak: str, strong: str) -> None:
    assert follows(condition(weak), condition(strong))


@pytest.mark.parametrize(
    ("weak", "strong"),
    [
        ("a.x < 3", "a.x < 5"),
        ("a.x < 5", "a.x > 3"),
        ("a.x < 5", "b.x < 3"),
        ("a.k = 1", "a.k = 2"),
        ("a.k IN (1, 2)", "a.k = 3"),
        ("a.k IN (1, 2)", "a.k = 1.0"),
        ("a.x < 5", "a.x < b.x"),
    ],
)
def test_other_conditions_do_not_follow(weak: str, strong: str) -> None:
    assert not follows(condition(weak), condition(strong))


def test_numbers_that_floating_point_rounds_are_no_bounds() -> None:
    assert bound_of(condition("a.k = 9007199254740993")) is None
    assert bound_of(condition("a.s < 'm'")) is None
    assert bound_of(condition("a.x != 3")) is None


def test_the_weakest_of_several_bounds_follows_from_each() -> None:
    for texts in (("a.x < 1", "a.x < 7", "a.x < 3"), ("a.x > -1", "a.x > 4"), ("a.k = 'x'", "a.k = 'y'", "a.k = 'x'")):
        bounds = [bound_of(condition(text)) for text in texts]
        weak = weakest([one for one in bounds if one is not None])
        assert all(follows(weak, condition(text)) for text in texts)
    assert str(weak) == "a.k IN ('x', 'y')"


def test_rules_that_differ_in_constants_names_and_windows_are_of_one_template() -> None:
    one = parse("PATTERN SEQ(A a, B b) WHERE a.x < 3 AND abs(a.y - b.y) < 0.5 WITHIN 1 s")
    other = parse("PATTERN SEQ(A u, B v) WHERE abs(u.y - v.y) < 0.1 AND 7 > u.x WITHIN 3 s")
    members = [(query, member_of(query, query.aliases)) for query in (one, other)]
    known = [(query, member) for query, member in members if member is not None]
    assert len(known) == 2 and known[0][1].form == known[1][1].form
    weak = weakest_member(known, "t")
    assert set(map(str, weak.where)) == {"p0.x < 7", "abs((p0.y - p1.y)) < 0.5"}
    assert weak.window_us == 3_000_000


def test_a_rule_that_bounds_an_expression_twice_from_one_side_is_of_no_template() -> None:
    query = parse("PATTERN SEQ(A a, B b) WHERE a.x < 3 AND a.x < 5 WITHIN 1 s")
    assert member_of(query, query.aliases) is None
