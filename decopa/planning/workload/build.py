"""A multitree -> a plan: sub-patterns that several use become fragments, the others stay where they are used."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from decopa.planning.plan import Plan, PlanOperator, QueryPlan, View
from decopa.planning.strategies.left_deep import joined_parts
from decopa.planning.subquery import SubQuery
from decopa.planning.workload.trees.multitree import Key, MultiTree
from decopa.planning.workload.trees.problem import QueryProblem
from decopa.planning.workload.views import carried_attributes, needed_attributes
from decopa.query.canonical import renamed_query, residue
from decopa.query.conditions.predicate import Attr
from decopa.query.query import Query


@dataclass(frozen=True)
class Viewing:
    """A query whose plain events come as matches of a pattern of the problem, where they are called as `names` say."""

    query: Query
    pattern: int
    names: Mapping[str, str]


def plan_alone(problem: QueryProblem, trees: MultiTree, pattern: int) -> QueryPlan:
    """The plan of one query that shares nothing, not even what it looks for twice itself."""
    return _PlanBuilder(problem, trees, (), sharing=False).query_part(pattern)


def plan_of(problem: QueryProblem, trees: MultiTree, parts: Sequence[QueryPlan | Viewing | int]) -> Plan:
    """The plan of a workload; `parts` has for each OR-free query a plan of its own, the number of its pattern in the
    problem, or the pattern that it takes matches of."""
    builder = _PlanBuilder(problem, trees, {one.pattern for one in parts if isinstance(one, Viewing)})
    queries = []
    for one in parts:
        if isinstance(one, int):
            queries.append(builder.query_part(one))
        else:
            queries.append(builder.viewing_part(one) if isinstance(one, Viewing) else one)
    return builder.with_returns(queries)


class _PlanBuilder:
    """`viewed` are patterns of which others take the matches."""

    def __init__(
        self, problem: QueryProblem, trees: MultiTree, viewed: Collection[int], *, sharing: bool = True
    ) -> None:
        self._problem, self._trees = problem, trees
        uses = Counter(key for node in trees.nodes.values() for key in node.inputs)
        uses.update(chosen.root for chosen in trees.chosen.values())
        uses.update(trees.chosen[pattern].root for pattern in viewed)
        self._shared = {key for key, count in uses.items() if sharing and count > 1 and trees.nodes[key].inputs}
        #: Fragments in the order of their making: each after those that it has views of.
        self._fragments: dict[Key, QueryPlan] = {}

    def query_part(self, pattern: int) -> QueryPlan:
        query, mask = self._problem.queries[pattern], self._problem.full(pattern)
        core = SubQuery(self._problem.names(pattern, mask))
        operators = _Operators(query)
        root = self._operator(operators, pattern, mask, self._trees.chosen[pattern].root, pattern)
        return _completed(query, core, operators, root)

    def viewing_part(self, one: Viewing) -> QueryPlan:
        mask, key = self._problem.full(one.pattern), self._trees.chosen[one.pattern].root
        fragment = self._fragment(key, one.pattern, mask)
        numbers = self._problem.numbers[one.pattern, mask]
        names = tuple((alias, f"p{numbers[there]}") for alias, there in one.names.items())
        core, operators = SubQuery(frozenset(one.names)), _Operators(one.query)
        root = operators.add(core, view=View(_name(key), fragment.root.name, names))
        return _completed(one.query, core, operators, root)

    def _operator(self, operators: _Operators, pattern: int, mask: int, key: Key, owner: int | Key) -> PlanOperator:
        """The operator that finds a sub-pattern within a part: a leaf, a view of a fragment, or a join."""
        sub_query = SubQuery(frozenset(operators.names[alias] for alias in self._problem.names(pattern, mask)))
        if not mask & (mask - 1):
            return operators.add(sub_query)
        if key in self._shared and key != owner:
            fragment = self._fragment(key, pattern, mask)
            here = self._problem.numbers[pattern, mask]
            names = tuple((operators.names[alias], f"p{number}") for alias, number in here.items())
            return operators.add(sub_query, view=View(_name(key), fragment.root.name, names))
        left, right = self._split(pattern, mask, key)
        first, second = self._trees.nodes[key].inputs
        inputs = (
            self._operator(operators, pattern, left, first, owner),
            self._operator(operators, pattern, right, second, owner),
        )
        return operators.add(sub_query, *inputs)

    def _split(self, pattern: int, mask: int, key: Key) -> tuple[int, int]:
        """The two sub-patterns of this pattern that the inputs of a node stand for."""
        first, second = self._trees.nodes[key].inputs
        left = (mask - 1) & mask
        while left:
            right = mask ^ left
            if self._problem.form(pattern, left) == first[0] and self._problem.form(pattern, right) == second[0]:
                return left, right
            left = (left - 1) & mask
        raise AssertionError("a node has inputs that its sub-pattern cannot be split into")

    def _fragment(self, key: Key, pattern: int, mask: int) -> QueryPlan:
        if key not in self._fragments:
            numbers = self._problem.numbers[pattern, mask]
            names = {alias: f"p{number}" for alias, number in numbers.items()}
            projected = self._problem.demanded[pattern].project(names)
            query = replace(renamed_query(projected, names, _name(key)), window_us=key[1])
            operators = _Operators(query, names)
            self._operator(operators, pattern, mask, key, key)
            self._fragments[key] = QueryPlan(query, tuple(operators.made), key=_name(key), fragment=True)
        return self._fragments[key]

    def with_returns(self, queries: Sequence[QueryPlan]) -> Plan:
        """The plan with fragments that pass on what their users need."""
        needed: dict[str, dict[Attr, None]] = {_name(key): {} for key in self._fragments}
        done: dict[str, QueryPlan] = {}

        def ask(part: QueryPlan, known: Mapping[str, Query]) -> None:
            for operator in part.views:
                assert operator.view is not None
                names, source = operator.view.names, known[operator.view.part]
                left = residue(source, source.aliases, part.query, names)
                carried = carried_attributes(source, SubQuery(frozenset(source.aliases)))
                for attr in needed_attributes(part.query, operator.sub_query, left):
                    there = Attr(names[attr.alias], attr.name)
                    if there not in carried:
                        needed[operator.view.part][there] = None

        known = {_name(key): part.query for key, part in self._fragments.items()}
        for part in queries:
            ask(part, known)
        for key, part in reversed(self._fragments.items()):
            returns = tuple(sorted(needed[_name(key)], key=str))
            done[_name(key)] = replace(part, query=replace(part.query, returns=returns))
            ask(done[_name(key)], known)
        return Plan((*(done[_name(key)] for key in self._fragments), *queries))


class _Operators:
    """The operators of one part; `names` says what the events of the pattern are called there."""

    def __init__(self, query: Query, names: Mapping[str, str] | None = None) -> None:
        self.names = dict(names) if names is not None else {alias: alias for alias in query.aliases}
        self.made: list[PlanOperator] = []

    def add(self, sub_query: SubQuery, *inputs: PlanOperator, view: View | None = None) -> PlanOperator:
        name = f"o{len(self.made) + 1}"
        self.made.append(PlanOperator(name, sub_query, tuple(one.name for one in inputs), view=view))
        return self.made[-1]


def _completed(query: Query, core: SubQuery, operators: _Operators, root: PlanOperator) -> QueryPlan:
    """The plan of a query from the operators that find its plain events; groups and NOTs come on top."""
    if len(core.aliases) == len(query.aliases):
        return QueryPlan(query, tuple(operators.made))
    rest = [SubQuery(frozenset({alias})) for alias in query.aliases if alias not in core.aliases]
    return _grafted(joined_parts(query, (core, *rest)), core, operators.made, root)


def _grafted(plan: QueryPlan, core: SubQuery, operators: Sequence[PlanOperator], root: PlanOperator) -> QueryPlan:
    """The plan with the leaf that stands for the core replaced by the operators that find it."""
    stump = next(one for one in plan.operators if one.sub_query == core and not one.inputs)
    names = {one.name: f"o{len(operators) + place + 1}" for place, one in enumerate(plan.operators)}
    names[stump.name] = root.name
    others = (
        replace(one, name=names[one.name], inputs=tuple(names[source] for source in one.inputs))
        for one in plan.operators
        if one is not stump
    )
    return QueryPlan(plan.query, (*operators, *others))


def _name(key: Key) -> str:
    """A name for a fragment that is the same in every plan that has it."""
    form, window = key
    text = f"{form.types} {sorted(form.order)} {sorted(form.conditions)} {window}"  # type: ignore[attr-defined]
    return f"f-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
