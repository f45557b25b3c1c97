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
from matplotlib.ticker import LogLocator, NullFormatter

#: Okabe and Ito's colours, with a marker each.
STYLES = {
    "shared": ("#000000", "P", "-"),
    "decopa": ("#0072B2", "o", "-"),
    "decopa-paper": ("#56B4E9", "s", "--"),
    "hybrid": ("#D55E00", "^", "-"),
    "state": ("#009E73", "D", ":"),
    "rip": ("#CC79A7", "v", "-."),
}
_OTHERS = [("#0072B2", "o", "-"), ("#D55E00", "^", "--"), ("#009E73", "D", ":"), ("#CC79A7", "v", "-.")]

#: Beyond this many orders of magnitude a panel shows the orders themselves.
_MOST_ORDERS = 30
#: An axis of fewer decades also has ticks between the powers of ten.
_FEW_DECADES = 2.5
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
    axes.set(title=title, xlabel=x_label, ylabel=y_label)
    _logarithmic(axes)
    axes.grid(alpha=0.3)
    axes.legend()
    _save(figure, path)


def panels(path: Path, drawn: Sequence[Panel], *, title: str, y_label: str) -> None:
    """Medians with quartiles as bars; a panel beyond `_MOST_ORDERS` orders of magnitude shows the orders themselves.

    The other panels of a figure have the same range, if none is beyond.
    """
    columns = 3 if len(drawn) > 4 else min(2, len(drawn))
    rows = -(-len(drawn) // columns)
    beyond = [
        max(abs(value) for quartiles in series.values() for triple in quartiles for value in triple) > _MOST_ORDERS
        for _, _, _, series in drawn
    ]
    size = (4.8 * columns, 3.6 * rows + 0.5) if len(drawn) > 1 else (6.4, 4.4)
    figure, grid = plt.subplots(
        rows, columns, figsize=size, layout="constrained", squeeze=False, sharey=not any(beyond)
    )  # fmt: skip
    for place, (axes, orders, panel) in enumerate(zip(grid.flat, beyond, drawn, strict=False)):
        heading, x_label, x_values, series = panel
        places = np.arange(len(x_values))
        for number, (name, quartiles) in enumerate(series.items()):
            colour, marker, style = STYLES.get(name, _OTHERS[number % len(_OTHERS)])
            parts = [np.array(part) for part in zip(*quartiles, strict=True)]
            low, middle, high = parts if orders else [10.0**part for part in parts]
            shifted = places + 0.07 * (number - (len(series) - 1) / 2)
            axes.errorbar(
                shifted, middle, yerr=[middle - low, high - middle], color=colour, marker=marker, linestyle=style,
                markersize=5, capsize=2, elinewidth=0.8, label=name,
            )  # fmt: skip
        axes.set(title=heading, xlabel=x_label)
        if orders:
            axes.set_yscale("symlog", linthresh=1)
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axes.set_ylabel(f"log10 of {y_label}")
        else:
            _logarithmic(axes)
            if place % columns == 0 or any(beyond):
                axes.set_ylabel(y_label)
        axes.set_xticks(places, [str(value) for value in x_values])
        axes.grid(alpha=0.3)
    for axes in list(grid.flat)[len(drawn) :]:
        axes.set_visible(False)
    figure.suptitle(title)
    figure.align_ylabels()
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9)
    _save(figure, path)


def _logarithmic(axes: Any) -> None:
    """A logarithmic y axis with plain numbers, and with enough of them also where it spans little."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if math.log10(high / low) < _FEW_DECADES else (1,)))
    axes.yaxis.set_major_formatter(lambda value, _: _tick(value))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _tick(value: float) -> str:
    if 1e-3 <= value < 1e6:
        return f"{value:,.10g}"
    return f"$10^{{{math.log10(value):.0f}}}$"


def shares_histogram(path: Path, series: Mapping[str, npt.NDArray[np.float64]]) -> None:
    """How often a planner reaches which share of the optimum; one panel per series, counts on a logarithmic axis."""
    figure, grid = plt.subplots(2, 2, figsize=(9, 6), layout="constrained", sharex=True, sharey=True)
    for axes, (name, shares) in zip(grid.flat, series.items(), strict=False):
        colour, _, _ = STYLES[name.split(",")[0]]
        axes.hist(np.clip(shares, 0, 1) * 100, bins=np.linspace(0, 100, 41), color=colour)
        axes.axvline(90, color="black", linestyle=":", linewidth=1)
        axes.set(title=f"{name}: worst {shares.min():.1%}")
        _logarithmic(axes)
        axes.grid(alpha=0.3)
    for axes in grid[1]:
        axes.set_xlabel("c in % of the optimum (dotted: 90 %)")
    for axes in grid[:, 0]:
        axes.set_ylabel("number of queries")
    figure.suptitle(f"Share of the optimum, {len(next(iter(series.values())))} queries")
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=110)
    plt.close(figure)
