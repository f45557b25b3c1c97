"""Kinds of expressions: what may be compared or added, checked once the trace's columns are known."""

from __future__ import annotations

from collections.abc import Callable

from decopa.errors import QueryError
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
    Node,
    Over,
    Predicate,
    attributes,
)
from decopa.query.schema import Column, Kind

#: Gives the column behind an attribute; raises if there is none.
ColumnOf = Callable[[Attr], Column]


def column_of_expression(expr: Expr, column_of: ColumnOf) -> Column:
    """Kind and nullability of an expression's value.

    Arithmetic over integers that may be missing is done in floating point, where NaN stands for missing.
    """
    match expr:
        case Attr():
            return column_of(expr)
        case Literal(value=bool()):
            return Column(Kind.BOOL)
        case Literal(value=int()):
            return Column(Kind.INT)
        case Literal(value=float()):
            return Column(Kind.FLOAT)
        case Literal():
            return Column(Kind.STRING)
        case Over(function="count"):
            return Column(Kind.INT)
        case Over(function="first" | "last"):
            return column_of(expr.of)
        case Over():
            column = _number(expr.of, column_of)
            kind = Kind.FLOAT if expr.function == "avg" else column.kind
            return Column(kind, nullable=column.nullable)
        case Negative():
            return _arithmetic(expr, [_number(expr.operand, column_of)])
        case Arithmetic():
            parts = [_number(expr.left, column_of), _number(expr.right, column_of)]
            return _arithmetic(expr, parts, always_float=expr.op == "/")
        case Call(function="length"):
            column = column_of_expression(expr.arguments[0], column_of)
            if column.kind is not Kind.STRING or not isinstance(expr.arguments[0], Attr):
                raise _error(expr, f"'{expr}': length is that of a text attribute, as in length(a.name)")
            return Column(Kind.INT, column.nullable)
        case Call():
            parts = [_number(argument, column_of) for argument in expr.arguments]
            if expr.function in ("hour", "weekday") and any(part.kind is not Kind.INT for part in parts):
                raise _error(expr, f"'{expr}' takes a time in whole microseconds, as in {expr.function}(a.ts)")
            whole = ("abs", "min", "max", "hour", "weekday")
            return _arithmetic(expr, parts, always_float=expr.function not in whole)


def check_predicate(predicate: Predicate, column_of: ColumnOf) -> None:
    """Raises QueryError where values of different kinds meet."""
    match predicate:
        case Compare():
            left, right = (column_of_expression(side, column_of) for side in (predicate.left, predicate.right))
            _check_comparable(predicate, left.kind, right.kind)
            if predicate.op not in ("=", "!=") and not left.kind.is_number:
                raise _error(predicate, f"'{predicate}': a {left.kind.value} can only be compared with = and !=")
        case Among():
            kind = column_of_expression(predicate.operand, column_of).kind
            for value in predicate.values:
                _check_comparable(predicate, kind, column_of_expression(value, column_of).kind)
        case Missing():
            column_of_expression(predicate.operand, column_of)
        case Like():
            if column_of(predicate.operand).kind is not Kind.STRING:
                raise _error(predicate, f"'{predicate}': LIKE compares texts; use = or < for other values")
        case AllOf() | AnyOf():
            for part in predicate.parts:
                check_predicate(part, column_of)
        case Negated():
            check_predicate(predicate.part, column_of)


def _number(expr: Expr, column_of: ColumnOf) -> Column:
    column = column_of_expression(expr, column_of)
    if not column.kind.is_number:
        raise _error(expr, f"'{expr}' is a {column.kind.value}, where a number is needed")
    return column


def _arithmetic(expr: Expr, parts: list[Column], *, always_float: bool = False) -> Column:
    nullable = any(part.nullable for part in parts)
    whole = all(part.kind is Kind.INT for part in parts) and not always_float and not nullable
    return Column(Kind.INT if whole else Kind.FLOAT, nullable)


def _check_comparable(node: Predicate, left: Kind, right: Kind) -> None:
    if left is right or (left.is_number and right.is_number):
        return
    hint = "; write TRUE or FALSE" if Kind.BOOL in (left, right) else ""
    hint = "; put quotes around the text or take them off the number" if Kind.STRING in (left, right) else hint
    raise _error(node, f"'{node}' compares a {left.value} with a {right.value}{hint}")


def _error(node: Node, message: str) -> QueryError:
    at = next((attr.at for attr in attributes(node) if attr.at is not None), None)
    return QueryError(message) if at is None else QueryError(message, line=at.line, column=at.column)
