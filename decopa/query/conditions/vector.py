"""Conditions and expressions over one event, evaluated on whole columns with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from decopa.query.binding import EARTH_RADIUS_KM, Derived
from decopa.query.conditions.bounds import is_exact
from decopa.query.conditions.kernel import HOUR_US
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
from decopa.query.conditions.typing import column_of_expression
from decopa.query.schema import NULL, Column, Kind

#: Lists of more values are searched, shorter ones compared one by one.
_FEW_VALUES = 8

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


class ColumnEvaluator:
    """Evaluates trees over one alias. `read` gives the column of an attribute, `column_of` its kind, `code_of` the code
    of a string constant, and `texts_of` the strings behind codes."""

    def __init__(
        self,
        length: int,
        read: Callable[[str], Array],
        column_of: Callable[[Attr], Column],
        code_of: Callable[[str], int],
        texts_of: Callable[[Array], Sequence[str | None]],
    ) -> None:
        self.length, self.read, self.column_of, self.code_of = length, read, column_of, code_of
        self.texts_of = texts_of

    def mask(self, predicate: Predicate) -> Mask:
        """Which rows fulfil the condition."""
        with np.errstate(all="ignore"):
            return np.broadcast_to(self._mask(predicate), (self.length,))

    def derive(self, derived: Derived) -> Array:
        """The values of a derived column."""
        with np.errstate(all="ignore"):
            if derived.axis is None:
                values = self._numeric(derived.inputs[0])
            else:
                latitude, longitude = (np.radians(self._float(part)) for part in derived.inputs)
                values = _unit_coordinate(latitude, longitude, derived.axis)
        dtype = np.float64 if derived.column.kind is Kind.FLOAT else np.int64
        return np.ascontiguousarray(np.broadcast_to(values, (self.length,)), dtype=dtype)

    def values(self, expr: Expr) -> Array:
        """The values of an expression, in the column type of its kind."""
        with np.errstate(all="ignore"):
            return self._numeric(expr)

    def comparable(self, expr: Expr) -> Array:
        """The values of an expression as they are compared with constants: numbers as floats, missing ones as NaN;
        texts and truth values as their codes."""
        with np.errstate(all="ignore"):
            is_number = column_of_expression(expr, self.column_of).kind.is_number
            values = self._float(expr) if is_number else self._numeric(expr)
        return np.broadcast_to(values, (self.length,))

    def constant(self, value: int | float | str | bool) -> int | float:
        """A constant as `comparable` values are compared with it."""
        return self.code_of(value) if isinstance(value, str) else int(value) if isinstance(value, bool) else value

    def _mask(self, predicate: Predicate) -> Mask:
        match predicate:
            case Compare():
                return self._compare(predicate.op, predicate.left, predicate.right)
            case Among() if len(predicate.values) > _FEW_VALUES and all(map(is_exact, predicate.values)):
                constants = [self.constant(one.value) for one in predicate.values]
                return np.isin(self.comparable(predicate.operand), constants)
            case Among():
                found = np.zeros(self.length, dtype=np.bool_)
                for value in predicate.values:
                    found = found | self._compare("=", predicate.operand, value)
                return found
            case AllOf():
                return np.asarray(
                    np.all([np.broadcast_to(self._mask(p), (self.length,)) for p in predicate.parts], axis=0)
                )
            case AnyOf():
                return np.asarray(
                    np.any([np.broadcast_to(self._mask(p), (self.length,)) for p in predicate.parts], axis=0)
                )
            case Negated():
                return np.logical_not(self._mask(predicate.part))
            case Missing():
                values, kind = self._numeric(predicate.operand), column_of_expression(predicate.operand, self.column_of)
                return np.isnan(values) if kind.kind is Kind.FLOAT else np.asarray(values == NULL)
            case Like():
                expression, any_case = predicate.expression(), predicate.any_case

                def is_like(text: str) -> bool:
                    return expression.match(text.lower() if any_case else text) is not None

                return self._of_texts(predicate.operand, is_like, False).astype(np.bool_)

    def _of_texts(self, operand: Attr, value_of: Callable[[str], Any], missing: Any) -> Array:
        """A value for each row, computed once for each distinct text."""
        distinct, inverse = np.unique(self.read(operand.name), return_inverse=True)
        texts = self.texts_of(distinct)
        return np.array([missing if text is None else value_of(text) for text in texts], dtype=np.int64)[
            inverse.reshape(-1)
        ]

    def _compare(self, op: str, left: Expr, right: Expr) -> Mask:
        columns = [column_of_expression(side, self.column_of) for side in (left, right)]
        if any(column.kind is Kind.FLOAT for column in columns):
            return _float_compare(op, self._float(left), self._float(right))
        values = [self._numeric(side) for side in (left, right)]
        result = _COMPARE[op](*values)
        for value, column in zip(values, columns, strict=True):
            if column.nullable:
                result = result & (value != NULL)
        return np.asarray(result)

    def _float(self, expr: Expr) -> Array:
        """The values as floats, missing ones as NaN."""
        column, values = column_of_expression(expr, self.column_of), self._numeric(expr)
        if column.kind is Kind.FLOAT:
            return np.asarray(values, dtype=np.float64)
        if column.nullable:
            return np.where(values == NULL, np.nan, values)
        return np.asarray(values).astype(np.float64)

    def _numeric(self, expr: Expr) -> Array:
        """The values in the column type of the expression's kind."""
        match expr:
            case Attr():
                return self.read(expr.name)
            case Literal(value=str()):
                return np.asarray(self.code_of(str(expr.value)), dtype=np.int64)
            case Literal():
                return np.asarray(expr.value, dtype=np.float64 if isinstance(expr.value, float) else np.int64)
        whole = column_of_expression(expr, self.column_of).kind is Kind.INT
        get = self._numeric if whole else self._float
        match expr:
            case Negative():
                return np.negative(get(expr.operand))
            case Arithmetic():
                return np.asarray(_ARITHMETIC[expr.op](get(expr.left), get(expr.right)))
            case Call(function="length", arguments=(Attr() as text,)):
                return self._of_texts(text, len, NULL)
            case Call():
                return self._call(expr.function, [get(argument) for argument in expr.arguments])
        raise AssertionError(f"unknown expression {expr}")

    def _call(self, function: str, arguments: list[Array]) -> Array:
        match function:
            case "abs":
                return np.abs(arguments[0])
            case "sqrt" | "floor" | "ceil" | "exp":
                return np.asarray(getattr(np, function)(arguments[0]))
            case "round":
                return np.copysign(np.floor(np.abs(arguments[0]) + 0.5), arguments[0])
            case "log":
                return np.where(arguments[0] > 0, np.log(np.where(arguments[0] > 0, arguments[0], 1.0)), np.nan)
            case "pow":
                return np.power(*arguments)
            case "mod":
                return np.where(np.equal(arguments[1], 0), np.nan, np.fmod(*arguments))
            case "hour":
                return np.asarray(arguments[0] // HOUR_US % 24)
            case "weekday":
                return np.asarray((arguments[0] // (24 * HOUR_US) + 3) % 7 + 1)
            case "min":
                return np.asarray(np.minimum.reduce(np.broadcast_arrays(*arguments)))
            case "max":
                return np.asarray(np.maximum.reduce(np.broadcast_arrays(*arguments)))
            case "dist_km":
                return _distance_km(*(np.radians(argument) for argument in arguments))
            case "chord_km":
                return _chord_km(arguments[0])
        raise AssertionError(f"unknown function {function}")


_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "=": np.equal, "!=": np.not_equal,
}  # fmt: skip
_ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": lambda left, right: _quotient(left, right),
}  # fmt: skip


def _quotient(left: Array, right: Array) -> Array:
    """Division; by zero it is a missing value."""
    return np.where(np.equal(right, 0), np.nan, np.divide(left, right))


def _float_compare(op: str, left: Array, right: Array) -> Mask:
    if op == "!=":  # NaN differs from everything in IEEE arithmetic, but a missing value compares false
        return np.asarray((left < right) | (left > right))
    return np.asarray(_COMPARE[op](left, right))


def _unit_coordinate(latitude: Array, longitude: Array, axis: int) -> Array:
    if axis == 2:
        return np.sin(latitude) + 0.0 * longitude  # a missing longitude makes the whole point missing
    return np.asarray(np.cos(latitude) * (np.cos(longitude) if axis == 0 else np.sin(longitude)))


def _distance_km(latitude_1: Array, longitude_1: Array, latitude_2: Array, longitude_2: Array) -> Array:
    chord: Array = sum(  # type: ignore[assignment]
        (_unit_coordinate(latitude_1, longitude_1, axis) - _unit_coordinate(latitude_2, longitude_2, axis)) ** 2
        for axis in range(3)
    )
    return _chord_km(chord)


def _chord_km(squared: Array) -> Array:
    """The distance on the sphere of two points, from the square of the chord between their unit vectors."""
    return np.asarray(2 * EARTH_RADIUS_KM * np.arcsin(np.minimum(1.0, np.sqrt(squared) / 2)))
