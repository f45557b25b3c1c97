"""Keys by which both inputs of an operator may be hashed: only where no match joins two values."""

from __future__ import annotations

import pytest

from decopa.language.text.parser import parse
from decopa.planning.hash_keys import are_equal, join_key
from decopa.planning.subquery import SubQuery
from decopa.query.conditions.predicate import Attr


def key_of(text: str, left: str, right: str, closed: str = "") -> tuple[str, str] | None:
    sides = [SubQuery(frozenset(side), frozenset(side) & frozenset(closed)) for side in (left, right)]
    found = join_key(parse(f"PATTERN {text} WITHIN 1 s"), *sides)
    return None if found is None else (str(found[0]), str(found[1]))


@pytest.mark.parametrize(
    ("text", "left", "right", "expected"),
    [
        ("SEQ(A a, B b) WHERE a.k = b.k", "a", "b", ("a.k", "b.k")),
        ("SEQ(A a, B b) WHERE a.k = b.k", "b", "a", ("b.k", "a.k")),
        ("SEQ(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k", "a", "c", ("a.k", "c.k")),
        ("SEQ(A a, NOT(B b), C c) WHERE a.k = b.k", "ac", "b", ("a.k", "b.k")),
        ("SEQ(A a, B b, C c) WHERE a.k = b.k", "ac", "ab", None),
        ("SEQ(A a, B b) WHERE a.k = b.other", "a", "b", None),
        ("SEQ(A a, B b) WHERE a.k <= b.k", "a", "b", None),
        ("SEQ(A a, B b) WHERE a.k = b.k OR a.x < b.x", "a", "b", None),
    ],
)
def test_a_key_is_one_attribute_that_conditions_require_to_be_equal(
    text: str, left: str, right: str, expected: tuple[str, str] | None
) -> None:
    assert key_of(text, left, right) == expected


def test_what_a_negated_event_equals_is_no_key_of_others() -> None:
    """a and c of a match may differ: then no b has the value of both, and nothing blocks it."""
    text = "SEQ(A a, NOT(B b), C c) WHERE a.k = b.k AND b.k = c.k"
    assert key_of(text, "a", "c") is None
    whole = SubQuery(frozenset("abc"))
    assert not are_equal(parse(f"PATTERN {text} WITHIN 1 s"), whole, Attr("a", "k"), Attr("c", "k"))


def test_members_of_a_group_are_no_key() -> None:
    text = "SEQ(A a, KL(B b)) WHERE a.k = b.k"
    assert key_of(text, "a", "b", closed="b") is None
    assert key_of(text, "a", "b") == ("a.k", "b.k")


def test_attributes_are_equal_by_conditions_within_the_sub_query_only() -> None:
    query = parse("PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k WITHIN 1 s")
    a, c = Attr("a", "k"), Attr("c", "k")
    assert are_equal(query, SubQuery(frozenset("abc")), a, c)
    assert not are_equal(query, SubQuery(frozenset("ac")), a, c)
    assert are_equal(query, SubQuery(frozenset("ab")), a, a)
