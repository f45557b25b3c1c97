"""The regret of plans: random plans are valid and different, cases can be read, the report tells goals."""

from __future__ import annotations

from argparse import Namespace

import pyarrow as pa

from costmodel.sampling.estimate import estimate_statistics
from decopa.language.text.parser import parse
from decopa.planning.validate import check_structure
from scripts.benchmarks.plan_regret import CaseResult, Measured, random_plans, report
from scripts.benchmarks.regret_cases import all_cases, made_cases, made_stream
from tests.support.columns import columns_of

ARGS = Namespace(units=4, plans=20, bound=4.0)


def test_there_are_forty_cases_half_of_them_real_with_kleene_and_not_among_them() -> None:
    cases = all_cases()
    assert len(cases) == 40 and len({case.name for case in cases}) == 40
    assert sum(case.stream in ("citibike", "google") for case in cases) == 20
    assert all(parse(case.query).branches for case in cases)
    for part in ("KL(", "NOT(", "dist_km"):
        assert sum(part in case.query for case in cases) >= 4


def test_random_plans_are_valid_and_different() -> None:
    case = made_cases()[0]
    query, trace = parse(case.query), made_stream("bursts", 2_000)
    plans = list(random_plans(query, estimate_statistics(query, columns_of(trace)).statistics, 4, 12))
    assert len(plans) == len(set(plans)) == 12
    for plan in plans:
        check_structure(plan)


def test_made_streams_have_the_types_and_are_in_order() -> None:
    for kind in ("bursts", "skew", "dependent", "tides"):
        trace = made_stream(kind, 3_000)
        times = trace.column("ts").to_pylist()
        assert times == sorted(times)
        assert set(trace.column("type").to_pylist()) == set("ABCDEF")
        assert isinstance(trace, pa.Table)


def result(name: str, decopa: float, other: float) -> CaseResult:
    runs = {"decopa": Measured(100, decopa, True, 0.1), "hybrid": Measured(0, 4.0, False)}
    return CaseResult(name, 7, 0.2, runs, [Measured(90, other, True)])


def test_a_report_tells_regret_what_did_not_end_and_whether_goals_are_reached() -> None:
    text = report([result("one", 1.0, 1.0), result("two", 2.0, 1.0)], ARGS)
    assert "| decopa | 2 | 1.50 | 2.00 | 0 |" in text
    assert "median at most 1.1: 1.50, MISSED" in text and "worst at most 1.5: 2.00, MISSED" in text
    assert "reached" in report([result("one", 1.0, 1.0)], ARGS)
    assert "| two | 7 | 1.000 | 2.00 | - |" in text
