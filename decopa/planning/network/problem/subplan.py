"""SubPlan: how the matches of one projection come about and where, priced with everything that it makes travel.

Every transfer leads from one host of a projection to a node, and is paid once however many readers are there. So the
transfers of a plan are a set; those of one source are one integer, whose bit `host * nodes + target` stands for the
way from a host to a target. Plans are combined by OR.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from decopa.planning.network.problem.combination import bits
from decopa.planning.network.problem.instance import Instance

#: Source -> set of transfers.
Flows = dict[int, int]
#: (host, set of origins along the axis that it takes care of; -1 for all)
Hosts = tuple[tuple[int, int], ...]
#: No axis: one host does everything.
NONE = -1


@dataclass(frozen=True, slots=True, eq=False)
class SubPlan:
    """Matches of projection `mask`, made at `hosts` from `inputs`.

    `axis` is the position whose origins are divided among the hosts, `local` the inputs of which each host uses only
    its own part. `source` numbers the transfers of its matches. `flows` and `cost` include those of the inputs.
    `forwards` makes it a reducer: it sends the events of that position which have a match, not the matches.
    """

    mask: int
    source: int
    axis: int
    hosts: Hosts
    instance: Instance
    inputs: tuple[SubPlan, ...] = ()
    local: frozenset[int] = frozenset()
    flows: Flows = None  # type: ignore[assignment]
    cost: float = 0.0
    forwards: int = NONE

    @property
    def nodes(self) -> int:
        """The hosts as a set."""
        found = 0
        for host, _ in self.hosts:
            found |= 1 << host
        return found

    @property
    def provides(self) -> int:
        """The positions that a reader gets from it."""
        return self.mask if self.forwards == NONE else 1 << self.forwards


class Workspace:
    """Prices of transfers, for all instances (queries and boxes) that are planned together."""

    def __init__(self, network_nodes: int, link_costs: Sequence[Sequence[float]] | None = None) -> None:
        self.width = network_nodes
        self._links = link_costs
        self._sources: dict[Hashable, int] = {}
        self._rates: list[dict[int, float]] = []
        self._costs: dict[tuple[int, int], float] = {}

    # ------------------------------------------------------------------ prices
    def cost(self, flows: Flows) -> float:
        return sum(self.transfer_cost(source, ways) for source, ways in flows.items())

    def transfer_cost(self, source: int, ways: int) -> float:
        known = self._costs.get((source, ways))
        if known is None:
            known = self._costs[source, ways] = self._price(source, ways)
        return known

    def _price(self, source: int, ways: int) -> float:
        every, total = (1 << self.width) - 1, 0.0
        for host, rate in self._rates[source].items():
            targets = ways >> host * self.width & every
            if targets and self._links is None:
                total += rate * targets.bit_count()
            elif targets and self._links is not None:
                total += rate * sum(self._links[host][target] for target in bits(targets))
        return total

    def added(self, flows: Flows, more: Flows) -> tuple[Flows, float]:
        """Both sets of transfers, and what the second adds to the cost of the first."""
        together, extra = flows.copy(), 0.0
        for source, ways in more.items():
            had = flows.get(source, 0)
            if ways & ~had:
                together[source] = had | ways
                extra += self.transfer_cost(source, had | ways) - (self.transfer_cost(source, had) if had else 0.0)
        return together, extra

    # ------------------------------------------------------------------- plans
    def leaf(self, instance: Instance, mask: int) -> SubPlan:
        """The events of a type, where they are born."""
        place = mask.bit_length() - 1
        producers = instance.producers[place]
        rates = {node: instance.event_weight(mask, node) for node in producers}
        source = self._source(("type", instance.types[place]), rates)
        axis = place if place in instance.axes else NONE
        hosts = tuple((node, 1 << node if axis != NONE else -1) for node in producers)
        return SubPlan(mask, source, axis, hosts, instance, flows={})

    def leaves(self, instance: Instance) -> list[SubPlan]:
        return [self.leaf(instance, mask) for mask in instance.primitives]

    def joined(
        self,
        instance: Instance,
        mask: int,
        axis: int,
        hosts: Hosts,
        inputs: Iterable[SubPlan],
        *,
        local: SubPlan | None = None,
        only_local: bool = False,
    ) -> SubPlan:
        """A projection at hosts, from its inputs. Each host uses its own part of inputs divided along the same axis;
        with `only_local` of `local` alone, as the paper has it."""
        inputs = tuple(inputs)
        flows: Flows = {}
        own = frozenset(
            place
            for place, source in enumerate(inputs)
            if (not only_local or source is local) and self.reads_alone(source, axis, hosts)
        )
        for place, source in enumerate(inputs):
            for one, ways in self.read_flows(source, axis, hosts, alone=place in own).items():
                flows[one] = flows.get(one, 0) | ways
        number = self._composite_source(instance, mask, axis, hosts, inputs, own)
        return SubPlan(mask, number, axis, hosts, instance, inputs, own, flows, self.cost(flows))

    def reads_alone(self, source: SubPlan, axis: int, hosts: Hosts) -> bool:
        """Whether each host needs only its own part of the source, since both are divided along one axis."""
        return axis != NONE and source.axis == axis and _refines(source.hosts, hosts)

    def read_flows(self, source: SubPlan, axis: int, hosts: Hosts, *, alone: bool | None = None) -> Flows:
        """Everything that has to travel so that the hosts can read a source."""
        if alone is None:
            alone = self.reads_alone(source, axis, hosts)
        ways = self.reading(source, hosts, alone=alone)
        if not ways:
            return source.flows
        return {**source.flows, source.source: source.flows.get(source.source, 0) | ways}

    def reducer(self, plan: SubPlan, place: int, share: float) -> SubPlan:
        """Forwards the events of a position that have a match in `plan`; `share` of all events of its hosts do."""
        rates = {host: plan.instance.event_weight(1 << place, host) * share for host, _ in plan.hosts}
        source = self._source(("reducer", plan.source, place), rates)
        return replace(plan, source=source, forwards=place)

    def reading(self, source: SubPlan, hosts: Hosts, *, alone: bool) -> int:
        """The transfers that bring `source` to hosts: all of it to each, or to each its part along the axis."""
        width, ways, targets = self.width, 0, 0
        if alone:
            for host, origins in source.hosts:
                target = next(one for one, takes in hosts if origins & ~takes == 0)
                if target != host:
                    ways |= 1 << host * width + target
            return ways
        for host, _ in hosts:
            targets |= 1 << host
        for host, _ in source.hosts:
            ways |= (targets & ~(1 << host)) << host * width
        return ways

    def _composite_source(
        self,
        instance: Instance,
        mask: int,
        axis: int,
        hosts: Hosts,
        inputs: tuple[SubPlan, ...],
        local: frozenset[int],
    ) -> int:
        total = instance.total(mask)
        rates = {
            host: total * (1.0 if axis == NONE else sum(instance.share(axis, origin) for origin in bits(origins)))
            for host, origins in hosts
        }
        box = tuple(instance.producers[place] for place in bits(mask))
        made_of = frozenset((source.source, place in local) for place, source in enumerate(inputs))
        axis_rank = NONE if axis == NONE else (mask & ((1 << axis) - 1)).bit_count()
        return self._source((instance.identity(mask), box, axis_rank, hosts, made_of), rates)

    def _source(self, key: Hashable, rates: dict[int, float]) -> int:
        number = self._sources.get(key)
        if number is None:
            number = self._sources[key] = len(self._rates)
            self._rates.append({})
        known = self._rates[number]
        for host, rate in rates.items():
            if rate > known.get(host, 0.0):  # new, or another position of the type lets more events pass
                if host in known:
                    self._costs.clear()
                known[host] = rate
        return number


def single(node: int) -> Hosts:
    return ((node, -1),)


def at_origins(instance: Instance, place: int) -> Hosts:
    """Each node that gives birth to events of a position takes care of its own."""
    return tuple((node, 1 << node) for node in instance.producers[place])


def _refines(finer: Hosts, coarser: Hosts) -> bool:
    """Whether every host of the one takes care of origins that one host of the other has all of."""
    return all(any(origins & ~takes == 0 for _, takes in coarser) for _, origins in finer)
