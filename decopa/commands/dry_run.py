"""`decopa run --dry-run`: which process would go where, and how many bytes each machine would send."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from decopa.choices import EDGES
from decopa.errors import StatisticsError

if TYPE_CHECKING:
    from cluster.options import RayOptions
    from costmodel.statistics import Statistics
    from decopa.planning.plan import Plan
    from decopa.query.query import Query
    from shuffler.source.trace import TraceSource


def add_dry_run_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="do not run: show where each process would go and the bytes that each machine would send; with "
        "--placement EDGES, since otherwise Ray decides when it starts them",
    )


def show_placement(
    plan: Plan, queries: Sequence[Query], statistics: Sequence[Statistics], source: TraceSource, options: RayOptions
) -> None:
    """Prints a line for each process and one for each machine; must be connected to Ray."""
    from cluster.edges import bytes_by_node
    from cluster.placement import planned_homes
    from decopa.runs.flows import with_flows
    from shuffler.routing.topology import Topology

    if options.placement.strategy != EDGES:
        raise StatisticsError("with this placement Ray decides where units go; --dry-run needs --placement EDGES")
    options = with_flows(options, plan, queries, statistics, source.schema, source.span_us)
    homes = planned_homes(Topology(plan, options.shufflers), options.placement)
    assert options.placement.flows is not None, "planned_homes has refused a placement without"
    width = max(map(len, homes))
    for name, node in sorted(homes.items(), key=lambda item: (item[1], item[0])):
        print(f"{name:<{width}}  {node}")
    for node, size in sorted(bytes_by_node(options.placement.flows, homes).items()):
        print(f"{node:<{width}}  sends {size / 1e6:,.2f} MB to other machines (predicted)")
