"""Query = pattern + predicates + window, checked as a whole; its alternatives and its projections."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from decopa.errors import QueryError, did_you_mean
from decopa.query.analysis import (
    Negation,
    Position,
    Scope,
    Structure,
    alternatives,
    distinct_aliases,
    project,
    strip_kleene,
    structure,
)
from decopa.query.limits import check_conditions
from decopa.query.members import compares_members, is_self_pair, twins
from decopa.query.names import RESULT_COLUMNS, duration_text, quoted
from decopa.query.pattern import EventRef, Kleene, Not, Or, Pattern, leaves
from decopa.query.predicate import (
    Attr,
    Compare,
    Predicate,
    aliases_of,
    attributes,
    conjuncts,
    renamed,
)
from decopa.query.summary import Summary

#: Longest window, in microseconds (about 73,000 years): a timestamp (at most 2**62) plus a window fits into 64 bits.
MAX_WINDOW_US = 2**61
#: A match of more events than this is no pattern a person wrote.
MAX_POSITIONS = 32


@dataclass(frozen=True)
class Query:
    """A pattern, the conditions its events fulfil, and the window (microseconds) they fit into.

    `where` holds conjuncts: all of them must hold. `returns` names attributes reported with each match; with a
    `summary` they are what its figures are computed from, and matches themselves are not reported.
    """

    pattern: Pattern
    where: tuple[Predicate, ...]
    window_us: int
    name: str = "q"
    returns: tuple[Attr, ...] = ()
    summary: Summary | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", tuple(part for predicate in self.where for part in conjuncts(predicate)))
        if isinstance(self.pattern, Not):
            raise QueryError(f"{self.pattern} has no positive event, so there is nothing to report")
        if not 0 < self.window_us <= MAX_WINDOW_US:
            raise QueryError(
                f"the window must be positive and at most {duration_text(MAX_WINDOW_US)}, "
                f"got {self.window_us} us; write it as in WITHIN 10 min"
            )
        if sum(1 for _ in leaves(self.pattern)) > MAX_POSITIONS:
            raise QueryError(f"the pattern has more than {MAX_POSITIONS} events; split it into several queries")
        _check_aliases(self.pattern)
        check_conditions(self.where, len(alternatives(self.pattern)))  # raises, too, if OR stands for too many
        scopes = _written_scopes(self.pattern)
        for predicate in self.where:
            _check_predicate(predicate, self._position_of, scopes)
        for attr in self.returns:
            _check_known(attr, self._position_of)
            if attr.alias in self.negated_aliases:
                raise _error(attr, f"RETURN {attr}: '{attr.alias}' is negated, so a match has no such event")
        if self.summary is not None:
            self._check_summary(self.summary)

    def _check_summary(self, summary: Summary) -> None:
        if self.returns != summary.attributes:
            raise QueryError(f"'{summary}' needs the attributes {', '.join(map(str, summary.attributes))} of a match")
        for attr in summary.attributes:
            if attr.alias in self.kleene_aliases:
                raise _error(
                    attr,
                    f"'{attr}' in an aggregate or GROUP BY: KL alias '{attr.alias}' stands for several events of a "
                    "match; name an alias that stands for one",
                )
        bound = [
            frozenset(position.alias for position in structure(alternative).positions if not position.scope)
            for alternative in alternatives(self.pattern)
        ]
        if len(set(bound)) < len(bound):
            raise QueryError(
                "two alternatives of OR bind the same aliases, so a match of both would be counted twice; "
                "give their events different aliases, or leave out the aggregates"
            )
        for attr in summary.attributes:
            if not all(attr.alias in aliases for aliases in bound):
                raise _error(attr, f"'{attr}': some alternative of OR has no '{attr.alias}'; aggregate without it")

    @cached_property
    def _position_of(self) -> dict[str, Position]:
        """One position per alias over all alternatives (an alias has the same type and KL in each)."""
        found: dict[str, Position] = {}
        for alternative in alternatives(self.pattern):
            for position in structure(alternative).positions:
                found.setdefault(position.alias, position)
        return found

    @cached_property
    def structure(self) -> Structure:
        """Positions, order and negations; only of an OR-free query (see `branches`)."""
        return structure(self.pattern)

    @property
    def positions(self) -> tuple[Position, ...]:
        return self.structure.positions

    @property
    def order_constraints(self) -> frozenset[tuple[str, str]]:
        """Omega_q: pairs of aliases, the first strictly before the second (3.1)."""
        return self.structure.order

    @property
    def negations(self) -> tuple[Negation, ...]:
        return self.structure.negations

    @property
    def aliases(self) -> tuple[str, ...]:
        """Every alias in query order, those of all alternatives and of negated parts included."""
        return tuple(dict.fromkeys(leaf.alias for leaf in leaves(self.pattern)))

    @property
    def positive_aliases(self) -> tuple[str, ...]:
        """The aliases a match can bind, in query order."""
        return tuple(alias for alias in self.aliases if alias not in self.negated_aliases)

    @cached_property
    def negated_aliases(self) -> frozenset[str]:
        return frozenset(alias for alias, position in self._position_of.items() if position.scope)

    @cached_property
    def kleene_aliases(self) -> frozenset[str]:
        return frozenset(alias for alias, position in self._position_of.items() if position.kleene)

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes that conditions and RETURN read, by name; `id` and `ts` among them if they are named."""
        conditions = (attr.name for predicate in self.where for attr in attributes(predicate))
        return frozenset((*conditions, *(attr.name for attr in self.returns)))

    @property
    def event_types(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(leaf.type for leaf in leaves(self.pattern)))

    def position(self, alias: str) -> Position:
        return self._position_of[alias]

    def scope_of(self, alias: str) -> Scope:
        return self._position_of[alias].scope

    def context_of(self, negation: Negation) -> frozenset[str]:
        """The aliases that must be bound before `negation` can be decided (negation-closed, MuSE 5.2).

        Beyond its neighbours: every alias that a condition ties to a negated one and, for a NOT at an end of its
        SEQ, the whole match, since it is the match that fixes where the window ends.
        """
        parent = negation.scope[:-1]
        bound = negation.after | negation.before
        if not negation.after or not negation.before:
            bound |= {position.alias for position in self.positions if position.scope == parent}
        for predicate in self.where:
            named = aliases_of(predicate)
            if any(self.scope_of(alias) == negation.scope for alias in named):
                bound |= {alias for alias in named if self.scope_of(alias) == parent}
        return frozenset(bound)

    @property
    def nesting_of_not(self) -> int:
        """How many NOTs lie inside each other at most."""
        return max((len(negation.scope) for negation in self.negations), default=0)

    @cached_property
    def branches(self) -> tuple[Query, ...]:
        """The OR-free queries that together find this query's matches, in a form that can be executed.

        A condition that names an alias absent from a branch is left out of it. KL under NOT without a further NOT
        becomes a plain event: if a group blocks, each of its members does.
        """
        return tuple(self._branch(alternative) for alternative in alternatives(self.pattern))

    def _branch(self, alternative: Pattern) -> Query:
        distinct, written = distinct_aliases(alternative)
        plain = _plain_under_not(distinct)
        executable = strip_kleene(distinct, plain)
        positions = structure(executable).positions
        where = tuple(
            predicate
            for condition in self.where
            for predicate in _in_each_scope(condition, positions, written)
            if not any(is_self_pair(predicate, alias) for alias in plain)
        )
        present = {position.alias for position in positions}
        returns = tuple(attr for attr in self.returns if attr.alias in present)
        return replace(self, pattern=executable, where=where, returns=returns)

    def project(self, aliases: Collection[str], *, stripped: Collection[str] = ()) -> Query:
        """The sub-query on a set of positions (Def. 1), with KL taken off the aliases in `stripped`.

        Positions, not types: a match binds events to aliases, so a type that appears twice may be cut between
        two sub-queries, which condition iii of Def. 1 forbids for matches that are mere sets of events.
        """
        wanted = (frozenset(aliases), frozenset(stripped))
        if wanted not in self._projections:
            self._projections[wanted] = self._project(*wanted)
        return self._projections[wanted]

    @cached_property
    def _projections(self) -> dict[tuple[frozenset[str], frozenset[str]], Query]:
        """Projections made so far: plans ask for the same few again and again."""
        return {}

    def _project(self, aliases: frozenset[str], stripped: frozenset[str]) -> Query:
        unknown = sorted(set(aliases) - set(self.aliases))
        if unknown:
            raise QueryError(f"no alias '{unknown[0]}' in {self.pattern}{did_you_mean(unknown[0], self.aliases)}")
        pattern = project(self.pattern, aliases)
        if pattern is None:
            raise QueryError(f"the aliases {sorted(aliases)} of {self.pattern} do not form a sub-query")
        kept = frozenset(leaf.alias for leaf in leaves(pattern))
        where = tuple(predicate for predicate in self.where if aliases_of(predicate) <= kept)
        pairs = [alias for alias in stripped if alias in kept]
        where = tuple(predicate for predicate in where if not any(is_self_pair(predicate, alias) for alias in pairs))
        returns = tuple(attr for attr in self.returns if attr.alias in kept)
        return replace(self, pattern=strip_kleene(pattern, stripped), where=where, returns=returns, summary=None)

    def __repr__(self) -> str:
        return f"Query({' '.join(str(self).split())!r})"

    def __str__(self) -> str:
        """Canonical text: `parse(str(query)) == query`."""
        lines = [f"QUERY {quoted(self.name)}", f"PATTERN {self.pattern}"]
        if self.where:
            lines.append("WHERE " + "\n  AND ".join(map(str, self.where)))
        lines.append(f"WITHIN {duration_text(self.window_us)}")
        if self.summary is not None:
            lines.append(str(self.summary))
        elif self.returns:
            lines.append("RETURN " + ", ".join(map(str, self.returns)))
        return "\n".join(lines)


