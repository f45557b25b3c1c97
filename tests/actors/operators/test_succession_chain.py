"""Steps of NEXT that one process goes through at once: they find and count what they would one after the other."""

from __future__ import annotations

from random import Random

import pytest

from actors.columnar.output import Counters
from actors.operators.succession import SuccessionLogic
from tests.support.one_operator import Found, OneOperator
from tests.support.plan_text import leaves, operator, plan_of

CHAIN = plan_of(
    "NEXT(A a, B b, C c)", *leaves("a", "b", "c"), operator("ab", "a b", "a b"), operator("abc", "a b c", "ab c")
)
A, B, AB, C = 0, 1, 0, 1
Events = list[tuple[int, int, int]]


class TwoSteps:
    """The steps of NEXT(A, B, C), at once or one after the other."""

    def __init__(self, *, at_once: bool) -> None:
        self.first, self.second = OneOperator(CHAIN, "ab"), OneOperator(CHAIN, "abc")
        if at_once:
            self.join()

    def join(self) -> None:
        first, second = self.first.unit.logic, self.second.unit.logic
        assert isinstance(first, SuccessionLogic) and isinstance(second, SuccessionLogic)
        assert second.can_take_over(first)
        second.take_over(first)

    def meets(self, a: Events, b: Events, c: Events) -> None:
        assert not any((self.first.meets(A, *a), self.first.meets(B, *b), self.second.meets(C, *c)))

    def passes(self, time_us: int, c_us: int | None = None) -> set[Found]:
        """Events of A and B are complete up to a time, those of C up to another if one is given."""
        found: set[Found] = set()
        for side in (A, B):
            found |= self.second.takes(AB, self.first.passed(side, time_us))
        found |= self.second.passes(AB, self.first.unit.output_watermark_us)
        return found | self.second.passes(C, time_us if c_us is None else c_us)

    @property
    def counters(self) -> list[Counters]:
        return [one.unit.counters for one in (self.first, self.second)]


def match(a: int, b: int, c: int) -> Found:
    return (("a", a), ("b", b), ("c", c))


@pytest.mark.parametrize("spread", [1, 3])
def test_all_at_once_finds_and_counts_what_one_after_the_other_does(spread: int) -> None:
    """With a spread of 1 several events have the same time."""
    chance = Random(spread)
    together, apart = TwoSteps(at_once=True), TwoSteps(at_once=False)
    ts, number, matches = 0, 0, 0
    for _ in range(12):
        events: dict[str, Events] = {"a": [], "b": [], "c": []}
        for _ in range(30):
            ts += chance.choice((0, 1)) if spread == 1 else chance.choice((1, spread, 400_000))
            number += 1
            events[chance.choice("abc")].append((number, ts, 0))
        for steps in (together, apart):
            steps.meets(events["a"], events["b"], events["c"])
        found = together.passes(ts)
        assert found == apart.passes(ts)
        assert together.counters == apart.counters
        assert (together.first.held, together.second.held) == (apart.first.held, apart.second.held)
        matches += len(found)
    assert matches > 50


@pytest.mark.parametrize("first_one", [0, 1])
def test_steps_go_on_one_after_the_other_from_what_they_held_together(first_one: int) -> None:
    steps = TwoSteps(at_once=True)
    steps.meets([(1, 10, 0), (2, 30, 0)], [(3, 20, 0), (4, 40, 0)], [(5, 35, 0)])
    assert steps.passes(50, 38) == {match(1, 3, 5)}
    both = (steps.first, steps.second)
    for one in (both[first_one], both[1 - first_one]):  # whoever is saved first, the first has decided all it can
        one.begin_again()
    steps.meets([], [], [(6, 45, 0)])
    assert steps.passes(50, 60) == {match(2, 4, 6)}, "though the first one hears of nothing new"
    assert steps.passes(60, 60) == set()


def test_conditions_keep_steps_apart() -> None:
    decided = plan_of("NEXT(A a, B b, C c)", *CHAIN.operators, where="b.x > a.x")
    first, second = (OneOperator(decided, name).unit.logic for name in ("ab", "abc"))
    assert isinstance(first, SuccessionLogic) and isinstance(second, SuccessionLogic)
    assert not second.can_take_over(first)
