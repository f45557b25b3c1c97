"""How far a micro-batch takes the stream, and how far back a restart looks; no Spark."""

from __future__ import annotations

import pytest

from cluster.spark.streams.handover import Reach, handed_after
from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.language.text.parser import parse_workload
from decopa.planning.plan import Plan
from decopa.planning.planner import plan_workload
from decopa.planning.strategies.left_deep import left_deep


def reach(*queries: str) -> Reach:
    return Reach.of(
        Plan(tuple(left_deep(branch) for one in parse_workload(";".join(queries)) for branch in one.branches))
    )


@pytest.mark.parametrize(
    ("handed_us", "newest_us", "expected"), [(None, 50, 40), (30, 50, 40), (45, 50, 45), (0, 5, 0), (-20, -8, -18)]
)
def test_the_stream_never_goes_back(handed_us: int | None, newest_us: int, expected: int) -> None:
    assert handed_after(handed_us, newest_us, 10) == expected


def test_without_not_a_match_is_final_at_once_and_one_window_is_kept() -> None:
    plain = reach("PATTERN SEQ(A a, B b) WITHIN 10 us")
    assert plain.finals_us(100) == [100]
    assert plain.kept_from_us(100) == 90


def test_every_not_inside_another_looks_a_window_further_back() -> None:
    one = reach("PATTERN SEQ(A a, NOT(B b)) WITHIN 10 us")
    assert (one.finals_us(100), one.kept_from_us(100)) == ([90], 70)
    two = reach("PATTERN SEQ(A a, NOT(SEQ(B b, NOT(C c)))) WITHIN 10 us")
    assert (two.finals_us(100), two.kept_from_us(100)) == ([80], 50)


def test_the_part_that_looks_furthest_back_decides_what_is_kept() -> None:
    both = reach("QUERY p PATTERN SEQ(A a, B b) WITHIN 50 us", "QUERY q PATTERN SEQ(A a, NOT(B b)) WITHIN 10 us")
    assert both.finals_us(100) == [100, 90]
    assert both.kept_from_us(100) == 50


def test_a_fragment_that_queries_share_is_none_of_the_parts_that_report() -> None:
    texts = (
        "QUERY p PATTERN SEQ(A a, B b, C c) WHERE a.x = b.x WITHIN 50 us",
        "QUERY q PATTERN SEQ(A a, B b, NOT(C c)) WHERE a.x = b.x WITHIN 50 us",
    )
    queries = parse_workload(";".join(texts))
    known = Statistics.of(50, {"A": 10.0, "B": 10.0, "C": 10.0}, {("A", "B"): 0.01})
    shared = plan_workload(queries, [known] * 2, Capacity(6000, 60_000), units=2, strategy="shared").plan
    assert any(part.fragment for part in shared.parts)
    assert Reach.of(shared) == reach(*texts)
