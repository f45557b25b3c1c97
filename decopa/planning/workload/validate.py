"""Validity of a whole plan: views that find exactly their sub-query's matches, fragments that are used, hosts that do
not wait for each other. The rules of single parts are those of `decopa.planning.validate`."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx

from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.workload.views import missing_attributes, source_of
from decopa.query.canonical import cover_problems

#: The rule that is broken, the operator, and what to change.
Problem = tuple[str, str, str]


def part_graph(plan: Plan) -> nx.DiGraph:
    """Edges lead from a part to those that have views of it; nodes are keys."""
    graph = nx.DiGraph()
    graph.add_nodes_from(plan.keys)
    for key, part in zip(plan.keys, plan.parts, strict=True):
        graph.add_edges_from((one.view.part, key) for one in part.views if one.view is not None)
    return graph


def workload_problems(plan: Plan) -> Iterator[Problem]:
    """Every rule about the parts of a plan together that is broken."""
    graph = part_graph(plan)
    unknown = False
    for key, part in zip(plan.keys, plan.parts, strict=True):
        for operator in part.views:
            for rule, message in _view(plan, part, operator):
                unknown |= rule == "view-source"
                yield rule, f"{key}/{operator.name}", message
        if part.fragment and not any(True for _ in graph.successors(key)):
            yield "unused-fragment", key, "nothing takes its matches; remove it, or make it a query"
    if not nx.is_directed_acyclic_graph(graph):
        circle = " -> ".join(edge[0] for edge in nx.find_cycle(graph))
        yield "view-cycle", circle, "the parts take matches from each other in a circle; remove one of the views"
    elif not unknown:
        yield from _hosts(plan)


def _view(plan: Plan, part: QueryPlan, operator: PlanOperator) -> Iterator[tuple[str, str]]:
    view = operator.view
    assert view is not None
    other = plan.parts[plan.place_of[view.part]] if view.part in plan.place_of else None
    if other is None or view.operator not in {one.name for one in other.operators}:
        yield "view-source", f"the plan has no operator {view.operator} in a part {view.part}"
        return
    source = other.operator(view.operator)
    if not source.inputs:
        yield "view-source", f"{view.part}/{view.operator} is a leaf; take the events, or view what it views"
        return
    if part.slices > 1 or other.slices > 1:
        yield "view-slices", "parts that take turns on slices of the stream (strategy `rip`) share nothing with others"
    if set(view.names) != operator.sub_query.aliases or operator.sub_query.closed:
        yield "view-cover", f"it must rename the events {sorted(operator.sub_query.aliases)}, each once and no others"
        return
    odd = sorted(set(view.names.values()) - source.sub_query.aliases)
    if odd or source.sub_query.closed or source.sub_query.scope(other.query):
        what = f"'{odd[0]}' is no event of it" if odd else "it has KL groups or is negated"
        yield "view-cover", f"cannot take matches of {view.part}/{view.operator}: {what}"
        return
    problems = cover_problems(other.query, source.sub_query.aliases, part.query, view.names)
    for problem in problems:
        yield "view-cover", f"{view.part}/{view.operator} does not find all that is needed here: {problem}"
    if not problems:
        for attr in missing_attributes(plan, part, operator):
            yield "view-columns", f"{view.part} does not pass on {attr}; add it to its RETURN"


def _hosts(plan: Plan) -> Iterator[Problem]:
    """Units that share hosts with other parts: each has one, and hosts feed each other in one direction only."""
    if not plan.hosts:
        return
    graph = nx.DiGraph()
    for key, part in zip(plan.keys, plan.parts, strict=True):
        for operator in part.operators:
            if not operator.inputs:
                continue
            if not operator.hosts or max(operator.hosts) >= plan.hosts:
                yield "host", f"{key}/{operator.name}", f"its units need hosts below {plan.hosts}, the number of hosts"
                return
            for one, source in _feeding(plan, part, operator):
                if one.view is None and part.stays(one):
                    continue
                ends = ((one, other) for one in _active(source[0], source[1]) for other in _active(part, operator))
                graph.add_edges_from((one, other) for one, other in ends if one != other)
    if not nx.is_directed_acyclic_graph(graph):
        circle = " -> ".join(str(edge[0]) for edge in nx.find_cycle(graph))
        yield "host-cycle", f"hosts {circle}", "they feed each other in a circle, so each would wait for the other"


def _feeding(
    plan: Plan, part: QueryPlan, operator: PlanOperator
) -> Iterator[tuple[PlanOperator, tuple[QueryPlan, PlanOperator]]]:
    """The operators with units that rows for an operator come from, with the input that they come by."""
    for one in part.inputs(operator):
        if one.view is not None:
            yield one, source_of(plan, one.view)
        elif one.inputs:
            yield one, (part, one)


def _active(part: QueryPlan, operator: PlanOperator) -> tuple[int, ...]:
    return operator.hosts[: part.roles(operator).active_units]
