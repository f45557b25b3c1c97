"""The pattern tree: what has to happen, in which order (3.1).

Nodes are values; wrong ones cannot be built. Order constraints, Kleene types and negations of a whole pattern are
derived in `analysis`; here live only the nodes and what concerns one node at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from decopa.errors import QueryError
from decopa.query.names import is_plain, quoted


@dataclass(frozen=True, slots=True)
class EventRef:
    """`A a`: one event of type A, called a in predicates and in the result."""

    type: str
    alias: str

    def __post_init__(self) -> None:
        if not self.type or not self.alias:
            raise QueryError("an event needs a type and an alias, as in SEQ(A a, B b)")
        if not is_plain(self.alias):
            raise QueryError(f"'{self.alias}' is no alias: use letters, digits and _, as in {quoted(self.type)} a1")

    def __str__(self) -> str:
        return f"{quoted(self.type)} {quoted(self.alias)}"


@dataclass(frozen=True, slots=True)
class Seq:
    """SEQ(...): every event of an earlier child strictly before every event of a later one."""

    children: tuple[Pattern, ...]

    def __post_init__(self) -> None:
        _check_children("SEQ", self.children)
        if all(isinstance(child, Not) for child in self.children):
            raise QueryError(
                f"{self} has no positive event, so there is nothing to report; "
                "add the event that must happen, as in SEQ(A a, NOT(B b))"
            )

    def __str__(self) -> str:
        return _call("SEQ", self.children)


@dataclass(frozen=True, slots=True)
class And:
    """AND(...): all children, in any order."""

    children: tuple[Pattern, ...]

    def __post_init__(self) -> None:
        _check_children("AND", self.children)
        _check_no_negation("AND", self.children)

    def __str__(self) -> str:
        return _call("AND", self.children)


@dataclass(frozen=True, slots=True)
class Or:
    """OR(...): one of the children; a query with OR is split into one query per alternative."""

    children: tuple[Pattern, ...]

    def __post_init__(self) -> None:
        _check_children("OR", self.children)
        _check_no_negation("OR", self.children)

    def __str__(self) -> str:
        return _call("OR", self.children)


@dataclass(frozen=True, slots=True)
class Kleene:
    """KL(A a): one or more A events; exactly one event type below it (3.1)."""

    child: EventRef

    def __post_init__(self) -> None:
        if not isinstance(self.child, EventRef):
            raise QueryError(f"KL takes one event type, got {self.child}; write it as in SEQ(KL(A a), B b)")

    def __str__(self) -> str:
        return f"KL({self.child})"


@dataclass(frozen=True, slots=True)
class Not:
    """NOT(P) inside SEQ: no match of P strictly between its neighbours; at an end of SEQ, up to the window's end."""

    child: Pattern

    def __post_init__(self) -> None:
        if isinstance(self.child, Not):
            raise QueryError(f"{self}: NOT directly inside NOT; leave both out, or name the event that must happen")

    def __str__(self) -> str:
        return f"NOT({self.child})"


Pattern: TypeAlias = EventRef | Seq | And | Or | Kleene | Not


def leaves(pattern: Pattern) -> Iterator[EventRef]:
    """The primitive patterns from left to right, negated and Kleene ones included."""
    if isinstance(pattern, EventRef):
        yield pattern
    elif isinstance(pattern, Kleene | Not):
        yield from leaves(pattern.child)
    else:
        for child in pattern.children:
            yield from leaves(child)


def type_form(pattern: Pattern) -> str:
    """The pattern written with types only, as the paper does: SEQ(A,B,AND(C,D))."""
    if isinstance(pattern, EventRef):
        return pattern.type
    if isinstance(pattern, Kleene | Not):
        return f"{'KL' if isinstance(pattern, Kleene) else 'NOT'}({type_form(pattern.child)})"
    return f"{type(pattern).__name__.upper()}({','.join(type_form(child) for child in pattern.children)})"


def _call(name: str, children: tuple[Pattern, ...]) -> str:
    return f"{name}({', '.join(map(str, children))})"


def _check_children(name: str, children: tuple[Pattern, ...]) -> None:
    if not children:
        raise QueryError(f"{name} needs at least one child, as in {name}(A a, B b)")


def _check_no_negation(name: str, children: tuple[Pattern, ...]) -> None:
    for child in children:
        if isinstance(child, Not):
            raise QueryError(
                f"{child} stands directly in {name}, where 'in between' has no meaning; "
                "put NOT inside SEQ, as in SEQ(A a, NOT(B b), C c)"
            )
