from __future__ import annotations

import pytest

from cluster.change.history import BlockRing, HistoryGone
from decopa.language.text.parser import parse
from decopa.planning.history import history_us, history_windows, uncertain_windows
from decopa.planning.plan import Plan
from decopa.planning.strategies.left_deep import left_deep


def filled(reach_us: int, max_bytes: int = 1 << 20) -> BlockRing[str]:
    ring: BlockRing[str] = BlockRing(reach_us, max_bytes)
    for number, last_us in enumerate((10, 20, 30, 40)):
        ring.add(f"block {number}", last_us, 100)
    return ring


def test_a_ring_keeps_the_blocks_that_reach_into_the_time_asked_for() -> None:
    assert list(filled(15).since(25)) == ["block 2", "block 3"]
    assert list(filled(100).since(0)) == ["block 0", "block 1", "block 2", "block 3"]


def test_a_ring_from_which_nothing_was_dropped_reaches_back_to_the_first_event() -> None:
    assert filled(100).reaches(-(10**6))
    assert not filled(15).reaches(20)


def test_events_at_the_moment_asked_for_belong_to_it() -> None:
    assert list(filled(20).since(20)) == ["block 1", "block 2", "block 3"]


def test_a_full_ring_refuses_what_it_does_not_hold_any_more() -> None:
    ring = filled(100, max_bytes=250)
    assert (len(ring), ring.bytes) == (2, 200)
    with pytest.raises(HistoryGone, match=r"needs the events of the last 25 us, and only those of 20 us are kept"):
        ring.since(15)


def test_the_newest_block_stays_whatever_its_size() -> None:
    ring: BlockRing[str] = BlockRing(0, 10)
    ring.add("large", 5, 1_000)
    assert list(ring.since(5)) == ["large"]


def test_a_ring_that_begins_in_the_middle_of_a_stream_knows_what_it_lacks() -> None:
    ring: BlockRing[str] = BlockRing(100, from_us=7)
    ring.add("block", 9, 1)
    assert ring.reaches(8) and not ring.reaches(7)


@pytest.mark.parametrize(
    ("pattern", "windows", "uncertain"),
    [
        ("SEQ(A a, B b)", 1, 0),
        ("NEXT(A a, B b)", 1, 0),
        ("SEQ(A a, KL(B b), C c)", 1, 0),
        ("SEQ(A a, ITER(B b), C c)", 1, 0),
        ("SEQ(A a, NOT(B b), C c)", 2, 0),
        ("SEQ(NOT(B b), A a, NOT(C c))", 2, 0),
        ("SEQ(A a, NOT(NEXT(B b, C c)), D d)", 2, 0),
        ("SEQ(A a, KL(B b) UNTIL(C c))", 2, 0),
        ("SEQ(NEXT(A a, B b), NOT(C c))", 3, 1),
        ("SEQ(A a, NOT(SEQ(B b, NOT(C c))), D d)", 5, 2),
    ],
)
def test_how_far_back_a_query_looks(pattern: str, windows: int, uncertain: int) -> None:
    (query,) = parse(f"PATTERN {pattern} WITHIN 10 us").branches
    assert (history_windows(query), uncertain_windows(query)) == (windows, uncertain)


def test_a_sliced_plan_looks_back_one_window_more() -> None:
    query = parse("PATTERN SEQ(A a, B b) WITHIN 10 us")
    assert history_windows(query, sliced=True) == 2
    assert history_us(Plan((left_deep(query),))) == 10
