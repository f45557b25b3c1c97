"""Predicate tree -> source of a compiled condition over single values.

The caller says how an attribute is read (`read`); constants become named values that are passed in, so that two
queries which differ in constants only share a kernel. Everything here is built from typed nodes; no text of the
query can get into the source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from decopa.query.binding import EARTH_RADIUS_KM
from decopa.query.conditions.predicate import (
    AllOf,
    Among,
    AnyOf,
    Arithmetic,
    Attr,
    Call,
    Compare,
    Expr,
    Literal,
    Missing,
    Negated,
    Negative,
    Predicate,
)
from decopa.query.conditions.typing import ColumnOf, column_of_expression
from decopa.query.schema import Kind

HOUR_US = 3_600_000_000
#: Module-level helpers that generated code may call.
HELPERS = """@jit
def number_or_nan(value):
    return np.nan if value == NULL else np.float64(value)


@jit
def quotient(dividend, divisor):
    return np.nan if divisor == 0 else np.float64(dividend) / np.float64(divisor)


@jit
def remainder(dividend, divisor):
    return np.nan if divisor == 0 else np.fmod(dividend, divisor)


@jit
def logarithm(value):
    return np.log(value) if value > 0 else np.nan


@jit
def rounded(value):
    return np.copysign(np.floor(np.abs(value) + 0.5), value)
"""


class Constants:
    """Constants of a kernel: `f0, f1, ...` are floats, `i0, i1, ...` integers, truth values or strings."""

    def __init__(self) -> None:
        self.floats: list[float] = []
        self.integers: list[int | str] = []

    def name(self, value: int | float | str | bool) -> str:
        if isinstance(value, float):
            self.floats.append(value)
            return f"f{len(self.floats) - 1}"
        self.integers.append(value if isinstance(value, str) else int(value))
        return f"i{len(self.integers) - 1}"

    @property
    def loading(self) -> list[str]:
        """Source lines that give the constants their names."""
        return [f"f{n} = floats[{n}]" for n in range(len(self.floats))] + [
            f"i{n} = integers[{n}]" for n in range(len(self.integers))
        ]

    def arrays(self, code_of: Callable[[str], int]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The values to pass as `floats` and `integers`; strings become their codes."""
        integers = [code_of(value) if isinstance(value, str) else value for value in self.integers]
        return np.array(self.floats, dtype=np.float64), np.array(integers, dtype=np.int64)


class ConditionWriter:
    """Writes conditions as expressions without branches, so that a loop over them stays fast."""

    def __init__(self, read: Callable[[Attr], str], column_of: ColumnOf, constants: Constants) -> None:
        self.read, self.column_of, self.constants = read, column_of, constants

    def condition(self, predicate: Predicate) -> str:
        match predicate:
            case Compare():
                return self._compare(predicate.op, predicate.left, predicate.right)
            case Among():
                return "(" + " | ".join(self._compare("=", predicate.operand, v) for v in predicate.values) + ")"
            case AllOf():
                return "(" + " & ".join(map(self.condition, predicate.parts)) + ")"
            case AnyOf():
                return "(" + " | ".join(map(self.condition, predicate.parts)) + ")"
            case Negated():
                return f"(not {self.condition(predicate.part)})"
            case Missing():
                return self._missing(predicate.operand)
        raise AssertionError(f"'{predicate}' is decided by the leaf of its event")

    def _missing(self, operand: Expr) -> str:
        column, source = column_of_expression(operand, self.column_of), self._plain(operand)
        if column.kind is Kind.FLOAT:
            return f"({source} != {source})"  # NaN differs from itself
        return f"({source} == NULL)" if column.nullable else "False"

    def _compare(self, op: str, left: Expr, right: Expr) -> str:
        columns = [column_of_expression(side, self.column_of) for side in (left, right)]
        if any(column.kind is Kind.FLOAT for column in columns):
            one, other = self._float(left), self._float(right)
            if op == "!=":  # NaN stands for a missing value, and a comparison with it is false
                return f"(({one} < {other}) | ({one} > {other}))"
            return f"({one} {_symbol(op)} {other})"
        one, other = self._plain(left), self._plain(right)
        checks = [f"({one} {_symbol(op)} {other})"]
        for column, source in zip(columns, (one, other), strict=True):
            if column.nullable:
                checks.append(f"({source} != NULL)")
        return checks[0] if len(checks) == 1 else "(" + " & ".join(checks) + ")"

    def _float(self, expr: Expr) -> str:
        column = column_of_expression(expr, self.column_of)
        source = self._plain(expr)
        if column.kind is Kind.FLOAT:
            return source
        # Not `float`: where kernels are interpreted, that would raise on a division by zero.
        return f"number_or_nan({source})" if column.nullable else f"np.float64({source})"

    def _plain(self, expr: Expr) -> str:
        """The value in the column type of the expression's kind."""
        match expr:
            case Attr():
                return self.read(expr)
            case Literal():
                return self.constants.name(expr.value)
        whole = column_of_expression(expr, self.column_of).kind is Kind.INT
        write = self._plain if whole else self._float
        match expr:
            case Negative():
                return f"(-{write(expr.operand)})"
            case Arithmetic():
                if expr.op == "/":
                    return f"quotient({write(expr.left)}, {write(expr.right)})"
                return f"({write(expr.left)} {expr.op} {write(expr.right)})"
            case Call():
                return self._call(expr.function, [write(argument) for argument in expr.arguments])
        raise AssertionError(f"unknown expression {expr}")

    def _call(self, function: str, arguments: list[str]) -> str:
        match function:
            case "abs":
                return f"abs({arguments[0]})"
            case "sqrt" | "floor" | "ceil" | "exp":
                return f"np.{function}({arguments[0]})"
            case "round":
                return f"rounded({arguments[0]})"
            case "log":
                return f"logarithm({arguments[0]})"
            case "pow":
                return f"np.power({arguments[0]}, {arguments[1]})"
            case "mod":
                return f"remainder({arguments[0]}, {arguments[1]})"
            case "hour":
                return f"(({arguments[0]} // {HOUR_US}) % 24)"
            case "weekday":  # the first of January 1970 was a Thursday
                return f"(({arguments[0]} // {24 * HOUR_US} + 3) % 7 + 1)"
            case "min" | "max":
                result = arguments[0]
                for argument in arguments[1:]:  # np.minimum keeps NaN, so a missing argument makes all missing
                    result = f"np.{function}imum({result}, {argument})"
                return result
            case "chord_km":
                return f"({2 * EARTH_RADIUS_KM!r} * np.arcsin(np.minimum(1.0, np.sqrt({arguments[0]}) * 0.5)))"
        raise AssertionError(f"unknown function {function}")


def _symbol(op: str) -> str:
    return "==" if op == "=" else op
