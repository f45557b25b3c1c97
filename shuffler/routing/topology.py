"""plan -> the processes that run it and the lanes between them. Pure data: every process derives the same.

A process is a shuffler, a host of processing units, or a sink. A channel leads from one process to another; its lanes
are the plan's edges between units of the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import networkx as nx

from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.workload.views import source_of
from shuffler.routing.table import RoutingTable

#: Letters of the queries' names in the name of a shuffler.
_LONGEST_TITLE = 80


@dataclass(frozen=True, slots=True)
class Lane:
    """Matches of `source`, sent by `sender`, for side `side` of unit `unit` of `target` in copy `copy` of a part.

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


class HostedUnit(NamedTuple):
    """Unit `number` of an operator in copy `copy` of a part of the plan."""

    part: int
    copy: int
    operator: str
    number: int


@dataclass(frozen=True, slots=True)
class UnitProcess:
    """Hosts units of one or several parts; `operator` is the one that all of them belong to, or "host"."""

    name: str
    units: tuple[HostedUnit, ...]
    operator: str

    @property
    def groups(self) -> dict[tuple[int, int], tuple[tuple[str, int], ...]]:
        """The units of each copy of a part, by (part, copy), as (operator, number)."""
        found: dict[tuple[int, int], tuple[tuple[str, int], ...]] = {}
        for part, copy, operator, number in self.units:
            found[part, copy] = (*found.get((part, copy), ()), (operator, number))
        return found

    @property
    def parts(self) -> tuple[int, ...]:
        """The parts that have a unit here, in the plan's order."""
        return tuple(sorted({unit.part for unit in self.units}))


