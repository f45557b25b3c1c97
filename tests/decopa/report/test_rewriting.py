"""`explain` shows the brackets of a NEXT before and after rewriting, with costs."""

from __future__ import annotations

from costmodel.capacity import Capacity
from costmodel.papers.next_cost import After, Stream
from costmodel.statistics import Statistics
from decopa.language.text.parser import parse
from decopa.planning.planner import plan_workload
from decopa.planning.price import price_plan
from decopa.report.explain import explain
from decopa.report.rewriting import work


def explained(text: str, rates: dict[str, float]) -> str:
    statistics, capacity = Statistics.of(1_000_000, rates, {}), Capacity(1e6, 1e8)
    plan = plan_workload([parse(text)], statistics, capacity, units=4).plan
    return explain(plan, [price_plan(part, statistics, capacity) for part in plan.parts], width=1_000)


def test_a_chain_is_shown_as_issued_and_as_planned_with_both_costs() -> None:
    shown = explained("PATTERN NEXT(A a, B b, C c, D d) WITHIN 1 s", {"A": 100.0, "B": 100.0, "C": 1.0, "D": 1.0})
    (line,) = [line for line in shown.splitlines() if line.startswith("rewritten: ")]
    assert line.startswith("rewritten: (((A;B);C);D) -> (A;(B;(C;D))); work per window ")
    assert "by the NEXT paper's model" in line


def test_two_events_leave_nothing_to_rewrite() -> None:
    assert "rewritten" not in explained("PATTERN NEXT(A a, B b) WITHIN 1 s", {"A": 5.0, "B": 6.0})


def test_a_tree_goes_twice_through_its_first_input_and_once_through_its_second() -> None:
    a, b, c = Stream("A"), Stream("B"), Stream("C")
    rates = {"A": 10.0, "B": 4.0, "C": 1.0}
    assert work(After(After(a, b), c), rates) == (20 + 4) + (20 + 1)
    assert work(After(a, After(b, c)), rates) == (8 + 1) + (20 + 4)
