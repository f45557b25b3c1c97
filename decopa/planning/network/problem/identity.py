"""When two projections, of one query or of two, find the same matches: equal pattern, conditions and window (M21)."""

from __future__ import annotations

from dataclasses import replace

from decopa.query.pattern import And, EventRef, Kleene, Not, Pattern, leaves, type_form
from decopa.query.predicate import Attr, Node, rewrite
from decopa.query.query import Query


def canonical_text(query: Query) -> str:
    """The query's text with numbered aliases, children of AND sorted and conditions in a fixed order."""
    pattern = _sorted(query.pattern)
    names = {leaf.alias: f"p{number}" for number, leaf in enumerate(leaves(pattern))}

    def renamed(node: Node) -> Node | None:
        return replace(node, alias=names[node.alias]) if isinstance(node, Attr) else None

    conditions = sorted(str(rewrite(condition, renamed)) for condition in query.where)
    return f"{_renamed(pattern, names)} WHERE {' AND '.join(conditions)} WITHIN {query.window_us}"


def _sorted(pattern: Pattern) -> Pattern:
    if isinstance(pattern, EventRef | Kleene):
        return pattern
    if isinstance(pattern, Not):
        return Not(_sorted(pattern.child))
    children = tuple(_sorted(child) for child in pattern.children)
    if isinstance(pattern, And):
        children = tuple(sorted(children, key=lambda child: (type_form(child), str(child))))
    return type(pattern)(children)


def _renamed(pattern: Pattern, names: dict[str, str]) -> Pattern:
    if isinstance(pattern, EventRef):
        return EventRef(pattern.type, names[pattern.alias])
    if isinstance(pattern, Kleene | Not):
        return type(pattern)(_renamed(pattern.child, names))  # type: ignore[arg-type]
    return type(pattern)(tuple(_renamed(child, names) for child in pattern.children))
