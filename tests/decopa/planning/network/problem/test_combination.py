"""Minimal covers of a projection by smaller ones."""

from __future__ import annotations

import itertools

import pytest

from decopa.planning.network.problem.combination import is_redundant, minimal_covers


@pytest.mark.parametrize(("positions", "count"), [(2, 1), (3, 7), (4, 48), (5, 461), (6, 6_423)])
def test_the_number_of_non_redundant_combinations_is_that_of_the_paper(positions: int, count: int) -> None:
    full = (1 << positions) - 1
    assert sum(1 for _ in minimal_covers(full, range(1, full))) == count


def test_minimal_covers_are_all_sets_that_cover_and_are_not_redundant() -> None:
    available = [0b0001, 0b0011, 0b0110, 0b1000, 0b1100, 0b0111, 0b1010, 0b0101]
    expected = {
        tuple(sorted(chosen))
        for size in range(1, 5)
        for chosen in itertools.combinations(available, size)
        if chosen and _united(chosen) == 0b1111 and not is_redundant(chosen)
    }
    assert set(minimal_covers(0b1111, available)) == expected


def _united(masks: tuple[int, ...]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found
