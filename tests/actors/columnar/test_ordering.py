"""Canonical order: the same as sorting by columns, only faster."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.columnar import jit, ordering
from actors.columnar.ordering import Key, Lists, Scratch, rough_order, tie_moves


def rows_of(keys: Sequence[Key]) -> list[tuple[object, ...]]:
    """The keys of each row, as Python compares them."""
    columns = [
        [key.flat[start : start + length].tolist() for start, length in zip(key.starts, key.lengths, strict=True)]
        if isinstance(key, Lists)
        else key.tolist()
        for key in keys
    ]
    return list(zip(*columns, strict=True))


def taken(key: Key, rows: np.ndarray) -> Key:
    return Lists(key.starts[rows], key.lengths[rows], key.flat) if isinstance(key, Lists) else key[rows]


def canonical_order(keys: Sequence[Key]) -> list[int] | None:
    """Both steps together; None if neither had anything to do."""
    order = rough_order(keys, Scratch())
    rows = np.arange(len(rows_of(keys))) if order is None else order
    moves = tie_moves([taken(key, rows) for key in keys])
    if moves is not None:
        assert not np.array_equal(moves.places, moves.rows)
        rows[moves.places] = rows[moves.rows]
    return None if order is None and moves is None else rows.tolist()


def assert_put_in_order(keys: Sequence[Key]) -> None:
    rows = rows_of(keys)
    order = canonical_order(keys)
    assert (order is None) == (rows == sorted(rows))
    if order is not None:
        assert sorted(order) == list(range(len(rows)))
        assert [rows[row] for row in order] == sorted(rows)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 60), st.booleans())
def test_the_order_is_that_of_the_columns(seed: int, columns: int, distinct: int, with_lists: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 60))
    keys: list[Key] = [rng.integers(0, distinct, rows) for _ in range(columns)]
    if with_lists:
        keys.append(Lists(rng.integers(0, 7, rows), rng.integers(1, 4, rows), rng.integers(0, 3, 10)))
    assert_put_in_order(keys)
    with pytest.MonkeyPatch.context() as patch, jit.interpreted():
        patch.setattr(ordering, "SMALL", 0)
        assert_put_in_order(keys)


@pytest.mark.parametrize("span", [2**20, 2**45, 2**62])
def test_keys_that_do_not_fit_into_one_number_are_sorted_all_the_same(span: int) -> None:
    rng = np.random.default_rng(1)
    first = rng.integers(-span, span, 30_000)
    second = rng.integers(-span, span, 30_000)
    assert_put_in_order([first // (span // 100 or 1), second, rng.integers(0, 5, 30_000)])
    assert_put_in_order([first, second])


def test_rows_that_are_equal_in_the_first_key_are_merged_from_their_runs() -> None:
    rng = np.random.default_rng(2)
    same = np.zeros(25_000, dtype=np.int64)
    assert_put_in_order([same, same, rng.integers(0, 50, 25_000), rng.permutation(25_000)])
    runs = np.concatenate([np.arange(0, 25_000, 5) + start for start in range(5)])
    assert_put_in_order([same, runs])


def test_rows_in_order_are_left_alone() -> None:
    keys = [np.arange(30_000) // 7, np.arange(30_000)]
    assert canonical_order(keys) is None
    assert canonical_order([key[:100] for key in keys]) is None


def test_nothing_is_compiled_for_the_first_rows_after_loading() -> None:
    rng = np.random.default_rng(3)
    rows = ordering.SMALL + 1
    keys: list[Key] = [rng.integers(0, 9, rows) for _ in range(3)]
    keys.append(Lists(np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=np.int64), rng.integers(0, 9, rows)))
    ordering.load_compiled(keys)
    compiled = ordering._compiled(keys)
    known = list(compiled.sort_ties.signatures), list(compiled.by_first.signatures)
    assert_put_in_order(keys)
    assert (list(compiled.sort_ties.signatures), list(compiled.by_first.signatures)) == known
