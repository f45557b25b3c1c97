"""Plans are data: operators with their inputs, units and partition flags (Defs. 3 and 4), to and from JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

import networkx as nx

from decopa.documents import Document, read_document
from decopa.errors import PlanError, QueryError
from decopa.language.text.parser import parse
from decopa.planning.roles import Roles, Rule, roles_of
from decopa.planning.subquery import SubQuery
from decopa.query.query import Query

FORMAT = "decopa-plan"
VERSION = 1
MAX_UNITS = 4096


@dataclass(frozen=True, slots=True)
class PlanOperator:
    """One sub-query on `units` processing units; `partitioned` says how its *matches* go to its successors:
    dealt out among their units, or broadcast to all of them (Def. 3). A leaf stands for the events of one position.

    `hosts` numbers the processing units that it runs on, where operators share them (all on one is the centralized
    baseline); without it the operator has its units to itself.
    """

    name: str
    sub_query: SubQuery
    inputs: tuple[str, ...] = ()
    units: int = 1
    partitioned: bool = False
    hosts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.hosts and len(self.hosts) != self.units:
            raise PlanError(f"operator {self.name}: {len(self.hosts)} hosts for {self.units} units; name one for each")
        if not self.name:
            raise PlanError("an operator needs a name")
        if not 1 <= self.units <= MAX_UNITS:
            raise PlanError(f"operator {self.name}: units must be between 1 and {MAX_UNITS}, got {self.units}")


@dataclass(frozen=True)
class QueryPlan:
    """The DAG of operators that finds the matches of one OR-free query.

    With `slices` n > 1, n copies of the plan take turns: the stream is cut into batches of two windows, each of which
    overlaps the next by one window, and every n-th batch goes to the same copy (the RIP-inspired baseline of 7.1).
    """

    query: Query
    operators: tuple[PlanOperator, ...]
    slices: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.slices <= MAX_UNITS:
            raise PlanError(f"slices must be between 1 and {MAX_UNITS}, got {self.slices}")
        names = [operator.name for operator in self.operators]
        for name in names:
            if names.count(name) > 1:
                raise PlanError(f"two operators are called '{name}'; give each its own name")
        for operator in self.operators:
            for source in operator.inputs:
                if source not in names:
                    raise PlanError(f"operator {operator.name}: no operator '{source}' for its input")
            for alias in operator.sub_query.aliases:
                if alias not in self.query.aliases:
                    raise PlanError(f"operator {operator.name}: no alias '{alias}' in {self.query.pattern}")
        if not nx.is_directed_acyclic_graph(self.graph):
            cycle = " -> ".join(edge[0] for edge in nx.find_cycle(self.graph))
            raise PlanError(f"the operators {cycle} feed each other in a circle")

    @cached_property
    def graph(self) -> nx.DiGraph:
        """Edges lead from input to operator; nodes are operator names."""
        graph = nx.DiGraph()
        graph.add_nodes_from(operator.name for operator in self.operators)
        graph.add_edges_from((source, operator.name) for operator in self.operators for source in operator.inputs)
        return graph

    @cached_property
    def _by_name(self) -> dict[str, PlanOperator]:
        return {operator.name: operator for operator in self.operators}

    def operator(self, name: str) -> PlanOperator:
        return self._by_name[name]

    def inputs(self, operator: PlanOperator) -> tuple[PlanOperator, ...]:
        return tuple(self._by_name[name] for name in operator.inputs)

    def successors(self, operator: PlanOperator) -> tuple[PlanOperator, ...]:
        return tuple(other for other in self.operators if operator.name in other.inputs)

    @property
    def leaves(self) -> tuple[PlanOperator, ...]:
        return tuple(operator for operator in self.operators if not operator.inputs)

    @property
    def root(self) -> PlanOperator:
        """The operator nothing else takes as input; a valid plan has exactly one."""
        roots = [operator for operator in self.operators if not self.successors(operator)]
        if len(roots) != 1:
            raise PlanError(f"a plan has one root, this one has {len(roots)}: {[root.name for root in roots]}")
        return roots[0]

    @cached_property
    def depth(self) -> dict[str, int]:
        """Longest way from each operator to the root, in edges."""
        depths: dict[str, int] = {}
        for name in reversed(list(nx.topological_sort(self.graph))):
            depths[name] = max((depths[after] + 1 for after in self.graph.successors(name)), default=0)
        return depths

    @cached_property
    def _roles(self) -> dict[str, Roles]:
        found = {}
        for operator in self.operators:
            inputs = self.inputs(operator)
            found[operator.name] = roles_of(
                self.query,
                operator.sub_query,
                [source.sub_query for source in inputs],
                partitioned=[source.partitioned for source in inputs],
                units=operator.units,
            )
        return found

    def roles(self, operator: PlanOperator) -> Roles:
        """What the operator does, which of its inputs is which, and how many of its units work."""
        return self._roles[operator.name]

    def rule(self, operator: PlanOperator) -> Rule:
        """How the operator makes its matches."""
        return self.roles(operator).rule

    def text(self, operator: PlanOperator) -> str:
        """`name SEQ(A,B)`: how messages call an operator."""
        return f"{operator.name} {operator.sub_query.text(self.query)}"


@dataclass(frozen=True)
class Plan:
    """Plans for a workload: one per OR-free query, in the workload's order."""

    parts: tuple[QueryPlan, ...]

    def __repr__(self) -> str:
        return f"Plan({'; '.join(map(_shown, self.parts))})"

    def to_json(self) -> str:
        document = {
            "format": FORMAT,
            "version": VERSION,
            "queries": [
                {
                    "query": str(part.query),
                    "slices": part.slices,
                    "operators": [
                        {
                            "name": operator.name,
                            "sub_query": operator.sub_query.text(part.query),  # for the reader; not read back
                            "positions": sorted(operator.sub_query.aliases),
                            "closed": sorted(operator.sub_query.closed),
                            "inputs": list(operator.inputs),
                            "units": operator.units,
                            "partitioned": operator.partitioned,
                            "hosts": list(operator.hosts),
                        }
                        for operator in part.operators
                    ],
                }
                for part in self.parts
            ],
        }
        return json.dumps(document, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Reads what `to_json` wrote; anything else is refused with the place that is wrong."""
        document = read_document(
            text, format=FORMAT, version=VERSION, name="the plan", error=PlanError, remedy="make it with `decopa plan`"
        )
        return cls(tuple(_part_from(part) for part in document.objects("queries")))


def _shown(part: QueryPlan) -> str:
    """`q: SEQ(A a, B b), o3 SEQ(A,B) x2`: the operators that work, and on how many units."""
    working = [f"{part.text(one)} x{one.units}" for one in part.operators if one.inputs]
    return f"{part.query.name}: {part.query.pattern}, {', '.join(working) or 'events as they come'}"


def _part_from(part: Document) -> QueryPlan:
    try:
        query = parse(part.value("query", str))
    except QueryError as err:
        raise PlanError(f"{part.where}: query: {err}") from err
    operators = [
        PlanOperator(
            name=item.value("name", str),
            sub_query=SubQuery(frozenset(item.texts("positions")), frozenset(item.texts("closed"))),
            inputs=item.texts("inputs"),
            units=item.value("units", int),
            partitioned=item.value("partitioned", bool),
            hosts=_hosts(item),
        )
        for item in part.objects("operators")
    ]
    return QueryPlan(query, tuple(operators), part.value("slices", int) if "slices" in part else 1)


def _hosts(item: Document) -> tuple[int, ...]:
    hosts = item.value("hosts", list) if "hosts" in item else []
    if not all(isinstance(host, int) and not isinstance(host, bool) and 0 <= host < MAX_UNITS for host in hosts):
        item.fail(f"'hosts' must be a list of unit numbers below {MAX_UNITS}")
    return tuple(hosts)
