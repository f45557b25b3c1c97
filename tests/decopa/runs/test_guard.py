"""Guard rails: runs that would not end are refused or stopped, with the operator and the figures in the message."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import decopa
from actors.columnar.jit import interpreted
from actors.group import Limits
from actors.reports import OperatorReport
from costmodel.capacity import Capacity
from costmodel.sampling.estimate import estimate_statistics
from decopa.api import run_detailed
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.strategies.left_deep import left_deep
from decopa.planning.subquery import SubQuery
from decopa.runs.guard import Guard
from decopa.runs.spec import Planning
from tests.support.columns import columns_of

BUSY = pa.table({"id": range(62), "ts": [*range(62)], "type": ["A", *["B"] * 60, "C"]})
QUERY = parse("PATTERN SEQ(A a, KL(B b), C c) WITHIN 100 us")
CAPACITY = Capacity.per_second(1e6, 1e8)


def early() -> Plan:
    """Closes the KL at the bottom, where all groups are under way and no match is found."""
    a, b, c = (PlanOperator(f"o{n}", SubQuery(frozenset({alias}))) for n, alias in enumerate("abc", start=1))
    closed = PlanOperator("o4", SubQuery(frozenset("ab"), frozenset("b")), ("o1", "o2"))
    root = PlanOperator("o5", SubQuery(frozenset("abc"), frozenset("b")), ("o4", "o3"))
    return Plan((QueryPlan(QUERY, (a, b, c, closed, root)),))


def test_groups_under_way_stop_a_run_that_finds_nothing_yet() -> None:
    limits = Limits(max_groups=10_000)
    message = r"unit o4/0 of operator o4 SEQ\(A,KL\(B\)\): more than 10,000 groups out of one batch are under way"
    with interpreted(), pytest.raises(decopa.LimitError, match=message):
        run_detailed(QUERY, BUSY.slice(0, 61), planning=Planning(plan=early()), limits=limits)


def test_a_plan_that_is_predicted_to_form_too_many_groups_is_refused_with_the_figure() -> None:
    with pytest.raises(decopa.LimitError, match=r"operator o\d SEQ\(A,KL\(B\),C\) is predicted to form .*e\+"):
        run_detailed(QUERY, BUSY, strategy="decopa", units=2, runtime="local")
    with pytest.raises(decopa.LimitError, match="--force"):
        run_detailed(QUERY, BUSY, strategy="decopa", units=2, runtime="local")


def test_force_runs_it_all_the_same_up_to_the_limits() -> None:
    limits = Limits(max_groups=5_000)
    with interpreted(), pytest.raises(decopa.LimitError, match="under way"):
        run_detailed(QUERY, BUSY, planning=Planning(2, "decopa", force=True), runtime="local", limits=limits)


def test_matches_beyond_the_limit_and_hours_of_work_are_refused() -> None:
    query = parse("PATTERN AND(A a, B b) WITHIN 100 us")
    statistics = estimate_statistics(query, columns_of(BUSY)).statistics
    plan = Plan((left_deep(query),))
    guard = Guard.of(plan, [statistics], 61, Limits(max_matches=10), lambda line: None)
    with pytest.raises(decopa.LimitError, match=r"predicted to have 60 matches, more than the limit of 10"):
        guard.check(62, CAPACITY)
    guard = Guard.of(plan, [statistics], 61, Limits(), lambda line: None)
    with pytest.raises(decopa.LimitError, match=r"busy for .* h, mostly operator o3 AND\(A,B\) with 60 comparisons"):
        guard.check(62, Capacity.per_second(1e6, 1e-4))
    guard.check(62, CAPACITY)


def report(comparisons: int) -> OperatorReport:
    return OperatorReport("q", "o3", "AND(A,B)", 1, 0, comparisons, 0, 0)


def test_an_operator_beyond_its_prediction_is_reported_while_it_runs_and_once_per_step() -> None:
    query = parse("PATTERN AND(A a, B b) WITHIN 100 us")
    plan = Plan((left_deep(query),))
    told: list[str] = []
    guard = Guard.of(plan, [estimate_statistics(query, columns_of(BUSY)).statistics], 61, Limits(), told.append)
    guard.look([[report(1_000)]])
    assert told == []
    guard.look([[report(25_000_000)]])
    guard.look([[report(26_000_000)]])
    assert len(told) == 1
    assert told[0].startswith(
        "operator o3 AND(A,B) has made 25,000,000 comparisons, 60 predicted, 10,000 times as many"
    )
    guard.look([[report(90_000_000)]])
    assert len(told) == 2 and guard.warnings == told


def test_limits_on_comparisons_and_time_end_a_run_with_the_operator_to_blame() -> None:
    query = parse("PATTERN AND(A a, B b) WITHIN 100 us")
    plan = Plan((left_deep(query),))
    limits = Limits(max_comparisons=1_000)
    with pytest.raises(decopa.LimitError, match=r"made 2,000 comparisons, more than the limit of 1,000 .* operator o3"):
        Guard(plan, limits, [None]).look([[report(2_000)]])
    now = [0.0]
    guard = Guard(plan, replace(limits, max_comparisons=None, max_seconds=5), [None], clock=lambda: now[0])
    guard.look([[report(1)]])
    now[0] = 7.0
    assert guard.due
    with pytest.raises(decopa.LimitError, match=r"taken 7.0 s, more than the limit of 5 s .* operator o3"):
        guard.look([[report(2)]])


def test_a_run_within_its_limits_is_not_disturbed() -> None:
    trace = pa.table({"id": range(4), "ts": range(4), "type": list("ABCB")})
    limits = Limits(max_comparisons=1_000, max_seconds=60)
    with interpreted():
        found = run_detailed("PATTERN SEQ(A a, B b) WITHIN 9 us", trace, strategy="decopa", limits=limits)
    assert found.matches.num_rows == 2
    assert not any("comparisons" in notice for notice in found.notices)
