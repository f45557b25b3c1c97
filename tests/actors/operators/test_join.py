"""Join: every pair that the order, the window and the conditions allow, once, whichever row comes last."""

from __future__ import annotations

import itertools

from tests.support.one_operator import OneOperator
from tests.support.plan_text import leaves, operator, plan_of

PAIRS = plan_of("SEQ(A a, B b)", *leaves("a", "b"), operator("ab", "a b", "a b"), where="a.x < b.x")
KEYED = plan_of("AND(A a, B b)", *leaves("a", "b"), operator("ab", "a b", "a b"), where="a.x = b.x")
SECOND = 1_000_000


def pair(a: int, b: int) -> tuple[tuple[str, int], ...]:
    return (("a", a), ("b", b))


def test_a_pair_is_found_when_its_second_row_comes_whichever_that_is() -> None:
    join = OneOperator(PAIRS)
    assert join.meets(0, (1, 10, 5)) == set()
    assert join.meets(1, (2, 20, 9)) == {pair(1, 2)}
    assert join.meets(0, (3, 15, 1)) == {pair(3, 2)}, "events of one side may be late towards those of the other"


def test_order_window_and_condition_each_keep_a_pair_out() -> None:
    for stranger in [(2, 10, 9), (2, 11 + SECOND, 9), (2, 20, 5)]:  # not later, out of the window, not larger
        join = OneOperator(PAIRS)
        join.meets(0, (1, 10, 5))
        assert join.meets(1, stranger) == set()
    join = OneOperator(PAIRS)
    join.meets(0, (1, 10, 5))
    assert join.meets(1, (2, 10 + SECOND, 6)) == {pair(1, 2)}, "the window's end belongs to it"


def test_equal_keys_are_looked_up_not_searched_for() -> None:
    join = OneOperator(KEYED)
    join.meets(0, *((number, number, number % 10) for number in range(100)))
    assert join.meets(1, (200, 50, 3)) == {pair(number, 200) for number in range(3, 100, 10)}
    assert join.unit.counters.comparisons == 10


def test_rows_that_nothing_can_meet_any_more_are_forgotten() -> None:
    join = OneOperator(KEYED)
    join.meets(0, (1, 0, 1), (2, SECOND, 1))
    join.meets(1, (3, 0, 2))
    assert join.held == 3
    join.passes(1, SECOND + 1)
    assert join.held == 2
    join.passes(0, 2 * SECOND)
    assert join.held == 1


def test_in_a_sequence_rows_that_only_end_matches_are_not_kept_once_all_beginnings_are_there() -> None:
    join = OneOperator(PAIRS)
    join.passes(0, 100)
    join.meets(1, (1, 50, 1))
    assert join.held == 0


def test_any_order_of_arrival_and_a_new_unit_in_between_find_the_same() -> None:
    arrivals = [(0, (1, 10, 1)), (0, (2, 30, 2)), (1, (3, 20, 5)), (1, (4, 40, 2))]
    for order in itertools.permutations(arrivals):
        for cut in range(len(order)):
            join, found = OneOperator(PAIRS), set()
            for number, (side, event) in enumerate(order):
                if number == cut:
                    join.begin_again()
                found |= join.meets(side, event)
            assert found == {pair(1, 3), pair(1, 4)}
