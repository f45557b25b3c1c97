"""Queries that differ in constants and windows only: whether one fragment with the weakest of them serves all.

The weakest form finds more than any member wants; so the members that cost most alone may be left out of it, and
members of different windows may have fragments of their own. What is predicted to cost least is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from costmodel.capacity import Capacity
from costmodel.formulas import RateModel
from costmodel.statistics import Statistics
from decopa.planning.workload.statistics import User, statistics_of_users
from decopa.planning.workload.trees.multitree import Chosen, MultiTree
from decopa.planning.workload.trees.problem import QueryProblem
from decopa.planning.workload.trees.response import Responder
from decopa.query.canonical import shareable_aliases
from decopa.query.query import Query
from decopa.query.template import TemplateMember, member_of, weakest_member


@dataclass(frozen=True)
class Template:
    """`query` is the weakest form, with what is known of it. For each member, by the place of its query, what its
    events are called there."""

    query: Query
    statistics: Statistics
    names: Mapping[int, Mapping[str, str]]


@dataclass(frozen=True)
class Pricing:
    """What templates are weighed by."""

    statistics: Mapping[Query, Statistics]
    capacity: Capacity
    model: RateModel | None = None


#: A query, its place in the workload, and the member of a template that it is.
_Member = tuple[int, Query, TemplateMember]


def templates(queries: Sequence[Query], places: Sequence[int], pricing: Pricing) -> list[Template]:
    """The templates that pay, among the queries at `places`."""
    groups: dict[object, list[_Member]] = {}
    for place in places:
        query = queries[place]
        member = member_of(query, shareable_aliases(query))
        if member is not None:
            groups.setdefault(member.form, []).append((place, query, member))
    found: list[Template] = []
    for members in groups.values():
        if len({(member.bounds, query.window_us) for _, query, member in members}) > 1:
            found += _Weighing(members, pricing).cheapest(f"t{len(found)}")
    return found


class _Weighing:
    """One template against its members on their own."""

    def __init__(self, members: Sequence[_Member], pricing: Pricing) -> None:
        self._members, self._pricing = members, pricing
        problem, responder = self._problem([query for _, query, _ in members])
        self._alone = [_cost(responder.best(pattern)) for pattern in range(len(members))]
        self._views = [
            problem.view_cost(pattern, problem.full(pattern), query.window_us)
            for pattern, (_, query, _) in enumerate(members)
        ]
        self._responder = responder

    def cheapest(self, name: str) -> list[Template]:
        """The division of the members into templates and queries on their own that is predicted to cost least."""
        everyone = range(len(self._members))
        windows = sorted({query.window_us for _, query, _ in self._members})
        best, cost = [], self._apart(everyone)
        ways = [[list(everyone)]]
        if len(windows) > 1:
            ways.append([[one for one in everyone if self._members[one][1].window_us == each] for each in windows])
        for way in ways:
            found, total = [], 0.0
            for number, group in enumerate(way):
                template, price = self._best_of(group, f"{name}.{number}" if len(way) > 1 else name)
                found += [] if template is None else [template]
                total += price
            if total < cost:
                best, cost = found, total
        return best

    def _best_of(self, group: Sequence[int], name: str) -> tuple[Template | None, float]:
        """A template of all but the few that take or find most."""
        ranked = sorted(group, key=lambda one: -(self._alone[one] + self._views[one]))
        best, cost = None, self._apart(group)
        for left_out in _left_out(len(ranked)):
            rest, alone = sorted(ranked[left_out:]), ranked[:left_out]
            template = self._template(rest, name)
            problem, responder = self._problem([template.query], {template.query: template.statistics})
            rows = problem.view_cost(0, problem.full(0), template.query.window_us)
            price = _cost(responder.best(0)) + rows + sum(self._views[one] for one in rest) + self._apart(alone)
            if price < cost:
                best, cost = template, price
        return best, cost

    def _template(self, places: Sequence[int], name: str) -> Template:
        members = [self._members[one] for one in places]
        weak = weakest_member([(query, member) for _, query, member in members], name)
        users = [User(self._pricing.statistics[query], query, member.names) for _, query, member in members]
        known = statistics_of_users(weak, users)
        return Template(weak, known, {place: member.names for place, _, member in members})

    def _apart(self, places: Sequence[int]) -> float:
        """What members cost without a template, if they share what they have in common anyway."""
        trees = MultiTree()
        for place in places:
            trees.add(place, self._responder.best(place, trees))
        return trees.cost

    def _problem(
        self, queries: Sequence[Query], known: Mapping[Query, Statistics] | None = None
    ) -> tuple[QueryProblem, Responder]:
        pricing = self._pricing
        problem = QueryProblem(queries, pricing.statistics if known is None else known, pricing.capacity, pricing.model)
        return problem, Responder(problem)


def _left_out(members: int) -> Iterator[int]:
    """How many members to leave out: none, 1, 2, 4 and so on, as long as two are left."""
    return itertools.takewhile(lambda one: members - one >= 2, itertools.chain((0,), (2**n for n in itertools.count())))


def _cost(chosen: Chosen) -> float:
    return sum(node.cost for _, node in chosen.tree) + chosen.views
