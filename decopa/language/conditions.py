"""Conditions and expressions of a parsed text -> predicate tree; both front ends share their rules and this."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import replace

from lark import Token, Tree

from decopa.errors import DecoPaError, QueryError, did_you_mean
from decopa.language.limits import MAX_TEXT_LENGTH
from decopa.query.conditions.predicate import (
    FIGURES,
    FUNCTIONS,
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
    Location,
    Missing,
    Negated,
    Negative,
    Node,
    Over,
    Predicate,
    literally,
    rewrite,
)
from decopa.query.limits import MAX_COMPARISONS, comparison_count
from decopa.query.names import duration_us
from decopa.query.query import MAX_POSITIONS

CONDITIONS = (Compare, Among, Missing, Like, AllOf, AnyOf, Negated)


def located(node: Tree[Token] | Token, message: str) -> QueryError:
    if isinstance(node, Token):
        return QueryError(message, line=node.line, column=node.column)
    if node.meta.empty:
        return QueryError(message)
    return QueryError(message, line=node.meta.line, column=node.meta.column)


def name_of(node: Tree[Token]) -> str:
    token = node.children[0]
    assert isinstance(token, Token)
    return token[1:-1].replace('""', '"') if token.type == "QUOTED" else str(token)


def duration_of(token: Token) -> int:
    microseconds = duration_us(token)
    if microseconds is None:
        raise located(token, f"'{token}' is not a whole number of microseconds; use a smaller unit")
    return microseconds


def attr_of(node: Tree[Token]) -> Attr:
    alias, name = (name_of(child) for child in node.children)  # type: ignore[arg-type]
    return Attr(alias, name, Location(node.meta.line, node.meta.column))


def predicate_of(node: Tree[Token]) -> Predicate:
    value = value_of(node)
    if isinstance(value, CONDITIONS):
        return value
    if isinstance(value, Attr):  # a truth value on its own
        return Compare("=", value, Literal(True))
    raise located(node, f"expected a condition, found the expression '{value}'; compare it, as in {value} < 10")


def split_conditions(node: Tree[Token] | None) -> tuple[tuple[Predicate, ...], tuple[Predicate, ...]]:
    """The conditions of WHERE, and those among them that stand in FILTER(...)."""
    if node is None:
        return (), ()
    parts = node.children if node.data == "all_of" else [node]
    items = [child for child in parts if isinstance(child, Tree)]
    plain = tuple(predicate_of(item) for item in items if item.data != "skip")
    return plain, tuple(predicate_of(item.children[0]) for item in items if item.data == "skip")  # type: ignore[arg-type]


def expression_of(node: Tree[Token]) -> Expr:
    value = value_of(node)
    if isinstance(value, CONDITIONS):
        raise located(node, f"expected a number, string or attribute, found the condition '{value}'")
    return value


def value_of(node: Tree[Token]) -> Node:
    try:
        return _build_value(node)
    except DecoPaError as err:
        raise err if getattr(err, "line", None) is not None else located(node, str(err)) from None


def _build_value(node: Tree[Token]) -> Node:
    below = [child for child in node.children if isinstance(child, Tree)]
    tokens = [child for child in node.children if isinstance(child, Token)]
    match str(node.data):
        case "number" | "duration" | "string" | "true" | "false" | "signed_number" | "signed_duration":
            return _literal(node)
        case "attribute":
            return attr_of(node)
        case "previous":
            return replace(attr_of(below[0]), previous=True)
        case "call":
            function = name_of(below[0]).lower()
            if function == "lower":
                raise QueryError(
                    "lower(...) is a text, which is compared with constants only, as in lower(a.s) = 'x' or "
                    "lower(a.s) LIKE 'x%'"
                )
            arguments = tuple(expression_of(child) for child in below[1:])
            if function in FIGURES and (function not in FUNCTIONS or len(arguments) == 1):
                return _figure(function, arguments)
            if function not in FUNCTIONS:
                raise QueryError(f"unknown function '{function}'{did_you_mean(function, (*FUNCTIONS, *FIGURES))}")
            return Call(function, arguments)
        case "number_of":
            function, alias = name_of(below[0]).lower(), name_of(below[1])
            if function != "count":
                raise QueryError(
                    f"{function}({alias}) names an event without an attribute; write {function}({alias}.x), or "
                    f"count({alias}) for the members of a group"
                )
            return Over("count", Attr(alias, "id", _place(below[1])))
        case "negative":
            operand = expression_of(below[0])
            if isinstance(operand, Literal) and isinstance(operand.value, int | float):
                return Literal(-operand.value)
            return Negative(operand)
        case "arithmetic":
            result = expression_of(below[0])
            for op, child in zip(tokens, below[1:], strict=True):
                result = Arithmetic(str(op), result, expression_of(child))
            return result
        case "compare" if any(_is_lower(child) for child in below):
            return _lower_compared(below, tokens)
        case "compare":
            sides = [expression_of(child) for child in below]
            ops = [{"==": "=", "<>": "!="}.get(str(op), str(op)) for op in tokens]
            parts = tuple(Compare(op, *pair) for op, pair in zip(ops, itertools.pairwise(sides), strict=True))
            return parts[0] if len(parts) == 1 else AllOf(parts)
        case "among":
            return _unless(tokens, Among(expression_of(below[0]), tuple(_literal(child) for child in below[1:])))
        case "missing":
            return _unless(tokens, Missing(expression_of(below[0])))
        case "between":
            value, low, high = (expression_of(child) for child in below)
            within = AllOf((Compare(">=", value, low), Compare("<=", value, high)))
            return _unless([token for token in tokens if token.type == "NOT_WORD"], within)
        case "contains":
            return _unless(tokens, _like(below[0], f"%{literally(_text(tokens[-1]))}%"))
        case "occurs":
            first, second = (Attr(name_of(child), "ts", _place(child)) for child in below)
            apart = Call("abs", (Arithmetic("-", second, first),))
            return Compare("<=", apart, Literal(duration_of(tokens[-1])))
        case "every":  # a condition on a group holds for every member
            return attr_of(below[0])
        case "like":
            return _unless(tokens, _like(below[0], _text(tokens[-1])))
        case "inverted":
            return Negated(predicate_of(below[0]))
        case "all_of":
            return AllOf(tuple(predicate_of(child) for child in below))
        case "any_of":
            return AnyOf(tuple(predicate_of(child) for child in below))
        case "forall":
            return _forall(below)
        case "skip":
            raise QueryError(
                "FILTER stands inside another condition; it must be a condition of its own, as in "
                "WHERE FILTER(b.x = a.x) AND b.y > 1"
            )
    raise AssertionError(f"unknown expression node {node.data}")


def _figure(function: str, arguments: Sequence[Expr]) -> Over:
    """An aggregate over the members of a group."""
    if function == "count":
        raise QueryError("count takes the name of a group, as in count(b)")
    if len(arguments) != 1 or not isinstance(arguments[0], Attr):
        raise QueryError(f"{function} takes one attribute of a group's members, as in {function}(b.x)")
    return Over(function, arguments[0])


def _forall(below: Sequence[Tree[Token]]) -> Predicate:
    """P on every pair of the list, the first variable before the second in it."""
    first, second, *listed = (name_of(child) for child in below[:-1])
    if first == second:
        raise QueryError(f"FORALL names '{first}' twice; write it as in FORALL (i, j) IN (a, b, c): i.x < j.x")
    if len(listed) < 2:
        raise QueryError("FORALL needs at least two aliases, as in FORALL (i, j) IN (a, b): i.x < j.x")
    if len(listed) > MAX_POSITIONS:
        raise QueryError(f"FORALL over {len(listed)} aliases; a query has at most {MAX_POSITIONS}")
    body = predicate_of(below[-1])
    pairs = [(one, other) for k, one in enumerate(listed) for other in listed[k + 1 :]]

    def bind(one: str, other: str) -> Predicate:
        names = {first: one, second: other}

        def change(node: Node) -> Node | None:
            return replace(node, alias=names[node.alias]) if isinstance(node, Attr) and node.alias in names else None

        return rewrite(body, change)  # type: ignore[return-value]

    if comparison_count(body) * len(pairs) > MAX_COMPARISONS or len(str(body)) * len(pairs) > MAX_TEXT_LENGTH:
        raise QueryError(f"FORALL over {len(listed)} aliases makes {len(pairs)} copies of too long a condition")
    bound = tuple(bind(one, other) for one, other in pairs)
    return bound[0] if len(bound) == 1 else AllOf(bound)


def _place(node: Tree[Token]) -> Location:
    return Location(node.meta.line, node.meta.column)


def _unless(tokens: Sequence[Token], condition: Predicate) -> Predicate:
    """The condition, or its opposite if NOT is among the tokens."""
    return Negated(condition) if any(token.type == "NOT_WORD" for token in tokens) else condition


def _text(token: Tree[Token] | Token) -> str:
    return str(token)[1:-1].replace("''", "'")


def _is_lower(node: Tree[Token]) -> bool:
    return node.data == "call" and name_of(node.children[0]).lower() == "lower"  # type: ignore[arg-type]


def _like(node: Tree[Token], pattern: str) -> Like:
    """`a.s LIKE ...` or `lower(a.s) LIKE ...`."""
    any_case = _is_lower(node)
    inner = node.children[1] if any_case else node
    operand = expression_of(inner) if isinstance(inner, Tree) else None
    if not isinstance(operand, Attr):
        raise QueryError("LIKE takes a text attribute, as in a.name LIKE 'x%' or lower(a.name) LIKE 'x%'")
    return Like(operand, pattern, any_case)


def _lower_compared(below: Sequence[Tree[Token]], tokens: Sequence[Token]) -> Predicate:
    """`lower(a.s) = 'x'` and `!=`."""
    if len(below) != 2 or tokens[0] not in ("=", "==", "!=", "<>") or not all(
        _is_lower(one) != (one.data == "string") for one in below
    ) or _is_lower(below[0]) == _is_lower(below[1]):  # fmt: skip
        raise QueryError("lower(...) is compared with a constant by = or !=, as in lower(a.s) = 'x'")
    called, constant = below if _is_lower(below[0]) else (below[1], below[0])
    same = _like(called, literally(_text(constant.children[-1])))
    if tokens[0] in ("=", "=="):
        return same
    return AllOf((Negated(Missing(same.operand)), Negated(same)))


def _literal(node: Tree[Token]) -> Literal:
    match str(node.data):
        case "true":
            return Literal(True)
        case "false":
            return Literal(False)
        case "string":
            return Literal(_text(node.children[-1]))
    token = node.children[-1]
    assert isinstance(token, Token)
    value = duration_of(token) if token.type == "DURATION" else _number(token)
    signed = str(node.data).startswith("signed") and node.children[0] is not None
    return Literal(-value if signed else value)


def _number(token: Token) -> int | float:
    if re.fullmatch(r"\d+", token):
        if len(token) > 19 or int(token) >= 2**63:
            raise located(token, f"the number {token} does not fit into 64 bits; write it with a decimal point")
        return int(token)
    value = float(token)
    if math.isinf(value):
        raise located(token, f"the number {token} is too large")
    return value
