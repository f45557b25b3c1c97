"""What a network plan costs: rows per window for each transfer, shared per node, and in all (MuSE 4.4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from costmodel.networks.transmission import ProjectionRates
from decopa.planning.network.graphs.graph import NetworkPlan, Transfer, Vertex

#: Bytes of a row that a vertex sends.
Width = Callable[[Vertex], float]


@dataclass(frozen=True, slots=True)
class PricedTransfer:
    """A transfer with its rows per window and what a row weighs (1, or its bytes) times the cost of its link."""

    transfer: Transfer
    rows: float
    weight: float

    @property
    def cost(self) -> float:
        return self.rows * self.weight


@dataclass(frozen=True)
class PlanPrice:
    transfers: tuple[PricedTransfer, ...]

    @property
    def cost(self) -> float:
        return math.fsum(one.cost for one in self.transfers)

    @property
    def rows(self) -> float:
        """Rows per window that cross the network."""
        return math.fsum(one.rows for one in self.transfers)


def price(plan: NetworkPlan, rates: Sequence[ProjectionRates], width: Width | None = None) -> PlanPrice:
    """Prices the plan with the rates of each of its queries; a row counts 1, or its `width`."""
    network = rates[0].network
    found = []
    for transfer in plan.transfers:
        vertices = [plan.vertex(name) for name in transfer.vertices]
        if transfer.event_type is not None:
            born = network.rates[transfer.source].get(transfer.event_type, 0.0)
            rows = min(born, sum(vertex_rate(plan, one, rates[one.part]) for one in vertices))
        else:
            rows = vertex_rate(plan, vertices[0], rates[vertices[0].part])
        weight = 1.0 if width is None else width(vertices[0])
        weight *= network.link(transfer.source, transfer.target).cost
        found.append(PricedTransfer(transfer, rows, weight))
    return PlanPrice(tuple(found))


def vertex_rate(plan: NetworkPlan, vertex: Vertex, rates: ProjectionRates) -> float:
    """Rows per window that a vertex puts out: its rate over what it covers."""
    if not vertex.inputs:
        return rates.event_rate(min(vertex.sub_query.aliases), vertex.node)
    boxes = plan.covers[vertex.name].boxes
    aliases = vertex.sub_query.aliases
    matches = math.fsum(rates.over(aliases, box) for box in boxes)
    if vertex.forwards is None:
        return matches
    origins = frozenset[str]().union(*(box[vertex.forwards] for box in boxes))
    events = math.fsum(rates.event_rate(vertex.forwards, node) for node in origins)
    return events * rates.reduced_share(vertex.forwards, aliases)


def edge_weights(plan: NetworkPlan, output_rate: Callable[[Vertex], float]) -> dict[tuple[str, str], float]:
    """c(e) as printed: output rate per binding times the Def. 4 cover, divided among readers at one node."""
    weights: dict[tuple[str, str], float] = {}
    for vertex in plan.ordered:
        readers = plan.readers(vertex)
        for reader in readers:
            if reader.node == vertex.node:
                weights[vertex.name, reader.name] = 0.0
            else:
                sharing = sum(other.node == reader.node for other in readers)
                cover = len(plan.reachable_cover(vertex))
                weights[vertex.name, reader.name] = output_rate(vertex) * cover / sharing
    return weights
