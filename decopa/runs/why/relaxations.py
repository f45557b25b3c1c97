"""Changes to a query, one at a time, that may give it matches: each is counted by running the changed query."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from decopa.errors import QueryError
from decopa.query.conditions.predicate import Predicate, aliases_of
from decopa.query.names import duration_text
from decopa.query.pattern import (
    And,
    EventRef,
    Except,
    Kleene,
    Next,
    Not,
    Or,
    Pattern,
    Seq,
    children_of,
    leaves,
    with_children,
)
from decopa.query.query import MAX_WINDOW_US, Query
from decopa.runs.why.parts import Relaxation

#: Counts the matches of a query; None if there are too many to count in the time there is.
CountMatches = Callable[[Query], int | None]
#: Conditions that are left out one by one; a query with more has a different problem.
_MOST_CONDITIONS = 24


def relaxations(query: Query, count: CountMatches) -> Iterator[Relaxation]:
    """Every change that is tried, with the matches of the changed query."""
    for times in (2, 10):
        window_us = min(times * query.window_us, MAX_WINDOW_US)
        longer = replace(query, window_us=window_us)
        yield Relaxation(f"window x{times} ({duration_text(window_us)})", count(longer), "window")
    if (any_later := sequenced(query)) is not None:
        yield Relaxation("any later event (SEQ for NEXT)", count(any_later), "next")
    if (any_order := unordered(query)) is not None:
        yield Relaxation("any order (AND for SEQ)", count(any_order), "order")
    for place, predicate in enumerate(query.conditions[:_MOST_CONDITIONS], start=1):
        fewer = without_conditions(query, [predicate])
        yield Relaxation(f"without condition {place}, '{predicate}'", count(fewer), "condition")
    for negation in nots(query.pattern):
        fewer_nots = without_not(query, negation)
        if fewer_nots is not None:
            yield Relaxation(f"without {negation}", count(fewer_nots), "negation")


def together(query: Query, conditions: Collection[str], count: CountMatches) -> Relaxation | None:
    """The query without several conditions at once, named by their text; None if it has fewer than two of them."""
    numbered = [(place, one) for place, one in enumerate(query.conditions, start=1) if str(one) in conditions]
    if len(numbered) < 2:
        return None
    fewer = without_conditions(query, [one for _, one in numbered])
    places = ", ".join(str(place) for place, _ in numbered)
    return Relaxation(f"without the conditions {places} together", count(fewer), "together")


def without_conditions(query: Query, left_out: Collection[Predicate]) -> Query:
    where, skips = (
        tuple(one for one in conditions if not any(one is other for other in left_out))
        for conditions in (query.where, query.skips)
    )
    return replace(query, where=where, skips=skips)


def sequenced(query: Query) -> Query | None:
    """The query with any later event in the place of the next one; None if it has no NEXT."""
    pattern = _as_seq(query.pattern)
    if pattern == query.pattern:
        return None
    skips = tuple(one for one in query.skips if aliases_of(one) <= query.run_aliases)
    return replace(
        query, pattern=pattern, where=(*query.where, *(one for one in query.skips if one not in skips)), skips=skips
    )


def unordered(query: Query) -> Query | None:
    """The query with its events in any order; None if it asks for no order, or has a NOT, which needs one."""
    if not _has_seq(query.pattern) or next(nots(query.pattern), None) is not None:
        return None
    query = sequenced(query) or query
    return replace(query, pattern=_as_and(query.pattern))


def without_not(query: Query, negation: Not | Except) -> Query | None:
    """The query without one NOT or EXCEPT, and without the conditions on its events."""
    pattern = _dropped(query.pattern, negation)
    if pattern is None:
        return None
    kept = {leaf.alias for leaf in leaves(pattern)}
    where, skips = (
        tuple(one for one in conditions if aliases_of(one) <= kept) for conditions in (query.where, query.skips)
    )
    try:
        return replace(query, pattern=pattern, where=where, skips=skips)
    except QueryError:  # what is left is no query of its own
        return None


def nots(pattern: Pattern) -> Iterator[Not | Except]:
    """The outermost NOTs and EXCEPTs, from left to right."""
    if isinstance(pattern, Not | Except):
        yield pattern
        return
    for child in children_of(pattern):
        yield from nots(child)


def _dropped(pattern: Pattern, negation: Not | Except) -> Pattern | None:
    match pattern:
        case Not():
            return None if pattern is negation else pattern
        case Except():
            return pattern.child if pattern is negation else pattern
        case EventRef() | Kleene():
            return pattern
        case _:
            kept = [one for child in pattern.children if (one := _dropped(child, negation)) is not None]
            if not kept:
                return None
            return kept[0] if len(kept) == 1 and not isinstance(kept[0], Not) else with_children(pattern, kept)


def _has_seq(pattern: Pattern) -> bool:
    return isinstance(pattern, Seq | Next) or any(map(_has_seq, children_of(pattern)))


def _as_and(pattern: Pattern) -> Pattern:
    match pattern:
        case EventRef() | Kleene() | Not() | Except():
            return pattern
        case Or():
            return Or(tuple(map(_as_and, pattern.children)))
        case _:
            return And(tuple(map(_as_and, pattern.children)))


def _as_seq(pattern: Pattern) -> Pattern:
    """SEQ for every NEXT; an EXCEPT inside of one stays about its own events."""
    children = tuple(map(_as_seq, children_of(pattern)))
    return Seq(children) if isinstance(pattern, Next) else with_children(pattern, children)
