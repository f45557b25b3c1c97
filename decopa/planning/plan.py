"""Plans are data: parts of operators with their inputs, units and partition flags (Defs. 3 and 4), to and from JSON."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import networkx as nx

from decopa.documents import Document, as_document, read_document
from decopa.errors import PlanError, QueryError
from decopa.planning.hash_keys import are_equal
from decopa.planning.roles import BOTH, Roles, Rule, roles_of
from decopa.planning.subquery import SubQuery
from decopa.query.query import Query

FORMAT = "decopa-plan"
#: Plans of parts that have hosts of their own are written as version 1, others as version 2; both are read.
VERSIONS = (1, 2)
MAX_UNITS = 16_384


@dataclass(frozen=True, slots=True)
class View:
    """Takes the matches of an operator of another part, by the part's key and the operator's name. `positions` says of
    each event what it is called here and what there."""

    part: str
    operator: str
    positions: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        if len(dict(self.positions)) < len(self.positions):
            raise PlanError(f"the view of {self.part}/{self.operator} names an event twice")
        object.__setattr__(self, "positions", tuple(sorted(self.positions)))

    @property
    def names(self) -> dict[str, str]:
        """What each event that is called so here is called there."""
        return dict(self.positions)


@dataclass(frozen=True, slots=True)
class PlanOperator:
    """One sub-query on `units` processing units; `partitioned` says how its *matches* go to its successors:
    dealt out among their units, or broadcast to all of them (Def. 3). A leaf stands for the events of one position.

    `hosts` numbers the processing units that it runs on, where operators share them (all on one is the centralized
    baseline); without it the operator has its units to itself.

    With a `view` it has no inputs: its matches are those of an operator of another part, renamed, filtered down to what
    its sub-query demands, and cut down to the columns that are needed here.
    """

    name: str
    sub_query: SubQuery
    inputs: tuple[str, ...] = ()
    units: int = 1
    partitioned: bool = False
    hosts: tuple[int, ...] = ()
    view: View | None = None

    def __post_init__(self) -> None:
        if self.view is not None and self.inputs:
            raise PlanError(f"operator {self.name}: a view takes its matches from another part, so it has no inputs")
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

    A `fragment` reports nothing: others have views of its matches. `key` tells a part from the others of a plan, and
    finds its state in a checkpoint whatever place it has there; by default it is the query's name (see `Plan.keys`).
    With `since_us` the part sees no event before that time.
    """

    query: Query
    operators: tuple[PlanOperator, ...]
    slices: int = 1
    key: str = ""
    fragment: bool = False
    since_us: int | None = None

    def __post_init__(self) -> None:
        if self.since_us is not None and any(one.view is not None for one in self.operators):
            raise PlanError("a part that sees new events only cannot take matches from another part, which saw others")
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
        """The operators that stand for events as they come."""
        return tuple(one for one in self.operators if not one.inputs and one.view is None)

    @property
    def views(self) -> tuple[PlanOperator, ...]:
        """The operators that take matches of other parts."""
        return tuple(one for one in self.operators if one.view is not None)

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
            if operator.view is not None:
                found[operator.name] = Roles(Rule.VIEW)
                continue
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

    def stays(self, operator: PlanOperator) -> bool:
        """Whether matches stay on the host that found them: unit n of each successor gets those of unit n.

        So it is wherever a successor has the same hosts and its matches may be dealt out in any way: nothing crosses
        from host to host. A closure of groups has its matches hashed, and so has a successor with a key, whose rows are
        where they belong only if this operator was dealt out by the same key.
        """
        return operator.name in self._staying

    @cached_property
    def _staying(self) -> frozenset[str]:
        return frozenset(
            one.name
            for one in self.operators
            if one.partitioned
            and one.inputs
            and len(one.hosts) == self.roles(one).active_units > 1
            and (after := self.successors(one))
            and all(self._may_stay(one, successor) for successor in after)
        )

    def _may_stay(self, operator: PlanOperator, after: PlanOperator) -> bool:
        roles = self.roles(after)
        if after.hosts != operator.hosts or roles.rule is Rule.KLEENE_UNARY:
            return False
        if roles.dealt != BOTH:
            return True
        mine, its = self.roles(operator).keys, roles.keys
        if self.roles(operator).dealt != BOTH or mine is None or its is None:
            return False
        return are_equal(self.query, operator.sub_query, mine[0], its[after.inputs.index(operator.name)])

    def rule(self, operator: PlanOperator) -> Rule:
        """How the operator makes its matches."""
        return self.roles(operator).rule

    @property
    def is_marked(self) -> bool:
        """Whether it has what plans of version 1 cannot say."""
        return bool(self.key or self.fragment or self.views or self.since_us is not None)

    def text(self, operator: PlanOperator) -> str:
        """`name SEQ(A,B)`: how messages call an operator."""
        return f"{operator.name} {operator.sub_query.text(self.query)}"


