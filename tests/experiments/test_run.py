"""`scripts/paper_experiments` on a small scale."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from scripts.experiments import figures, optimum
from scripts.experiments.context import Context, Section
from scripts.experiments.report import write_report
from scripts.experiments.run import main
from scripts.experiments.synthetic import Setting, small_case


def test_quick_mode_writes_report_tables_and_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimum, "QUICK_QUERIES", 2)
    assert main(["--out", str(tmp_path), "--seeds", "2", "--quick", "--jobs", "1", "--only", "optimum"]) == 0
    assert "## Against the optimum" in (tmp_path / "report.md").read_text()
    assert (tmp_path / "optimum.png").stat().st_size > 1000
    rows = _rows(tmp_path / "optimum.csv")
    assert len(rows) == 4
    assert all(0 < float(row["decopa_share"]) <= 1 + 1e-6 for row in rows)


def test_a_section_that_is_run_again_leaves_the_others(tmp_path: Path) -> None:
    context = Context(tmp_path, tmp_path)
    for name, body in (("second", "text before"), ("first", "kept"), ("second", "text after")):
        write_report(context, [(Section(name, name.title(), body), 1.0)], ["first", "second"])
    report = (tmp_path / "report.md").read_text()
    assert report.index("kept") < report.index("text after")
    assert "text before" not in report


def test_a_figure_has_a_row_per_panel_value_and_strategy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = figures.FIGURES["17"]
    monkeypatch.setattr(figures, "FIGURES", {"17": text})
    monkeypatch.setattr(figures, "SWEEPS", {"17": (figures.Sweep("t", "x", (3, 4), _short),)})
    section = figures.run(Context(tmp_path, tmp_path, seeds=2, jobs=1))
    rows = _rows(tmp_path / "figure17.csv")
    assert len(rows) == 6
    assert all(float(row["lower_quartile"]) <= float(row["median"]) <= float(row["upper_quartile"]) for row in rows)
    assert "figure17.png" in section.body


def _rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def _short(seed: int, length: int) -> figures.Point:
    return figures.Point(Setting(seed, length=length, units=5, iota=2000))


def test_missing_inputs_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--out", str(tmp_path), "--shared", str(tmp_path), "--only", "table3"])
    assert stopped.value.code == 2
    assert "paper_table3.json" in capsys.readouterr().err


def test_instances_depend_on_their_seed_only() -> None:
    assert small_case(5)[0].query == small_case(5)[0].query
    assert Setting(1).case().statistics == Setting(1, units=5).case().statistics
    assert Setting(1).case().statistics != Setting(2).case().statistics
