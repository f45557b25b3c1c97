"""Our planner: cheapest covers instead of enumeration, several plans for each projection and set of hosts.

Bottom-up, every useful projection is placed at single nodes and along each axis. For a fixed placement the best
inputs are a cheapest cover: partial covers grow by the lowest position that is missing, and only the cheapest few for
each covered set survive. Their transfers are united exactly, so what several inputs share is paid once. Transfers only
ever add up, so whatever costs more than a complete cover is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from decopa.planning.network.problem.combination import bits
from decopa.planning.network.problem.instance import Instance
from decopa.planning.network.problem.subplan import NONE, Flows, Hosts, SubPlan, Workspace, at_origins, single


@dataclass(frozen=True, slots=True)
class Effort:
    """How wide the search is: plans kept for each placement, and for each projection in all; partial covers kept for
    each covered set; plans of an input that are tried for one target; nodes tried for a single sink. `reducers` allows
    vertices that forward events which have a partner; the paper has none."""

    plans: int = 2
    kept: int = 12
    partial: int = 4
    tried: int = 4
    nodes: int = 6
    reducers: bool = False


#: Reducers that let more of the events pass than this are not worth their work.
_MAX_SHARE = 0.9


class CoverSearch:
    """Plans the projections of one instance; transfers in `existing` are already paid."""

    def __init__(
        self, instance: Instance, workspace: Workspace, *, effort: Effort | None = None, existing: Flows | None = None
    ) -> None:
        self.instance, self.workspace = instance, workspace
        self.effort, self.existing = effort or Effort(), existing or {}
        self.plans: dict[int, list[SubPlan]] = {leaf.mask: [leaf] for leaf in workspace.leaves(instance)}

    def run(self) -> list[SubPlan]:
        """The best plans of the whole query, cheapest first, one or more for each placement."""
        for mask in self.instance.projections:
            worth, axes = self._worth(mask), self._reducing(mask)
            if worth or axes:
                plans = self.planned(mask)
                if worth:
                    self.plans[mask] = plans
                self._add_reducers(plans, axes)
        found = self.planned(self.instance.full)
        found += [better for plan in found[:3] if (better := self.divided(plan)) is not None]
        return sorted(found, key=self.price)

    def _reducing(self, mask: int) -> list[tuple[int, float]]:
        """The axes along which few enough events have a match of the projection, with their share."""
        rates, aliases = self.instance.rates, self.instance.aliases
        members = self.instance.aliases_of(mask)
        found = [(place, rates.reduced_share(aliases[place], members)) for place in self._axes(mask)]
        return [(place, share) for place, share in found if share <= _MAX_SHARE] if self.effort.reducers else []

    def _add_reducers(self, plans: list[SubPlan], axes: list[tuple[int, float]]) -> None:
        """At the origins of each axis: sends the events that have a match."""
        for place, share in axes:
            along = [plan for plan in plans if plan.axis == place]
            if along:
                self.plans[1 << place].append(self.workspace.reducer(along[0], place, share))

    def divided(self, plan: SubPlan) -> SubPlan | None:
        """Partial multi-sink: each host keeps its share of the axis iff that is cheaper than shipping it to one node.

        Contains placements at one node and at all; None if neither mixture is cheaper.
        """
        instance, best = self.instance, plan
        axes = [plan.axis] if plan.axis != NONE else list(self._axes(plan.mask))
        for axis in axes:
            producers = instance.producers[axis]
            if len(producers) < 2:
                continue
            gather = plan.hosts[0][0] if plan.axis == NONE else self._nodes(plan.mask)[0]
            away = frozenset(producers) if plan.axis == NONE else frozenset()
            for node in sorted(producers, key=lambda one: (instance.share(axis, one), one)):
                changed = away ^ {node}
                hosts = _partial_hosts(producers, changed, gather)
                candidate = self.workspace.joined(instance, plan.mask, axis, hosts, best.inputs)
                if self.price(candidate) < self.price(best) * (1 - 1e-12):
                    best, away = candidate, changed
        return best if best is not plan else None

    def price(self, plan: SubPlan) -> float:
        """What the plan adds to the transfers that exist."""
        return self.workspace.added(self.existing, plan.flows)[1] if self.existing else plan.cost

    def _worth(self, mask: int) -> bool:
        """Whether matches of a projection can be cheaper to send than its events. A node that reads all matches could
        read the events instead. It has a share of both already, of the matches at most the largest of one axis."""
        instance = self.instance
        local = max((max(instance.share(a, n) for n in instance.producers[a]) for a in self._axes(mask)), default=0.0)
        events = sum(map(instance.total, instance.parts(mask)))
        return instance.total(mask) * (1 - min(local, 0.999)) <= events

    def _axes(self, mask: int) -> Iterator[int]:
        return (place for place in self.instance.axes if mask >> place & 1)

    def planned(self, mask: int) -> list[SubPlan]:
        """The best plans of a projection over all placements."""
        found: list[SubPlan] = []
        for axis, hosts in self.placements(mask):
            found += self.covered(mask, axis, hosts)
        found.sort(key=self.price)
        return found[: self.effort.kept]

    def placements(self, mask: int) -> Iterator[tuple[int, Hosts]]:
        """Where a projection may be put: along each axis, then at the nodes that already have most of its events."""
        instance = self.instance
        for place in self._axes(mask):
            if len(instance.producers[place]) > 1:
                yield place, at_origins(instance, place)
        for node in self._nodes(mask):
            yield NONE, single(node)

    def _nodes(self, mask: int) -> list[int]:
        instance = self.instance
        nodes = range(len(instance.nodes))

        def saved(node: int) -> float:
            return sum(instance.event_weight(part, node) for part in instance.parts(mask))

        return sorted(nodes, key=lambda node: (-saved(node), node))[: self.effort.nodes]

    def covered(self, mask: int, axis: int, hosts: Hosts) -> list[SubPlan]:
        """The cheapest ways to build a projection at the given hosts."""
        options = self._options(mask, axis, hosts)
        with_bit = {place: [one for part, one in options if part >> place & 1] for place in bits(mask)}
        added, keep = self.workspace.added, self.effort.partial
        waiting: dict[int, list[tuple[float, Flows, tuple[SubPlan, ...]]]] = {0: [(0.0, self.existing, ())]}
        complete: list[tuple[float, Flows, tuple[SubPlan, ...]]] = []
        limit = float("inf")
        for covered in _ascending(waiting):
            partial = sorted(waiting.pop(covered), key=lambda one: one[0])[:keep]
            missing = mask & ~covered
            lowest = (missing & -missing).bit_length() - 1
            for cost, flows, inputs in partial:
                if cost >= limit:
                    break
                for own_cost, own_flows, source in with_bit[lowest]:
                    if own_cost >= limit:
                        break
                    together, extra = added(flows, own_flows)
                    total = cost + extra
                    if total >= limit:
                        continue
                    new = (total, together, (*inputs, source))
                    if covered | source.provides == mask:
                        complete.append(new)
                        complete.sort(key=lambda one: one[0])
                        del complete[self.effort.plans :]
                        if len(complete) == self.effort.plans:
                            limit = complete[-1][0]
                    else:
                        waiting.setdefault(covered | source.provides, []).append(new)
        built = [self.workspace.joined(self.instance, mask, axis, hosts, inputs) for _, _, inputs in complete]
        return list({plan.source: plan for plan in built}.values())

    def _options(self, mask: int, axis: int, hosts: Hosts) -> list[tuple[int, tuple[float, Flows, SubPlan]]]:
        """What may be read at the hosts, with the transfers that brings about; cheapest first."""
        found = []
        for part, plans in self.plans.items():
            if part & ~mask or part == mask:
                continue
            priced = [self._read(plan, axis, hosts) for plan in plans if plan.mask & ~mask == 0]
            priced.sort(key=lambda one: one[0])
            found += [(part, one) for one in priced[: self.effort.tried]]
        return sorted(found, key=lambda one: one[1][0])

    def _read(self, plan: SubPlan, axis: int, hosts: Hosts) -> tuple[float, Flows, SubPlan]:
        flows = self.workspace.read_flows(plan, axis, hosts)
        return self.workspace.added(self.existing, flows)[1], flows, plan


def _ascending(waiting: dict[int, list[tuple[float, Flows, tuple[SubPlan, ...]]]]) -> Iterator[int]:
    """The keys, smallest first, while more are being added; added ones are always larger."""
    while waiting:
        yield min(waiting)


def _partial_hosts(producers: tuple[int, ...], away: frozenset[int], gather: int) -> Hosts:
    """Each origin at its own node, except those in `away`, which one node takes care of."""
    takes: dict[int, int] = {}
    for node in producers:
        host = gather if node in away else node
        takes[host] = takes.get(host, 0) | 1 << node
    return tuple(sorted(takes.items()))
