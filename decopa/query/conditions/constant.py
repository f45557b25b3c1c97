"""Conditions that say nothing: those that can never hold, whatever the events are, and those that always do.

What is known of an expression without looking at events: the range of its values (distances lie between 0 and half
the earth's circumference, |x| is not negative), and that an expression equals itself. Two conditions on the same two
expressions can contradict each other (`a.x < b.x` and `a.x >= b.x`). A comparison with a missing value is false, so
"always" means: wherever the values are there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from decopa.query.binding import EARTH_RADIUS_KM
from decopa.query.conditions.members import between_members
from decopa.query.conditions.predicate import (
    AllOf,
    Among,
    AnyOf,
    Arithmetic,
    Call,
    Compare,
    Expr,
    Literal,
    Negated,
    Negative,
    Predicate,
    aliases_of,
    compares_neighbours,
)
from decopa.query.query import Query

Range = tuple[float, float]
_ANYTHING: Range = (-math.inf, math.inf)
_FARTHEST_KM = math.pi * EARTH_RADIUS_KM
#: The ways in which two values can stand to each other that fulfil a comparison.
_ALLOWED = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "=": "=", "!=": "<>"}
_MIRRORED = {"<": ">", ">": "<", "=": "="}


def constant_notices(query: Query) -> tuple[str, ...]:
    """A line for each condition, or pair of conditions, that events cannot change anything about."""
    return tuple(dict.fromkeys(line for branch in query.branches for line in _branch_notices(branch)))


def constant_truth(predicate: Predicate) -> bool | None:
    """True or False if the condition holds always or never, None if it depends on the events."""
    match predicate:
        case Compare():
            return _comparison(predicate)
        case Among():
            found = [_comparison(Compare("=", predicate.operand, value)) for value in predicate.values]
            return True if True in found else (False if set(found) == {False} else None)
        case Negated():
            # What holds wherever values are there does not hold where one is missing, and then NOT of it does.
            return True if constant_truth(predicate.part) is False else None
        case AllOf() | AnyOf():
            decisive = isinstance(predicate, AnyOf)
            parts = [constant_truth(part) for part in predicate.parts]
            if decisive in parts:
                return decisive
            return None if None in parts else not decisive
        case _:
            return None


def _branch_notices(branch: Query) -> Iterator[str]:
    open_conditions: list[tuple[Predicate, Predicate]] = []
    for written in branch.conditions:
        predicate = _as_meant(branch, written)
        truth = constant_truth(predicate)
        if truth is None:
            open_conditions.append((written, predicate))
        elif truth:
            yield f"'{written}' always holds where its values are not missing; leave it out"
        else:
            yield f"'{written}' can never hold; {_consequence(branch, written)}"
    for (one, first), (other, second) in itertools.combinations(open_conditions, 2):
        if isinstance(first, Compare) and isinstance(second, Compare) and _contradict(first, second):
            yield f"'{one}' and '{other}' can never hold together; {_consequence(branch, one)}"


def _as_meant(branch: Query, predicate: Predicate) -> Predicate:
    """A condition between members of a group as one on two events."""
    named = aliases_of(predicate)
    if len(named) != 1 or not named <= branch.kleene_aliases:
        return predicate
    return between_members(predicate, next(iter(named))) or predicate


def _consequence(branch: Query, predicate: Predicate) -> str:
    named = aliases_of(predicate)
    if named & branch.negated_aliases:
        return "so the NOT that it belongs to never blocks a match"
    if compares_neighbours(predicate) or _as_meant(branch, predicate) is not predicate:
        return f"so groups of '{min(named)}' have one member"
    return "so the query finds nothing"


def _comparison(predicate: Compare) -> bool | None:
    if predicate.left == predicate.right:
        return "=" in _ALLOWED[predicate.op]
    if any(isinstance(side, Literal) and not _is_number(side) for side in (predicate.left, predicate.right)):
        return None
    (low, high), (other_low, other_high) = _range(predicate.left), _range(predicate.right)
    possible = set()
    if low < other_high:
        possible.add("<")
    if high > other_low:
        possible.add(">")
    if max(low, other_low) <= min(high, other_high):
        possible.add("=")
    allowed = set(_ALLOWED[predicate.op])
    if not possible & allowed:
        return False
    return True if possible <= allowed else None


def _contradict(one: Compare, other: Compare) -> bool:
    allowed = set(_ALLOWED[other.op])
    if (one.left, one.right) == (other.right, other.left):
        allowed = {_MIRRORED[relation] for relation in allowed}
    elif (one.left, one.right) != (other.left, other.right):
        return _apart(one, other)
    return not allowed & set(_ALLOWED[one.op])


def _apart(one: Compare, other: Compare) -> bool:
    """Whether the two ask the same expression to lie in two ranges that do not meet."""
    (first, low, high, closed), (second, other_low, other_high, other_closed) = _bounded(one), _bounded(other)
    if first is None or first != second:
        return False
    return max(low, other_low) > min(high, other_high) or (
        max(low, other_low) == min(high, other_high) and not (closed and other_closed)
    )


def _bounded(predicate: Compare) -> tuple[Expr | None, float, float, bool]:
    """`x < 3` as x, its range, and whether the ends belong to it; None for other conditions."""
    left, op, right = predicate.left, predicate.op, predicate.right
    if isinstance(left, Literal):
        left, right = right, left
        op = "".join(_MIRRORED[sign] for sign in _ALLOWED[op]) if op != "!=" else op
    if not isinstance(right, Literal) or not _is_number(right) or op == "!=":
        return None, 0.0, 0.0, False
    value = float(right.value)
    return left, -math.inf if "<" in op else value, math.inf if ">" in op else value, "=" in op


def _is_number(literal: Literal) -> bool:
    return isinstance(literal.value, int | float) and not isinstance(literal.value, bool)


def _range(expr: Expr) -> Range:
    """Where the values of an expression lie, as far as that is known without events."""
    match expr:
        case Literal():
            return (float(expr.value), float(expr.value)) if _is_number(expr) else _ANYTHING
        case Negative():
            low, high = _range(expr.operand)
            return -high, -low
        case Arithmetic():
            return _arithmetic(expr)
        case Call():
            return _call(expr)
    return _ANYTHING


def _arithmetic(expr: Arithmetic) -> Range:
    if expr.left == expr.right and expr.op in ("-", "/"):
        return (0.0, 0.0) if expr.op == "-" else (1.0, 1.0)
    (low, high), (other_low, other_high) = _range(expr.left), _range(expr.right)
    if expr.op == "+":
        return low + other_low, high + other_high
    if expr.op == "-":
        return low - other_high, high - other_low
    if not all(map(math.isfinite, (low, high, other_low, other_high))) or expr.op == "/":
        return _ANYTHING
    corners = [one * other for one in (low, high) for other in (other_low, other_high)]
    return min(corners), max(corners)


def _call(expr: Call) -> Range:
    ranges = [_range(argument) for argument in expr.arguments]
    match expr.function:
        case "abs":
            (low, high) = ranges[0]
            return (0.0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
        case "sqrt":
            return 0.0, math.sqrt(ranges[0][1]) if ranges[0][1] >= 0 else 0.0
        case "min" | "max":
            pick = min if expr.function == "min" else max
            return pick(low for low, _ in ranges), pick(high for _, high in ranges)
        case "dist_km":
            same = expr.arguments[:2] == expr.arguments[2:]
            return (0.0, 0.0) if same else (0.0, _FARTHEST_KM)
    return _ANYTHING
