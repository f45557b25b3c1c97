"""Canonical order: the same as sorting by columns, only faster."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.columnar import ordering
from actors.columnar.ordering import canonical_order


def assert_sorted_like_lexsort(keys: list[np.ndarray]) -> None:
    wanted = np.lexsort(tuple(reversed(keys)))
    order = canonical_order(keys)
    for key in keys:  # rows equal in all keys may change places
        assert key[order].tolist() == key[wanted].tolist()


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 60))
def test_packed_sorting_gives_the_order_of_the_columns(seed: int, columns: int, distinct: int) -> None:
    rng = np.random.default_rng(seed)
    keys = [rng.integers(0, distinct, 300) for _ in range(columns)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordering, "SMALL", 0)
        assert_sorted_like_lexsort(keys)


@pytest.mark.parametrize("span", [2**20, 2**45, 2**62])
def test_keys_that_do_not_fit_into_one_number_are_sorted_all_the_same(span: int) -> None:
    rng = np.random.default_rng(1)
    first = rng.integers(-span, span, 30_000)
    second = rng.integers(-span, span, 30_000)
    assert_sorted_like_lexsort([first // (span // 100 or 1), second, rng.integers(0, 5, 30_000)])
    assert_sorted_like_lexsort([first, second])


def test_many_equal_rows_in_one_run_are_sorted_by_the_later_keys() -> None:
    rng = np.random.default_rng(2)
    same = np.zeros(25_000, dtype=np.int64)
    assert_sorted_like_lexsort([same, same, rng.integers(0, 50, 25_000), rng.permutation(25_000)])


@pytest.mark.parametrize("further_keys", [1, 4, 7])
def test_nothing_is_compiled_for_the_first_rows_after_loading(further_keys: int) -> None:
    from actors.columnar.tie_sorting import sort_ties

    ordering.load_compiled(further_keys)
    known = list(sort_ties.signatures)
    rng = np.random.default_rng(3)
    assert_sorted_like_lexsort([rng.integers(0, 9, ordering.SMALL + 1) for _ in range(1 + further_keys)])
    assert sort_ties.signatures == known
