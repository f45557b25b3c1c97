"""A priced plan as an SVG graph: a box for each operator, edges as wide as their rates; after a run measured loads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape as escape_html

from costmodel.throughput import Limit
from decopa.planning.price import OperatorFigures, PricedPlan
from decopa.report.explain import counted, hosts_text, percent, quantity, travel
from decopa.report.layout import LIGHT, Box, Layout
from decopa.report.tree import printable, sub_query_text

_BOX_WIDTH, _LEAF_WIDTH = 214.0, 118.0
_LINE, _BADGE, _PADDING, _ARROW = 15.0, 18.0, 9.0, 10.0
#: Letters of the page's monospace fonts are about this wide at 12 px.
_LETTER = 7.3
_SUB_QUERY_LINES = 4
#: Large plans are shrunk to fit the window, but not further than this, so that they stay readable.
_SMALLEST_SCALE = 0.75


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """What the units of an operator did: the busiest one's share of the time (None if nobody measured it), a line of
    counts for the box, and all of it for the reader who points at it."""

    busy: float | None
    counts: str
    details: str


def escape(text: str) -> str:
    """The text as it may stand in HTML, also inside of attributes."""
    return escape_html("\n".join(map(printable, text.split("\n"))), quote=True)


def drawing(priced: PricedPlan, label: str, measured: Mapping[str, MeasuredLoad] | None = None) -> str:
    """The graph; `measured` is by operator."""
    plan, measured = priced.plan, measured or {}
    figures = {one.operator.name: one for one in priced.operators}
    nodes = {name: _Node(priced, one, measured.get(name)) for name, one in figures.items()}
    layout = Layout(plan, {name: node.box for name, node in nodes.items()})
    width, height = layout.size
    parts = [_edge(priced, layout, figures, source, target) for source, target in layout.chains]
    parts += [node.svg(layout.middles[name] - node.width / 2, layout.tops[name]) for name, node in nodes.items()]
    return (
        f'<svg role="group" aria-label="{escape(label)}" width="{width:.0f}" height="{height:.0f}" '
        f'style="min-width:{_SMALLEST_SCALE * width:.0f}px" viewBox="0 0 {width:.0f} {height:.0f}">\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


class _Node:
    """The box of one operator: how large it is, and its drawing."""

    def __init__(self, priced: PricedPlan, figures: OperatorFigures, measured: MeasuredLoad | None) -> None:
        self.priced, self.figures, self.operator, self.measured = priced, figures, figures.operator, measured
        self.width = _BOX_WIDTH if self.operator.inputs else _LEAF_WIDTH
        text = printable(sub_query_text(priced.plan, self.operator))
        self.lines = _fitted(text, int((self.width - 2 * _PADDING) / _LETTER))

    @property
    def box(self) -> Box:
        return Box(self.width, self.height, 1.0 if self.operator.inputs else LIGHT)

    @property
    def height(self) -> float:
        badge = _BADGE if self.figures.limit is not None else 0.0
        loads = 2 if self.operator.inputs else 0
        if self.measured is not None:
            loads += 1 if self.measured.busy is None else 2
        return badge + 2 * _PADDING + (len(self.lines) + loads + 2) * _LINE

    def svg(self, x: float, y: float) -> str:
        operator, figures = self.operator, self.figures
        right, baseline = self.width - _PADDING, _PADDING + 10
        parts = [f'<rect class="box" width="{self.width:.1f}" height="{self.height:.1f}" rx="7"/>']
        if figures.limit is not None:
            across = f"H{self.width - 7:.1f}a7 7 0 0 1 7 7"
            parts.append(f'<path class="badge" d="M0 {_BADGE:g}V7a7 7 0 0 1 7 -7{across}V{_BADGE:g}z"/>')
            text = f"bottleneck: {figures.limit.value} limit"
            parts.append(_text(self.width / 2, 13, text, "badge-text", "middle"))
            baseline += _BADGE
        parts.append(_text(_PADDING, baseline, _cut(printable(operator.name), 14 if operator.inputs else 8), "soft"))
        parts.append(_text(right, baseline, self._units, "soft", "end"))
        for line in self.lines:
            baseline += _LINE
            parts.append(_text(_PADDING, baseline, line, "sub-query"))
        baseline += 3
        if operator.inputs:
            for limit, share in (
                (Limit.INGESTION, figures.ingestion_share),
                (Limit.COMPARISON, figures.comparison_share),
            ):
                baseline += _LINE
                kind = "limit" if figures.limit is limit else "over" if share > 1 + 1e-9 else ""
                parts.append(self._bar(baseline, limit.value, share, kind))
        if self.measured is not None:
            if self.measured.busy is not None:
                baseline += _LINE
                parts.append(self._bar(baseline, "busy", self.measured.busy, "measured"))
            baseline += _LINE
            parts.append(_text(_PADDING, baseline, _cut(self.measured.counts, 30), "soft measured"))
        baseline += _LINE
        result = "results" if not self.priced.plan.successors(operator) else "matches"
        what = f"{result} per window" if operator.inputs else "/ window"
        parts.append(_text(_PADDING, baseline, f"{quantity(figures.output_rate)} {what}", "soft"))
        kind = ("leaf" if not operator.inputs else "operator") + (" binds" if figures.limit is not None else "")
        details = escape(self.details)
        return (
            f'<g class="node {kind}" role="img" tabindex="0" aria-label="{details}" '
            f'transform="translate({x:.1f} {y:.1f})"><title>{details}</title>{"".join(parts)}</g>'
        )

    @property
    def _units(self) -> str:
        if not self.operator.inputs:
            return "events"
        if self.operator.hosts:
            return _cut(f"on {hosts_text(self.operator)}", 18)
        return counted(self.operator.units, "unit")

    def _bar(self, baseline: float, label: str, share: float, kind: str) -> str:
        """A bar that is full at the limit; what is beyond is said by colour and number."""
        start, length = 82.0, 56.0
        filled = length * min(share, 1.0)
        return (
            _text(_PADDING, baseline, label, "soft")
            + f'<rect class="track" x="{start:g}" y="{baseline - 8:.1f}" width="{length:g}" height="8" rx="2"/>'
            + f'<rect class="load {kind}" x="{start:g}" y="{baseline - 8:.1f}" width="{filled:.1f}" height="8" rx="2"/>'
            + _text(self.width - _PADDING, baseline, percent(share), f"soft {kind}".strip(), "end")
        )

    @property
    def details(self) -> str:
        """All that is known, line by line."""
        operator, figures, priced = self.operator, self.figures, self.priced
        lines = [f"{operator.name} {figures.sub_query}", f"positions: {', '.join(sorted(operator.sub_query.aliases))}"]
        lines.append(f"{figures.rule.value}, matches: {travel(priced.plan, operator)}")
        lines.append(f"output: {_exactly(figures.output_rate)} per window")
        if operator.inputs:
            on = f" ({hosts_text(operator)}, may be shared)" if operator.hosts else ""
            lines.append(f"{counted(operator.units, 'unit')}{on}; each of them per window:")
            loads = (
                ("ingestion", figures.ingestion, figures.ingestion_share, priced.capacity.max_ingestion),
                ("comparisons", figures.comparisons, figures.comparison_share, priced.capacity.max_comparisons),
            )
            lines += [
                f"{what} {_exactly(load)} of {_exactly(most)} ({_exactly(100 * share)} %)"
                for what, load, share, most in loads
            ]
        if figures.limit is not None:
            lines.append(f"bottleneck: {figures.limit.value} limit, c = {_exactly(priced.scaling.scaling_factor)}")
        lines += [] if self.measured is None else [self.measured.details]
        return "\n".join(lines)


def _edge(priced: PricedPlan, layout: Layout, figures: dict[str, OperatorFigures], source: str, target: str) -> str:
    """From an input up to the operator that takes it; as wide as the logarithm of its rate says."""
    plan, sender, taker = priced.plan, figures[source], figures[target]
    rate = sender.output_rate
    width = min(1.2 + 1.5 * math.log10(1 + min(rate, 1e300)), 11.0)
    arrow = _ARROW + width / 2
    chain = layout.chains[source, target][::-1]
    points = [(layout.port(source, chain[1], above=True), layout.tops[source])]
    for bend in chain[1:-1]:
        points += [(layout.middles[bend], layout.layer_bottom(bend)), (layout.middles[bend], layout.tops[bend])]
    x = layout.port(target, chain[-2], above=False)
    end = layout.tops[target] + layout.boxes[target].height
    # Boxes of one layer have different heights: a bend at the layer's bottom keeps the edge away from lower ones.
    if layout.layer_bottom(target) - end > 1:
        points.append((x, layout.layer_bottom(target)))
    points.append((x, end + arrow))
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        half = (y0 + y1) / 2
        path += f"L{x1:.1f} {y1:.1f}" if x0 == x1 else f"C{x0:.1f} {half:.1f} {x1:.1f} {half:.1f} {x1:.1f} {y1:.1f}"
    spread = 3.5 + width / 2
    head = f"{x - spread:.1f},{end + arrow + 0.5:.1f} {x:.1f},{end + 1:.1f} {x + spread:.1f},{end + arrow + 0.5:.1f}"
    dealt = sender.operator.partitioned
    dashes = "" if dealt else f' stroke-dasharray="{6 + width:.1f} {4 + width / 2:.1f}"'
    units = taker.operator.units
    each = rate * min(1.0, 2 / plan.slices) / (units if dealt else 1)
    to = f"each of its {units} units" if units > 1 else "its unit"
    details = escape(
        f"{source} {sender.sub_query} to {target} {taker.sub_query}\n{_exactly(rate)} per window, "
        f"{'partitioned' if dealt else 'broadcast'}: {to} gets {_exactly(each)}"
    )
    return (
        f'<g class="edge {"partitioned" if dealt else "broadcast"}" role="img" aria-label="{details}">'
        f'<title>{details}</title><path class="reach" d="{path}"/>'
        f'<path class="line" d="{path}" stroke-width="{width:.1f}"{dashes}/><polygon points="{head}"/></g>'
    )


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="svg-text {kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _exactly(value: float) -> str:
    """More digits than `quantity` has, for the reader who asks."""
    return f"{value:,.6g}" if value < 1e15 else quantity(value)


def _fitted(text: str, letters: int) -> list[str]:
    """The text in a few lines, broken after commas; what does not fit is in the tooltip."""
    lines = [""]
    for piece in text.replace(",", ",\n").split("\n"):
        if lines[-1] and len(lines[-1] + piece) > letters:
            lines.append("")
        lines[-1] += piece
    if len(lines) > _SUB_QUERY_LINES:
        lines = [*lines[: _SUB_QUERY_LINES - 1], lines[_SUB_QUERY_LINES - 1] + "…"]
    return [_cut(line, letters) for line in lines]


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"
