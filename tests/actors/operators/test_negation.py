"""Negation: a match of the positive part comes out when it is certain that nothing blocks it, and not before."""

from __future__ import annotations

import pytest

from tests.support.one_operator import OneOperator
from tests.support.plan_text import leaves, operator, plan_of

LAST = plan_of("SEQ(A a, NOT(B b))", *leaves("a", "b"), operator("ab", "a b", "a b"), where="a.x = b.x")
FIRST = plan_of("SEQ(NOT(B b), A a)", *leaves("b", "a"), operator("ab", "a b", "b a"), where="a.x = b.x")
SECOND = 1_000_000
A, B = 0, 1
ONE = {(("a", 1),)}


def test_at_the_end_a_match_waits_for_the_end_of_its_window() -> None:
    negation = OneOperator(LAST)
    assert negation.meets(A, (1, 10, 7)) == set()
    assert negation.passes(B, 10 + SECOND) == set(), "an event at the very end would still block it"
    assert negation.passes(B, 11 + SECOND) == ONE
    assert negation.held == 0


@pytest.mark.parametrize(
    ("ts", "x", "blocks"),
    [(11, 7, True), (10 + SECOND, 7, True), (10, 7, False), (11 + SECOND, 7, False), (11, 8, False)],
)
def test_only_a_later_event_inside_the_window_that_fits_blocks(ts: int, x: int, blocks: bool) -> None:
    for early in (True, False):
        negation = OneOperator(LAST)
        if early:
            negation.meets(B, (2, ts, x))
        found = negation.meets(A, (1, 10, 7))
        if not early:
            found |= negation.meets(B, (2, ts, x))
        found |= negation.passes(A, 1 << 60) | negation.passes(B, 1 << 60)
        assert found == (set() if blocks else ONE)


def test_at_the_beginning_a_match_is_decided_at_once_if_all_that_may_block_it_is_there() -> None:
    negation = OneOperator(FIRST)
    negation.passes(0, 100)
    assert negation.meets(1, (1, 100, 7)) == ONE
    negation.meets(0, (2, 100, 8))
    assert negation.meets(1, (3, 105, 8)) == set()
    assert negation.passes(0, 105) == set(), "blocked for good"


def test_what_can_block_nothing_any_more_is_forgotten() -> None:
    negation = OneOperator(LAST)
    negation.meets(B, (2, 50, 7))
    assert negation.held == 1
    negation.passes(A, 50 + SECOND)
    assert negation.held == 1
    negation.passes(A, 51 + SECOND)
    assert negation.held == 0


def test_a_new_unit_knows_what_waits_and_what_blocks() -> None:
    negation = OneOperator(LAST)
    negation.meets(A, (1, 10, 7), (3, 10, 8))
    negation.meets(B, (2, 20, 8))
    negation.begin_again()
    assert negation.passes(A, 1 << 60) | negation.passes(B, 1 << 60) == ONE
