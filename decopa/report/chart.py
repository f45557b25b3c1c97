"""Line charts as SVG, for pages that need nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from decopa.report.drawing import escape
from decopa.report.explain import quantity

_WIDTH, _HEIGHT = 460.0, 240.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 14.0, 14.0, 40.0
#: Okabe and Ito's colours, which colour-blind readers can tell apart; lines differ in their dashes, too.
_LOOKS = (("#0072B2", ""), ("#D55E00", "6 3"), ("#009E73", "2 3"), ("#CC79A7", "8 3 2 3"), ("#7f7f7f", "1 3"))

#: Charts take their colours of text and lines from the page.
STYLE = """<style>
.charts { display: flex; flex-wrap: wrap; gap: 1rem; }
.chart .grid { stroke: var(--line); stroke-width: 1; }
.chart .axis { stroke: var(--box-line); stroke-width: 1.2; }
.chart text { font-size: 11px; fill: var(--soft); }
.chart .series { fill: none; stroke-width: 2; }
.load.measured { fill: #009E73; }
table.loads { margin-top: 1rem; }
table.loads td, table.loads th { padding: .25rem .5rem; font-size: .85rem; white-space: nowrap; }
.big { font-size: 1.02rem; color: var(--ink); }
</style>"""


@dataclass(frozen=True)
class Series:
    name: str
    x: Sequence[float]
    y: Sequence[float]


def line_chart(title: str, series: Sequence[Series], *, x_label: str, y_label: str) -> str:
    """A figure; says so if there is nothing to draw."""
    shown = [one for one in series if len(one.x)]
    if not shown:
        head = f"<figcaption><h3>{escape(title)}</h3></figcaption>"
        return f'<figure class="chart">{head}<p>nothing was measured</p></figure>'
    x_low, x_high = min(min(one.x) for one in shown), max(max(one.x) for one in shown)
    y_high = max(max(one.y) for one in shown) or 1.0
    x_ticks, y_ticks = ticks(x_low, x_high), ticks(0.0, y_high)
    x_low, x_high = min(x_low, x_ticks[0]), max(x_high, x_ticks[-1])
    y_high = max(y_high, y_ticks[-1])

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x_low) / (x_high - x_low) if x_high > x_low else 0.5
        return (
            _LEFT + across * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - y / y_high * (_HEIGHT - _TOP - _BOTTOM),
        )

    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = []
    for tick in y_ticks:
        _, y = place(x_low, tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(tick)}</text>')
    for tick in x_ticks:
        x, _ = place(tick, 0)
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{_short(tick)}</text>')
    parts.append(f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    parts.append(f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>')
    middle = (_TOP + bottom) / 2
    parts.append(f'<text transform="translate(12 {middle}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>')
    for number, one in enumerate(shown):
        colour, dashes = _LOOKS[number % len(_LOOKS)]
        points = [place(x, y) for x, y in zip(one.x, one.y, strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        parts.append(f'<polyline class="series" stroke="{colour}"{dashed} points="{path}"/>')
        if len(points) < 3:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points]
    return (
        f'<figure class="chart"><figcaption><h3>{escape(title)}</h3>{_legend(shown)}</figcaption>'
        f'<svg role="img" aria-label="{escape(title)}" width="{_WIDTH:.0f}" height="{_HEIGHT:.0f}" '
        f'viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}">{"".join(parts)}</svg></figure>'
    )


def _short(value: float) -> str:
    """1.5M instead of 1,500,000."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 10 * size or (value >= size and letter != "k"):
            return f"{value / size:g}{letter}"
    return quantity(value)


def _legend(series: Sequence[Series]) -> str:
    if len(series) < 2:
        return ""
    items = []
    for number, one in enumerate(series):
        colour, dashes = _LOOKS[number % len(_LOOKS)]
        line = f'<line x1="0" x2="28" y1="6" y2="6" stroke="{colour}" stroke-width="2.5" stroke-dasharray="{dashes}"/>'
        items.append(f'<span><svg width="28" height="12" aria-hidden="true">{line}</svg>{escape(one.name)}</span>')
    return f'<div class="legend">{"".join(items)}</div>'


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from `low` (rounded down) to `high` (rounded up)."""
    if not high > low:
        return [low]
    size = 10 ** math.floor(math.log10((high - low) / most))
    step = next(size * factor for factor in (1, 2, 5, 10, 20) if (high - low) / (size * factor) <= most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]
