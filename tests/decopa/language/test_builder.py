from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import reduce
from typing import Any

import pytest
from hypothesis import given

from decopa.errors import QueryError
from decopa.language import builder
from decopa.language.builder import (
    Condition,
    Value,
    abs_,
    and_,
    call,
    constant,
    dist_km,
    event,
    forall,
    kleene,
    max_,
    min_,
    not_,
    nseq,
    or_,
    query,
    seq,
    sqrt,
)
from decopa.language.text.parser import parse
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
from decopa.query.pattern import And, EventRef, Kleene, Not, Or, Pattern
from decopa.query.query import Query
from tests.support.strategies import queries

a, b, c = event("A", "a"), event("B", "b"), event("C", "c")


# ---------------------------------------------------- every query, built again
COMPARE: dict[str, Callable[[Any, Any], Condition]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "=": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
}
CALCULATE: dict[str, Callable[[Any, Any], Value]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
}
CALL: dict[str, Callable[..., Value]] = {"abs": abs_, "sqrt": sqrt, "min": min_, "max": max_, "dist_km": dist_km}


def rebuilt(given: Query) -> Query:
    """The query as a person would write it in Python."""
    return query(
        rebuilt_pattern(given.pattern),
        where=[rebuilt_condition(predicate) for predicate in given.where],
        within=given.window_us,
        name=given.name,
        returns=[rebuilt_value(attr) for attr in given.returns],
    )


def rebuilt_pattern(pattern: Pattern) -> Any:
    match pattern:
        case EventRef():
            return event(pattern.type, pattern.alias)
        case Kleene():
            return kleene(rebuilt_pattern(pattern.child))
        case Not():
            return not_(rebuilt_pattern(pattern.child))
    operator = and_ if isinstance(pattern, And) else or_ if isinstance(pattern, Or) else seq
    return operator(*map(rebuilt_pattern, pattern.children))


def rebuilt_condition(predicate: Predicate) -> Condition:
    match predicate:
        case Compare():
            return COMPARE[predicate.op](rebuilt_value(predicate.left), rebuilt_value(predicate.right))
        case Among():
            return rebuilt_value(predicate.operand).isin([literal.value for literal in predicate.values])
        case AllOf():
            return reduce(lambda left, right: left & right, map(rebuilt_condition, predicate.parts))
        case AnyOf():
            return reduce(lambda left, right: left | right, map(rebuilt_condition, predicate.parts))
        case Negated():
            return ~rebuilt_condition(predicate.part)
        case Missing():
            return rebuilt_value(predicate.operand).is_null()
        case Like():
            return rebuilt_value(predicate.operand).like(predicate.pattern, any_case=predicate.any_case)


def rebuilt_value(expression: Expr) -> Value:
    match expression:
        case Attr():
            # The type does not matter for an attribute, only the alias does.
            owner = event("Any", expression.alias)
            return getattr(owner, expression.name) if expression.name.isidentifier() else owner[expression.name]
        case Literal():
            return constant(expression.value)
        case Arithmetic():
            return CALCULATE[expression.op](rebuilt_value(expression.left), rebuilt_value(expression.right))
        case Negative():
            return -rebuilt_value(expression.operand)
        case Call():
            named = CALL.get(expression.function, lambda *arguments: call(expression.function, *arguments))
            return named(*map(rebuilt_value, expression.arguments))


@given(queries())
def test_every_query_can_be_built_in_python(wanted: Query) -> None:
    assert rebuilt(wanted) == wanted == parse(str(wanted))


