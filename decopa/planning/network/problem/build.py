"""SubPlans -> NetworkPlan: one vertex for each host, with the vertices that it reads."""

from __future__ import annotations

from collections.abc import Sequence

from decopa.planning.network.graphs.graph import NetworkPlan, Vertex
from decopa.planning.network.problem.combination import bits
from decopa.planning.network.problem.instance import Instance
from decopa.planning.network.problem.subplan import SubPlan
from decopa.planning.subquery import SubQuery


def network_plan(plans: Sequence[tuple[int, SubPlan]]) -> NetworkPlan:
    """The graph of sub-plans for whole queries, each with the number of its query; a query may have several, for
    different boxes of origins."""
    builder = _Builder()
    queries: dict[int, Instance] = {}
    for part, plan in plans:
        queries.setdefault(part, plan.instance)
        builder.hosts(part, plan)
    instances = [queries[part] for part in sorted(queries)]
    network = instances[0].network
    types = {event_type for instance in instances for event_type in instance.types}
    for part, instance in queries.items():
        builder.all_events(part, instance)
    return NetworkPlan(
        tuple(instance.query for instance in instances),
        network.nodes,
        {event_type: network.producers(event_type) for event_type in sorted(types)},
        tuple(builder.vertices.values()),
    )


class _Builder:
    def __init__(self) -> None:
        self.vertices: dict[str, Vertex] = {}
        self._built: dict[tuple[int, int, int], dict[int, list[str]]] = {}
        self._first: dict[tuple[int, int], tuple[int, str]] = {}

    def hosts(self, part: int, plan: SubPlan) -> dict[int, list[str]]:
        """The vertices of a sub-plan by host; several for the positions of a repeated type."""
        key = (part, plan.source, plan.mask)
        if not plan.inputs:
            return {host: self._events(part, plan, host) for host, _ in plan.hosts}
        if key not in self._built:
            read = [self.hosts(part, source) for source in plan.inputs]
            self._built[key] = {host: [self._vertex(part, plan, host, takes, read)] for host, takes in plan.hosts}
        return self._built[key]

    def all_events(self, part: int, instance: Instance) -> None:
        """Every primitive vertex belongs to a graph, also one that nobody reads (Def. 7)."""
        for place, alias in enumerate(instance.aliases):
            for node in instance.rates.producers(alias):
                self._leaf(part, instance, place, node)

    def _events(self, part: int, plan: SubPlan, host: int) -> list[str]:
        instance = plan.instance
        return [self._leaf(part, instance, place, instance.nodes[host]) for place in bits(plan.mask)]

    def _leaf(self, part: int, instance: Instance, place: int, node: str) -> str:
        alias = instance.aliases[place]
        name = _named(part, alias, node)
        self.vertices.setdefault(name, Vertex(name, part, SubQuery(frozenset({alias})), node))
        return name

    def _vertex(self, part: int, plan: SubPlan, host: int, takes: int, read: list[dict[int, list[str]]]) -> str:
        instance = plan.instance
        inputs: list[str] = []
        for place, (source, names) in enumerate(zip(plan.inputs, read, strict=True)):
            for other, origins in source.hosts:
                if place not in plan.local or origins & ~takes == 0:
                    inputs += names[other]
        forwards = instance.aliases[plan.forwards] if plan.forwards >= 0 else None
        if forwards is not None:  # it sends these events, so it needs them as they were born
            inputs.append(self._leaf(part, instance, plan.forwards, instance.nodes[host]))
        text = instance.text(plan.mask) + (f">{instance.types[plan.forwards]}" if forwards else "")
        name = self._free(_named(part, text, instance.nodes[host]))
        known = self._first.setdefault((plan.source, host), (part, name))
        same_as = known[1] if known[0] != part else None
        sub_query = instance.sub_query(plan.mask)
        inputs = list(dict.fromkeys(inputs))
        self.vertices[name] = Vertex(name, part, sub_query, instance.nodes[host], tuple(inputs), forwards, same_as)
        return name

    def _free(self, name: str) -> str:
        number, found = 1, name
        while found in self.vertices:
            number += 1
            found = f"{name}#{number}"
        return found


def _named(part: int, text: str, node: str) -> str:
    return f"{text}@{node}" if part == 0 else f"{part}:{text}@{node}"
