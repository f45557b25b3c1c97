"""What a scaling test found: a table for people, JSON for programs, plots. Emulated results say so everywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from decopa.errors import DecoPaError
from decopa.files import replacing
from decopa.report import table
from decopa.report.explain import quantity
from decopa.runs.scaling.scale_points import Point, baseline_of, gain, gain_over

_HEADER = ("strategy", "units", "used", "measured/s", "predicted/s", "error", "gain", "pred.", "p50", "p99", "busiest")
EMULATED = "emulated: units take as long as ones of the declared capacity would; rates are theirs, not this machine's"
MACHINES = (
    "bytes that left each machine while the largest sustained rate was offered; predicted: rows that its plan sends"
)
#: Okabe and Ito's colours, with a marker each: for colour-blind readers and for print.
STYLES = {
    "decopa": ("#0072B2", "o"),
    "hybrid": ("#D55E00", "^"),
    "centralized": ("#555555", "x"),
    "decopa-paper": ("#56B4E9", "s"),
    "exhaustive": ("#F0E442", "P"),
    "state": ("#009E73", "D"),
    "rip": ("#CC79A7", "v"),
}


def is_emulated(points: Sequence[Point]) -> bool:
    return any(point.emulated for point in points)


def rows_of(points: Sequence[Point]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for point in points:
        error = point.error
        found.append(
            (
                point.strategy + (" (emulated)" if point.emulated else ""),
                str(point.units),
                str(point.used_units),
                quantity(point.measured) if point.measured else "none",
                quantity(point.predicted),
                "-" if error is None else f"{100 * error:+.1f} %",
                _times(gain(point, points)),
                _times(gain(point, points, predicted=True)),
                _time(point.p50_s),
                _time(point.p99_s),
                f"{100 * point.busiest:.0f} %",
            )
        )
    return found


def text_table(points: Sequence[Point]) -> str:
    """The points, aligned for a terminal; ends in a newline."""
    lines = [table.text_table(_HEADER, rows_of(points)), *_notes(points)]
    machines = machine_rows(points)
    lines += ["", table.text_table(_MACHINE_HEADER, machines), MACHINES] if machines else []
    return "\n".join(lines) + "\n"


def markdown_table(points: Sequence[Point]) -> str:
    lines = [table.markdown_table(_HEADER, rows_of(points)), "", *_notes(points)]
    machines = machine_rows(points)
    lines += ["", table.markdown_table(_MACHINE_HEADER, machines), "", MACHINES] if machines else []
    return "\n".join(lines) + "\n"


_MACHINE_HEADER = ("strategy", "units", "machine", "sent", "predicted", "CPU limit reached", "processes")


def machine_rows(points: Sequence[Point]) -> list[tuple[str, ...]]:
    """A row for each machine of each point; none where everything ran on one machine."""
    return [
        (
            point.strategy,
            str(point.units),
            machine["address"],
            _megabytes(machine["sent_bytes"]),
            _megabytes(machine["predicted_bytes"]),
            "-" if machine["throttled"] is None else f"{machine['throttled']:.0%} of the time",
            ", ".join(machine["processes"]) or "-",
        )
        for point in points
        if len(point.machines) > 1
        for machine in point.machines
    ]


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.2f} MB"


def _notes(points: Sequence[Point]) -> list[str]:
    lines = [
        "events/s that were sustained; gains are over centralized; latency from the arrival of a match's last event"
    ]
    if is_emulated(points):
        lines.append(EMULATED)
        clocks = sorted({point.clock for point in points if point.clock != 1})
        if clocks:
            lines.append(
                f"their clocks ran {quantity(clocks[0])} to {quantity(clocks[-1])} times as fast, to measure in "
                "reasonable time; rates are given without that, latencies as they were"
            )
    seen = min((point.half_window_events / point.trace_events for point in points if point.trace_events), default=1.0)
    if seen < 1:
        lines.append(
            f"half a window of observation saw {seen:.0%} of the trace: if its load varies in time, raise --seconds "
            f"{quantity(1 / seen)} times, or use a part of the trace"
        )
    open_ended = [point for point in points if point.failed is None or point.measured == 0]
    lines += [
        f"{point.strategy} on {point.units}: the search ended before both ends were seen; raise --trials"
        for point in open_ended
    ]
    return lines


def results_document(points: Sequence[Point], settings: Mapping[str, Any]) -> str:
    """All points with their trials and loads as JSON."""
    found = [
        asdict(point)
        | {
            "error": point.error,
            "gain": gain(point, points),
            "predicted_gain": gain(point, points, predicted=True),
            "gain_over_hybrid": gain_over(point, "hybrid", points),
        }
        for point in points
    ]
    document = {
        "format": "decopa-scaling-results",
        "version": 1,
        "emulated": is_emulated(points),
        "settings": settings,
        "points": found,
    }
    return json.dumps(document, indent=1) + "\n"


def write_plots(points: Sequence[Point], folder: Path, title: str) -> list[Path]:
    """throughput.png, gain.png, latency.png, predicted.png and, of several machines, machines.png.

    DecoPaError if matplotlib is not installed.
    """
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot
    except ImportError as err:
        raise DecoPaError("plots need matplotlib; install it with `pip install decopa[bench]`") from err
    title += " (emulated)" if is_emulated(points) else ""
    counts = sorted({point.units for point in points if point.strategy != "centralized"}) or [1]
    base = baseline_of(points)
    paths = []

    def series(strategy: str, value: Any) -> tuple[list[int], list[float]]:
        mine = {point.units: point for point in points if point.strategy == strategy}
        if strategy == "centralized" and base is not None:  # the same on any number of units
            mine = dict.fromkeys(counts, base)
        shown = [(units, value(mine[units])) for units in sorted(mine)]
        shown = [(units, y) for units, y in shown if y]
        return [units for units, _ in shown], [y for _, y in shown]

    def draw(name: str, y_label: str, lines: Sequence[tuple[str, Any, str]], *, per: str = "processing units") -> None:
        figure, axes = pyplot.subplots(figsize=(6.4, 4.2), layout="constrained")
        for strategy in dict.fromkeys(point.strategy for point in points):
            colour, marker = STYLES.get(strategy, ("#000000", "."))
            for label, value, style in lines:
                x, y = series(strategy, value)
                axes.plot(x, y, color=colour, marker=marker, linestyle=style, label=f"{strategy}{label}")
        axes.set(title=title, xlabel=per, ylabel=y_label, xticks=counts, yscale="log")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
        paths.append(folder / name)
        _save(figure, paths[-1])
        pyplot.close(figure)

    draw(
        "throughput.png",
        "sustained events/s",
        [("", lambda one: one.measured, "-"), (", predicted", lambda one: one.predicted, ":")],
    )
    if base is not None:
        draw(
            "gain.png",
            "throughput over centralized",
            [
                ("", lambda one: gain(one, points), "-"),
                (", predicted", lambda one: gain(one, points, predicted=True), ":"),
            ],
        )
    draw("latency.png", "latency, s", [(", p50", lambda one: one.p50_s, "-"), (", p99", lambda one: one.p99_s, "--")])
    paths.append(_predicted_plot(points, folder / "predicted.png", title, pyplot))
    if machine_rows(points):
        paths.append(_machines_plot(points, folder / "machines.png", title, pyplot))
    return paths


def _machines_plot(points: Sequence[Point], path: Path, title: str, pyplot: Any) -> Path:
    """Megabytes that left each machine beside those predicted, and the share of the time that its CPU was at its limit:
    a group of bars for each point."""
    shown = [point for point in points if len(point.machines) > 1]
    figure, (upper, lower) = pyplot.subplots(2, 1, figsize=(7.2, 6), sharex=True, layout="constrained")
    labels: list[str] = []
    for point in shown:
        for machine in point.machines:
            place = len(labels)
            colour, _ = STYLES.get(point.strategy, ("#000000", "."))
            upper.bar(place - 0.2, machine["sent_bytes"] / 1e6, 0.4, color=colour)
            upper.bar(place + 0.2, machine["predicted_bytes"] / 1e6, 0.4, color="#BBBBBB")
            lower.bar(place, 100 * (machine["throttled"] or 0.0), 0.6, color=colour)
            labels.append(f"{point.strategy} {point.units}\n{machine['address']}")
    upper.set(title=f"{title}: sent by each machine (grey: predicted)", ylabel="MB")
    lower.set(ylabel="% of the time at the CPU limit", ylim=(0, 100))
    lower.set_xticks(range(len(labels)), labels, rotation=90, fontsize=6)
    for axes in (upper, lower):
        axes.grid(alpha=0.3, axis="y")
    _save(figure, path)
    pyplot.close(figure)
    return path


def _predicted_plot(points: Sequence[Point], path: Path, title: str, pyplot: Any) -> Path:
    figure, axes = pyplot.subplots(figsize=(5.2, 5), layout="constrained")
    shown = [point for point in points if point.measured > 0]
    for strategy in dict.fromkeys(point.strategy for point in shown):
        colour, marker = STYLES.get(strategy, ("#000000", "."))
        mine = [point for point in shown if point.strategy == strategy]
        axes.scatter(
            [one.predicted for one in mine], [one.measured for one in mine], color=colour, marker=marker, label=strategy
        )
    ends = [value for point in shown for value in (point.predicted, point.measured)] or [1.0]
    low, high = min(ends) / 1.3, max(ends) * 1.3
    axes.plot([low, high], [low, high], color="#888888", linewidth=1, label="equal")
    axes.fill_between([low, high], [0.8 * low, 0.8 * high], [1.2 * low, 1.2 * high], color="#888888", alpha=0.15,
                      label="within 20 %")  # fmt: skip
    axes.set(title=title, xlabel="predicted events/s", ylabel="measured events/s", xscale="log", yscale="log")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    _save(figure, path)
    pyplot.close(figure)
    return path


def _save(figure: Any, path: Path) -> None:
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=130, format="png")


def _times(value: float | None) -> str:
    return "-" if value is None else f"{quantity(value)}x"


def _time(seconds: float) -> str:
    if not seconds:
        return "-"
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
