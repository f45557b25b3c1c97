"""NEXT queries that begin alike: what they have in common is found once, as a fragment that each continues.

This is the look-up of equal sub-expressions of the NEXT paper (4.4). Its windows need not be equal: a window never
changes which event is the next one, so a fragment has the longest, and each query keeps what fits into its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from decopa.planning.plan import Plan, PlanOperator, QueryPlan, View
from decopa.planning.subquery import SubQuery
from decopa.planning.workload.views import carried_attributes, needed_attributes
from decopa.query.canonical import normal_form, residue
from decopa.query.chain_cover import in_order, is_chain_of_moments, skips_within
from decopa.query.conditions.predicate import Attr, Predicate, aliases_of, renamed
from decopa.query.pattern import EventRef, Next
from decopa.query.query import Query


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first events of a NEXT: their types, and FILTER conditions that call them p0, p1, ..."""

    types: tuple[str, ...]
    skips: frozenset[str]

    @property
    def key(self) -> str:
        """A name that is the same in every plan that has it."""
        return f"n-{hashlib.sha256(f'{self.types} {sorted(self.skips)}'.encode()).hexdigest()[:12]}"


def with_shared_beginnings(plan: Plan) -> Plan:
    """The plan with a fragment for each beginning that several of its NEXT queries share."""
    own = {place: part.query for place, part in enumerate(plan.parts) if not part.fragment and not part.views}
    chains = {place: query for place, query in own.items() if is_chain_of_moments(query)}
    users: dict[Beginning, list[int]] = {}
    for place, query in chains.items():
        for count in range(2, len(query.aliases) + 1):
            users.setdefault(_beginning(query, count), []).append(place)
    longest: dict[tuple[int, ...], Beginning] = {}  # of those with the same users; a longer one comes later
    for begin, places in users.items():
        if len(places) > 1:
            longest[tuple(places)] = begin
    shared = sorted(longest.values(), key=lambda one: (len(one.types), one.key))
    if not shared:
        return plan
    fragments = {one: _fragment(one, [chains[place] for place in users[one]]) for one in shared}
    made = [_continued(query, fragments, one) for one, query in fragments.items()]
    parts = [
        replace(_continued(part.query, fragments), key=part.key) if any(place in users[one] for one in shared) else part
        for place, part in enumerate(plan.parts)
    ]
    return replace(plan, parts=(*_with_returns(made, parts), *parts))


def _names(query: Query) -> dict[str, str]:
    return {alias: f"p{number}" for number, alias in enumerate(in_order(query))}


def _texts(predicates: Sequence[Predicate], names: Mapping[str, str]) -> dict[str, Predicate]:
    found = (normal_form(renamed(one, names)) for one in predicates)  # type: ignore[arg-type]
    return {str(one): one for one in found}


def _beginning(query: Query, count: int) -> Beginning:
    order = in_order(query)[:count]
    types = tuple(query.position(alias).type for alias in order)
    return Beginning(types, frozenset(_texts(skips_within(query, order), _names(query))))


def _fragment(begin: Beginning, users: Sequence[Query]) -> Query:
    """The query that finds a beginning: with the conditions that all of its users make, and the longest window."""
    events = tuple(EventRef(name, f"p{number}") for number, name in enumerate(begin.types))
    inside = [
        _texts([one for one in query.where if aliases_of(one) <= set(in_order(query)[: len(events)])], _names(query))
        for query in users
    ]
    first = users[0]
    skips = _texts(skips_within(first, in_order(first)[: len(events)]), _names(first))
    where = tuple(one for text, one in inside[0].items() if all(text in others for others in inside))
    return Query(Next(events), where, max(one.window_us for one in users), name=begin.key, skips=tuple(skips.values()))


def _continued(query: Query, fragments: Mapping[Beginning, Query], itself: Beginning | None = None) -> QueryPlan:
    """The plan of a NEXT from left to right, from the longest beginning that is found elsewhere on."""
    order = in_order(query)
    known = [
        one for one in fragments
        if one != itself and len(one.types) <= len(order) and _beginning(query, len(one.types)) == one
    ]  # fmt: skip
    operators: list[PlanOperator] = []

    def add(aliases: Sequence[str], *inputs: str, view: View | None = None) -> str:
        operators.append(PlanOperator(f"o{len(operators) + 1}", SubQuery(frozenset(aliases)), inputs, view=view))
        return operators[-1].name

    if known:
        begin = max(known, key=lambda one: len(one.types))
        reached = len(begin.types)
        root = f"o{_operators_of(begin, fragments)}"
        names = tuple((alias, f"p{number}") for number, alias in enumerate(order[:reached]))
        done = add(order[:reached], view=View(begin.key, root, names))
    else:
        reached, done = 1, add(order[:1])
    for place in range(reached, len(order)):
        leaf = add(order[place : place + 1])
        done = add(order[: place + 1], done, leaf)
    fragment = itself is not None
    return QueryPlan(query, tuple(operators), key=itself.key if itself is not None else "", fragment=fragment)


def _operators_of(begin: Beginning, fragments: Mapping[Beginning, Query]) -> int:
    """How many operators the part of a fragment has; the last one is its root."""
    return len(_continued(fragments[begin], fragments, begin).operators)


def _with_returns(fragments: Sequence[QueryPlan], parts: Sequence[QueryPlan]) -> list[QueryPlan]:
    """The fragments, shorter ones first, with the attributes that those who continue them need."""
    queries = {one.key: one.query for one in fragments}
    needed: dict[str, set[Attr]] = {key: set() for key in queries}

    def ask(part: QueryPlan) -> None:
        for operator in part.views:
            if operator.view is None or operator.view.part not in queries:
                continue
            source, names = queries[operator.view.part], operator.view.names
            left = residue(source, source.aliases, part.query, names)
            wanted = {
                Attr(names[attr.alias], attr.name) for attr in needed_attributes(part.query, operator.sub_query, left)
            }
            needed[operator.view.part] |= wanted - carried_attributes(source, SubQuery(frozenset(source.aliases)))

    for part in parts:
        ask(part)
    done: list[QueryPlan] = []
    for fragment in reversed(fragments):
        returns = tuple(sorted(needed[fragment.key], key=str))
        done.insert(0, replace(fragment, query=replace(fragment.query, returns=returns)))
        ask(done[0])
    return done
