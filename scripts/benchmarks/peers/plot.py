"""Growth curves: events per second of every contender over the window or the rate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scripts.benchmarks.peers.contenders import CONTENDERS
from scripts.benchmarks.peers.results import CaseResult

COLOURS = {"decopa": "tab:green", "flink": "tab:red", "duckdb": "tab:orange", "spark": "tab:blue"}
STYLES = ("-", "--", ":", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "*")


def growth(results: Sequence[CaseResult], label: str, path: Path) -> None:
    """Writes a PNG; `results` are the cases of one group."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 5.5), layout="constrained")
    ordered = sorted(results, key=lambda result: result.axis or 0)
    used: dict[str, int] = {}
    for contender in CONTENDERS:
        found = [(result.axis, result.outcomes.get(contender.name)) for result in ordered]
        points = [(x, outcome.events_per_s) for x, outcome in found if x is not None and outcome is not None]
        if not points:
            continue
        place = used.get(contender.tool, 0)
        used[contender.tool] = place + 1
        axes.plot(
            *zip(*points),
            marker=MARKERS[place % len(MARKERS)],
            color=COLOURS[contender.tool],
            linestyle=STYLES[place % len(STYLES)],
            label=contender.name,
        )
    ticks = [result.axis for result in ordered if result.axis is not None]
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel(label)
    axes.set_ylabel("events/s on one core")
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small", frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)
