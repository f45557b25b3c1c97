from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffler.routing.partitioner import Broadcast, HashByEventIds, Partitioner, RoundRobin
from shuffler.rows.batch import Batch

small = st.integers(1, 5)
keys = st.lists(st.integers(-3, 3), max_size=20)


def batch_of(values: list[int], first_row: int = 0) -> Batch:
    places = np.arange(first_row, first_row + len(values), dtype=np.int64)
    return Batch(len(values), {"a.id": np.array(values, dtype=np.int64), "row": places}, {})


def received(partitioner: Partitioner, batches: list[list[int]]) -> list[tuple[int, int, int]]:
    """(unit, row, key) for everything that arrives."""
    found, first_row = [], 0
    for values in batches:
        for unit, part in partitioner.split(batch_of(values, first_row)):
            assert part.length == len(part.columns["row"])
            assert part.length > 0 or not values
            found += [
                (unit, int(row), int(key)) for row, key in zip(part.columns["row"], part.columns["a.id"], strict=True)
            ]
        first_row += len(values)
    return found


@given(small, st.lists(keys, max_size=5))
def test_broadcast_gives_every_row_to_every_unit(units: int, batches: list[list[int]]) -> None:
    sent = [key for values in batches for key in values]
    expected = [(unit, row, key) for row, key in enumerate(sent) for unit in range(units)]
    assert sorted(received(Broadcast(units), batches)) == sorted(expected)


@given(small, st.lists(keys, max_size=5))
def test_round_robin_deals_rows_out_in_turn_across_batches(units: int, batches: list[list[int]]) -> None:
    sent = [key for values in batches for key in values]
    expected = [(row % units, row, key) for row, key in enumerate(sent)]
    assert sorted(received(RoundRobin(units), batches)) == sorted(expected)


@given(small, st.lists(keys, max_size=5))
def test_hashing_gives_every_row_to_one_unit_and_equal_keys_to_the_same(units: int, batches: list[list[int]]) -> None:
    found = received(HashByEventIds(units, ["a.id"]), batches)
    assert sorted(row for _, row, _ in found) == list(range(sum(map(len, batches))))
    unit_of = {key: unit for unit, _, key in found}
    assert all(unit_of[key] == unit for unit, _, key in found)
    assert all(0 <= unit < units for unit, _, _ in found)


def test_hashing_on_no_column_gives_everything_to_one_unit() -> None:
    assert {unit for unit, _, _ in received(HashByEventIds(3, []), [[1, 2, 3]])} == {0}


def test_hashing_spreads_many_keys_over_all_units() -> None:
    counts = np.bincount([unit for unit, _, _ in received(HashByEventIds(4, ["a.id"]), [list(range(4_000))])])
    assert len(counts) == 4
    assert counts.min() > 850


@pytest.mark.parametrize("partitioner", [RoundRobin(3), HashByEventIds(3, ["a.id"])])
def test_rows_keep_their_order_on_each_unit(partitioner: Partitioner) -> None:
    for _, part in partitioner.split(batch_of([5, 1, 4, 1, 5, 9, 2, 6])):
        assert list(part.columns["row"]) == sorted(part.columns["row"])
