"""Structural validity (Def. 5 with its Kleene rules, and the negation-closed rule): the last gate before a plan runs.

A plan that passes finds exactly the matches of its query. Every way to fail has a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from decopa.errors import PlanError, QueryError
from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.roles import Roles, Rule
from decopa.planning.subquery import negated_part, whole
from decopa.planning.succession import problems
from decopa.planning.workload.validate import workload_problems
from decopa.query.query import Query


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: its name, the operator, and a sentence that says what to change."""

    rule: str
    operator: str
    message: str


def check_structure(plan: Plan | QueryPlan) -> None:
    """Raises PlanError with the first violation, if there is any."""
    found = plan_violations(plan) if isinstance(plan, Plan) else violations(plan)
    for violation in found:
        raise PlanError(f"operator {violation.operator}: {violation.message} [{violation.rule}]")


def plan_violations(plan: Plan) -> Iterator[Violation]:
    """Every violation of the rules of parts, then of those of the plan as a whole."""
    for part in plan.parts:
        yield from violations(part)
    if plan.hosts or any(part.fragment or part.views for part in plan.parts):
        yield from (Violation(*problem) for problem in workload_problems(plan))


def violations(plan: QueryPlan) -> Iterator[Violation]:
    """Every violation of structural validity, in plan order."""
    yield from _root(plan)
    seen: dict[object, PlanOperator] = {}
    for operator in plan.operators:
        twin = seen.setdefault(operator.sub_query, operator)
        if twin is not operator:
            yield Violation(
                "duplicate-sub-query",
                operator.name,
                f"matches the same sub-query as {twin.name}; keep one and share it (Def. 5.1)",
            )
        try:
            problems = list(_operator(plan, operator))
        except (PlanError, QueryError) as err:  # its sub-query cannot even be written down
            problems = [("sub-query", str(err))]
        for rule, message in problems:
            yield Violation(rule, operator.name, message)


def _root(plan: QueryPlan) -> Iterator[Violation]:
    roots = [operator for operator in plan.operators if not plan.successors(operator)]
    wanted = whole(plan.query)
    if not any(root.sub_query == wanted for root in roots):
        yield Violation(
            "root", roots[0].name if roots else "-", f"no operator without successor matches {wanted.text(plan.query)}"
        )
    for extra in (root for root in roots if root.sub_query != wanted):
        yield Violation("unused", extra.name, "nothing takes its matches; remove it or make it an input")


def _operator(plan: QueryPlan, operator: PlanOperator) -> Iterator[tuple[str, str]]:
    query, sub_query, inputs = plan.query, operator.sub_query, plan.inputs(operator)
    kleene = sub_query.closed - query.kleene_aliases
    if kleene:
        yield "kleene-alias", f"'{sorted(kleene)[0]}' is closed but is no KL position of the query"
        return
    torn = sorted(alias for alias in sub_query.closed if not query.group_of(alias) <= sub_query.closed)
    if torn:
        group = sorted(query.group_of(torn[0]))
        yield "kleene-torn", f"'{torn[0]}' is closed without all events of its group {group}; close them at once"
        return
    if operator.view is not None:
        return  # what it takes from another part is checked with the plan as a whole
    if not inputs:
        if len(sub_query.aliases) != 1 or sub_query.closed:
            yield "leaf", "has no input, so it must be one position, not closed; give it inputs"
        return
    if len(inputs) > 2:
        yield "arity", f"has {len(inputs)} inputs; splits are binary, so at most two (4.1)"
        return
    if len(set(operator.inputs)) != len(operator.inputs):
        yield "arity", f"takes '{operator.inputs[0]}' as both inputs"
        return
    covered = frozenset().union(*[source.sub_query.aliases for source in inputs])
    if covered != sub_query.aliases:
        missing, extra = sorted(sub_query.aliases - covered), sorted(covered - sub_query.aliases)
        what = f"position {missing[0]} is in no input" if missing else f"input position {extra[0]} is not in it"
        yield "cover", f"{what}; inputs and operator must cover the same positions (Def. 2)"
        return
    yield from _negation_closed(plan, operator)
    yield from problems(query, sub_query, [source.sub_query for source in inputs])
    partitioned = [source for source in inputs if source.partitioned]
    if plan.rule(operator) is Rule.NEXT:
        yield from _next(operator, plan.roles(operator), inputs)
        return
    roles = plan.roles(operator)
    if len(partitioned) > 1 and roles.hashed is None:
        yield (
            "two-partitioned",
            f"inputs {partitioned[0].name} and {partitioned[1].name} are both partitioned, so some pairs never meet; "
            f"broadcast input {partitioned[1].name} (Def. 5.2)",
        )
    if roles.rule is Rule.KLEENE_UNARY:
        yield from _kleene_unary(query, operator, roles, inputs[0])
    elif roles.rule is Rule.KLEENE_BINARY:
        yield from _kleene_binary(plan, operator, roles, inputs)
    elif roles.rule is Rule.JOIN:
        yield from _join(operator, inputs)
    else:
        yield from _negation(plan, operator, roles, inputs)


