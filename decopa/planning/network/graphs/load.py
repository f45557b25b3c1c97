"""Load of network nodes: rows that their vertices take in and comparisons that they make, held against capacities.

MuSE chooses what crosses the network and ignores processors; DecoPa balances processors and ignores where events are.
Here the cheapest plan is chosen that every node can sustain, with DecoPa's costs (5.3.2) inside of the nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from costmodel.capacity import Capacity
from costmodel.networks.transmission import ProjectionRates
from decopa.errors import PlanError
from decopa.planning.network.graphs.compile import local_plan
from decopa.planning.network.graphs.graph import NetworkPlan, Vertex
from decopa.planning.network.graphs.price import vertex_rate


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """What the vertices of a node take in and compare per window, on how many units."""

    node: str
    ingestion: float
    comparisons: float
    units: int

    def share(self, capacity: Capacity) -> float:
        """Of what the node's units can do; above 1 it falls behind."""
        return max(self.ingestion / capacity.max_ingestion, self.comparisons / capacity.max_comparisons) / self.units


def node_loads(plan: NetworkPlan, rates: Sequence[ProjectionRates]) -> tuple[NodeLoad, ...]:
    """The load of every node that hosts vertices.

    Inside of a node a join's units divide one input and share the other, so comparisons divide and ingestion of the
    smaller input does not; as an approximation both are divided.
    """
    network = rates[0].network
    ingestion: dict[str, list[float]] = {}
    comparisons: dict[str, list[float]] = {}
    for vertex in plan.ordered:
        if vertex.inputs:
            rows = (vertex_rate(plan, source, rates[source.part]) for source in plan.inputs(vertex))
            ingestion.setdefault(vertex.node, []).extend(rows)
            comparisons.setdefault(vertex.node, []).extend(_comparisons(plan, vertex, rates[vertex.part]))
    return tuple(
        NodeLoad(node, math.fsum(ingestion[node]), math.fsum(comparisons[node]), network.units_at(node))
        for node in plan.nodes
        if node in ingestion and node in network.rates
    )


def check_loads(plan: NetworkPlan, rates: Sequence[ProjectionRates], capacity: Capacity) -> None:
    """Raises PlanError if a node has to do more than its units can; says which, and by how much."""
    loads = node_loads(plan, rates)
    fitting = capacity.for_window(rates[0].network.window_us)
    worst = max(loads, key=lambda load: load.share(fitting), default=None)
    if worst is not None and worst.share(fitting) > 1:
        raise PlanError(
            f"no placement is sustained: node '{worst.node}' has to do {worst.share(fitting):.3g} times what its "
            f"{worst.units} unit{'s' if worst.units > 1 else ''} can ({worst.ingestion:,.0f} rows in and "
            f"{worst.comparisons:,.0f} comparisons per window); give it more units, or raise --iota or --kappa"
        )


def cheapest_sustained(
    plans: Iterable[NetworkPlan], rates: Sequence[ProjectionRates], capacity: Capacity
) -> NetworkPlan:
    """The first plan that every node sustains; if none does, an error about the one that is nearest to it."""
    fitting = capacity.for_window(rates[0].network.window_us)
    nearest: tuple[float, NetworkPlan] | None = None
    for plan in plans:
        worst = max((load.share(fitting) for load in node_loads(plan, rates)), default=0.0)
        if worst <= 1:
            return plan
        if nearest is None or worst < nearest[0]:
            nearest = (worst, plan)
    assert nearest is not None, "there is always a plan"
    check_loads(nearest[1], rates, capacity)
    return nearest[1]


def _comparisons(plan: NetworkPlan, vertex: Vertex, rates: ProjectionRates) -> list[float]:
    """Of each local join: a left arrival meets every stored right match and the other way round."""
    compiled = local_plan(plan, vertex).plan
    box = plan.covers[vertex.name].boxes
    found = []
    for operator in compiled.operators:
        if len(operator.inputs) == 2:
            sides = [
                math.fsum(rates.over(source.sub_query.positive(compiled.query), one) for one in box)
                for source in compiled.inputs(operator)
            ]
            found.append(2 * sides[0] * sides[1])
    return found
