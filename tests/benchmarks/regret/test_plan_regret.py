"""The regret of plans: random plans are valid and different, cases can be read, the report tells goals."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from costmodel.sampling.estimate import estimate_statistics
from decopa.language.text.parser import parse
from decopa.planning.validate import check_structure
from scripts.benchmarks.regret.regret_cases import all_cases, made_cases, made_stream, paper_cases
from scripts.benchmarks.regret.regret_report import load_results, report, save_results
from scripts.benchmarks.regret.regret_runs import CaseResult, Measured, random_plans, shape_of
from tests.support.columns import columns_of


def test_there_are_forty_cases_half_of_them_real_with_kleene_and_not_among_them() -> None:
    cases = all_cases()
    assert len(cases) == 40 and len({case.name for case in cases}) == 40
    assert sum(case.is_real for case in cases) == 20
    assert all(parse(case.query).branches for case in cases)
    for part in ("KL(", "NOT(", "dist_km"):
        assert sum(part in case.query for case in cases) >= 4


def test_the_papers_six_queries_come_with_several_windows_and_distances() -> None:
    cases = paper_cases()
    assert len({case.name for case in cases}) == len(cases)
    assert all(parse(case.query).branches and case.is_real for case in cases)
    for query in ("citibike Q1", "citibike Q2", "citibike Q3", "google Q1", "google Q2", "google Q3"):
        assert len({parse(case.query).window_us for case in cases if query in case.name}) >= 3


def test_random_plans_are_valid_and_different() -> None:
    case = made_cases()[0]
    query, trace = parse(case.query), made_stream("bursts", 2_000)
    plans = list(random_plans(query, estimate_statistics(query, columns_of(trace)).statistics, 4, 12))
    assert len(plans) == len(set(map(shape_of, plans))) == 12
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
    runs = [
        Measured("chosen", decopa, True, decopa, 100, matches=7),
        Measured("drawn", other, True, other, 90, matches=7),
        Measured("endless", 4.0, False),
    ]
    chosen = {"decopa": "chosen", "hybrid": "endless", "left-deep": "drawn"}
    return CaseResult(name, 0.2, {one.shape: one for one in runs}, chosen, {"decopa": 0.1})


def test_a_report_tells_regret_what_did_not_end_and_whether_goals_are_reached() -> None:
    text = report([result("one", 1.0, 1.0), result("two", 2.0, 1.0)], [], "command")
    assert "| decopa | 2 | 1.50 | 2.00 | 0 |" in text
    assert "median at most 1.1: 1.50, MISSED" in text and "worst at most 1.5: 2.00, MISSED" in text
    assert "reached on the 1 of 40 queries measured so far" in report([result("one", 1.0, 1.0)], [], "command")
    assert "1.00, reached.\n" in report([result(str(n), 1.0, 1.0) for n in range(40)], [], "command")
    assert "| two | 3 | 7 | 1.000 | 2.00 | 1.00 | - |" in text


def test_a_report_holds_the_papers_queries_against_left_deep() -> None:
    text = report([], [result("paper one", 1.0, 2.0), result("paper two", 1.6, 1.0)], "command")
    assert "| one | 7 | 1.000 | 2.000 | 0.50 | 100 | 90 |" in text
    assert "1.60 at worst, MISSED" in text


def test_results_of_a_portion_are_read_back_by_the_next(tmp_path: Path) -> None:
    found = {"one": result("one", 1.0, 2.0)}
    save_results(tmp_path / "regret.json", found)
    assert load_results(tmp_path / "regret.json") == found