def _negation_closed(plan: QueryPlan, operator: PlanOperator) -> Iterator[tuple[str, str]]:
    query, sub_query = plan.query, operator.sub_query
    for negation in sub_query.negations(query):
        if not negation.aliases <= sub_query.aliases:
            yield "negation-closed", f"has only a part of the negated positions {sorted(negation.aliases)}"
        missing = query.context_of(negation) - sub_query.aliases
        if missing:
            yield (
                "negation-closed",
                f"includes the negated {sorted(negation.aliases)} but not {sorted(missing)}, which it depends on "
                "(MuSE Def. 9)",
            )


def _kleene_unary(
    query: Query, operator: PlanOperator, roles: Roles, source: PlanOperator
) -> Iterator[tuple[str, str]]:
    one_group = bool(roles.formed) and roles.formed == query.group_of(min(roles.formed))
    if not one_group or not source.sub_query.closed <= operator.sub_query.closed:
        yield (
            "kleene-unary",
            f"one input, so it must form the groups of exactly one KL position, not of {sorted(roles.formed)} (4.1)",
        )


def _kleene_binary(
    plan: QueryPlan, operator: PlanOperator, roles: Roles, inputs: tuple[PlanOperator, ...]
) -> Iterator[tuple[str, str]]:
    if len(roles.formed) != 1:
        yield (
            "kleene-binary",
            f"forms the groups of {sorted(roles.formed)} at once; at most one per operator (4.1), and those of several "
            "events with one input, out of their matches",
        )
        return
    (alias,), rest, events = roles.formed, inputs[roles.main], inputs[roles.other]
    apart = events.sub_query.aliases == {alias} and alias not in rest.sub_query.aliases
    if not apart or rest.sub_query.closed | {alias} != operator.sub_query.closed:
        yield "kleene-binary", f"one input must be the events of '{alias}', the other everything else (4.1)"
        return
    if len({source.sub_query.scope(plan.query) for source in inputs}) > 1:
        yield "kleene-binary", f"the groups of '{alias}' are formed out of a negated part; form them first, then negate"
    if events.partitioned:
        yield (
            "kleene-input-partitioned",
            f"the events of KL position '{alias}' (input {events.name}) are partitioned, so no unit sees a whole "
            "group; broadcast them (Def. 5.3)",
        )


def _join(operator: PlanOperator, inputs: tuple[PlanOperator, ...]) -> Iterator[tuple[str, str]]:
    left, right = (source.sub_query for source in inputs)
    if operator.sub_query.closed != left.closed | right.closed:
        yield "kleene-lost", "an input has formed KL groups that this operator does not list as closed"
    shared = left.aliases & right.aliases
    if left.closed & shared != right.closed & shared:
        torn = sorted((left.closed ^ right.closed) & shared)
        yield "kleene-mixed", f"'{torn[0]}' is a group in one input and a single event in the other"


def _next(operator: PlanOperator, roles: Roles, inputs: tuple[PlanOperator, ...]) -> Iterator[tuple[str, str]]:
    left, right = inputs[roles.main], inputs[roles.other]
    if operator.sub_query.closed != left.sub_query.closed | right.sub_query.closed:
        yield "kleene-lost", "an input has formed KL groups that this operator does not list as closed"
    if not right.partitioned:
        return
    if not left.partitioned:
        yield (
            "next-input-partitioned",
            f"the input {right.name} that follows is partitioned, so a unit may miss the next event; broadcast it, or "
            f"partition input {left.name}, too, if FILTER has a key",
        )
    elif roles.hashed is None:
        assert roles.succession is not None
        yield (
            "next-input-partitioned",
            f"inputs {left.name} and {right.name} are both partitioned, but no FILTER requires an attribute of "
            f"'{roles.succession.chosen}' to equal one of the events before, so a unit may miss the next event; "
            f"broadcast input {right.name}",
        )


def _negation(
    plan: QueryPlan, operator: PlanOperator, roles: Roles, inputs: tuple[PlanOperator, ...]
) -> Iterator[tuple[str, str]]:
    query, positive, negated = plan.query, inputs[roles.main], inputs[roles.other]
    if roles.negation is None or negated.sub_query != negated_part(query, roles.negation):
        yield "negation", "one input must be exactly the negated part, the other the positions around it"
        return
    if operator.sub_query.closed != positive.sub_query.closed | negated.sub_query.closed:
        yield "kleene-lost", "an input has formed KL groups that this operator does not list as closed"
    open_groups = (query.context_of(roles.negation) & query.kleene_aliases) - positive.sub_query.closed
    if open_groups:
        yield (
            "negation-open-kleene",
            f"the negation depends on KL position '{sorted(open_groups)[0]}', whose groups are not formed yet",
        )
    if negated.partitioned and roles.hashed is None:
        yield (
            "negated-input-partitioned",
            f"the negated input {negated.name} is partitioned, so a unit may miss the event that blocks a match; "
            "broadcast it",
        )