def _error(attr: Attr, message: str) -> QueryError:
    if attr.at is None:
        return QueryError(message)
    return QueryError(message, line=attr.at.line, column=attr.at.column)


def _check_known(attr: Attr, positions: dict[str, Position]) -> None:
    if attr.alias not in positions:
        raise _error(attr, f"unknown alias '{attr.alias}' in '{attr}'{did_you_mean(attr.alias, positions)}")


def _check_aliases(pattern: Pattern) -> None:
    """An alias is used once per alternative, and for the same thing in each."""
    roles: dict[str, set[str]] = {}

    def visit(node: Pattern, negated: bool) -> set[str]:
        if isinstance(node, Not):
            return visit(node.child, True)
        if isinstance(node, EventRef | Kleene):
            leaf = node.child if isinstance(node, Kleene) else node
            kind = f"KL({leaf.type})" if isinstance(node, Kleene) else leaf.type
            roles.setdefault(leaf.alias, set()).add(f"a negated {kind}" if negated else kind)
            return {leaf.alias}
        seen: set[str] = set()
        for child in node.children:
            below = visit(child, negated)
            if not isinstance(node, Or) and seen & below:
                twice = min(seen & below)
                raise QueryError(f"alias '{twice}' is used twice in {node}; give each event its own, as in A a1, A a2")
            seen |= below
        return seen

    visit(pattern, False)
    for alias, found in roles.items():
        if alias in RESULT_COLUMNS:
            raise QueryError(f"alias '{alias}' is the name of a column of every result; choose another, as in A a1")
        if len(found) > 1:
            raise QueryError(
                f"alias '{alias}' stands for {' and '.join(sorted(found))} in alternatives of OR; "
                "give them different aliases"
            )