@dataclass(frozen=True)
class Topology:
    """`sinks` is how many processes collect matches; no more than the plan has parts that report any."""

    plan: Plan
    shufflers: int = 1
    #: Told to the user.
    notices: tuple[str, ...] = field(default=(), compare=False)
    sinks: int = 1

    @cached_property
    def routing(self) -> tuple[RoutingTable, ...]:
        return tuple(RoutingTable(part, self.shufflers, self._viewed(part)) for part in self.plan.parts)

    def _viewed(self, part: QueryPlan) -> dict[str, int]:
        """The units that send what each view of a part takes."""
        found = {}
        for operator in part.views:
            assert operator.view is not None
            other, source = source_of(self.plan, operator.view)
            found[operator.name] = other.roles(source).active_units
        return found

    @cached_property
    def taken_from(self) -> dict[tuple[int, str], tuple[tuple[int, PlanOperator], ...]]:
        """The views of the matches of an operator, by its part and name: the part that has the view, and the view."""
        found: dict[tuple[int, str], list[tuple[int, PlanOperator]]] = {}
        for place, part in enumerate(self.plan.parts):
            for operator in part.views:
                assert operator.view is not None
                source = self.plan.place_of[operator.view.part], operator.view.operator
                found.setdefault(source, []).append((place, operator))
        return {source: tuple(views) for source, views in found.items()}

    def held_by(self, process: UnitProcess) -> tuple[int, ...]:
        """The parts that a process keeps something of: those that it hosts units of, and those that have views of
        matches that it finds."""
        views = (self.taken_from.get((unit.part, unit.operator), ()) for unit in process.units)
        return tuple(sorted({*process.parts, *(part for found in views for part, _ in found)}))

    @cached_property
    def _served(self) -> str:
        """The queries of the plan, so that two runs on one cluster are told apart."""
        served = ",".join(self.titles)
        return served if len(served) <= _LONGEST_TITLE else f"{self.titles[0]},+{len(self.titles) - 1}"

    @cached_property
    def shuffler_names(self) -> tuple[str, ...]:
        """They begin with the queries that shufflers serve."""
        return tuple(f"{self._served}/{key}" for key in self.shuffler_keys)

    @cached_property
    def shuffler_keys(self) -> tuple[str, ...]:
        """What shufflers are called within the run: by those who pin them, and in checkpoints."""
        return tuple(f"shuffler/{number}" for number in range(self.shufflers))

    @cached_property
    def sink_parts(self) -> dict[str, tuple[int, ...]]:
        """The parts of the plan whose matches each sink collects, by the sink's name: every n-th part."""
        reported = self.plan.reported
        count = max(1, min(self.sinks, len(reported)))
        names = [f"{self._served}/sink" if count == 1 else f"{self._served}/{number}/sink" for number in range(count)]
        return {name: tuple(reported[number::count]) for number, name in enumerate(names)}

    @cached_property
    def sink_names(self) -> tuple[str, ...]:
        return tuple(self.sink_parts)

    @cached_property
    def sink_of(self) -> dict[int, str]:
        """The sink of each part that reports matches."""
        return {part: name for name, parts in self.sink_parts.items() for part in parts}

    def by_part(self, found: dict[str, tuple[object, ...]]) -> tuple[object, ...]:
        """What sinks tell of each of their parts, by name -> the same in the order of the plan's parts."""
        return tuple(self.by_key(found).values())

    def by_key(self, found: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """The same by the keys of the parts, in the order of the plan's parts."""
        told = {part: one for name, parts in self.sink_parts.items() for part, one in zip(parts, found[name])}
        return {self.plan.keys[part]: told[part] for part in sorted(told)}

    @property
    def titles(self) -> tuple[str, ...]:
        """A name for each part."""
        return self.plan.keys

    @cached_property
    def units(self) -> tuple[UnitProcess, ...]:
        """The processes that host units: one per unit, or one for all that share a host."""
        if self.plan.hosts:
            return tuple(self._common_hosts())
        return tuple(
            process
            for part, plan in enumerate(self.plan.parts)
            for copy in range(plan.slices)
            for process in self._own_hosts(part, copy, plan)
        )

    @cached_property
    def process_of(self) -> dict[str, UnitProcess]:
        return {process.name: process for process in self.units}

    def receivers_first(self) -> list[UnitProcess]:
        """The processes that host units, each after all that it sends to."""
        done: dict[str, UnitProcess] = {}

        def add(name: str) -> None:
            if name in done or name not in self.process_of:
                return
            for target in self.outgoing(name):
                add(target)
            done[name] = self.process_of[name]

        for name in self.process_of:
            add(name)
        return list(done.values())

    @cached_property
    def home(self) -> dict[HostedUnit, str]:
        """The name of the process that hosts a unit."""
        return {unit: process.name for process in self.units for unit in process.units}

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
                        if not edges and not plan.fragment:
                            lane = Lane(part, copy, operator.name, sender, None, 0, 0)
                            yield lane, (home, self.sink_of[part])
                        for edge in edges:
                            for unit in edge.receivers(number):
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
                                yield lane, (home, self.home[HostedUnit(part, copy, edge.target.name, unit)])

    def _sending_process(self, part: int, copy: int, operator: PlanOperator, number: int) -> str:
        if operator.view is not None:
            source = self.plan.place_of[operator.view.part]
            return self.home[HostedUnit(source, 0, operator.view.operator, number)]
        if not operator.inputs:
            return self.shuffler_names[number]
        return self.home[HostedUnit(part, copy, operator.name, number)]

    def _common_hosts(self) -> Iterator[UnitProcess]:
        together: dict[int, list[HostedUnit]] = {}
        for part, plan in enumerate(self.plan.parts):
            for copy in range(plan.slices):
                for operator in plan.operators:
                    for number in range(plan.roles(operator).active_units) if operator.inputs else ():
                        unit = HostedUnit(part, copy, operator.name, number)
                        together.setdefault(operator.hosts[number], []).append(unit)
        for host, units in sorted(together.items()):
            yield UnitProcess(f"{self._served}/host/{host}", tuple(units), "host")

    def _own_hosts(self, part: int, copy: int, plan: QueryPlan) -> Iterator[UnitProcess]:
        title = self.titles[part] + (f"#{copy}" if plan.slices > 1 else "")
        shared = _may_share_hosts(plan)
        together: dict[int, list[HostedUnit]] = {}
        for operator in plan.operators:
            for number in range(plan.roles(operator).active_units) if operator.inputs else ():
                unit = HostedUnit(part, copy, operator.name, number)
                if operator.hosts and shared:
                    together.setdefault(operator.hosts[number], []).append(unit)
                else:
                    yield UnitProcess(f"{title}/{operator.name}/{number}", (unit,), operator.name)
        for host, units in sorted(together.items()):
            yield UnitProcess(f"{title}/host/{host}", tuple(units), "host")


def _may_share_hosts(plan: QueryPlan) -> bool:
    """Hosts may be shared unless that makes processes feed each other in a circle: each would wait for the other's
    credit. Then every unit is a process of its own, which changes where work is done, not what is found."""
    graph = nx.DiGraph()
    for operator in plan.operators:
        for source in plan.inputs(operator):
            if not source.inputs:
                continue
            for sender in range(plan.roles(source).active_units):
                for unit in (sender,) if plan.stays(source) else range(plan.roles(operator).active_units):
                    ends = [(one.hosts[number] if one.hosts else (one.name, number))
                            for one, number in ((source, sender), (operator, unit))]  # fmt: skip
                    if ends[0] != ends[1]:
                        graph.add_edge(*ends)
    return bool(nx.is_directed_acyclic_graph(graph))