# -------------------------------------------------------------- text and Python
@pytest.mark.parametrize(
    ("built", "text"),
    [
        (query(seq(a, b), within="10 min"), "PATTERN SEQ(A a, B b) WITHIN 10 min"),
        (query(a, within="1.5 h", name="mine"), "QUERY mine PATTERN A a WITHIN 1.5 h"),
        (query(event("A"), within="1 s"), "PATTERN A WITHIN 1 s"),
        (query(nseq(a, b, c), within="1 s"), "PATTERN NSEQ(A a, B b, C c) WITHIN 1 s"),
        (
            query(or_(seq(a, kleene(b)), and_(a, c)), within="1 s"),
            "PATTERN OR(SEQ(A a, KL(B b)), AND(A a, C c)) WITHIN 1 s",
        ),
        (
            query(seq(a, b, not_(c)), where=(a.x < b.x) & (c.k == a.k), within="1 s", returns=[a.x, b["my y"]]),
            'PATTERN SEQ(A a, B b, NOT(C c)) WHERE a.x < b.x AND c.k = a.k WITHIN 1 s RETURN a.x, b."my y"',
        ),
        (
            query(seq(a, b), where=[(a.x < 1) | ~(b.x >= 2), a.s.isin(["p", "q"])], within="1 s"),
            "PATTERN SEQ(A a, B b) WHERE (a.x < 1 OR NOT b.x >= 2) AND a.s IN ('p', 'q') WITHIN 1 s",
        ),
        (
            query(seq(a, b), where=2 * a.x + 1 - b.x / 3 != -a.y, within="1 s"),
            "PATTERN SEQ(A a, B b) WHERE 2 * a.x + 1 - b.x / 3 != -a.y WITHIN 1 s",
        ),
        (
            query(seq(a, b), where=1 - a.x < 1 / b.x + (1 + a.y), within="1 s"),
            "PATTERN SEQ(A a, B b) WHERE 1 - a.x < 1 / b.x + (1 + a.y) WITHIN 1 s",
        ),
        (
            query(seq(a, b), where=b.ts - a.ts < timedelta(minutes=5), within=timedelta(hours=1)),
            "PATTERN SEQ(A a, B b) WHERE b.ts - a.ts < 5 min WITHIN 1 h",
        ),
        (
            query(seq(a, b), where=dist_km(a.lat, a.lon, b.lat, b.lon) >= 6, within="24 h"),
            "PATTERN SEQ(A a, B b) WHERE dist_km(a.lat, a.lon, b.lat, b.lon) >= 6 WITHIN 24 h",
        ),
        (
            query(seq(a, b), where=min_(a.x, b.x, 3) < max_(abs_(a.y), sqrt(2)), within="1 s"),
            "PATTERN SEQ(A a, B b) WHERE min(a.x, b.x, 3) < max(abs(a.y), sqrt(2)) WITHIN 1 s",
        ),
        (
            query(seq(a, b, c), where=forall([a, b, c], lambda i, j: i.x < j.x), within="1 s"),
            "PATTERN SEQ(A a, B b, C c) WHERE FORALL (i, j) IN (a, b, c): i.x < j.x WITHIN 1 s",
        ),
        (
            query(seq(a, b), where=forall([a, b], lambda i, j: i.x < j.x), within="1 s"),
            "PATTERN SEQ(A a, B b) WHERE FORALL (i, j) IN (a, b): i.x < j.x WITHIN 1 s",
        ),
        (
            query(a, where=a.flag & ~a.done | (a.x == True), within="1 s"),  # noqa: E712  # builds a condition
            "PATTERN A a WHERE (a.flag AND NOT a.done OR a.x = TRUE) WITHIN 1 s",
        ),
        (query(a, where=a.flag, within="1 s"), "PATTERN A a WHERE a.flag WITHIN 1 s"),
        (query(a, where=constant(-3) < -a.x, within=7), "PATTERN A a WHERE -3 < -a.x WITHIN 7 us"),
        (query(a, where=-constant(3) < a.x, within=7), "PATTERN A a WHERE -3 < a.x WITHIN 7 us"),
        (
            query(a, where=(a.x < 1) & (a.x < 2) & (a.x < 3) | (a.x > 4) | (a.x > 5), within="1 s"),
            "PATTERN A a WHERE (a.x < 1 AND a.x < 2 AND a.x < 3 OR a.x > 4 OR a.x > 5) WITHIN 1 s",
        ),
    ],
)
def test_python_and_text_give_the_same_query(built: Query, text: str) -> None:
    assert built == parse(text)


# --------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: bool(a.x < 1), "combine conditions with & | ~"),
        (lambda: a.x < b.x < c.x, r"write a < b < c as \(a < b\) & \(b < c\)"),
        (lambda: (a.x < 1) and (b.x < 1), "instead of and, or, not"),
        (lambda: bool(a.x), "combine conditions"),
        (lambda: query(a, where=a.x + 1, within="1 s"), "expected a condition, got"),
        (lambda: (a.x < 1) & 3, "expected a condition, got 3"),  # type: ignore[operator]
        (lambda: a.x < (b.x < 1), "found the condition"),  # type: ignore[operator]
        (lambda: a.x < [1], "is no constant"),  # type: ignore[operator]
        (lambda: a.x.isin([]), "IN needs at least one value"),
        (lambda: seq(a, "B b"), "expected an event or a pattern"),  # type: ignore[arg-type]
        (lambda: kleene(or_(a, b)), "KL takes an event, or SEQ and AND"),
        (lambda: min_(a.x), "min takes two or more"),
        (lambda: forall([a], lambda i, j: i.x < j.x), "at least two events"),
        (lambda: query(a, within="10"), "is no duration"),
        (lambda: query(a, within="10 weeks"), "is no duration"),
        (lambda: query(a, within="0.5 us"), "not a whole number of microseconds"),
        (lambda: query(a, within=1.5), "whole microseconds"),  # type: ignore[arg-type]
        (lambda: query(a, within=True), "whole microseconds"),
        (lambda: query(a, within=0), "must be positive"),
        (lambda: query(a, within="1 s", returns=[a.x + 1]), "returns lists attributes"),
        (lambda: query(seq(a, b), where=a.x < event("C", "c").x, within="1 s"), "unknown alias 'c'"),
        (lambda: constant(float("nan")), "not a finite number"),
        (lambda: a.x < float("inf"), "not a finite number"),
        (lambda: a.x < 2**63, "does not fit into 64 bits"),
    ],
)
def test_mistakes_in_python_get_one_clear_error(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        wrong()
    assert "\n" not in str(caught.value)


def test_values_show_what_they_stand_for() -> None:
    assert repr(a) == "Event(A a)"
    assert repr(a.x + 1) == "Value((a.x + 1))"
    assert repr(a.x < 1) == "Condition(a.x < 1)"


def test_an_event_has_no_python_protocols_by_accident() -> None:
    with pytest.raises(AttributeError):
        a.__array__  # noqa: B018  # looking it up is the test
    assert callable(builder.event)
