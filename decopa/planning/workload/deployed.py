"""A query that joins others which run already: its largest sub-expression that one of them finds is taken from there.

This is the look-up in what is deployed of the NEXT paper (4.4), from the whole query down. What runs stays as it is, so
its matches must carry all that the new query needs of them, and a window at least as long.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import networkx as nx

from decopa.planning.plan import Plan, PlanOperator, QueryPlan, View
from decopa.planning.validate import plan_violations
from decopa.query.conditions.predicate import aliases_of
from decopa.query.query import Query

#: Ways to name events of the same type that are tried for one pair of operators.
_MOST_RENAMINGS = 24


def with_deployed(part: QueryPlan, deployed: Sequence[QueryPlan]) -> QueryPlan:
    """The part with a view in place of the operators that find what an operator of `deployed` finds, if there is one.

    A part that looks at events from some moment on only neither takes matches nor gives any.
    """
    others = [one for one in deployed if one.since_us is None and one.key]
    if part.since_us is not None or not others:
        return part
    largest_first = sorted(part.operators, key=lambda one: -len(one.sub_query.aliases))
    for operator in largest_first:
        for view in _views(part, operator, others) if operator.inputs else ():
            viewing = _grafted(part, operator, view)
            if next(plan_violations(Plan((*deployed, viewing))), None) is None:
                return viewing
    return part


def _views(part: QueryPlan, operator: PlanOperator, others: Sequence[QueryPlan]) -> Iterator[View]:
    """The operators that find as many events of the same types, with every way to name these."""
    aliases = sorted(operator.sub_query.aliases)
    types = [part.query.position(alias).types for alias in aliases]
    for other in others:
        for source in other.operators:
            theirs = sorted(source.sub_query.aliases)
            if not source.inputs or len(theirs) != len(aliases) or _looks_ahead(other.query, source):
                continue
            ways = (
                way for way in itertools.permutations(theirs)
                if [other.query.position(alias).types for alias in way] == types
            )  # fmt: skip
            for way in itertools.islice(ways, _MOST_RENAMINGS):
                yield View(other.key, source.name, tuple(zip(aliases, way, strict=True)))


def _looks_ahead(query: Query, source: PlanOperator) -> bool:
    """Whether conditions with later events may say something about the events of an operator: it may then drop what no
    later event can complete, which another query wants."""
    mine = source.sub_query.aliases
    if any(mine <= chain.aliases for chain in query.chains):  # a NEXT is decided from left to right
        return False
    linked = nx.Graph()
    for condition in query.where:
        named = aliases_of(condition)
        if not named <= mine:
            nx.add_path(linked, sorted(named))
    return any(len(group & mine) > 1 for group in nx.connected_components(linked))


def _grafted(part: QueryPlan, operator: PlanOperator, view: View) -> QueryPlan:
    """The part with the operator as a view, without what only it was fed by."""
    viewing = {one.name: one for one in part.operators} | {operator.name: replace(operator, inputs=(), view=view)}
    needed, waiting = set[str](), [part.root.name]
    while waiting:
        name = waiting.pop()
        needed.add(name)
        waiting += viewing[name].inputs
    return replace(part, operators=tuple(one for name, one in viewing.items() if name in needed))