@dataclass(frozen=True)
class Plan:
    """Plans for a workload: one part per OR-free query, in the workload's order, and the fragments that they share.

    With `hosts`, all parts share that many processing units, and the hosts of operators are numbers of theirs;
    otherwise every part has units of its own.
    """

    parts: tuple[QueryPlan, ...]
    hosts: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.hosts <= MAX_UNITS:
            raise PlanError(f"a plan has at most {MAX_UNITS} hosts, got {self.hosts}")
        given = [part.key for part in self.parts if part.key]
        if len(set(given)) < len(given):
            twice = next(key for key in given if given.count(key) > 1)
            raise PlanError(f"two parts of the plan have the key '{twice}'; give each its own")

    @cached_property
    def reported(self) -> tuple[int, ...]:
        """The places of the parts that report matches, one for each OR-free query."""
        return tuple(place for place, part in enumerate(self.parts) if not part.fragment)

    @property
    def queries(self) -> tuple[Query, ...]:
        """The OR-free queries, in the workload's order."""
        return tuple(self.parts[place].query for place in self.reported)

    @cached_property
    def place_of(self) -> dict[str, int]:
        """Where each part is, by its key."""
        return {key: place for place, key in enumerate(self.keys)}

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """A name for each part that stays the same when others come and go: the one it was given, else its query's,
        numbered where several parts have the same."""
        total, seen = Counter(part.query.name for part in self.parts), Counter[str]()
        keys: list[str] = []
        taken = {part.key for part in self.parts if part.key}
        for part in self.parts:
            name = part.query.name
            seen[name] += 1
            key = part.key or (name if total[name] == 1 else f"{name}.{seen[name]}")
            while not part.key and key in taken:  # a query may be called what another one's alternative would be
                key += "+"
            taken.add(key)
            keys.append(key)
        return tuple(keys)

    @property
    def with_keys(self) -> Plan:
        """The plan with the keys of its parts written down, so that they stay when others come and go."""
        return replace(self, parts=tuple(replace(part, key=key) for part, key in zip(self.parts, self.keys)))

    def __repr__(self) -> str:
        return f"Plan({'; '.join(map(_shown, self.parts))})"

    def to_json(self) -> str:
        return json.dumps(self.to_document(), indent=2) + "\n"

    def to_document(self) -> dict[str, Any]:
        """What `to_json` writes, as lists and dictionaries."""
        plain = not self.hosts and not any(part.is_marked for part in self.parts)
        return {
            "format": FORMAT,
            "version": VERSIONS[0] if plain else VERSIONS[1],
            **({} if plain else {"hosts": self.hosts}),
            "queries": [
                {
                    **({"key": part.key} if part.key else {}),
                    **({"fragment": True} if part.fragment else {}),
                    **({} if part.since_us is None else {"since_us": part.since_us}),
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
                            **({} if operator.view is None else {"view": _view_to(operator.view)}),
                        }
                        for operator in part.operators
                    ],
                }
                for part in self.parts
            ],
        }

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Reads what `to_json` wrote; anything else is refused with the place that is wrong."""
        document = read_document(
            text, format=FORMAT, version=VERSIONS, name="the plan", error=PlanError, remedy="make it with `decopa plan`"
        )
        hosts = document.value("hosts", int) if "hosts" in document else 0
        return cls(tuple(_part_from(part) for part in document.objects("queries")), hosts)


def _shown(part: QueryPlan) -> str:
    """`q: SEQ(A a, B b), o3 SEQ(A,B) x2`: the operators that work, and on how many units."""
    working = [f"{part.text(one)} x{one.units}" for one in part.operators if one.inputs]
    return f"{part.query.name}: {part.query.pattern}, {', '.join(working) or 'events as they come'}"


def _part_from(part: Document) -> QueryPlan:
    from decopa.language.text.parser import parse  # processing units get plans as values and need no grammar

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
            view=_view_from(item),
        )
        for item in part.objects("operators")
    ]
    slices = part.value("slices", int) if "slices" in part else 1
    key, fragment = part.value("key", str) if "key" in part else "", "fragment" in part and part.value("fragment", bool)
    since_us = part.value("since_us", int) if "since_us" in part else None
    return QueryPlan(query, tuple(operators), slices, key, fragment, since_us)


def _view_to(view: View) -> dict[str, object]:
    return {"part": view.part, "operator": view.operator, "positions": view.names}


def _view_from(item: Document) -> View | None:
    if "view" not in item:
        return None
    view = as_document(item.value("view", dict), f"{item.where}: view", PlanError)
    names = view.value("positions", dict)
    if not names or not all(isinstance(name, str) for name in names.values()):
        view.fail("'positions' must say for each alias of the view what it is called in the other part")
    return View(view.value("part", str), view.value("operator", str), tuple(names.items()))


def _hosts(item: Document) -> tuple[int, ...]:
    hosts = item.value("hosts", list) if "hosts" in item else []
    if not all(isinstance(host, int) and not isinstance(host, bool) and 0 <= host < MAX_UNITS for host in hosts):
        item.fail(f"'hosts' must be a list of unit numbers below {MAX_UNITS}")
    return tuple(hosts)
