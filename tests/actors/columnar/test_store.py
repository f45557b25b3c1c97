"""The windowed store keeps rows in time order whatever order they come in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.columnar import store as store_module
from actors.columnar.store import Store
from shuffler.rows.batch import Batch, length_of, start_of
from shuffler.rows.layout import Layout

INT = np.dtype(np.int64)
PLAIN = Layout({"min_ts": INT, "a.id": INT}, {})
GROUPED = Layout({"min_ts": INT, start_of("b"): INT, length_of("b"): INT}, {"b": {"id": INT}})


def batch(times: list[int], first_id: int = 0) -> Batch:
    ids = np.arange(first_id, first_id + len(times), dtype=np.int64)
    return Batch(len(times), {"min_ts": np.array(times, dtype=np.int64), "a.id": ids}, {})


def grouped(times: list[int], groups: list[list[int]]) -> Batch:
    lengths = np.array([len(group) for group in groups], dtype=np.int64)
    columns = {
        "min_ts": np.array(times, dtype=np.int64),
        start_of("b"): np.cumsum(lengths) - lengths,
        length_of("b"): lengths,
    }
    return Batch(
        len(times), columns, {"b": {"id": np.array([one for group in groups for one in group], dtype=np.int64)}}
    )


def rows_of(store: Store) -> list[tuple[int, int]]:
    part = slice(store.begin, store.end)
    return list(zip(store.columns["min_ts"][part].tolist(), store.columns["a.id"][part].tolist(), strict=True))


def groups_of(store: Store) -> list[tuple[int, list[int]]]:
    found = []
    for row in range(store.begin, store.end):
        start = int(store.columns[start_of("b")][row])
        stop = start + int(store.columns[length_of("b")][row])
        found.append((int(store.columns["min_ts"][row]), store.heap("b", "id")[start:stop].tolist()))
    return found


@given(st.lists(st.tuples(st.lists(st.integers(0, 50), max_size=8), st.integers(-5, 40))))
def test_rows_are_sorted_and_only_what_is_old_is_gone(steps: list[tuple[list[int], int]]) -> None:
    store = Store(PLAIN, hashed=["a.id"])
    expected: list[tuple[int, int]] = []
    first_id = 0
    for times, horizon in steps:
        store.insert(batch(times, first_id))
        expected += list(zip(times, range(first_id, first_id + len(times)), strict=True))
        first_id += len(times)
        store.evict_before(horizon)
        expected = [row for row in expected if row[0] >= horizon]
        assert sorted(rows_of(store)) == sorted(expected)
        assert [time for time, _ in rows_of(store)] == sorted(time for time, _ in expected)


@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(0, 50), st.lists(st.integers(0, 9), min_size=1, max_size=4)), max_size=6),
            st.integers(0, 40),
        )
    )
)
def test_groups_stay_with_their_rows(steps: list[tuple[list[tuple[int, list[int]]], int]]) -> None:
    store = Store(GROUPED)
    expected: list[tuple[int, list[int]]] = []
    for rows, horizon in steps:
        store.insert(grouped([time for time, _ in rows], [group for _, group in rows]))
        store.evict_before(horizon)
        expected = [row for row in expected + rows if row[0] >= horizon]
        assert sorted(groups_of(store)) == sorted(expected)


def test_taking_rows_removes_them() -> None:
    store = Store(PLAIN)
    store.insert(batch([3, 1, 2]))
    taken = store.take_before(3)
    assert taken.columns["min_ts"].tolist() == [1, 2]
    assert rows_of(store) == [(3, 0)]


def test_memory_follows_what_is_kept_and_not_what_has_passed() -> None:
    store = Store(PLAIN, hashed=["a.id"])
    sizes = []
    for step in range(200):
        store.insert(batch(list(range(1000 * step, 1000 * (step + 1)))))
        store.evict_before(1000 * step)
        sizes.append(store.nbytes)
    assert max(sizes[20:]) == max(sizes[20:40])


def test_heaps_handed_out_stay_valid_when_the_store_moves_on() -> None:
    store = Store(GROUPED)
    store.insert(grouped([1], [[7, 8]]))
    heap = store.heaps["b"]["id"]
    start = int(store.columns[start_of("b")][store.begin])
    for time in range(2, 3000):
        store.insert(grouped([time], [[time]]))
        store.evict_before(time - 2)
    assert heap[start : start + 2].tolist() == [7, 8]


@pytest.mark.parametrize("wanted", [[True, False, True], [False, False, False]])
def test_keeping_some_rows_drops_the_others(wanted: list[bool]) -> None:
    store = Store(PLAIN, hashed=["a.id"])
    store.insert(batch([1, 2, 3]))
    store.keep(np.array(wanted))
    assert rows_of(store) == [(time, time - 1) for time, kept in zip([1, 2, 3], wanted, strict=True) if kept]


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_compiled_merging_gives_the_same_rows(seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    batches = [batch(rng.integers(0, 60, size).tolist(), 100 * at) for at, size in enumerate(sizes)]
    found = []
    for many in (10**9, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store_module, "MANY", many)
            store = Store(PLAIN, hashed=["a.id"])
            for one in batches:
                store.insert(one)
                store.evict_before(int(one.columns["min_ts"].min()) // 2)
            found.append((rows_of(store), store.hashes[store.begin : store.end].tolist()))
    assert found[0] == found[1]


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(0, 3))
def test_deferred_rows_are_there_once_they_are_settled(seed: int, sizes: list[int], settle_every: int) -> None:
    rng = np.random.default_rng(seed)
    batches = [batch(rng.integers(0, 60, size).tolist(), 100 * at) for at, size in enumerate(sizes)]
    at_once, later = Store(PLAIN, hashed=["a.id"]), Store(PLAIN, hashed=["a.id"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "MANY", 4)
        for at, one in enumerate(batches):
            at_once.insert(one)
            later.defer(one)
            assert later.deferred * 4 <= max(4, len(later))
            assert len(later) + later.deferred == len(at_once)
            one.columns["a.id"][:] = -1  # whoever made a batch may use its memory again
            if settle_every and at % settle_every == 0:
                later.settle()
        later.settle()
    assert sorted(rows_of(later)) == sorted(rows_of(at_once))
    assert [ts for ts, _ in rows_of(later)] == [ts for ts, _ in rows_of(at_once)]