def _check_predicate(predicate: Predicate, positions: dict[str, Position], written: dict[str, Scope]) -> None:
    named = list(attributes(predicate))
    if not named:
        raise QueryError(f"the condition '{predicate}' names no event; compare attributes, as in a.x < b.x")
    for attr in named:
        _check_known(attr, positions)
    if not _within_one_negation({written[alias] for alias in aliases_of(predicate)}):
        raise _error(
            named[0],
            f"the condition '{predicate}' ties a negated event to something outside its own NOT and the part around "
            "it; a condition may name one NOT's events and the events next to that NOT",
        )
    for alias in sorted(aliases_of(predicate)):
        if not positions[alias].kleene or is_self_pair(predicate, alias) or not compares_members(predicate, alias):
            continue
        if isinstance(predicate, Compare) and aliases_of(predicate) == {alias}:
            twin = next(twins(predicate, alias))
            raise _error(
                named[0],
                f"'{predicate}': '{twin}' is about two members of KL alias '{alias}', and it is not clear whose value "
                "stands beside it; compare the two in one condition and each member in another",
            )
        raise _error(
            named[0],
            f"'{predicate}' compares members of KL alias '{alias}' with each other, which works only as a "
            f"condition of its own with no other event in it, as in {alias}.x < {alias}.x",
        )


def _within_one_negation(scopes: set[Scope]) -> bool:
    """All in one scope, or in one scope and one NOT directly below it."""
    if len(scopes) == 1:
        return True
    if len(scopes) != 2:
        return False
    outer, inner = sorted(scopes, key=len)
    return len(inner) == len(outer) + 1 and inner[:-1] == outer


def _written_scopes(pattern: Pattern) -> dict[str, Scope]:
    """The NOTs around each alias as written, before NOT(OR(...)) is split into several."""
    scopes: dict[str, Scope] = {}
    numbers = itertools.count()

    def visit(node: Pattern, scope: Scope) -> None:
        if isinstance(node, Not):
            visit(node.child, (*scope, next(numbers)))
        elif isinstance(node, EventRef | Kleene):
            for leaf in leaves(node):
                scopes[leaf.alias] = scope
        else:
            for child in node.children:
                visit(child, scope)

    visit(pattern, ())
    return scopes


def _in_each_scope(
    condition: Predicate, positions: tuple[Position, ...], written: Mapping[str, str]
) -> Iterator[Predicate]:
    """The condition in the aliases of a branch, once for each scope in which all that it names is there.

    `written` tells what each alias of the branch is called in the condition.
    """
    named = aliases_of(condition)
    for scope in dict.fromkeys(position.scope for position in positions):
        visible = {written[p.alias]: p for p in positions if p.scope == scope[: len(p.scope)]}
        if named <= visible.keys() and any(visible[alias].scope == scope for alias in named):
            yield renamed(condition, {alias: visible[alias].alias for alias in named})  # type: ignore[misc]


def _plain_under_not(pattern: Pattern) -> frozenset[str]:
    """Kleene aliases that lie in a NOT which contains no further NOT."""
    found = structure(pattern)
    holders = {position.scope for position in found.positions}
    return frozenset(
        position.alias
        for position in found.positions
        if position.kleene and position.scope and not _has_inner(position.scope, holders)
    )


def _has_inner(scope: Scope, scopes: Iterable[Scope]) -> bool:
    return any(len(other) > len(scope) and other[: len(scope)] == scope for other in scopes)
