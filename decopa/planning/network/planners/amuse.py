"""aMuSE and aMuSE* as printed (MuSE 6.2, Algorithms 2 and 3), errata applied; for comparison with our own search.

Readings, where the listing leaves room: a combination is redundant by Def. 15, not by the order-dependent loop; (6)
holds with equality; a partitioned placement sits at the hosts of its partitioning input's graph (line 8 would name
nodes that have no input); of equally good nodes for a single sink that which produces most primitives of the
projection counts, then the first; identical sub-graphs are one, different ones for one projection are both paid.
aMuSE* places a projection at every predecessor if none reaches its bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from decopa.errors import PlanError
from decopa.planning.network.problem.combination import bits, minimal_covers
from decopa.planning.network.problem.conditions import may_partition, star_keeps
from decopa.planning.network.problem.instance import Instance
from decopa.planning.network.problem.subplan import NONE, Flows, Hosts, SubPlan, Workspace, single

#: For each projection the best graph by placement option, which is a primitive.
Graphs = dict[int, dict[int, SubPlan]]


def amuse(instance: Instance, workspace: Workspace, *, star: bool = False, existing: Flows | None = None) -> SubPlan:
    """The graph that aMuSE (or aMuSE*) returns; transfers in `existing` were paid by earlier queries."""
    return _Construction(instance, workspace, star=star, existing=existing or {}).run()


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A graph before its transfers are gathered; most are never looked at again."""

    mask: int
    axis: int
    hosts: Hosts
    inputs: tuple[SubPlan, ...]
    local: SubPlan
    cost: float


class _Construction:
    def __init__(self, instance: Instance, workspace: Workspace, *, star: bool, existing: Flows) -> None:
        self.instance, self.workspace, self.star, self.existing = instance, workspace, star, existing
        kept = [mask for mask in instance.beneficial_projections if not star or self._star_keeps(mask)]
        self.projections = (*kept, instance.full)
        self.graphs: Graphs = {leaf.mask: {leaf.mask: leaf} for leaf in workspace.leaves(instance)}

    def run(self) -> SubPlan:
        for mask in self.projections:
            best: dict[int, _Candidate] = {}
            for cover in minimal_covers(mask, self.graphs):
                for option, graph in self._placed(mask, cover):
                    if option not in best or graph.cost < best[option].cost:
                        best[option] = graph
            self.graphs[mask] = {option: self._joined(graph) for option, graph in best.items()}
        found = self.graphs[self.instance.full]
        if not found:
            raise PlanError(f"no combination of projections covers {self.instance.query.pattern}")
        return min(found.values(), key=lambda graph: self._price(graph.flows))

    def _price(self, flows: Flows) -> float:
        return self.workspace.added(self.existing, flows)[1]

    def _star_keeps(self, mask: int) -> bool:
        rates = map(self.instance.per_binding, self.instance.parts(mask))
        return star_keeps(self.instance.per_binding(mask), self.instance.bindings(mask), rates)

    def _placed(self, mask: int, cover: tuple[int, ...]) -> Iterator[tuple[int, _Candidate]]:
        """Lines 5 to 16 of Algorithm 3 for one combination."""
        partitioning = self._partitioning(cover)
        if partitioning is not None:
            for option, source in self.graphs[partitioning].items():
                if len(source.hosts) == 1:
                    yield option, self._built(mask, cover, source, NONE, single(source.hosts[0][0]))
                else:
                    yield option, self._built(mask, cover, source, source.axis, source.hosts)
            return
        places = list(cover)
        if self.star:
            least = self.instance.total(mask)
            places = [part for part in cover if self.instance.per_binding(part) >= least] or places
        for part in places:
            for option, source in self.graphs[part].items():
                node = max((host for host, _ in source.hosts), key=lambda host: (self._produced(mask, host), -host))
                yield option, self._built(mask, cover, source, NONE, single(node))

    def _partitioning(self, cover: tuple[int, ...]) -> int | None:
        """getMSP: the first predecessor that satisfies (6)."""
        instance = self.instance
        for part in cover:
            others = [(instance.per_binding(one), instance.bindings(one)) for one in cover if one != part]
            divisible = instance.is_primitive(part) <= (part.bit_length() - 1 in instance.axes)
            if divisible and self.graphs[part] and may_partition(instance.per_binding(part), others):
                return part
        return None

    def _produced(self, mask: int, node: int) -> int:
        return sum(node in self.instance.producers[place] for place in bits(mask))

    def _built(self, mask: int, cover: tuple[int, ...], chosen: SubPlan, axis: int, hosts: Hosts) -> _Candidate:
        """ConstructSubgraph: adds for each other predecessor the graph that makes the whole cheapest."""
        workspace, inputs = self.workspace, [chosen]
        alone = workspace.reads_alone(chosen, axis, hosts)
        flows = workspace.read_flows(chosen, axis, hosts, alone=alone)
        flows, cost = workspace.added(self.existing, flows)
        for part in cover:
            if part == chosen.mask:
                continue
            options = [
                (*workspace.added(flows, workspace.read_flows(option, axis, hosts, alone=False)), option)
                for option in self.graphs[part].values()
            ]
            flows, extra, best = min(options, key=lambda option: option[1])
            cost += extra
            inputs.append(best)
        return _Candidate(mask, axis, hosts, tuple(inputs), chosen, cost)

    def _joined(self, found: _Candidate) -> SubPlan:
        return self.workspace.joined(
            self.instance, found.mask, found.axis, found.hosts, found.inputs, local=found.local, only_local=True
        )
