"""What an expression or condition of a query is worth for given events, by the book and one event at a time."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from decopa.query.conditions.predicate import (
    AllOf,
    Among,
    AnyOf,
    Arithmetic,
    Attr,
    Call,
    Compare,
    Expr,
    Like,
    Literal,
    Missing,
    Negated,
    Negative,
    Predicate,
)

Event = Mapping[str, Any]
Value = int | float | str | bool | None

EARTH_RADIUS_KM = 6371.0088
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}


def holds(predicate: Predicate, bound: Mapping[str, Event]) -> bool:
    """Whether the condition holds when each alias stands for the one event in `bound`."""
    match predicate:
        case Compare():
            return compare(predicate.op, value_of(predicate.left, bound), value_of(predicate.right, bound))
        case Among():
            found = value_of(predicate.operand, bound)
            return any(compare("=", found, literal.value) for literal in predicate.values)
        case AllOf():
            return all(holds(part, bound) for part in predicate.parts)
        case AnyOf():
            return any(holds(part, bound) for part in predicate.parts)
        case Negated():
            return not holds(predicate.part, bound)
        case Missing():
            return is_missing(value_of(predicate.operand, bound))
        case Like():
            text = value_of(predicate.operand, bound)
            return text is not None and like(str(text).lower() if predicate.any_case else str(text), predicate.pattern)


def like(text: str, pattern: str) -> bool:
    """LIKE by trying every way to split the text; slow and plain."""
    if not pattern:
        return not text
    if pattern[0] == "\\" and len(pattern) > 1 and pattern[1] in "%_\\":
        return text[:1] == pattern[1] and like(text[1:], pattern[2:])
    if pattern[0] == "%":
        return any(like(text[cut:], pattern[1:]) for cut in range(len(text) + 1))
    return bool(text) and (pattern[0] in ("_", text[0])) and like(text[1:], pattern[1:])


def compare(op: str, left: Value, right: Value) -> bool:
    """False whenever a side is missing or not a number, `!=` included."""
    return not is_missing(left) and not is_missing(right) and COMPARE[op](left, right)


def is_missing(value: Value) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def value_of(expression: Expr, bound: Mapping[str, Event]) -> Value:
    match expression:
        case Attr():
            return bound[expression.alias].get(expression.name)
        case Literal():
            return expression.value
        case Arithmetic():
            return arithmetic(expression.op, value_of(expression.left, bound), value_of(expression.right, bound))
        case Negative():
            operand: Any = value_of(expression.operand, bound)
            return None if is_missing(operand) else -operand
        case Call():
            return call(expression.function, [value_of(argument, bound) for argument in expression.arguments])


def arithmetic(op: str, left: Any, right: Any) -> Any:
    if is_missing(left) or is_missing(right):
        return None
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case _:
            return divide(left, right)


def divide(left: float, right: float) -> float:
    """Division by zero has no value: it is missing."""
    return left / right if right != 0 else math.nan


def call(function: str, arguments: list[Any]) -> Any:
    if any(is_missing(argument) for argument in arguments):
        return None
    match function:
        case "abs":
            return abs(arguments[0])
        case "sqrt":
            return math.sqrt(arguments[0]) if arguments[0] >= 0 else math.nan
        case "floor":
            return float(math.floor(arguments[0]))
        case "ceil":
            return float(math.ceil(arguments[0]))
        case "round":
            return math.copysign(math.floor(abs(arguments[0]) + 0.5), arguments[0])
        case "log":
            return math.log(arguments[0]) if arguments[0] > 0 else math.nan
        case "exp":
            return math.exp(min(arguments[0], 700.0))
        case "pow":
            return power(*map(float, arguments))
        case "mod":
            return math.fmod(*arguments) if arguments[1] != 0 else math.nan
        case "hour":
            return arguments[0] // 3_600_000_000 % 24
        case "weekday":
            return (arguments[0] // 86_400_000_000 + 3) % 7 + 1
        case "length":
            return len(arguments[0])
        case "min":
            return min(arguments)
        case "max":
            return max(arguments)
        case _:
            return haversine_km(*map(math.radians, arguments))


def power(base: float, exponent: float) -> float:
    try:
        result = base**exponent
    except ZeroDivisionError:
        return math.inf
    return math.nan if isinstance(result, complex) else result


def haversine_km(lat: float, lon: float, other_lat: float, other_lon: float) -> float:
    """Great-circle distance of two points given in radians."""
    half_chord_squared = (
        math.sin((other_lat - lat) / 2) ** 2
        + math.cos(lat) * math.cos(other_lat) * math.sin((other_lon - lon) / 2) ** 2
    )
    return 2 * EARTH_RADIUS_KM * math.asin(min(1.0, math.sqrt(half_chord_squared)))
