"""Sub-queries that differ in constants and windows only: the template that they have in common, and its weakest form.

Every match of a member is a match of the weakest form, so one fragment serves all, and each member finds its own
matches by its constants.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from decopa.query.canonical import CanonicalForm, canonical, renamed_query
from decopa.query.conditions.bounds import Bound, bound_of, weakest
from decopa.query.conditions.predicate import Compare, Literal, Predicate, aliases_of, renamed
from decopa.query.query import Query


@dataclass(frozen=True)
class TemplateMember:
    """A sub-query as a member of a template: what it demands whatever its constants are, what its events are called
    there, and its bounds in these names, in an order that all members agree on."""

    form: CanonicalForm
    names: Mapping[str, str]
    bounds: tuple[Bound, ...]


def member_of(query: Query, aliases: Collection[str]) -> TemplateMember | None:
    """The sub-query on some shareable positions as a member of its template; None if it bounds the same expression
    twice from one side, so that it is not clear which constant is which."""
    where = tuple(one for one in query.where if aliases_of(one) <= frozenset(aliases))
    bounds = [bound for bound in map(bound_of, where) if bound is not None]
    blank = replace(query, where=tuple(map(_without_constant, where)), returns=(), output=(), ranking=None, having=())
    form, numbers = canonical(blank, aliases)
    names = {alias: f"p{number}" for alias, number in numbers.items()}
    named = sorted((_renamed(bound, names) for bound in bounds), key=lambda bound: bound.shape)
    if len({bound.shape for bound in named}) < len(named):
        return None
    return TemplateMember(form, names, tuple(named))


def weakest_member(members: Sequence[tuple[Query, TemplateMember]], name: str) -> Query:
    """The query whose matches include those of all members, in the template's names."""
    query, first = members[0]
    whole = renamed_query(query.project(first.names), first.names, name)
    fixed = [one for one in whole.where if bound_of(one) is None]
    bounds = [weakest(same) for same in zip(*(member.bounds for _, member in members), strict=True)]
    return replace(whole, where=(*fixed, *bounds), window_us=max(one.window_us for one, _ in members))


def _without_constant(predicate: Predicate) -> Predicate:
    bound = bound_of(predicate)
    if bound is None:
        return predicate
    match bound.value:
        case bool():
            blank = Literal(False)
        case str():
            blank = Literal("")
        case _:
            blank = Literal(0)
    return Compare(bound.op, bound.of, blank)


def _renamed(bound: Bound, names: Mapping[str, str]) -> Bound:
    return replace(bound, of=renamed(bound.of, names))  # type: ignore[arg-type]
