"""Conditions between two members of one KL group: which conditions are meant so, and which member each side names.

A condition that names one KL alias and nothing else compares two members in two cases.

- The alias stands on both sides of the comparison (`b.x < b.x`, `b.x < b.y + 1`). The left side is the earlier
  member's, the right side the later one's.
- The condition takes something from itself, which says nothing about one member: `b.x - b.x`, `b.x / b.x`, `dist_km`
  from a point to the same point (`dist_km(b.lat, b.lon, b.lat, b.lon)`). The first mention is the earlier member's, the
  second the later one's. Nothing outside of such a *twin* may name the alias: nobody could tell which member it means.

A condition with PREV compares neighbours. Anything else is about each member alone: `dist_km(b.start_lat, b.start_lon,
b.end_lat, b.end_lon)` is one ride's way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from decopa.query.conditions.predicate import (
    Arithmetic,
    Attr,
    Call,
    Compare,
    Expr,
    Node,
    Predicate,
    aliases_of,
    attributes,
    children,
    compares_neighbours,
    renamed,
    rewrite,
)

#: What the two members of a pair are called in a condition between them.
EARLIER, LATER = "earlier", "later"


def is_between_members(predicate: Predicate, alias: str) -> bool:
    """Whether a condition compares members of one group with each other: every two, or neighbours."""
    return aliases_of(predicate) == {alias} and (compares_neighbours(predicate) or is_self_pair(predicate, alias))


def is_self_pair(predicate: Predicate, alias: str) -> bool:
    """Whether a condition compares every two members of a group, if the alias is a KL one."""
    return between_members(predicate, alias) is not None


def between_members(predicate: Predicate, alias: str, *, earlier: str = EARLIER, later: str = LATER) -> Compare | None:
    """The condition with the attributes of the two members told apart; None if it is not one between members."""
    if not isinstance(predicate, Compare) or aliases_of(predicate) != {alias} or compares_neighbours(predicate):
        return None
    found = list(twins(predicate, alias))
    if not found:
        if not (aliases_of(predicate.left) and aliases_of(predicate.right)):
            return None
        left, right = renamed(predicate.left, {alias: earlier}), renamed(predicate.right, {alias: later})
        return replace(predicate, left=left, right=right)  # type: ignore[arg-type]
    inside = sum(1 for twin in found for _ in attributes(twin))
    if inside < sum(1 for _ in attributes(predicate)):
        return None

    def tell_apart(node: Node) -> Node | None:
        halves = _halves(node, alias)
        if halves is None:
            return None
        first = [renamed(part, {alias: earlier}) for part in halves[0]]
        second = [renamed(part, {alias: later}) for part in halves[1]]
        if isinstance(node, Arithmetic):
            return replace(node, left=first[0], right=second[0])  # type: ignore[arg-type]
        return replace(node, arguments=(*first, *second))  # type: ignore[arg-type]

    return rewrite(predicate, tell_apart)  # type: ignore[return-value]


def of_neighbours(predicate: Predicate, *, earlier: str = EARLIER, later: str = LATER) -> Predicate:
    """A condition with PREV as one on two members: PREV is the earlier one's, everything else the later one's."""

    def tell_apart(node: Node) -> Node | None:
        return Attr(earlier if node.previous else later, node.name) if isinstance(node, Attr) else None

    return rewrite(predicate, tell_apart)  # type: ignore[return-value]


def compares_members(node: Node, alias: str) -> bool:
    """Whether a comparison anywhere in a condition has the alias on both sides or takes it from itself."""
    if isinstance(node, Compare) and alias in aliases_of(node.left) and alias in aliases_of(node.right):
        return True
    return _halves(node, alias) is not None or any(compares_members(child, alias) for child in children(node))


def twins(node: Node, alias: str) -> Iterator[Node]:
    """The topmost expressions that take something of the alias from itself."""
    if _halves(node, alias) is not None:
        yield node
        return
    for child in children(node):
        yield from twins(child, alias)


def _halves(node: Node, alias: str) -> tuple[tuple[Expr, ...], tuple[Expr, ...]] | None:
    """The two equal halves of an expression that takes something of the alias from itself."""
    first: tuple[Expr, ...]
    second: tuple[Expr, ...]
    match node:
        case Arithmetic(op="-" | "/"):
            first, second = (node.left,), (node.right,)
        case Call(function="dist_km"):
            first, second = node.arguments[:2], node.arguments[2:]
        case _:
            return None
    named = frozenset().union(*map(aliases_of, first))
    return (first, second) if first == second and named == {alias} else None
