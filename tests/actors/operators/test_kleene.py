"""Kleene closure: every non-empty group of fitting events around a match of the rest, each once."""

from __future__ import annotations

import itertools

from tests.support.one_operator import Found, OneOperator
from tests.support.plan_text import leaves, operator, plan_of

BINARY = plan_of("SEQ(A a, KL(B b))", *leaves("a", "b"), operator("q", "a b*", "a b"), where="a.x < b.x")
RISING = plan_of("SEQ(A a, KL(B b))", *leaves("a", "b"), operator("q", "a b*", "a b"), where="b.x < b.x")
UNARY = plan_of(
    "SEQ(A a, KL(B b))", *leaves("a", "b"), operator("ab", "a b", "a b"), operator("q", "a b*", "ab"), where="a.x < b.x"
)
SECOND = 1_000_000


def groups(*members: int) -> set[Found]:
    """Every non-empty subset of the members, with event 1 in front."""
    chosen = (subset for size in range(1, len(members) + 1) for subset in itertools.combinations(members, size))
    return {(("a", 1), ("b", subset)) for subset in chosen}


def test_an_event_that_comes_extends_every_group_that_is_there() -> None:
    kleene = OneOperator(BINARY)
    kleene.meets(0, (1, 10, 0))
    assert kleene.meets(1, (2, 20, 5)) == groups(2)
    assert kleene.meets(1, (3, 30, 5)) == groups(2, 3) - groups(2)
    assert kleene.meets(1, (4, 40, 5), (5, 50, 5)) == groups(2, 3, 4, 5) - groups(2, 3)


def test_a_match_of_the_rest_that_comes_last_forms_all_its_groups() -> None:
    kleene = OneOperator(BINARY)
    kleene.meets(1, (2, 20, 5), (3, 30, 5), (4, 40, 0))
    assert kleene.meets(0, (1, 10, 0)) == groups(2, 3), "event 4 does not fit"


def test_members_must_fit_each_other_pair_by_pair() -> None:
    """`b.x < b.x` asks every member to be below all later ones."""
    kleene = OneOperator(RISING)
    kleene.meets(0, (1, 10, 0))
    found = kleene.meets(1, (2, 20, 5), (3, 30, 4), (4, 40, 6))
    assert found == groups(2, 4) | groups(3, 4)


def test_groups_do_not_reach_beyond_the_window() -> None:
    kleene = OneOperator(BINARY)
    kleene.meets(0, (1, 10, 0))
    assert kleene.meets(1, (2, 20, 5), (3, 11 + SECOND, 5)) == groups(2)
    kleene.passes(1, 11 + SECOND)
    kleene.passes(0, 12 + SECOND)
    assert kleene.held == 0


def test_strip_matches_form_the_same_groups_as_events() -> None:
    """A unary split: pairs of A and B come from a join, and families of pairs with one A become groups."""
    for chunks in ([(2, 3, 4)], [(2,), (3, 4)], [(2,), (3,), (4,)]):
        pairs, kleene = OneOperator(UNARY, "ab"), OneOperator(UNARY)
        pairs.meets(0, (1, 10, 0))
        found: set[Found] = set()
        for chunk in chunks:
            found |= kleene.takes(0, pairs.finds(1, *((number, number * 10, 5) for number in chunk)))
        assert found == groups(2, 3, 4)


def test_a_new_unit_goes_on_with_the_families_it_is_given() -> None:
    for cut in range(4):
        kleene, found = OneOperator(BINARY), set()
        for number, (side, event) in enumerate([(0, (1, 10, 0)), (1, (2, 20, 5)), (1, (3, 30, 5)), (1, (4, 40, 5))]):
            if number == cut:
                kleene.begin_again()
            found |= kleene.meets(side, event)
        assert found == groups(2, 3, 4)
