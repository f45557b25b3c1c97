"""Succession: a first match comes out with its successor once both inputs are complete up to it."""

from __future__ import annotations

from tests.support.one_operator import OneOperator
from tests.support.plan_text import leaves, operator, plan_of

NEXT = plan_of("NEXT(A a, B b)", *leaves("a", "b"), operator("ab", "a b", "a b"), where="b.x > a.x")
SKIP = plan_of("NEXT(A a, B b)", *leaves("a", "b"), operator("ab", "a b", "a b"), where="FILTER(b.x = a.x)")
SECOND = 1_000_000
A, B = 0, 1


def pair(first: int, second: int) -> tuple[tuple[str, int], ...]:
    return (("a", first), ("b", second))


def passed(one: OneOperator, time_us: int) -> set[tuple[tuple[str, object], ...]]:
    return one.passes(A, time_us) | one.passes(B, time_us)


def test_a_successor_is_taken_once_nothing_earlier_can_come() -> None:
    succession = OneOperator(NEXT)
    assert succession.meets(A, (1, 10, 0)) | succession.meets(B, (3, 30, 1)) == set()
    assert succession.meets(B, (2, 20, 1)) == set(), "an earlier B may still come"
    assert succession.passes(B, 25) == set(), "an A may still come"
    assert succession.passes(A, 25) == {pair(1, 2)}


def test_the_next_one_decides_even_if_a_later_one_would_fit() -> None:
    succession = OneOperator(NEXT)
    succession.meets(A, (1, 10, 5))
    succession.meets(B, (2, 20, 4), (3, 30, 9))
    assert passed(succession, 40) == set()
    assert succession.held == 0


def test_what_filter_skips_does_not_decide() -> None:
    succession = OneOperator(SKIP)
    succession.meets(A, (1, 10, 5), (2, 11, 6))
    succession.meets(B, (3, 20, 6), (4, 30, 5), (5, 40, 5))
    assert passed(succession, 50) == {pair(1, 4), pair(2, 3)}


def test_all_events_at_the_time_of_the_next_one_are_successors() -> None:
    succession = OneOperator(NEXT)
    succession.meets(A, (1, 10, 0))
    succession.meets(B, (2, 10, 1), (3, 20, 1), (4, 20, 2), (5, 21, 1))
    assert passed(succession, 30) == {pair(1, 3), pair(1, 4)}


def test_only_what_is_undecided_is_kept_however_long_the_window() -> None:
    succession = OneOperator(NEXT)
    for number in range(0, 200, 2):
        succession.meets(A, (number, 10 * number, 0))
        succession.meets(B, (number + 1, 10 * number + 5, 1))
        passed(succession, 10 * number + 6)
        assert succession.held == 0
    succession.meets(A, (999, 5_000, 0))
    passed(succession, 5_001 + SECOND)
    assert succession.held == 0, "its window has passed"


def test_a_new_unit_knows_who_waits_and_what_has_come() -> None:
    succession = OneOperator(NEXT)
    succession.meets(A, (1, 10, 0))
    succession.meets(B, (3, 40, 1))
    passed(succession, 20)
    succession.begin_again()
    succession.meets(B, (2, 30, 1))
    assert passed(succession, 50) == {pair(1, 2)}
