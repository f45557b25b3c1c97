"""What the referee asks of a condition: whether it holds for the events that a match binds, groups included."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from decopa.query.conditions.predicate import (
    Arithmetic,
    Attr,
    Call,
    Compare,
    Expr,
    Literal,
    Negative,
    Node,
    Over,
    Predicate,
    aliases_of,
    children,
    compares_neighbours,
    rewrite,
)
from tests.support.evaluate import Event, compare, holds, is_missing, value_of

Group = tuple[Event, ...]
Binding = dict[str, Group]


def fulfils(predicate: Predicate, binding: Binding, kleene: frozenset[str]) -> bool:
    """Whether the condition holds for every choice of one member per alias.

    One that compares a KL alias with itself holds for every two members, the earlier one first.
    """
    predicate = with_figures(predicate, binding)
    named = sorted(aliases_of(predicate))
    if compares_neighbours(predicate):
        return True  # looked at where groups are formed
    if len(named) == 1 and named[0] in kleene and is_between_two(predicate):
        (alias,) = named
        return all(
            holds_between(predicate, {alias: earlier}, {alias: later})  # type: ignore[arg-type]
            for earlier, later in itertools.combinations(binding[alias], 2)
        )
    choices = itertools.product(*(binding[alias] for alias in named))
    return all(holds(predicate, dict(zip(named, choice, strict=True))) for choice in choices)


def with_figures(predicate: Predicate, binding: Binding) -> Predicate:
    """The condition with every aggregate over a group replaced by its value."""

    def change(node: Node) -> Node | None:
        return Literal(figure(node, binding[node.of.alias])) if isinstance(node, Over) else None  # type: ignore[arg-type]

    return rewrite(predicate, change)  # type: ignore[return-value]


def figure(node: Over, group: Group) -> object:
    if node.function == "count":
        return len(group)
    values = [value_of(node.of, {node.of.alias: member}) for member in group]
    if node.function in ("first", "last"):
        return values[0 if node.function == "first" else -1]
    known = [value for value in values if not is_missing(value)]
    if not known:
        return None
    fold = {"sum": sum, "min": min, "max": max, "avg": lambda found: sum(found) / len(found)}[node.function]
    return fold(known)


def is_between_two(predicate: Predicate) -> bool:
    """Whether a condition on a KL alias alone compares two of its members."""
    if not isinstance(predicate, Compare):
        return False
    return bool(aliases_of(predicate.left) and aliases_of(predicate.right)) or has_twin(predicate)


def is_twin(node: Node) -> bool:
    """`x - x`, `x / x` and `dist_km(p, p)` are about two members of a group: for one they say nothing."""
    match node:
        case Arithmetic(op="-" | "/"):
            return node.left == node.right and bool(aliases_of(node.left))
        case Call(function="dist_km"):
            return node.arguments[:2] == node.arguments[2:] and bool(aliases_of(node.arguments[0]))
    return False


def has_twin(node: Node) -> bool:
    return is_twin(node) or any(map(has_twin, children(node)))


def holds_between(predicate: Compare, earlier: Mapping[str, Event], later: Mapping[str, Event]) -> bool:
    if not has_twin(predicate):
        return compare(predicate.op, value_of(predicate.left, earlier), value_of(predicate.right, later))
    left, right = (value_of(with_values(side, earlier, later), {}) for side in (predicate.left, predicate.right))
    return compare(predicate.op, left, right)


def with_values(node: Expr, earlier: Mapping[str, Event], later: Mapping[str, Event]) -> Expr:
    """The expression with each mention replaced by a value: in a twin the first half is the earlier member's."""
    if isinstance(node, Attr):
        return Literal(value_of(node, earlier))  # type: ignore[arg-type]
    below = list(children(node))
    owners = [earlier] * len(below)
    if is_twin(node):
        owners[len(below) // 2 :] = [later] * (len(below) - len(below) // 2)
    done = tuple(with_values(child, owner, owner if is_twin(node) else later)
                 for child, owner in zip(below, owners, strict=True))  # type: ignore[arg-type]  # fmt: skip
    match node:
        case Arithmetic():
            return Arithmetic(node.op, *done)
        case Call():
            return Call(node.function, done)
        case Negative():
            return Negative(*done)
    return node
