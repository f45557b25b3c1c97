"""SubQuery: the part of a query that one operator matches (Def. 1), identified by positions.

`closed` names the Kleene aliases whose groups have been formed; a Kleene alias outside it is still one event at a
time (strip of 4.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from decopa.errors import PlanError
from decopa.query.analysis import Negation, Scope
from decopa.query.pattern import type_form
from decopa.query.query import Query


@dataclass(frozen=True)
class SubQuery:
    aliases: frozenset[str]
    closed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.aliases:
            raise PlanError("a sub-query needs at least one position")
        if not self.closed <= self.aliases:
            raise PlanError(f"closed aliases {sorted(self.closed - self.aliases)} are not part of the sub-query")

    def scope(self, query: Query) -> Scope:
        """The outermost scope among the positions: what is positive inside this sub-query."""
        return min((query.scope_of(alias) for alias in self.aliases), key=len)

    def positive(self, query: Query) -> frozenset[str]:
        """The aliases its matches bind."""
        scope = self.scope(query)
        return frozenset(alias for alias in self.aliases if query.scope_of(alias) == scope)

    def negations(self, query: Query) -> tuple[Negation, ...]:
        """The NOTs directly below its scope that it has already taken into account."""
        depth = len(self.scope(query)) + 1
        return tuple(
            negation for negation in query.negations if len(negation.scope) == depth and negation.aliases & self.aliases
        )

    def as_query(self, query: Query) -> Query:
        """The sub-query as a query of its own, for reading and for pricing."""
        return query.project(self.aliases, stripped=query.kleene_aliases - self.closed)

    def text(self, query: Query) -> str:
        """The pattern with types only, as the paper writes sub-queries: SEQ(A,B,AND(C,D))."""
        return type_form(self.as_query(query).pattern)

    @cached_property
    def sort_key(self) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
        return len(self.aliases), tuple(sorted(self.aliases)), tuple(sorted(self.closed))


def whole(query: Query) -> SubQuery:
    """The sub-query that is the query itself."""
    positive_kleene = {position.alias for position in query.positions if position.kleene and not position.scope}
    return SubQuery(frozenset(query.aliases), frozenset(positive_kleene) | _kleene_under_not(query))


def negated_part(query: Query, negation: Negation) -> SubQuery:
    """What a negation operator takes as its second input: every match of the negated pattern."""
    return SubQuery(negation.aliases, negation.aliases & query.kleene_aliases)


def _kleene_under_not(query: Query) -> frozenset[str]:
    return frozenset(position.alias for position in query.positions if position.kleene and position.scope)
