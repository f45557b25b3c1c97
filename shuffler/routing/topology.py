"""plan -> the processes that run it and the lanes between them. Pure data: every process derives the same.

A process is a shuffler, a host of processing units, or a sink. A channel leads from one process to another; its lanes
are the plan's edges between units of the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import networkx as nx

from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from shuffler.routing.table import RoutingTable

#: Letters of the queries' names in the name of a shuffler.
_LONGEST_TITLE = 80


@dataclass(frozen=True, slots=True)
class Lane:
    """Matches of `source`, sent by `sender`, for side `side` of unit `unit` of `target` in copy `copy` of a plan.

    Without a target they are the query's matches, for the sink. `dealt` says that units share them, each with rows of
    its own.
    """

    part: int
    copy: int
    source: str
    sender: str
    target: str | None
    unit: int
    side: int
    dealt: bool = False


@dataclass(frozen=True, slots=True)
class UnitProcess:
    """Hosts some units of one copy of a plan, as (operator, number)."""

    name: str
    part: int
    copy: int
    units: tuple[tuple[str, int], ...]
    operator: str


@dataclass(frozen=True)
class Topology:
    plan: Plan
    shufflers: int = 1
    #: Told to the user.
    notices: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def routing(self) -> tuple[RoutingTable, ...]:
        return tuple(RoutingTable(part, self.shufflers) for part in self.plan.parts)

    @cached_property
    def shuffler_names(self) -> tuple[str, ...]:
        """They begin with the queries that shufflers serve, so that two runs on one cluster are told apart."""
        served = ",".join(self.titles)
        if len(served) > _LONGEST_TITLE:
            served = f"{self.titles[0]},+{len(self.titles) - 1}"
        return tuple(f"{served}/{key}" for key in self.shuffler_keys)

    @cached_property
    def shuffler_keys(self) -> tuple[str, ...]:
        """What shufflers are called within the run: by those who pin them, and in checkpoints."""
        return tuple(f"shuffler/{number}" for number in range(self.shufflers))

    @cached_property
    def sink_names(self) -> tuple[str, ...]:
        """One sink for each part of the plan."""
        return tuple(f"{title}/sink" for title in self.titles)

    @cached_property
    def titles(self) -> tuple[str, ...]:
        """A name for each part: its query's, numbered where several parts have the same."""
        names = [part.query.name for part in self.plan.parts]
        return tuple(
            name if names.count(name) == 1 else f"{name}.{names[:place].count(name) + 1}"
            for place, name in enumerate(names)
        )

    @cached_property
    def units(self) -> tuple[UnitProcess, ...]:
        """The processes that host units: one per unit, or one for all that share a host."""
        return tuple(
            process
            for part, plan in enumerate(self.plan.parts)
            for copy in range(plan.slices)
            for process in self._hosts(part, copy, plan)
        )

    @cached_property
    def _home(self) -> dict[tuple[int, int, str, int], str]:
        return {
            (process.part, process.copy, operator, number): process.name
            for process in self.units
            for operator, number in process.units
        }

    @cached_property
    def channels(self) -> dict[tuple[str, str], tuple[Lane, ...]]:
        """(sending process, receiving process) -> lanes, in an order that both ends agree on."""
        found: dict[tuple[str, str], list[Lane]] = {}
        for lane, channel in self._lanes():
            found.setdefault(channel, []).append(lane)
        return {channel: tuple(lanes) for channel, lanes in found.items() if channel[0] != channel[1]}

    def outgoing(self, process: str) -> dict[str, tuple[Lane, ...]]:
        return {target: lanes for (source, target), lanes in self.channels.items() if source == process}

    def incoming(self, process: str) -> dict[str, tuple[Lane, ...]]:
        return {source: lanes for (source, target), lanes in self.channels.items() if target == process}

    def _lanes(self) -> Iterator[tuple[Lane, tuple[str, str]]]:
        for part, plan in enumerate(self.plan.parts):
            routing = self.routing[part]
            for copy in range(plan.slices):
                for operator in plan.operators:
                    edges = routing.edges_from(operator)
                    for number, sender in enumerate(routing.senders(operator)):
                        home = self._sending_process(part, copy, operator, number)
                        if not edges:
                            lane = Lane(part, copy, operator.name, sender, None, 0, 0)
                            yield lane, (home, self.sink_names[part])
                        for edge in edges:
                            for unit in range(edge.units):
                                lane = Lane(
                                    part,
                                    copy,
                                    operator.name,
                                    sender,
                                    edge.target.name,
                                    unit,
                                    edge.side,
                                    dealt=edge.partitioned,
                                )
                                yield lane, (home, self._home[part, copy, edge.target.name, unit])

    def _sending_process(self, part: int, copy: int, operator: PlanOperator, number: int) -> str:
        if not operator.inputs:
            return self.shuffler_names[number]
        return self._home[part, copy, operator.name, number]

    def _hosts(self, part: int, copy: int, plan: QueryPlan) -> Iterator[UnitProcess]:
        title = self.titles[part] + (f"#{copy}" if plan.slices > 1 else "")
        shared = _may_share_hosts(plan)
        together: dict[int, list[tuple[str, int]]] = {}
        for operator in plan.operators:
            for number in range(plan.roles(operator).active_units) if operator.inputs else ():
                if operator.hosts and shared:
                    together.setdefault(operator.hosts[number], []).append((operator.name, number))
                else:
                    name = f"{title}/{operator.name}/{number}"
                    yield UnitProcess(name, part, copy, ((operator.name, number),), operator.name)
        for host, units in sorted(together.items()):
            yield UnitProcess(f"{title}/host/{host}", part, copy, tuple(units), "host")


def _may_share_hosts(plan: QueryPlan) -> bool:
    """Hosts may be shared unless that makes processes feed each other in a circle: each would wait for the other's
    credit. Then every unit is a process of its own, which changes where work is done, not what is found."""
    graph = nx.DiGraph()
    for operator in plan.operators:
        for source in plan.inputs(operator):
            if not source.inputs:
                continue
            for sender in range(plan.roles(source).active_units):
                for unit in range(plan.roles(operator).active_units):
                    ends = [(one.hosts[number] if one.hosts else (one.name, number))
                            for one, number in ((source, sender), (operator, unit))]  # fmt: skip
                    if ends[0] != ends[1]:
                        graph.add_edge(*ends)
    return bool(nx.is_directed_acyclic_graph(graph))
