"""The benchmark of NEXT: contenders find the same matches."""

from __future__ import annotations

from scripts.benchmarks.single_core.next_engine import contenders_for, trace


def test_contenders_with_one_task_find_the_same_number_of_matches() -> None:
    found: dict[str, set[int]] = {}
    for one in contenders_for(trace(6_000, seed=3)):
        found.setdefault(one.task, set()).add(one.run().matches)
    assert all(len(numbers) == 1 for numbers in found.values()), found
    assert found["all"].pop() > 1_000
