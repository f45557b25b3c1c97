"""Tables and a plot of the experiment: the thesis' figures beside ours."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

from costmodel.drift.inflation import saving
from decopa.report.table import markdown_table
from scripts.adaptation.model import PRINTED, model_saving, printed_mean
from scripts.adaptation.runs import Case, Result

mpl.use("Agg")
from matplotlib import pyplot as plt

#: No run may send more rows than the plan that never changes, by this many percent.
WORST = 2.0


@dataclass(frozen=True)
class Row:
    """One case: the same events under the plan that stays, the thesis' scheme, and our monitor."""

    alpha: float
    case: Case
    static: Result
    thesis: Result
    ours: Result

    @property
    def name(self) -> str:
        return f"{self.case.operator}, {self.case.units} units"

    @property
    def saved(self) -> float:
        return saving(self.static.rows, self.ours.rows)

    @property
    def saved_by_thesis(self) -> float:
        return saving(self.static.rows, self.thesis.rows)

    @property
    def saved_by_model(self) -> float:
        return model_saving(self.case.drift, self.case.units, one_unit=self.case.one_unit)

    @property
    def same_matches(self) -> bool:
        return self.static.matches == self.thesis.matches == self.ours.matches


def savings_table(rows: Sequence[Row]) -> str:
    """A line for each series, a column for each factor, the mean at the end; savings in percent."""
    factors = sorted({row.alpha for row in rows})
    printed = [PRINTED[alpha] for alpha in factors]
    lines = [
        [
            "thesis, printed: mean of 9 to 11 networks",
            *(f"{mean:.1f}" for mean, _, _ in printed),
            f"{printed_mean():.1f}",
        ],
        ["thesis, printed: worst / best", *(f"{worst}/{best}" for _, worst, best in printed), ""],
    ]
    for name in dict.fromkeys(row.name for row in rows):
        mine = {row.alpha: row for row in rows if row.name == name}
        side = "one unit" if next(iter(mine.values())).case.one_unit else "other side dealt out"
        lines += [
            [f"{name}, model ({side})", *_line(factors, {alpha: one.saved_by_model for alpha, one in mine.items()})],
            [f"{name}, thesis' scheme", *_line(factors, {alpha: one.saved_by_thesis for alpha, one in mine.items()})],
            [f"{name}, our monitor", *_line(factors, {alpha: one.saved for alpha, one in mine.items()})],
        ]
    return markdown_table(["factor", *(f"{alpha:g}" for alpha in factors), "mean"], lines)


def rows_table(rows: Sequence[Row]) -> str:
    """Rows sent in each case, how many of them to build the new plan, and when the plans changed."""
    header = ["case", "factor", "stays", "thesis' scheme", "monitor", "of it replayed", "model", "thesis cut s",
              "monitor cut s", "matches"]  # fmt: skip
    lines = [
        [
            row.name,
            f"{row.alpha:g}",
            f"{row.static.rows:,}",
            f"{row.thesis.rows:,}",
            f"{row.ours.rows:,}",
            f"{row.ours.replayed:,}",
            f"{row.static.rows * (1 - row.saved_by_model / 100):,.0f}",
            _times(row.thesis.changes),
            _times(row.ours.changes),
            f"{row.static.matches:,}",
        ]
        for row in rows
    ]
    return markdown_table(header, lines)


def verdicts(rows: Sequence[Row]) -> list[tuple[str, bool]]:
    """What the experiment must show, and whether it did."""
    fallback = [row.saved for row in rows if row.case.one_unit]
    off = max(abs(100 - row.saved) / (100 - row.saved_by_model) for row in rows)
    least = min((100 - row.saved) / (100 - row.saved_by_model) for row in rows)
    worst = min(row.saved for row in rows)
    found = [
        (
            f"no run sends more than the plan that stays, by more than {WORST:g} %: worst {-worst:+.1f} %",
            worst >= -WORST,
        ),
        (f"rows within 10 % of the model's: {least:.3f} to {off:.3f} of them", least >= 0.9 and off <= 1.1),
        ("the same matches under all three", all(row.same_matches for row in rows)),
    ]
    if fallback:
        mean = statistics.mean(fallback)
        found.append((f"mean saving with one unit as fallback at least 40 %: {mean:.1f} %", mean >= 40))
    return found


def plot(rows: Sequence[Row], path: Path) -> None:
    """Savings over the inflation factor: the thesis' means, the model, and what was measured."""
    factors = sorted({row.alpha for row in rows})
    names = list(dict.fromkeys(row.name for row in rows))
    figure, panels = plt.subplots(1, len(names), figsize=(4.2 * len(names), 3.8), sharey=True, layout="constrained")
    for panel, name in zip([panels] if len(names) == 1 else panels, names, strict=True):
        mine = sorted((row for row in rows if row.name == name), key=lambda row: row.alpha)
        series: Mapping[str, tuple[list[float], str, str]] = {
            "thesis, printed mean": ([PRINTED[row.alpha][0] for row in mine], "#999999", "s--"),
            "model": ([row.saved_by_model for row in mine], "#009E73", "D:"),
            "thesis' scheme, measured": ([row.saved_by_thesis for row in mine], "#D55E00", "^-."),
            "our monitor, measured": ([row.saved for row in mine], "#0072B2", "o-"),
        }
        for label, (values, colour, style) in series.items():
            panel.plot([row.alpha for row in mine], values, style, color=colour, label=label)
        panel.set(title=name, xlabel="inflation factor", xscale="log", xticks=factors)
        panel.set_xticklabels([f"{alpha:g}" for alpha in factors], fontsize=7)
        panel.minorticks_off()
        panel.axhline(0, color="black", linewidth=0.6)
        panel.grid(alpha=0.3)
    first = panels if len(names) == 1 else panels[0]
    first.set_ylabel("rows saved, %")
    first.legend(fontsize=7)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _line(factors: Sequence[float], values: Mapping[float, float]) -> list[str]:
    """A cell for each factor, and the mean of those that were run."""
    cells = [f"{values[alpha]:.1f}" if alpha in values else "-" for alpha in factors]
    return [*cells, f"{statistics.mean(values.values()):.1f}"]


def _times(changes: Sequence[float]) -> str:
    return ", ".join(f"{at:g}" for at in changes) or "-"
