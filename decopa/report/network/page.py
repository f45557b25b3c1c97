"""Network plans -> one HTML page that needs nothing else: the network drawn, strategies side by side, edges in a table.

Nodes lie on a circle. An arrow is as wide as what crosses it; pointing at it, or at a node, tells the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

from decopa.planning.network.graphs.graph import NetworkPlan
from decopa.planning.network.planner import PlannedNetwork
from decopa.runs.networks.network import EdgeReport, NetworkRun

_SIZE, _RADIUS, _NODE = 640, 250, 17
_WIDEST = 14.0
_SHOWN_EDGES = 40
_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1d2733; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
code { font: 13px ui-monospace, monospace; white-space: pre-wrap; }
table { border-collapse: collapse; margin: 0.5rem 0 1rem; } th, td { padding: 0.2rem 0.8rem; text-align: right; }
th { border-bottom: 2px solid #9aa7b4; font-weight: 600; } td:first-child, th:first-child { text-align: left; }
td.name { text-align: left; } tr:nth-child(even) td { background: #f2f5f8; }
svg { max-width: 100%; height: auto; background: #fbfcfd; border: 1px solid #dde3e9; border-radius: 6px; }
.plans { display: grid; grid-template-columns: repeat(auto-fit, minmax(30rem, 1fr)); gap: 0 2rem; }
.edge { stroke: #3b6ea5; fill: none; } .edge:hover { stroke: #c2410c; stroke-opacity: 1; }
.node { fill: #fff; stroke: #1d2733; stroke-width: 1.5; } .host { fill: #dbe9f7; } .sink { fill: #f8c471; }
.mute { fill: #eef1f4; stroke: #9aa7b4; }
text { font: 12px system-ui, sans-serif; text-anchor: middle; pointer-events: none; }
.legend { color: #52606d; font-size: 13px; }
"""
#: (from, to) -> how much crosses, and lines that say what.
Between = dict[tuple[str, str], tuple[float, list[str]]]
_LEGEND = (
    "<p class='legend'>Orange: sinks, where matches are found. Blue: nodes that evaluate parts of a query. Arrows are "
    "as wide as what crosses, bytes of a run or rows per window of a plan; point at an arrow or node for numbers.</p>"
)


def network_page(plans: Mapping[str, PlannedNetwork], run: NetworkRun | None = None) -> str:
    """The page: a table of the strategies, then each of them drawn; the first one with what crossed, if it ran."""
    first = next(iter(plans.values()))
    parts = [f"<p><code>{escape(str(query))}</code></p>" for query in first.plan.queries]
    parts.append(_strategies(plans))
    between = {name: _between(one, run if one is first else None) for name, one in plans.items()}
    # Plans have one scale, so that they can be compared by eye.
    largest = max((amount for widths in between.values() for amount, _ in widths.values()), default=1.0) or 1.0
    drawn = [_section(name, one, between[name], largest, run if one is first else None) for name, one in plans.items()]
    parts.append(f'<div class="plans">{"".join(drawn)}</div>{_LEGEND}')
    if run is not None:
        parts.append(_edges(run))
    title = f"Evaluation inside a network of {len(first.network.nodes)} nodes"
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{_STYLE}</style></head>\n'
        f"<body><h1>{escape(title)}</h1>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _strategies(plans: Mapping[str, PlannedNetwork]) -> str:
    rows = []
    for name, planned in plans.items():
        sinks = {sink.node for part in range(len(planned.plan.queries)) for sink in planned.plan.sinks(part)}
        rows.append(
            f"<tr><td>{escape(name)}</td><td>{planned.price.rows:,.4g}</td><td>{100 * planned.ratio:.3g} %</td>"
            f"<td>{len(planned.price.transfers):,}</td><td>{len(sinks):,}</td></tr>"
        )
    central = next(iter(plans.values())).central
    return (
        "<table><tr><th>strategy</th><th>rows per window</th><th>of centralized</th><th>edges</th><th>sinks</th></tr>"
        f"{''.join(rows)}</table><p class='legend'>Centralized evaluation sends {central:,.4g} rows per window.</p>"
    )


def _section(name: str, planned: PlannedNetwork, between: Between, largest: float, run: NetworkRun | None) -> str:
    drawn = _drawing(planned, between, largest, run)
    return f"<section><h2>{escape(name)}: {100 * planned.ratio:.3g} % of centralized</h2>\n{drawn}</section>\n"


def _between(planned: PlannedNetwork, run: NetworkRun | None) -> Between:
    found: Between = {}

    def add(ends: tuple[str, str], amount: float, line: str) -> None:
        known, lines = found.setdefault(ends, (0.0, []))
        found[ends] = (known + amount, [*lines, line])

    if run is not None:
        for edge in run.edges:
            error = "" if edge.error is None else f", {100 * edge.error:+.1f} % of expected"
            line = f"{edge.what}: {edge.measured.rows:,} rows, {edge.measured.bytes:,} bytes{error}"
            add((edge.source, edge.target), edge.measured.bytes, line)
        return found
    for one in planned.price.transfers:
        what = one.transfer.event_type or planned.plan.describe(planned.plan.vertex(one.transfer.vertices[0]))
        ends = (one.transfer.source, one.transfer.target)
        add(ends, one.cost, f"{what}: {one.rows:,.4g} rows per window")
    return found


