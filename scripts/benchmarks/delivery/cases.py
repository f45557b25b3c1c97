"""The four queries, each with a window that gives the wanted number of matches per event at a million events."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scripts.benchmarks.single_core.workload import Family, Workload, make_events, with_window


@dataclass(frozen=True)
class Case:
    """A query of a family with its window, and the least that table, folder and count should be of DuckDB's speed."""

    name: Family
    title: str
    window_us: int
    table_target: float
    folder_target: float = 2.0
    count_target: float = 5.0


CASES = (
    Case("seq3", "SEQ of 3, three inequalities", 141_000, 3.0),
    Case("and3", "AND of 3, close values", 138_000, 3.0),
    Case("key4", "SEQ of 4, equal keys", 10_500_000, 2.0),
    Case("kleene", "SEQ(A, KL(B), C)", 18_700, 2.0),
)


def workload_of(case: Case, events: int) -> Workload:
    table = make_events(case.name, events=events, seed=1)
    return replace(with_window(Workload(case.name, case.name, "", table, 0), case.window_us), name=case.name)
