"""Plans are data: operators with their inputs, units and partition flags (Defs. 3 and 4), to and from JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import networkx as nx

from decopa.errors import PlanError, QueryError
from decopa.language.text.parser import parse
from decopa.planning.subquery import SubQuery
from decopa.planning.succession import Succession, hash_key, succession_of
from decopa.query.query import Query

FORMAT = "decopa-plan"
VERSION = 1
MAX_UNITS = 4096


class Rule(Enum):
    """How an operator makes its matches out of its inputs."""

    LEAF = "leaf"
    JOIN = "join"
    KLEENE_UNARY = "kleene-unary"
    KLEENE_BINARY = "kleene-binary"
    NEGATION = "negation"
    NEXT = "next"


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

    def rule(self, operator: PlanOperator) -> Rule:
        """What the operator does, as its sub-query and those of its inputs say."""
        inputs = self.inputs(operator)
        if not inputs:
            return Rule.LEAF
        if len(inputs) == 1:
            return Rule.KLEENE_UNARY
        formed = operator.sub_query.closed - inputs[0].sub_query.closed - inputs[1].sub_query.closed
        if formed:
            return Rule.KLEENE_BINARY
        if len({source.sub_query.scope(self.query) for source in inputs}) > 1:
            return Rule.NEGATION
        return Rule.JOIN if self.succession(operator) is None else Rule.NEXT

    def succession(self, operator: PlanOperator) -> Succession | None:
        """How the inputs of an operator follow each other in a NEXT; None if they do not."""
        return succession_of(self.query, [source.sub_query for source in self.inputs(operator)])

    def next_keys(self, operator: PlanOperator) -> tuple[str, str] | None:
        """The columns by which the inputs (in plan order) of a NEXT are hashed, if both are dealt out; else None."""
        step, inputs = self.succession(operator), self.inputs(operator)
        if step is None or not all(source.partitioned for source in inputs):
            return None
        key = hash_key(self.query, inputs[step.left].sub_query, step)
        if key is None:
            return None
        earlier, later = (f"{attr.alias}.{attr.name}" for attr in key)
        return (earlier, later) if step.left == 0 else (later, earlier)

    def text(self, operator: PlanOperator) -> str:
        """`name SEQ(A,B)`: how messages call an operator."""
        return f"{operator.name} {operator.sub_query.text(self.query)}"


@dataclass(frozen=True)
class Plan:
    """Plans for a workload: one per OR-free query, in the workload's order."""

    parts: tuple[QueryPlan, ...]

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
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as err:
            raise PlanError(f"the plan is not JSON: {err}") from None
        if not isinstance(document, Mapping) or document.get("format") != FORMAT:
            raise PlanError(f'the file is no plan: it has no "format": "{FORMAT}"; write one with `decopa plan`')
        if document.get("version") != VERSION:
            raise PlanError(
                f"the plan has version {document.get('version')!r}, this decopa reads version {VERSION}; make it anew"
            )
        parts = _field(document, "queries", list, "the plan")
        return cls(tuple(_part_from(part, f"queries[{index}]") for index, part in enumerate(parts)))


def _part_from(part: Any, where: str) -> QueryPlan:
    text = _field(part, "query", str, where)
    try:
        query = parse(text)
    except QueryError as err:
        raise PlanError(f"{where}.query: {err}") from err
    operators = []
    for index, item in enumerate(_field(part, "operators", list, where)):
        place = f"{where}.operators[{index}]"
        units = _field(item, "units", int, place)
        aliases, closed = _names(item, "positions", place), _names(item, "closed", place)
        operators.append(
            PlanOperator(
                name=_field(item, "name", str, place),
                sub_query=SubQuery(frozenset(aliases), frozenset(closed)),
                inputs=_names(item, "inputs", place),
                units=units,
                partitioned=_field(item, "partitioned", bool, place),
                hosts=_hosts(item, place),
            )
        )
    slices = _field(part, "slices", int, where) if "slices" in part else 1
    return QueryPlan(query, tuple(operators), slices)


def _hosts(item: Any, where: str) -> tuple[int, ...]:
    hosts = _field(item, "hosts", list, where) if "hosts" in item else []
    if not all(isinstance(host, int) and not isinstance(host, bool) and 0 <= host < MAX_UNITS for host in hosts):
        raise PlanError(f"{where}: 'hosts' must be a list of unit numbers below {MAX_UNITS}")
    return tuple(hosts)


def _field(item: Any, name: str, kind: type, where: str) -> Any:
    if not isinstance(item, Mapping) or name not in item:
        raise PlanError(f"{where}: '{name}' is missing")
    value = item[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise PlanError(f"{where}: '{name}' must be {kind.__name__}, got {type(value).__name__}")
    return value


def _names(item: Any, name: str, where: str) -> tuple[str, ...]:
    values = _field(item, name, list, where)
    if not all(isinstance(value, str) for value in values):
        raise PlanError(f"{where}: '{name}' must be a list of names")
    return tuple(values)
