"""Random plans that are valid by construction: bushy, with shared positions, early or late groups and negations."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import strategies as st

from decopa.errors import PlanError
from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.roles import Rule
from decopa.planning.subquery import SubQuery, negated_part, whole
from decopa.planning.succession import problems
from decopa.planning.validate import violations
from decopa.query.analysis import Negation
from decopa.query.query import Query

MAX_UNITS = 4

Split = tuple[SubQuery, ...]


@st.composite
def plans(draw: st.DrawFn, query: Query) -> Plan:
    """A random plan for each OR-free branch of the query."""
    return Plan(tuple(random_plan(draw, branch) for branch in query.branches))


def random_plan(draw: st.DrawFn, query: Query) -> QueryPlan:
    """A structurally valid plan of an OR-free query, drawn from the root downwards."""
    builder = _Builder(draw, query)
    builder.operator_for(whole(query))
    plan = QueryPlan(query, tuple(builder.operators))
    return _with_units(draw, _with_partitions(draw, plan))


@st.composite
def rescaled(draw: st.DrawFn, plan: Plan) -> Plan:
    """The same operators on other numbers of units, with other partition flags."""
    return Plan(tuple(_with_units(draw, _with_partitions(draw, part)) for part in plan.parts))


class _Builder:
    def __init__(self, draw: st.DrawFn, query: Query) -> None:
        self.draw, self.query = draw, query
        self.operators: list[PlanOperator] = []
        self.name_of: dict[SubQuery, str] = {}

    def operator_for(self, target: SubQuery) -> str:
        """The name of the one operator that matches `target`; sub-queries met again are shared (Def. 5.1)."""
        if target not in self.name_of:
            ways = [splits for splits in self.splits_by_kind(target) if splits]
            inputs = self.draw(st.sampled_from(self.draw(st.sampled_from(ways))))
            names = tuple(self.operator_for(part) for part in inputs)
            self.name_of[target] = f"o{len(self.operators) + 1}"
            self.operators.append(PlanOperator(self.name_of[target], target, names))
        return self.name_of[target]

    def splits_by_kind(self, target: SubQuery) -> tuple[list[Split], ...]:
        """Every way to make `target` out of smaller sub-queries, those of one kind together."""
        if len(target.aliases) == 1 and not target.closed:
            return ([()],)
        ways = self.group_splits(target), self.negation_splits(target), self.join_splits(target)
        return (
            ways
            if not self.query.chosen_in_order
            else tuple([one for one in way if self.exact(target, one)] for way in ways)
        )

    def exact(self, target: SubQuery, inputs: Split) -> bool:
        """Whether the rules for NEXT accept the step and each of its inputs."""
        parts: list[tuple[SubQuery, Split]] = [(target, inputs), *((one, ()) for one in inputs)]
        return not any(True for part, sources in parts for _ in problems(self.query, part, sources))

    def group_splits(self, target: SubQuery) -> list[Split]:
        """Unary and binary Kleene splits (4.1) of a group that no negation in `target` has asked for."""
        asked = frozenset().union(*(self.query.context_of(negation) for negation in target.negations(self.query)))
        splits: list[Split] = []
        for alias in sorted((target.closed & target.positive(self.query)) - asked):
            group = self.query.group_of(alias)
            if alias == min(group) and not group & asked:
                splits.append((SubQuery(target.aliases, target.closed - group),))
            if len(group) == 1 < len(target.positive(self.query)):
                rest = SubQuery(target.aliases - {alias}, target.closed - {alias})
                splits.append((rest, SubQuery(frozenset({alias}))))
        return splits

    def negation_splits(self, target: SubQuery) -> list[Split]:
        splits: list[Split] = []
        for negation in target.negations(self.query):
            rest = SubQuery(target.aliases - negation.aliases, target.closed - negation.aliases)
            splits.append((rest, negated_part(self.query, negation)))
        return splits

    def join_splits(self, target: SubQuery) -> list[Split]:
        """Two sub-queries that together have every position, some of them perhaps twice."""
        positions = sorted(target.positive(self.query))
        negations = target.negations(self.query)
        splits: list[Split] = []
        for sides in itertools.product(("left", "right", "both"), repeat=len(positions)):
            left, right = (
                frozenset(alias for alias, side in zip(positions, sides, strict=True) if side in (here, "both"))
                for here in ("left", "right")
            )
            closed = [group for group in self.query.composites if group <= target.closed]
            torn = any(group & side and not group <= side for group in closed for side in (left, right))
            if left and right and not torn:
                splits += self.joins_of(target, left, right, negations)
        return splits

    def joins_of(
        self, target: SubQuery, left: frozenset[str], right: frozenset[str], negations: tuple[Negation, ...]
    ) -> list[Split]:
        """Every way to decide the negations on the left, the right or both; none if one of them needs more."""
        places = [
            [chosen for chosen in ((left,), (right,), (left, right)) if all(self.decides(side, one) for side in chosen)]
            for one in negations
        ]
        splits: list[Split] = []
        for choice in itertools.product(*places):
            decided = list(zip(negations, choice, strict=True))
            inputs = tuple(
                _part(target, side.union(*(negation.aliases for negation, chosen in decided if side in chosen)))
                for side in (left, right)
            )
            if target not in inputs and inputs[0] != inputs[1]:
                splits.append(inputs)
        return splits

    def decides(self, positions: frozenset[str], negation: Negation) -> bool:
        return self.query.context_of(negation) <= positions


def _part(target: SubQuery, aliases: frozenset[str]) -> SubQuery:
    return SubQuery(aliases, target.closed & aliases)


def _with_partitions(draw: st.DrawFn, plan: QueryPlan) -> QueryPlan:
    """Flags set at random, in random order, as long as the plan stays valid."""
    if plan.query.chosen_in_order or draw(st.booleans()):
        return _with_valid_flags(draw, plan)
    partitioned: set[str] = set()
    for operator in draw(st.permutations(plan.operators)):
        allowed = all(
            _may_be_dealt_out(plan, operator, successor) and not partitioned & set(successor.inputs)
            for successor in plan.successors(operator)
        )
        if allowed and draw(st.booleans()):
            partitioned.add(operator.name)
    flagged = tuple(replace(operator, partitioned=operator.name in partitioned) for operator in plan.operators)
    return replace(plan, operators=flagged)


def _with_valid_flags(draw: st.DrawFn, plan: QueryPlan) -> QueryPlan:
    """As `_with_partitions`, by the rules themselves: with a key, both inputs may be hashed."""
    for name in draw(st.permutations([operator.name for operator in plan.operators])):
        if draw(st.booleans()):
            flagged = tuple(replace(one, partitioned=one.partitioned or one.name == name) for one in plan.operators)
            changed = replace(plan, operators=flagged)
            plan = changed if not any(True for _ in violations(changed)) else plan
    return plan


def _may_be_dealt_out(plan: QueryPlan, operator: PlanOperator, successor: PlanOperator) -> bool:
    """Not the events of a binary Kleene split nor the negated input: every unit needs all of them."""
    match plan.rule(successor):
        case Rule.KLEENE_BINARY:
            formed = successor.sub_query.closed - operator.sub_query.closed
            return not operator.sub_query.aliases <= formed
        case Rule.NEGATION:
            return operator.sub_query.scope(plan.query) == successor.sub_query.scope(plan.query)
        case _:
            return True


def _with_units(draw: st.DrawFn, plan: QueryPlan) -> QueryPlan:
    """Each operator on units of its own, or all of them on the same, where matches may stay."""
    counts = st.integers(1, MAX_UNITS)
    if draw(st.booleans()):
        return side_by_side(draw, plan)
    return replace(plan, operators=tuple(replace(one, units=draw(counts), hosts=()) for one in plan.operators))


def side_by_side(draw: st.DrawFn, plan: QueryPlan) -> QueryPlan:
    """All operators on the same hosts."""
    units = draw(st.integers(1, MAX_UNITS))
    hosts = tuple(range(units))
    return replace(
        plan, operators=tuple(replace(one, units=units, hosts=hosts if one.inputs else ()) for one in plan.operators)
    )


@st.composite
def damaged_plans(draw: st.DrawFn, query: Query) -> Plan:
    """Plans that look right at first sight; most of them break a rule."""
    parts = []
    for branch in query.branches:
        plan = random_plan(draw, branch)
        for _ in range(draw(st.integers(1, 2))):
            plan = _damaged(draw, plan)
        parts.append(plan)
    return Plan(tuple(parts))


def _damaged(draw: st.DrawFn, plan: QueryPlan) -> QueryPlan:
    operator = draw(st.sampled_from(plan.operators))
    aliases, closed = operator.sub_query.aliases, operator.sub_query.closed
    names = st.sampled_from([other.name for other in plan.operators])
    match draw(st.sampled_from(("partitioned", "inputs", "swap", "aliases", "closed", "drop"))):
        case "partitioned":
            changed = replace(operator, partitioned=not operator.partitioned)
        case "inputs":
            changed = replace(operator, inputs=tuple(draw(st.lists(names, max_size=3))))
        case "swap":
            changed = replace(operator, inputs=operator.inputs[::-1])
        case "aliases":
            toggled = aliases ^ {draw(st.sampled_from(plan.query.aliases))}
            changed = replace(operator, sub_query=SubQuery(toggled or aliases, closed & (toggled or aliases)))
        case "closed":
            toggled = closed ^ {draw(st.sampled_from(sorted(aliases)))}
            changed = replace(operator, sub_query=SubQuery(aliases, toggled))
        case _ if len(plan.operators) > 1:
            return _unless_refused(plan, tuple(other for other in plan.operators if other is not operator))
        case _:
            return plan
    return _unless_refused(plan, tuple(changed if other is operator else other for other in plan.operators))


def _unless_refused(plan: QueryPlan, operators: tuple[PlanOperator, ...]) -> QueryPlan:
    try:
        return replace(plan, operators=operators)
    except PlanError:
        return plan
