"""What a run is expected to do and did: predictions against counted runs, and how the summary reads."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from actors.latency import LatencySummary
from actors.reports import OperatorReport
from decopa.api import run_detailed
from decopa.language.text.parser import parse
from decopa.planning.plan import QueryPlan
from decopa.planning.predict import Prediction, Total, predict
from decopa.report.run_summary import (
    BUSIEST,
    PartSummary,
    Sustainable,
    count_text,
    error_text,
    figures,
    load_tree,
    matches_text,
    reports_of,
    span_text,
    time_text,
)
from decopa.runs.result import RunResult
from decopa.traces.synthetic import SyntheticSpec

TRACE = SyntheticSpec(events=20_000, types=3, keys=20, seed=1).table()
JOINS = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.y < c.y WITHIN 50 ms"


def counted(query: str, *, strategy: str = "decopa", units: int = 3) -> tuple[RunResult, list[PartSummary]]:
    result = run_detailed(query, TRACE, strategy=strategy, units=units, runtime="local")
    reports = reports_of(result.plan, result.operators)
    known = [statistics for statistics in result.statistics for _ in parse(query).branches]
    parts = [
        PartSummary(part, mine, predict(part, one, result.span_us))
        for part, mine, one in zip(result.plan.parts, reports, known, strict=True)
    ]
    return result, parts


def errors(part: PartSummary, name: str) -> tuple[float, float, float]:
    assert part.predictions is not None
    expected, report = part.predictions[name], part.reports[name]
    found = (
        expected.ingested.error(report.ingested),
        expected.comparisons.error(report.comparisons),
        expected.emitted.error(report.emitted),
    )
    assert None not in found
    return found  # type: ignore[return-value]


# ------------------------------------------------------------------ predictions


def test_joins_of_independent_events_do_what_is_predicted() -> None:
    _, (part,) = counted(JOINS)
    for name in part.reports:
        assert max(map(abs, errors(part, name))) < 0.1


def test_a_broadcast_input_counts_once_for_each_unit() -> None:
    _, (part,) = counted(JOINS, units=8)
    assert max(report.units for report in part.reports.values()) > 1
    for name in part.reports:
        assert abs(errors(part, name)[0]) < 0.1


def test_an_index_on_equal_keys_is_taken_into_account() -> None:
    _, (part,) = counted("PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 50 ms")
    assert max(map(abs, errors(part, part.plan.root.name))) < 0.15


def test_a_key_beside_another_condition_is_a_rough_prediction() -> None:
    _, (part,) = counted("PATTERN SEQ(A a, B b) WHERE a.k = b.k AND a.x < b.x WITHIN 50 ms")
    assert part.predictions is not None
    expected = part.predictions[part.plan.root.name]
    assert expected.comparisons.rough
    assert not expected.emitted.rough


def test_groups_of_equal_keys_are_predicted_in_order_of_magnitude() -> None:
    _, (part,) = counted("PATTERN SEQ(A a, KL(B b)) WHERE a.k = b.k WITHIN 50 ms")
    for name in part.reports:
        assert all(-0.7 < error < 2 for error in errors(part, name))


@pytest.mark.parametrize(
    ("query", "strategy"),
    [
        ("PATTERN SEQ(A a, NOT(B b), C c) WHERE a.x < b.x WITHIN 20 ms", "decopa"),
        ("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 20 ms", "rip"),
    ],
)
def test_what_the_model_leaves_out_makes_a_prediction_rough_and_too_high(query: str, strategy: str) -> None:
    _, (part,) = counted(query, strategy=strategy)
    assert part.predictions is not None
    root = part.plan.root.name
    assert part.predictions[root].emitted.rough
    assert part.predictions[root].emitted.value > part.reports[root].emitted
    assert "~" in load_tree(part)


def test_reports_of_alternatives_do_not_mix() -> None:
    result, parts = counted("PATTERN OR(SEQ(A a, B b), SEQ(B b, C c)) WITHIN 5 ms")
    assert len(parts) == 2
    assert [next(iter(part.reports.values())).sub_query for part in parts] == ["SEQ(A,B)", "SEQ(B,C)"]
    assert sum(len(part.reports) for part in parts) == len(result.operators)


# ------------------------------------------------------------------ the tree


def example() -> PartSummary:
    """Two operators, the lower one busier, with round numbers."""
    plan = run_detailed(JOINS, TRACE.slice(0, 10), strategy="left-deep").plan.parts[0]
    lower, upper = (operator.name for operator in plan.operators if operator.inputs)
    reports = {
        lower: OperatorReport("q", lower, "SEQ(A,B)", 1, 1_000, 50_000, 200, 0, 0.75),
        upper: OperatorReport("q", upper, "SEQ(A,B,C)", 2, 3_000, 4_000_000, 0, 0, 0.5),
    }
    totals = {
        name: Prediction(Total(1_000.0), Total(100_000.0), Total(20.0, rough=name == upper))
        for name in plan.graph.nodes
    }
    return PartSummary(plan, reports, totals, busy={lower: 0.6})


def test_the_tree_shows_predicted_and_measured_loads_and_the_busiest_unit() -> None:
    lines = load_tree(example()).splitlines()
    upper = next(at for at, line in enumerate(lines) if "SEQ(A,B,C)" in line and "predicted" in line)
    assert lines[upper].split()[-5:] == ["predicted", "-", "1,000", "100k", "~20"]
    assert lines[upper + 1].split()[-6:] == ["measured", "50", "%", "3,000", "4M", "0"]
    assert lines[upper + 2].split()[-7:] == ["error", "-", "-67", "%", "-98", "%", "-"]
    lower = next(at for at, line in enumerate(lines) if "SEQ(A,B) " in line and "predicted" in line)
    assert "measured 75 %" in " ".join(lines[lower + 1].split())
    assert "error -20 %" in " ".join(lines[lower + 2].split())
    (marked,) = (line for line in lines if line.endswith(BUSIEST))
    assert "SEQ(A,B) " in marked


def test_without_statistics_the_tree_shows_what_was_measured() -> None:
    text = load_tree(replace(example(), predictions=None))
    assert "predicted" not in text
    assert "4M" in text


def test_operators_that_share_one_unit_are_not_told_apart() -> None:
    part = example()
    alike = {name: replace(report, busiest=0.5) for name, report in part.reports.items()}
    assert replace(part, reports=alike).busiest is None
    unknown = {name: replace(report, busiest=0.0) for name, report in part.reports.items()}
    assert replace(part, reports=unknown).busiest is None
    assert "busy" not in load_tree(replace(part, reports=unknown))


@pytest.mark.parametrize("width", [80, 100, 200])
def test_lines_fit_into_the_terminal(width: int) -> None:
    long = parse("PATTERN SEQ(A first, A second, A third, A fourth, A fifth, A sixth, A seventh) WITHIN 1 ms")
    plan: QueryPlan = run_detailed(long, TRACE.slice(0, 10), strategy="left-deep").plan.parts[0]
    text = load_tree(PartSummary(plan, {}), width=width)
    assert max(map(len, text.splitlines())) <= width


def test_colors_change_nothing_but_colors() -> None:
    import re

    painted = load_tree(example(), color=True)
    assert "\x1b[" in painted
    assert re.sub(r"\x1b\[[\d;]*m", "", painted) == load_tree(example())


# ------------------------------------------------------------------ figures and numbers


def test_figures_say_how_fast_and_how_late() -> None:
    result, _ = counted(JOINS)
    timed = replace(result, seconds=2.0, latency=LatencySummary(5, 0.0121, 1.25, 3.0))
    lines = dict(figures(timed, paced=True, emulated="10 events and 20 comparisons per 1 s"))
    assert lines["events"] == f"20,000 over {span_text(result.span_us)}"
    assert lines["time"].startswith("2.00 s (10,000 events/s, 10 times as fast as it happened), emulated")
    assert lines["latency"] == "p50 12.1 ms, p99 1.25 s, max 3 s (from the arrival of a match's last event, emulated)"
    assert "latency" not in dict(figures(result))


def test_a_run_at_full_speed_is_held_against_the_rate_that_is_predicted() -> None:
    result, _ = counted(JOINS)
    expected = Sustainable(12_000.0, "q/o5/0")
    busy, idle = (tuple(replace(one, busiest=share) for one in result.operators) for share in (0.97, 0.5))
    timed = replace(result, seconds=2.0, operators=busy)
    told = "12,000 events/s predicted, limited by q/o5/0; 10,000 measured (+20 %)"
    assert dict(figures(timed, sustainable=expected))["sustainable"] == told
    elsewhere = dict(figures(replace(timed, operators=idle), sustainable=expected))["sustainable"]
    assert elsewhere.endswith("something else was the limit: no unit was busy more than 50 %")
    assert "sustainable" not in dict(figures(timed, sustainable=expected, paced=True))


def test_matches_are_counted_by_query() -> None:
    result, _ = counted(JOINS)
    assert matches_text(result) == f"{result.matches.num_rows:,}"
    two = run_detailed(f"QUERY one {JOINS} QUERY two PATTERN SEQ(A a, B b) WHERE a.x > 2 WITHIN 1 ms", TRACE)
    assert matches_text(two) == f"{two.matches.num_rows:,} (one {two.matches.num_rows:,}, two 0)"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.3, "0.3"), (7.0, "7"), (9.96, "10"), (99_999, "99,999"), (123_456, "123k"), (999_600, "1M"),
     (1.594e6, "1.59M"), (2.5e9, "2.5G"), (2.1e13, "2.1e13"), (1e300, ">1e299")],
)  # fmt: skip
def test_counts_are_short(value: float, text: str) -> None:
    assert count_text(value) == text


@pytest.mark.parametrize(
    ("error", "text"), [(None, "-"), (0.001, "0 %"), (0.134, "+13 %"), (-0.5, "-50 %"), (22.0, "x23"), (8.99, "+899 %")]
)
def test_errors_are_short(error: float | None, text: str) -> None:
    assert error_text(error) == text


def test_times_are_short() -> None:
    assert [time_text(seconds) for seconds in (2e-6, 0.0121, 1.25, 4_000)] == ["2 us", "12.1 ms", "1.25 s", "4,000 s"]
    assert [span_text(us) for us in (30, 5_000_000, 300_000_000, 14 * 86_400_000_000)] == [
        "30 us",
        "5 s",
        "5 min",
        "14 d",
    ]


def test_an_empty_result_has_a_table_all_the_same() -> None:
    result, _ = counted("PATTERN SEQ(A a, B b) WHERE a.x > 2 WITHIN 1 ms")
    assert isinstance(result.matches, pa.Table)
    assert matches_text(result) == "0"
