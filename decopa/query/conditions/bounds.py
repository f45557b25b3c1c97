"""Conditions that compare something with a constant: which of them follow from each other, and the weakest of several.

Rules of one template say the same with other constants (`a.x < 3`, `a.x < 5`). Whatever fulfils one of them fulfils the
weakest, so its matches are enough to find those of all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from decopa.query.conditions.predicate import Among, Compare, Expr, Literal, Negative, Predicate, aliases_of

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
#: Whole numbers up to this are the same as floating-point numbers.
_EXACT = 2**53


@dataclass(frozen=True, slots=True)
class Bound:
    """`of op value`; the constant is a number, or for `=` also a text or a truth value."""

    of: Expr
    op: str
    value: int | float | str | bool

    @property
    def shape(self) -> str:
        """The condition without its constant, whose kind is part of it."""
        return f"{self.of} {self.op} {'number' if _is_number(self.value) else type(self.value).__name__}"

    @property
    def predicate(self) -> Compare:
        return Compare(self.op, self.of, Literal(self.value))


def bound_of(predicate: Predicate) -> Bound | None:
    """A condition as a bound, whichever side its constant is on; None if it is none, or if its constant is a number
    that floating point does not know exactly."""
    if not isinstance(predicate, Compare) or predicate.op not in _FLIPPED:
        return None
    for of, op, side in (
        (predicate.left, predicate.op, predicate.right),
        (predicate.right, _FLIPPED[predicate.op], predicate.left),
    ):
        value = _constant(side)
        if value is not None and aliases_of(of) and (op == "=" or _is_number(value)):
            return Bound(of, op, value)
    return None


def follows(weak: Predicate, strong: Predicate) -> bool:
    """Whether every event that fulfils `strong` fulfils `weak`, by their constants alone."""
    stated = bound_of(strong)
    if isinstance(weak, Among):
        return stated is not None and stated.op == "=" and _follows_from_list(weak, stated)
    wanted = bound_of(weak)
    if stated is None or wanted is None or stated.of != wanted.of or stated.op != wanted.op:
        return False
    if _is_number(stated.value) != _is_number(wanted.value):
        return False
    if wanted.op == "=":
        return stated.value == wanted.value and stated.shape == wanted.shape
    at_most = stated.value <= wanted.value  # type: ignore[operator]
    return at_most if wanted.op in ("<", "<=") else stated.value >= wanted.value  # type: ignore[operator]


def _follows_from_list(weak: Among, stated: Bound) -> bool:
    return weak.operand == stated.of and Literal(stated.value) in weak.values


def weakest(bounds: Sequence[Bound]) -> Predicate:
    """The strictest condition that follows from each of several bounds of one shape."""
    first, values = bounds[0], [one.value for one in bounds]
    if first.op == "=":
        distinct = tuple(dict.fromkeys(Literal(value) for value in values))
        return first.predicate if len(distinct) == 1 else Among(first.of, tuple(sorted(distinct, key=str)))
    value = max(values) if first.op in ("<", "<=") else min(values)
    return Bound(first.of, first.op, value).predicate


def _constant(side: Expr) -> int | float | str | bool | None:
    if isinstance(side, Negative) and isinstance(side.operand, Literal) and _is_number(side.operand.value):
        value: int | float | str | bool = -side.operand.value  # type: ignore[operator]
    elif isinstance(side, Literal):
        value = side.value
    else:
        return None
    return value if is_exact(Literal(value)) else None


def is_exact(literal: Literal) -> bool:
    """Whether a constant can be compared as a floating-point number, or is no number."""
    value = literal.value
    return isinstance(value, str | bool) or (math.isfinite(value) and abs(value) < _EXACT)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