def _drawing(planned: PlannedNetwork, between: Between, largest: float, run: NetworkRun | None) -> str:
    plan = planned.plan
    places = {}
    for number, node in enumerate(plan.nodes):
        angle = 2 * math.pi * number / len(plan.nodes) - math.pi / 2
        places[node] = (_SIZE / 2 + _RADIUS * math.cos(angle), _SIZE / 2 + _RADIUS * math.sin(angle))
    lines = []
    for (source, target), (amount, told) in sorted(between.items(), key=lambda item: item[1][0]):
        if amount > 0:
            title = escape(f"{source} → {target}\n" + "\n".join(told))
            share = amount / largest
            lines.append(
                f'<path class="edge" d="{_curve(places[source], places[target])}" '
                f'stroke-width="{max(0.3, _WIDEST * share):.2f}" stroke-opacity="{0.15 + 0.4 * share:.2f}" '
                f'marker-end="url(#tip)"><title>{title}</title></path>'
            )
    sinks = {sink.node for part in range(len(plan.queries)) for sink in plan.sinks(part)}
    hosts = {vertex.node for vertex in plan.vertices if vertex.inputs}
    for node, (x, y) in places.items():
        kind = "sink" if node in sinks else "host" if node in hosts else "node"
        kind = kind if planned.network.rates.get(node) or node in hosts else "mute"
        title = escape(_about(node, plan, planned, run))
        lines.append(
            f'<circle class="node {kind}" cx="{x:.1f}" cy="{y:.1f}" r="{_NODE}"><title>{title}</title></circle>'
        )
        lines.append(f'<text x="{x:.1f}" y="{y + 4:.1f}">{escape(node[:6])}</text>')
    tip = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" '
        'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" fill="#3b6ea5"/></marker></defs>'
    )
    size = f'viewBox="0 0 {_SIZE} {_SIZE}" width="{_SIZE}" height="{_SIZE}"'
    return f'<svg {size} role="img" aria-label="network">{tip}{"".join(lines)}</svg>'


def _about(node: str, plan: NetworkPlan, planned: PlannedNetwork, run: NetworkRun | None) -> str:
    """What is told of a node: its events, its vertices, its matches."""
    rates = planned.network.rates.get(node, {})
    lines = [f"node {node}"]
    lines += [f"{name}: {rate:,.4g} events per window" for name, rate in sorted(rates.items())]
    lines += [f"evaluates {vertex.name}" for vertex in plan.vertices if vertex.inputs and vertex.node == node]
    for one in run.nodes if run is not None else ():
        if one.node == node:
            busy = f", busy {100 * one.busy:.0f} % of the time" if one.busy else ""
            lines.append(f"{one.ingested:,} rows taken in, {one.comparisons:,} comparisons{busy}")
    if run is not None and node in run.matches_at:
        lines.append(f"{run.matches_at[node]:,} matches found here")
    return "\n".join(lines)


def _curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    """An arc from the rim of one node to that of another, bent so that there and back are two lines."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = math.hypot(dx, dy) or 1.0
    ux, uy = dx / length, dy / length
    x1, y1 = start[0] + ux * _NODE, start[1] + uy * _NODE
    x2, y2 = end[0] - ux * (_NODE + 2), end[1] - uy * (_NODE + 2)
    bend = 0.12 * length
    return f"M{x1:.1f} {y1:.1f}Q{(x1 + x2) / 2 - uy * bend:.1f} {(y1 + y2) / 2 + ux * bend:.1f} {x2:.1f} {y2:.1f}"


def _edges(run: NetworkRun) -> str:
    total = run.traffic.total
    rows = "".join(_edge_row(edge) for edge in run.edges[:_SHOWN_EDGES])
    more = len(run.edges) - _SHOWN_EDGES
    rest = f"<p class='legend'>{more:,} more edges carried less.</p>" if more > 0 else ""
    return (
        f"<p>{run.matches.num_rows:,} matches; {total.rows:,} rows crossed ({100 * run.ratio:.3g} % of centralized), "
        f"{total.bytes:,} bytes in {total.messages:,} messages, and {total.watermarks:,} watermarks "
        f"({total.watermark_bytes:,} bytes).</p><table><tr><th>stream</th><th>from</th><th>to</th><th>rows</th>"
        f"<th>expected</th><th>error</th><th>bytes</th><th>bytes a row</th><th>messages</th></tr>{rows}</table>{rest}"
    )


def _edge_row(edge: EdgeReport) -> str:
    error = "" if edge.error is None else f"{100 * edge.error:+.1f} %"
    a_row = f"{edge.measured.bytes / edge.measured.rows:.1f}" if edge.measured.rows else ""
    return (
        f'<tr><td class="name">{escape(edge.what)}</td><td>{escape(edge.source)}</td><td>{escape(edge.target)}</td>'
        f"<td>{edge.measured.rows:,}</td><td>{edge.expected_rows:,.0f}</td><td>{error}</td>"
        f"<td>{edge.measured.bytes:,}</td><td>{a_row} ({edge.row_bytes:.0f})</td>"
        f"<td>{edge.measured.messages:,}</td></tr>"
    )
