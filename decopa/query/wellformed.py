"""What makes a query sensible as a whole: its aliases, and what its conditions may name together."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from decopa.errors import QueryError, did_you_mean
from decopa.query.analysis import Chain, Position, Scope, alternatives, structure
from decopa.query.conditions.members import compares_members, is_between_members, twins
from decopa.query.conditions.predicate import (
    Attr,
    Compare,
    Node,
    Predicate,
    aliases_of,
    attributes,
    compares_neighbours,
    figures,
    plain_attributes,
)
from decopa.query.names import RESULT_COLUMNS
from decopa.query.output import Output, Ranking, check_columns
from decopa.query.pattern import EventRef, Except, Kleene, Not, Or, Pattern, children_of, leaves, types_text
from decopa.query.summary import Summary


def error_at(attr: Attr, message: str) -> QueryError:
    if attr.at is None:
        return QueryError(message)
    return QueryError(message, line=attr.at.line, column=attr.at.column)


def check_known(attr: Attr, positions: dict[str, Position]) -> None:
    if attr.alias not in positions:
        raise error_at(attr, f"unknown alias '{attr.alias}' in '{attr}'{did_you_mean(attr.alias, positions)}")


def check_aliases(pattern: Pattern) -> None:
    """An alias is used once per alternative, and for the same thing in each."""
    roles: dict[str, set[str]] = {}

    def visit(node: Pattern, negated: bool, grouped: bool = False) -> set[str]:
        if isinstance(node, Not):
            return visit(node.child, True)
        if isinstance(node, Kleene):
            return visit(node.child, negated, True)
        if isinstance(node, EventRef):
            kind = f"KL({types_text(node.types)})" if grouped else types_text(node.types)
            roles.setdefault(node.alias, set()).add(f"a negated {kind}" if negated else kind)
            return {node.alias}
        seen: set[str] = set()
        for child in children_of(node):
            below = visit(child, negated or (isinstance(node, Except) and child is node.absent), grouped)
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


def check_predicate(predicate: Predicate, positions: dict[str, Position], written: dict[str, Scope]) -> None:
    named = list(attributes(predicate))
    if not named:
        raise QueryError(f"the condition '{predicate}' names no event; compare attributes, as in a.x < b.x")
    for attr in named:
        check_known(attr, positions)
    if not _within_one_negation({written[alias] for alias in aliases_of(predicate)}):
        raise error_at(
            named[0],
            f"the condition '{predicate}' ties a negated event to something outside its own NOT and the part around "
            "it; a condition may name one NOT's events and the events next to that NOT",
        )
    if compares_neighbours(predicate):
        _check_neighbours(predicate, positions)
    _check_one_member(predicate, positions)
    for alias in sorted(aliases_of(predicate)):
        if (
            not positions[alias].kleene
            or is_between_members(predicate, alias)
            or not compares_members(predicate, alias)
        ):
            continue
        if isinstance(predicate, Compare) and aliases_of(predicate) == {alias}:
            twin = next(twins(predicate, alias))
            raise error_at(
                named[0],
                f"'{predicate}': '{twin}' is about two members of KL alias '{alias}', and it is not clear whose value "
                "stands beside it; compare the two in one condition and each member in another",
            )
        raise error_at(
            named[0],
            f"'{predicate}' compares members of KL alias '{alias}' with each other, which works only as a "
            f"condition of its own with no other event in it, as in {alias}.x < {alias}.x",
        )


def check_having(predicate: Node, positions: dict[str, Position]) -> None:
    """An aggregate is over the members of a group that a match has; beside it, other events are single ones."""
    for attr in attributes(predicate):
        check_known(attr, positions)
    for figure in figures(predicate):
        position = positions[figure.of.alias]
        if not position.kleene:
            raise error_at(
                figure.of,
                f"'{figure}' is over a single event, '{figure.of.alias}'; aggregates are over the members of KL or "
                f"ITER: write {figure.of} alone, or KL({position.label} {figure.of.alias})",
            )
        if position.scope:
            raise error_at(figure.of, f"'{figure}': '{figure.of.alias}' is negated, so a match has no such group")
        if figure.of.previous:
            raise error_at(figure.of, f"'{figure}': an aggregate is over all members; leave out PREV")
    for attr in plain_attributes(predicate):
        position = positions[attr.alias]
        if position.kleene:
            raise error_at(
                attr,
                f"'{predicate}' has the members of '{attr.alias}' beside an aggregate; a condition with an aggregate "
                f"names single events and other aggregates only, as in max({attr}) > avg({attr})",
            )
        if position.scope:
            raise error_at(attr, f"'{predicate}': '{attr.alias}' is negated, so a match has no such event")


def check_output(
    outputs: Sequence[Output],
    ranking: Ranking | None,
    columns: Sequence[str],
    positions: dict[str, Position],
    *,
    figures_only: bool,
) -> None:
    """Columns of RETURN are attributes, or expressions over single events and figures of groups; ORDER BY names columns
    that a result has. With `figures_only` matches are not reported."""
    for one in outputs:
        if not isinstance(one.expr, Attr):
            if not any(True for _ in attributes(one.expr)):
                raise QueryError(f"RETURN {one.expr} names no event; name an attribute, as in RETURN a.x")
            check_having(one.expr, positions)
    if outputs:
        check_columns(columns, positions)
    if ranking is None:
        return
    if figures_only:
        raise QueryError(f"'{ranking}' orders matches, but only figures over them are returned; leave it out")
    groups = {alias for alias, position in positions.items() if position.kleene}
    plain = {one.column for one in outputs if not (isinstance(one.expr, Attr) and one.expr.alias in groups)}
    listed = {name for name in (*positions, *columns) if name.partition(".")[0] in groups and name not in plain}
    for name, _ in ranking.keys:
        if name in listed:
            raise QueryError(f"ORDER BY {name}: it is a list, one value for each member of a group; use an aggregate")
        if name not in ("start_ts", "end_ts", *positions, *columns):
            raise QueryError(f"ORDER BY {name}: no such column in the result; RETURN it, too")


def check_summary(summary: Summary, pattern: Pattern, groups: frozenset[str]) -> None:
    """Aggregates are over attributes that every match has once; `groups` are the KL aliases."""
    for attr in summary.attributes:
        if attr.alias in groups:
            raise error_at(
                attr,
                f"'{attr}' in an aggregate or GROUP BY: KL alias '{attr.alias}' stands for several events of a "
                "match; name an alias that stands for one",
            )
    bound = [
        frozenset(position.alias for position in structure(alternative).positions if not position.scope)
        for alternative in alternatives(pattern)
    ]
    if len(set(bound)) < len(bound):
        raise QueryError(
            "two alternatives of OR bind the same aliases, so a match of both would be counted twice; "
            "give their events different aliases, or leave out the aggregates"
        )
    for attr in summary.attributes:
        if not all(attr.alias in aliases for aliases in bound):
            raise error_at(attr, f"'{attr}': some alternative of OR has no '{attr.alias}'; aggregate without it")


def _check_neighbours(predicate: Predicate, positions: dict[str, Position]) -> None:
    """PREV compares members of one group, so nothing else may be named beside it."""
    named = list(attributes(predicate))
    before = next(attr for attr in named if attr.previous)
    if not positions[before.alias].kleene:
        raise error_at(
            before,
            f"{before}: '{before.alias}' is a single event, so none comes before it; use PREV with KL or ITER, as in "
            f"ITER({positions[before.alias].type} {before.alias})",
        )
    if len(aliases_of(predicate)) > 1:
        raise error_at(
            before,
            f"'{predicate}' compares neighbours of '{before.alias}' and names another event; write two, as in "
            f"{before.alias}.x > {before} AND ...",
        )


def _check_one_member(predicate: Predicate, positions: dict[str, Position]) -> None:
    """Of the members of a group, a condition looks at one at a time."""
    aliases = aliases_of(predicate)
    for alias in sorted(aliases):
        inside = aliases & set(positions[alias].group)
        if len(inside) > 1 and inside != aliases:
            named = list(attributes(predicate))
            raise error_at(
                named[0],
                f"'{predicate}' names {' and '.join(sorted(inside))} of one group and another event; write a condition "
                f"within the members and one that ties {min(inside)} to the other event",
            )


def check_skip(predicate: Predicate, chains: Iterable[Chain], runs: frozenset[str]) -> None:
    """FILTER says which events of a NEXT or an ITER to skip, so it names events of one of them."""
    if any(True for _ in figures(predicate)):
        raise error_at(
            next(attributes(predicate)),
            f"FILTER({predicate}): an aggregate is known once a group is complete, and nothing can be skipped then; "
            "write the condition without FILTER",
        )
    if not skips_in(predicate, chains, runs):
        raise error_at(
            next(attributes(predicate)),
            f"FILTER({predicate}) skips candidates of a NEXT, but its events are not of one NEXT; write the condition "
            "without FILTER, or use NEXT, as in NEXT(A a, B b) WHERE FILTER(b.x = a.x)",
        )


def skips_in(predicate: Predicate, chains: Iterable[Chain], runs: frozenset[str]) -> bool:
    """Whether a condition can choose among candidates: it names events of one NEXT, or members of one ITER."""
    named = aliases_of(predicate)
    return any(named <= chain.aliases for chain in chains) or (len(named) == 1 and named <= runs)


def nodes(pattern: Pattern) -> Iterator[Pattern]:
    yield pattern
    for child in children_of(pattern):
        yield from nodes(child)


def _within_one_negation(scopes: set[Scope]) -> bool:
    """All in one scope, or in one scope and one NOT directly below it."""
    if len(scopes) == 1:
        return True
    if len(scopes) != 2:
        return False
    outer, inner = sorted(scopes, key=len)
    return len(inner) == len(outer) + 1 and inner[:-1] == outer


def written_scopes(pattern: Pattern) -> dict[str, Scope]:
    """The NOTs around each alias as written, before NOT(OR(...)) is split into several."""
    scopes: dict[str, Scope] = {}
    numbers = itertools.count()

    def visit(node: Pattern, scope: Scope) -> None:
        if isinstance(node, Not):
            visit(node.child, (*scope, next(numbers)))
        elif isinstance(node, EventRef | Kleene):
            for leaf in leaves(node):
                scopes[leaf.alias] = scope
        elif isinstance(node, Except):
            visit(node.child, scope)
            visit(node.absent, (*scope, next(numbers)))
        else:
            for child in node.children:
                visit(child, scope)

    visit(pattern, ())
    return scopes
