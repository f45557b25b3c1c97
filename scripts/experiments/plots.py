"""PNG figures: colours that colour-blind readers can tell apart, a marker and a line style per series."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import NullFormatter

#: Okabe and Ito's colours, with a marker each.
STYLES = {
    "decopa": ("#0072B2", "o", "-"),
    "decopa-paper": ("#56B4E9", "s", "--"),
    "hybrid": ("#D55E00", "^", "-"),
    "state": ("#009E73", "D", ":"),
    "rip": ("#CC79A7", "v", "-."),
}
_OTHERS = [("#0072B2", "o", "-"), ("#D55E00", "^", "--"), ("#009E73", "D", ":"), ("#CC79A7", "v", "-.")]

#: One panel: its title, the label of its x axis, the x values, and per series the lower quartile, median and upper
#: quartile, as logarithms to the base 10.
Quartiles = Sequence[tuple[float, float, float]]
Panel = tuple[str, str, Sequence[Any], Mapping[str, Quartiles]]


def lines(
    path: Path, series: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, title: str, x_label: str, y_label: str
) -> None:
    figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for place, (name, (x, y)) in enumerate(series.items()):
        colour, marker, style = STYLES.get(name, _OTHERS[place % len(_OTHERS)])
        axes.plot(x, y, color=colour, marker=marker, linestyle=style, label=name)
    axes.set(title=title, xlabel=x_label, ylabel=y_label, yscale="log")
    axes.grid(alpha=0.3)
    axes.legend()
    _save(figure, path)


def panels(path: Path, drawn: Sequence[Panel], *, title: str, y_label: str) -> None:
    """Medians with quartiles as bars; a panel beyond 30 orders of magnitude shows the orders themselves."""
    columns = 3 if len(drawn) > 4 else min(2, len(drawn))
    rows = -(-len(drawn) // columns)
    figure, grid = plt.subplots(rows, columns, figsize=(4.8 * columns, 3.6 * rows), layout="constrained", squeeze=False)
    for axes, (heading, x_label, x_values, series) in zip(grid.flat, drawn, strict=False):
        places = np.arange(len(x_values))
        orders = max(abs(value) for quartiles in series.values() for triple in quartiles for value in triple) > 30
        for number, (name, quartiles) in enumerate(series.items()):
            colour, marker, style = STYLES.get(name, _OTHERS[number % len(_OTHERS)])
            parts = [np.array(part) for part in zip(*quartiles, strict=True)]
            low, middle, high = parts if orders else [10.0**part for part in parts]
            shifted = places + 0.07 * (number - (len(series) - 1) / 2)
            axes.errorbar(
                shifted, middle, yerr=[middle - low, high - middle], color=colour, marker=marker, linestyle=style,
                markersize=5, capsize=2, elinewidth=0.8, label=name,
            )  # fmt: skip
        label = f"{y_label}: orders of magnitude" if orders else y_label
        axes.set(title=heading, xlabel=x_label, ylabel=label, yscale="symlog" if orders else "log")
        if not orders:
            axes.yaxis.set_minor_formatter(NullFormatter())
            _at_least_a_decade(axes)
        axes.set_xticks(places, [str(value) for value in x_values])
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    for axes in list(grid.flat)[len(drawn) :]:
        axes.set_visible(False)
    figure.suptitle(title)
    _save(figure, path)


def _at_least_a_decade(axes: Any) -> None:
    """Widens a logarithmic axis to whole powers of ten, so that it has labels."""
    low, high = axes.get_ylim()
    axes.set_ylim(10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high)))


def shares_histogram(path: Path, series: Mapping[str, npt.NDArray[np.float64]]) -> None:
    """How often a planner reaches which share of the optimum; one panel per series, counts on a logarithmic axis."""
    figure, grid = plt.subplots(2, 2, figsize=(9, 6), layout="constrained", sharex=True, sharey=True)
    for place, (axes, (name, shares)) in enumerate(zip(grid.flat, series.items(), strict=False)):
        axes.hist(np.clip(shares, 0, 1) * 100, bins=np.linspace(0, 100, 41), color=_OTHERS[place % 2][0])
        axes.axvline(90, color="black", linestyle=":", linewidth=1)
        axes.set(title=f"{name}: worst {shares.min():.1%}", yscale="log")
        axes.grid(alpha=0.3)
    for axes in grid[1]:
        axes.set_xlabel("c in % of the optimum (dotted: 90 %)")
    for axes in grid[:, 0]:
        axes.set_ylabel("queries")
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=110)
    plt.close(figure)
