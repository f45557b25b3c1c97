"""`decopa run --dry-run`: which process would go where, and how many bytes each machine would send."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from decopa.choices import EDGES
from decopa.errors import DecoPaError

if TYPE_CHECKING:
    from decopa.runs.preparation.prepare import Prepared


def add_dry_run_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="do not run: show where each process would go and the bytes that each machine would send; with "
        "--placement EDGES, since otherwise Ray decides when it starts them",
    )


def show_placement(prepared: Prepared) -> None:
    """Prints a line for each process and one for each machine, as the Ray of the run would have them now."""
    from cluster.deploy.edges import bytes_by_node
    from cluster.deploy.placement import places_needed, planned_homes
    from cluster.ray_session import ray_session
    from decopa.runs.runtimes.flows import predicted_flows, with_flows
    from shuffler.routing.topology import Topology

    spec = prepared.spec
    if spec.ray.placement.strategy != EDGES:
        raise DecoPaError("with this placement Ray decides where units go; --dry-run needs --placement EDGES")
    topology, flows = Topology(prepared.plan, spec.ray.shufflers), predicted_flows(prepared)
    with ray_session(address=spec.ray.address, cpus=places_needed(topology)):
        homes = planned_homes(topology, with_flows(prepared).placement)
    width = max(map(len, homes))
    for name, node in sorted(homes.items(), key=lambda item: (item[1], item[0])):
        print(f"{name:<{width}}  {node}")
    for node, size in sorted(bytes_by_node(flows, homes).items()):
        print(f"{node:<{width}}  sends {size / 1e6:,.2f} MB to other machines (predicted)")
