"""Walks over pattern trees, for the referee: what a tree consists of, without the engine's own analysis."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

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
    with_children,
)
from decopa.query.pattern import leaves as leaves_of


def or_free(pattern: Pattern) -> list[Pattern]:
    """The pattern with a choice made in each OR outside NOT; what NOT contains stays whole."""
    match pattern:
        case Or():
            return [choice for child in pattern.children for choice in or_free(child)]
        case Seq() | And() | Next():
            chosen = itertools.product(*(or_free(child) for child in pattern.children))
            return [with_children(pattern, children) for children in chosen]
        case Except():
            return [Except(child, pattern.absent) for child in or_free(pattern.child)]
        case _:
            return [pattern]


def positive_leaves(pattern: Pattern) -> list[EventRef | Kleene]:
    """The leaves outside NOT, from left to right."""
    match pattern:
        case EventRef() | Kleene():
            return [pattern]
        case Not():
            return []
        case Except():
            return positive_leaves(pattern.child)
        case _:
            return [leaf for child in pattern.children for leaf in positive_leaves(child)]


def aliases_at(leaf: EventRef | Kleene) -> tuple[str, ...]:
    """What a leaf binds: one alias, or under KL of several events all of theirs."""
    return tuple(one.alias for one in leaves_of(leaf))


def kleene_aliases(pattern: Pattern) -> frozenset[str]:
    """The aliases under KL, inside and outside NOT."""
    match pattern:
        case Kleene():
            return frozenset(aliases_at(pattern))
        case EventRef():
            return frozenset()
        case _:
            return frozenset().union(*(kleene_aliases(child) for child in children_of(pattern)))


def nesting_of_not(pattern: Pattern) -> int:
    """How many NOTs lie inside each other at most."""
    match pattern:
        case EventRef() | Kleene():
            return 0
        case Not():
            return 1 + nesting_of_not(pattern.child)
        case Except():
            return max(nesting_of_not(pattern.child), 1 + nesting_of_not(pattern.absent))
        case _:
            return max(nesting_of_not(child) for child in pattern.children)


def outside_not(pattern: Pattern) -> Iterator[Pattern]:
    """Every node of the pattern outside NOT."""
    yield pattern
    if isinstance(pattern, Except):
        yield from outside_not(pattern.child)
    elif isinstance(pattern, Seq | And | Next):
        for child in pattern.children:
            yield from outside_not(child)


def everywhere(pattern: Pattern) -> Iterator[Pattern]:
    """Every node of the pattern."""
    yield pattern
    for child in children_of(pattern):
        yield from everywhere(child)


def sequences(pattern: Pattern) -> Iterator[Seq | Next]:
    """Every SEQ and NEXT of the pattern outside NOT."""
    return (node for node in outside_not(pattern) if isinstance(node, Seq | Next))
