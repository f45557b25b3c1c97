"""Network plans for the eye: what is evaluated where, and a table of edges with rows and bytes."""

from __future__ import annotations

from collections.abc import Sequence

from decopa.planning.network.graphs.graph import NetworkPlan, Vertex
from decopa.planning.network.graphs.price import PlanPrice
from decopa.runs.networks.network import EdgeReport, NodeReport

_SHOWN_EDGES = 20


def explain_network(plan: NetworkPlan, price: PlanPrice | None = None, *, central: float | None = None) -> str:
    """Every projection with its nodes and inputs, the query last; then what crosses the network per window."""
    lines: list[str] = []
    for part, query in enumerate(plan.queries):
        lines.append(f"{query.name}: {query.pattern}")
        for (text, _), vertices in _by_projection(plan, part).items():
            lines.append(
                f"  {text:<28} at {_nodes(plan, vertices)}, {_reads(plan, vertices)}{_sink(plan, vertices[0])}"
            )
    if price is not None:
        lines.append(f"crosses the network: {price.rows:,.4g} rows per window")
        if central:
            lines[-1] += f", {100 * price.rows / central:.3g} % of centralized evaluation ({central:,.4g})"
        shown = sorted(price.transfers, key=lambda one: -one.rows)
        for one in shown[:_SHOWN_EDGES]:
            transfer = one.transfer
            what = transfer.event_type or plan.describe(plan.vertex(transfer.vertices[0]))
            lines.append(f"  {one.rows:>12,.4g}  {transfer.source} -> {transfer.target}  {what}")
        if len(shown) > _SHOWN_EDGES:
            rest = sum(one.rows for one in shown[_SHOWN_EDGES:])
            lines.append(f"  {rest:>12,.4g}  on {len(shown) - _SHOWN_EDGES} more edges")
    return "\n".join(lines) + "\n"


def edge_table(edges: Sequence[EdgeReport], limit: int = _SHOWN_EDGES) -> str:
    """What was expected of each edge and what it was, those with most rows first."""
    header = f"{'rows':>10} {'expected':>10} {'error':>7} {'bytes':>12} {'messages':>9}  edge"
    lines = [header]
    for edge in edges[:limit]:
        error = "" if edge.error is None else f"{100 * edge.error:+.1f} %"
        lines.append(
            f"{edge.measured.rows:>10,} {edge.expected_rows:>10,.0f} {error:>7} {edge.measured.bytes:>12,} "
            f"{edge.measured.messages:>9,}  {edge.source} -> {edge.target}  {edge.what}"
        )
    if len(edges) > limit:
        rest = sum(edge.measured.rows for edge in edges[limit:])
        lines.append(f"{rest:>10,} {sum(edge.expected_rows for edge in edges[limit:]):>10,.0f}  on "
                     f"{len(edges) - limit} more edges")  # fmt: skip
    return "\n".join(lines) + "\n"


def node_table(nodes: Sequence[NodeReport], limit: int = _SHOWN_EDGES) -> str:
    """What the units of each node did, those with most comparisons first."""
    lines = [f"{'rows in':>10} {'comparisons':>12} {'held':>9} {'busy':>6}  node"]
    shown = sorted(nodes, key=lambda one: (-one.comparisons, -one.ingested))
    for one in shown[:limit]:
        busy = f"{100 * one.busy:.0f} %" if one.busy else ""
        lines.append(f"{one.ingested:>10,} {one.comparisons:>12,} {one.state_rows:>9,} {busy:>6}  {one.node}")
    if len(shown) > limit:
        rest = shown[limit:]
        lines.append(
            f"{sum(one.ingested for one in rest):>10,} {sum(one.comparisons for one in rest):>12,} "
            f"{sum(one.state_rows for one in rest):>9,} {'':>6}  {len(rest)} more nodes"
        )
    return "\n".join(lines) + "\n"


def _by_projection(plan: NetworkPlan, part: int) -> dict[tuple[str, str | None], list[Vertex]]:
    found: dict[tuple[str, str | None], list[Vertex]] = {}
    vertices = [vertex for vertex in plan.ordered if vertex.part == part and vertex.inputs]
    for vertex in sorted(vertices, key=lambda one: (len(one.sub_query.aliases), plan.level[one.name])):
        found.setdefault((plan.describe(vertex), vertex.forwards), []).append(vertex)
    return found


def _nodes(plan: NetworkPlan, vertices: Sequence[Vertex]) -> str:
    nodes = list(dict.fromkeys(vertex.node for vertex in vertices))
    if len(nodes) > 8:
        return f"{len(nodes)} of {len(plan.nodes)} nodes"
    return f"node{'s' if len(nodes) > 1 else ''} {', '.join(nodes)}"


def _reads(plan: NetworkPlan, vertices: Sequence[Vertex]) -> str:
    """What one of the vertices reads, by projection: from all hosts, or its own part only."""
    found: dict[str, set[str]] = {}
    own: set[str] = set()
    for vertex in vertices:
        for source in plan.inputs(vertex):
            query = plan.queries[source.part]
            text = source.sub_query.text(query) if source.forwards is None else query.position(source.forwards).type
            found.setdefault(text, set()).add(source.node)
            if source.node != vertex.node:
                own.add(text)
    return "reads " + ", ".join(text if text in own else f"its own {text}" for text in found)


def _sink(plan: NetworkPlan, vertex: Vertex) -> str:
    return "  (sink)" if vertex in plan.sinks(vertex.part) else ""
