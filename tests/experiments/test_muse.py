"""The MuSE paper's case study and published experiments: checks A7 to A10."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from costmodel.networks.transmission import central_cost, referenced_types
from decopa.planning.network.graphs.price import price
from decopa.planning.network.graphs.validate import violations
from scripts.muse.case_study import published_plan
from scripts.muse.run import main
from scripts.muse.strategies import STRATEGIES, planned
from tests.support.muse import needs_inputs, published
from tests.support.shared import SHARED

pytestmark = needs_inputs
SEQ, AND, MIX = "SEQ(D, C, F, H)", "AND(E, D, F, H)", "SEQ(C, B, AND(D, I))"


def test_amuse_star_and_the_published_workload() -> None:
    problem = published().experiment("exp_1")
    assert central_cost(problem.network, referenced_types(problem.queries)) == 28_100
    assert planned(problem, "amuse-star")[1].cost == pytest.approx(4_349.5, rel=0.01)


@pytest.mark.slow
def test_amuse_on_the_published_workload() -> None:
    problem = published().experiment("exp_1")
    assert planned(problem, "amuse")[1].cost == pytest.approx(3_253.0, rel=0.01)


def test_our_search_on_the_published_workload_is_no_worse() -> None:
    problem = published().experiment("exp_1")
    _, found = planned(problem, "search")
    assert found.cost <= 3_253.1


@pytest.mark.parametrize(
    ("ratio", "seed", "percent"),
    [
        (0.2, 0, 0.52),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                (0.5, 0, 4.22),
                (0.5, 1, 3.66),
                (0.5, 2, 3.96),
                (0.5, 3, 5.44),
                (0.2, 1, 0.92),
                (0.2, 2, 1.26),
                (0.2, 3, 2.08),
            ]
        ),
    ],
)
def test_our_search_in_the_published_networks(ratio: float, seed: int, percent: float) -> None:
    problem = published().experiment("exp_1", ratio=ratio, seed=seed)
    assert 100 * planned(problem, "search")[1].ratio <= percent


@pytest.mark.slow
def test_fifty_nodes_and_fifteen_queries_are_planned_within_a_minute() -> None:
    problem = published().experiment("exp_2_scal")
    started = time.process_time()
    _, found = planned(problem, "search")
    assert time.process_time() - started <= 60
    assert found.ratio < 0.15


def test_the_case_study_is_predicted_below_the_paper() -> None:
    assert planned(published().case_study(SEQ), "search")[1].cost <= 36.58
    assert planned(published().case_study(AND), "search")[1].cost <= 583.31
    assert planned(published().case_study(AND, keyed=True), "search", implied=True)[1].cost <= 106.98
    assert planned(published().case_study(SEQ, MIX, AND), "search")[1].ratio <= 0.0524
    keyed = published().case_study(SEQ, MIX, AND, keyed=True)
    assert planned(keyed, "search", implied=True)[1].ratio <= 0.0377


@pytest.mark.parametrize(("pattern", "file", "cost"), [(SEQ, "SEQ2_MS", 82.35), (AND, "AND3_MS", 583.3)])
def test_published_plans_cost_what_the_paper_shows(pattern: str, file: str, cost: float) -> None:
    problem = published().case_study(pattern)
    plan = published_plan(problem, published().plan(file))
    assert list(violations(plan)) == []
    assert price(plan, problem.rates()).cost == pytest.approx(cost, abs=0.01)


def test_the_published_workload_plan_is_rejected_by_name() -> None:
    problem = published().case_study(SEQ, MIX, AND)
    found = list(violations(published_plan(problem, published().plan("QWL2_MS"))))
    assert (found[0].rule, found[0].operator) == ("cover", "0:SEQ(D,C,F,H)@0")
    assert "position f (F) is in no input" in found[0].message
    assert any(one.rule == "incomplete" for one in found)


def test_the_script_writes_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "table3", "--out", str(tmp_path), "--shared", str(SHARED)]) == 0
    report = (tmp_path / "table3.md").read_text()
    assert "82.35 (1.13 %)" in report
    assert "is in no input" in report
    assert "106.97 (0.97 %)" in report
    assert (tmp_path / "case_study.csv").is_file()
    capsys.readouterr()


def test_a_figure_goes_on_from_the_networks_that_are_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = ["point,seed,strategy,rows per window,ratio,seconds"]
    for point in ("10", "20"):
        for place, strategy in enumerate(STRATEGIES):
            known += [f"{point},{seed},{strategy},7.0,{0.01 * (place + 1 + seed)},1.5" for seed in range(3)]
    (tmp_path / "figure5c_networks.csv").write_text("\n".join(known) + "\n")
    arguments = ["--only", "figure5c", "--quick", "--seeds", "3", "--out", str(tmp_path), "--shared", str(SHARED)]
    assert main(arguments) == 0
    report = (tmp_path / "figure5c.md").read_text()
    assert "| 20 | 2 % | 3 % | 4 % | 5 % | 6 % |" in report
    assert "Medians of 3 random networks" in report
    assert "[Figure 5c: nodes](figure5c.md)" in (tmp_path / "report.md").read_text()
    capsys.readouterr()
