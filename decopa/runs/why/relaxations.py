"""Changes to a query, one at a time, that may give it matches: each is counted by running the changed query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from decopa.errors import QueryError
from decopa.query.names import duration_text
from decopa.query.pattern import And, EventRef, Kleene, Not, Or, Pattern, Seq
from decopa.query.predicate import aliases_of
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
    if (any_order := unordered(query)) is not None:
        yield Relaxation("any order (AND for SEQ)", count(any_order), "order")
    for place, predicate in enumerate(query.where[:_MOST_CONDITIONS], start=1):
        fewer = replace(query, where=tuple(one for one in query.where if one is not predicate))
        yield Relaxation(f"without condition {place}, '{predicate}'", count(fewer), "condition")
    for negation in nots(query.pattern):
        fewer_nots = without_not(query, negation)
        if fewer_nots is not None:
            yield Relaxation(f"without {negation}", count(fewer_nots), "negation")


def unordered(query: Query) -> Query | None:
    """The query with its events in any order; None if it asks for no order, or has a NOT, which needs one."""
    if not _has_seq(query.pattern) or next(nots(query.pattern), None) is not None:
        return None
    return replace(query, pattern=_as_and(query.pattern))


def without_not(query: Query, negation: Not) -> Query | None:
    """The query without one NOT, and without the conditions on its events."""
    pattern = _dropped(query.pattern, negation)
    if pattern is None:
        return None
    kept = {leaf.alias for leaf in _leaves(pattern)}
    where = tuple(one for one in query.where if aliases_of(one) <= kept)
    try:
        return replace(query, pattern=pattern, where=where)
    except QueryError:  # what is left is no query of its own
        return None


def nots(pattern: Pattern) -> Iterator[Not]:
    """The outermost NOTs, from left to right."""
    match pattern:
        case Not():
            yield pattern
        case EventRef() | Kleene():
            return
        case _:
            for child in pattern.children:
                yield from nots(child)


def _dropped(pattern: Pattern, negation: Not) -> Pattern | None:
    match pattern:
        case Not():
            return None if pattern is negation else pattern
        case EventRef() | Kleene():
            return pattern
        case _:
            kept = [one for child in pattern.children if (one := _dropped(child, negation)) is not None]
            if not kept:
                return None
            return kept[0] if len(kept) == 1 and not isinstance(kept[0], Not) else type(pattern)(tuple(kept))


def _has_seq(pattern: Pattern) -> bool:
    match pattern:
        case EventRef() | Kleene():
            return False
        case Not():
            return _has_seq(pattern.child)
        case _:
            return isinstance(pattern, Seq) or any(map(_has_seq, pattern.children))


def _as_and(pattern: Pattern) -> Pattern:
    match pattern:
        case EventRef() | Kleene() | Not():
            return pattern
        case Or():
            return Or(tuple(map(_as_and, pattern.children)))
        case _:
            return And(tuple(map(_as_and, pattern.children)))


def _leaves(pattern: Pattern) -> Iterator[EventRef]:
    match pattern:
        case EventRef():
            yield pattern
        case Kleene() | Not():
            yield from _leaves(pattern.child)
        case _:
            for child in pattern.children:
                yield from _leaves(child)
