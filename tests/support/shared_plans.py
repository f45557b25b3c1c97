"""Random plans that share: some parts take matches from fragments that cover what they need, drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from hypothesis import strategies as st

from decopa.planning.plan import Plan, PlanOperator, QueryPlan, View
from decopa.planning.strategies.left_deep import left_deep
from decopa.planning.subquery import SubQuery, whole
from decopa.planning.workload.packing import packed
from decopa.planning.workload.views import needed_attributes
from decopa.query.canonical import _numberings, cover_problems, residue, shareable_aliases
from decopa.query.conditions.predicate import Attr, aliases_of, renamed
from decopa.query.pattern import And, EventRef, Seq
from decopa.query.query import Query
from tests.support.plans import _Builder, _with_partitions, _with_units


@st.composite
def shared_plans(draw: st.DrawFn, workload: Sequence[Query]) -> Plan:
    """A plan of all queries in which every sub-query of two or more plain positions may come from a fragment."""
    builder = _SharedBuilder(draw)
    parts = [builder.part(branch) for query in workload for branch in query.branches]
    plan = Plan((*builder.fragments(), *parts))
    if draw(st.booleans()):
        return plan
    weights = Random(draw(st.integers(0, 2**16)))
    return packed(plan, draw(st.integers(1, 4)), lambda part, operator: weights.random())


class _Fragment:
    """A fragment while its users are still being drawn: it carries what they need."""

    def __init__(self, query: Query, key: str) -> None:
        self.query, self.key = query, key
        self.returns: dict[Attr, None] = {}


class _SharedBuilder:
    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.made: list[_Fragment] = []
        self.plans: dict[str, QueryPlan] = {}

    def fragments(self) -> list[QueryPlan]:
        return [replace(self.plans[one.key], query=replace(one.query, returns=tuple(one.returns))) for one in self.made]

    def part(self, query: Query) -> QueryPlan:
        """A random plan of a query, some of whose operators are views."""
        builder = _ViewingBuilder(self, query)
        builder.operator_for(whole(query))
        plan = QueryPlan(query, tuple(builder.operators))
        return _with_units(self.draw, _with_partitions(self.draw, plan))

    def view(self, query: Query, sub_query: SubQuery) -> View | None:
        """A view that finds the sub-query, of a fragment that is there or of a new one; None if the dice say no."""
        if len(sub_query.aliases) < 2 or not sub_query.aliases <= set(shareable_aliases(query)):
            return None
        if not self.draw(st.booleans()):
            return None
        names, fragment = self._covering(query, sub_query) or self._new(query, sub_query)
        left = residue(fragment.query, fragment.query.aliases, query, names)
        for attr in needed_attributes(query, sub_query, left):
            fragment.returns[Attr(names[attr.alias], attr.name)] = None
        return View(fragment.key, self.plans[fragment.key].root.name, tuple(names.items()))

    def _covering(self, query: Query, sub_query: SubQuery) -> tuple[dict[str, str], _Fragment] | None:
        for fragment in self.made:
            theirs = sorted(fragment.query.aliases)
            for one in _numberings(query, sub_query.aliases):
                ordered = sorted(one, key=one.__getitem__)
                if len(ordered) == len(theirs):
                    names = dict(zip(ordered, theirs, strict=True))
                    if not cover_problems(fragment.query, theirs, query, names):
                        return names, fragment
        return None

    def _new(self, query: Query, sub_query: SubQuery) -> tuple[dict[str, str], _Fragment]:
        """A fragment that demands no more than the sub-query: some of its conditions, its order or none."""
        ordered = sorted(sub_query.aliases, key=lambda alias: (query.position(alias).type, query.aliases.index(alias)))
        names = {alias: f"p{number}" for number, alias in enumerate(ordered)}
        events = {alias: EventRef(query.position(alias).type, name) for alias, name in names.items()}
        chain = sorted(ordered, key=lambda one: sum((other, one) in query.order_constraints for other in ordered))
        total = all((a, b) in query.order_constraints for place, a in enumerate(chain) for b in chain[place + 1 :])
        in_order = total and self.draw(st.booleans())
        pattern = Seq(tuple(events[one] for one in chain)) if in_order else And(tuple(events.values()))
        where = [one for one in query.where if aliases_of(one) <= sub_query.aliases and self.draw(st.booleans())]
        window_us = query.window_us + self.draw(st.sampled_from((0, 0, 5)))
        key = f"f{len(self.made)}"
        fragment = _Fragment(Query(pattern, tuple(renamed(one, names) for one in where), window_us, name=key), key)
        self.made.append(fragment)
        plan = left_deep(fragment.query)
        self.plans[key] = replace(_with_units(self.draw, _with_partitions(self.draw, plan)), key=key, fragment=True)
        return names, fragment


class _ViewingBuilder(_Builder):
    def __init__(self, shared: _SharedBuilder, query: Query) -> None:
        super().__init__(shared.draw, query)
        self.shared = shared

    def operator_for(self, target: SubQuery) -> str:
        if target not in self.name_of:
            view = self.shared.view(self.query, target)
            if view is not None:
                self.name_of[target] = f"o{len(self.operators) + 1}"
                self.operators.append(PlanOperator(self.name_of[target], target, view=view))
        return super().operator_for(target)
