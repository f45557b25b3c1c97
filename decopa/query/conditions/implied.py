"""Comparisons that follow from others: a.k = b.k and b.k = c.k make a.k = c.k.

They never change the matches, but an operator that sees a and c without b can use them: as a key to look partners up
by, or to drop pairs early that no b could complete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from decopa.query.conditions.predicate import Attr, Compare, Predicate

_FLIPPED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


@dataclass(frozen=True, slots=True)
class Implied:
    """A comparison between two aliases, and the aliases that it was concluded over."""

    predicate: Compare
    through: frozenset[str]


def implied_comparisons(predicates: Iterable[Predicate], comparable: Callable[[Attr, Attr], bool]) -> list[Implied]:
    """What follows by transitivity of =, < and <= from comparisons between attributes of different aliases.

    `comparable` says whether two attributes may be put into one chain (same kind of column, same side of a NOT). Of
    several ways to conclude a comparison the shortest counts.
    """
    edges: dict[Attr, list[tuple[Attr, str]]] = {}
    stated: set[tuple[Attr, Attr]] = set()
    for predicate in predicates:
        for one, op, other in _steps(predicate, comparable):
            edges.setdefault(one, []).append((other, op))
            stated.add((one, other))
    found: dict[tuple[Attr, Attr], Implied] = {}
    for start in edges:
        for end, op, through in _reachable(start, edges):
            known = (start, end) in stated or (op == "=" and (end, start) in found)
            if end.alias != start.alias and not known:
                found[start, end] = Implied(Compare(op, start, end), through - {start.alias, end.alias})
    return list(found.values())


def _steps(predicate: Predicate, comparable: Callable[[Attr, Attr], bool]) -> list[tuple[Attr, str, Attr]]:
    """The comparison as steps from a smaller to a larger value; an equality leads both ways."""
    if not isinstance(predicate, Compare) or predicate.op == "!=":
        return []
    one, op, other = predicate.left, predicate.op, predicate.right
    if not (isinstance(one, Attr) and isinstance(other, Attr)) or one.alias == other.alias:
        return []
    if not comparable(one, other):
        return []
    if op == "=":
        return [(one, op, other), (other, op, one)]
    return [(one, op, other)] if op in ("<", "<=") else [(other, _FLIPPED[op], one)]


def _reachable(start: Attr, edges: dict[Attr, list[tuple[Attr, str]]]) -> list[tuple[Attr, str, frozenset[str]]]:
    """Everything that start is =, < or <= to, by the shortest chain of at least two steps, with the aliases on it."""
    seen = {start}
    queue: deque[tuple[Attr, str, frozenset[str], int]] = deque([(start, "=", frozenset(), 0)])
    found = []
    while queue:
        here, op, through, steps = queue.popleft()
        for following, step in edges.get(here, ()):
            if following in seen:
                continue
            seen.add(following)
            total = _composed(op, step)
            if steps:
                found.append((following, total, through))
            queue.append((following, total, through | {following.alias}, steps + 1))
    return found


def _composed(one: str, other: str) -> str:
    if "<" in (one, other):
        return "<"
    return "<=" if "<=" in (one, other) else "="
