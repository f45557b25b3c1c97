"""When two projections, of one query or of two, find the same matches: equal pattern, conditions and window (M21)."""

from __future__ import annotations

from dataclasses import replace

from decopa.query.conditions.predicate import Attr, Node, rewrite
from decopa.query.pattern import And, EventRef, Kleene, Pattern, children_of, leaves, type_form, with_children
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
    children = tuple(_sorted(child) for child in children_of(pattern))
    if isinstance(pattern, And):
        children = tuple(sorted(children, key=lambda child: (type_form(child), str(child))))
    return with_children(pattern, children)


def _renamed(pattern: Pattern, names: dict[str, str]) -> Pattern:
    if isinstance(pattern, EventRef):
        return replace(pattern, alias=names[pattern.alias])
    return with_children(pattern, tuple(_renamed(child, names) for child in children_of(pattern)))
