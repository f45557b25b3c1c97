"""The inflation experiment of the thesis on adaptivity: its model, and short runs of it through the real switch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from costmodel.drift.inflation import FACTORS, Inflation, saving
from decopa.errors import DecoPaError
from decopa.planning.price import plan_units
from scripts.adaptation.kept import Kept
from scripts.adaptation.main import main
from scripts.adaptation.model import adaptive_rows, model_saving, printed_mean, static_rows
from scripts.adaptation.runs import KEYS, Case, Result, by_monitor, by_thesis, play
from scripts.adaptation.stream import SHARE, Drift, inflated_by
from scripts.adaptation.three import OTHERS, UNITS, modelled_rows

ONE_UNIT = (18.7, 32.8, 38.2, 43.7, 47.3, 49.1, 52.4, 56.1, 58.2, 59.5, 62.3)
OTHER_SIDE = (0.0, 0.0, 0.0, 0.0, 14.6, 21.7, 34.0, 47.5, 54.7, 59.1, 68.5)


def drift_to(alpha: float) -> Drift:
    return inflated_by(alpha, 40.0, {"N": SHARE})


def short(alpha: float) -> Drift:
    """A tenth of the experiment."""
    return replace(drift_to(alpha), length_s=60, inflated_from_s=20)


def test_the_model_saves_what_the_specification_says() -> None:
    for alpha, one_unit, other_side in zip(FACTORS, ONE_UNIT, OTHER_SIDE, strict=True):
        assert model_saving(drift_to(alpha), 3, one_unit=True) == pytest.approx(one_unit, abs=0.06)
        assert model_saving(drift_to(alpha), 5, one_unit=False) == pytest.approx(other_side, abs=0.06)
    assert printed_mean() == pytest.approx(24.5, abs=0.1)


def test_inflation_never_lowers_a_rate() -> None:
    drift = inflated_by(0.05, 100.0, {"A": 0.3, "B": 0.1}, Inflation.SUM)
    assert drift.after == drift.before


@pytest.mark.parametrize(("units", "one_unit", "left"), [(3, True, 1), (5, False, 5)])
@pytest.mark.parametrize("operator", ["SEQ", "AND"])
def test_the_monitor_changes_to_what_sends_less_and_still_sustains(
    operator: str, units: int, one_unit: bool, left: int
) -> None:
    case = Case(operator, short(4.0), units, one_unit)
    table = case.drift.table(1, KEYS)
    decide, monitor = by_monitor(case)
    static, ours = play(case, table), play(case, table, decide)
    assert static.rows == pytest.approx(static_rows(case.drift, units), rel=0.05)
    assert ours.rows <= 1.1 * adaptive_rows(case.drift, units, one_unit=one_unit)
    assert ours.matches == static.matches > 0
    assert len(ours.changes) == 1
    assert 20 < ours.changes[0] <= 24
    assert plan_units(monitor.plan) == left
    assert not any(audit.failed for audit in monitor.audits)


def test_the_thesis_scheme_falls_back_to_one_unit_late() -> None:
    case = Case("SEQ", short(4.0), 3, one_unit=True)
    table = case.drift.table(1, KEYS)
    static, theirs = play(case, table), play(case, table, by_thesis(case))
    assert theirs.matches == static.matches
    assert len(theirs.changes) == 1
    assert 32 <= theirs.changes[0] <= 36
    assert saving(static.rows, theirs.rows) > 20


def test_a_stream_that_is_not_inflated_is_left_alone() -> None:
    drift = replace(short(4.0), after=short(4.0).before)
    case = Case("SEQ", drift, 3, one_unit=True)
    decide, _ = by_monitor(case)
    assert play(case, drift.table(1, KEYS), decide).changes == ()


@pytest.mark.parametrize("operator", ["SEQ", "AND"])
def test_rows_of_three_types_are_those_that_the_model_of_traffic_expects(operator: str) -> None:
    drift = replace(inflated_by(2.0, 40.0, OTHERS), length_s=60, inflated_from_s=20)
    case = Case(operator, drift, UNITS, one_unit=False)
    static = play(case, drift.table(1, KEYS))
    assert static.rows == pytest.approx(modelled_rows(case, drift), rel=0.1)


def test_runs_are_kept_between_calls(tmp_path: Path) -> None:
    result = Result(5, 1, (2.0, 3.5), 7)
    Kept(tmp_path / "runs.csv", ("a", "b"), resume=False).add(("x", "y"), result)
    assert Kept(tmp_path / "runs.csv", ("a", "b"), resume=True)["x", "y"] == result
    assert ("x", "y") not in Kept(tmp_path / "runs.csv", ("a", "b"), resume=False)
    with pytest.raises(DecoPaError, match="other columns"):
        Kept(tmp_path / "runs.csv", ("a",), resume=True)


@pytest.mark.slow
def test_the_script_writes_tables_and_a_plot(tmp_path: Path) -> None:
    arguments = ["--factors", "2", "--operators", "SEQ", "--units", "3", "--three", "--out", str(tmp_path)]
    assert main(arguments) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"tables.md", "runs.csv", "savings.png"}
    assert "thesis, printed" in (tmp_path / "tables.md").read_text()


def test_a_factor_that_the_thesis_did_not_run_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--factors", "0.3"])
    assert stopped.value.code == 2
    assert "none of the thesis' factors" in capsys.readouterr().err
