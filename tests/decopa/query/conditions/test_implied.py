"""Comparisons that follow from others."""

from __future__ import annotations

from decopa.language.text.parser import parse
from decopa.query.conditions.implied import implied_comparisons


def implied(where: str) -> set[str]:
    query = parse(f"PATTERN AND(A a, B b, C c, D d) WHERE {where} WITHIN 1 s")
    found = implied_comparisons(query.where, lambda one, other: True)
    return {f"{one.predicate} through {','.join(sorted(one.through))}" for one in found}


def test_equality_is_transitive() -> None:
    assert implied("a.k = b.k AND b.k = c.k") == {"a.k = c.k through b"}


def test_a_longer_chain_names_all_that_lies_between() -> None:
    found = implied("a.k = b.k AND b.k = c.k AND c.k = d.k")
    assert found == {"a.k = c.k through b", "b.k = d.k through c", "a.k = d.k through b,c"}


def test_a_strict_step_makes_the_whole_chain_strict() -> None:
    assert implied("a.x <= b.x AND b.x < c.x") == {"a.x < c.x through b"}
    assert implied("a.x <= b.x AND c.x >= b.x") == {"a.x <= c.x through b"}
    assert implied("a.x = b.x AND b.x > c.x") == {"c.x < a.x through b"}


def test_nothing_follows_from_unequal_or_from_opposite_directions() -> None:
    assert implied("a.x != b.x AND b.x = c.x") == set()
    assert implied("a.x < b.x AND c.x < b.x") == set()


def test_other_attributes_and_arithmetic_make_no_chain() -> None:
    assert implied("a.x < b.x AND b.y < c.y") == set()
    assert implied("a.x < b.x AND b.x + 1 < c.x") == set()


def test_what_is_stated_is_not_concluded_again() -> None:
    assert implied("a.k = b.k AND b.k = c.k AND a.k = c.k") == set()
