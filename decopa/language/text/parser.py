"""Query text -> Query. Errors name line, column, the offending text and what to write instead."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from decopa.errors import DecoPaError, QueryError, did_you_mean
from decopa.query.limits import (
    MAX_COMPARISONS,
    MAX_QUERIES,
    MAX_TEXT_LENGTH,
    check_text,
    check_tree,
    comparison_count,
    line_and_column,
)
from decopa.query.names import duration_us
from decopa.query.pattern import ANY_TYPE, And, EventRef, Except, Kleene, Next, Not, Or, Pattern, Seq, types_text
from decopa.query.predicate import (
    FUNCTIONS,
    AllOf,
    Among,
    AnyOf,
    Arithmetic,
    Attr,
    Call,
    Compare,
    Expr,
    Literal,
    Location,
    Negated,
    Negative,
    Node,
    Predicate,
    rewrite,
)
from decopa.query.query import MAX_POSITIONS, Query
from decopa.query.rewrite.strategy import with_strategy

#: Terminals of the grammar as a person would say them.
_SPOKEN = {
    "NAME": "a name", "QUOTED": "a name", "NUMBER": "a number", "DURATION": "a duration such as 10 min",
    "STRING": "a string", "LPAR": "'('", "RPAR": "')'", "COMMA": "','", "DOT": "'.'", "COLON": "':'",
    "COMPARISON": "a comparison such as <", "PLUS": "'+'", "MINUS": "'-'", "STAR": "'*'", "SLASH": "'/'", "BAR": "'|'",
    "$END": "the end of the query",
}  # fmt: skip
_ARITHMETIC_TERMINALS = {"PLUS", "MINUS", "STAR", "SLASH"}


def parse(text: str) -> Query:
    """The one query in `text`.

    >>> parse("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10 min").window_us
    600000000
    """
    queries = parse_workload(text)
    if len(queries) > 1:
        raise QueryError(f"expected one query, found {len(queries)}; use parse_workload for a file of several")
    return queries[0]


def parse_workload(text: str) -> tuple[Query, ...]:
    """All queries of a workload text; unnamed ones are called q1, q2, ... when there are several."""
    check_text(text)
    try:
        tree = _grammar().parse(text)
    except UnexpectedInput as err:
        raise _syntax_error(err, text) from None
    check_tree(tree)
    statements = tree.children
    if len(statements) > MAX_QUERIES:
        raise QueryError(f"{len(statements)} queries in one text; at most {MAX_QUERIES} are allowed")
    queries = []
    for number, statement in enumerate(statements, start=1):
        default = "q" if len(statements) == 1 else f"q{number}"
        queries.append(_query(statement, default))  # type: ignore[arg-type]
    names = [query.name for query in queries]
    for name, times in Counter(names).items():
        if times > 1:
            raise QueryError(f"two queries are called '{name}'; give each its own name with QUERY name")
    return tuple(queries)


@cache
def _grammar() -> Lark:
    text = files("decopa.language.text").joinpath("grammar.lark").read_text()
    return Lark(text, parser="lalr", propagate_positions=True, maybe_placeholders=True)


# ---------------------------------------------------------------- syntax errors
def _syntax_error(err: UnexpectedInput, text: str) -> QueryError:
    line, column = err.line, err.column
    wanted: set[str] = set()
    if isinstance(err, UnexpectedCharacters):
        place = err.pos_in_stream or 0
        found, wanted = repr(text[place : place + 1]), set(err.allowed or ())
    elif isinstance(err, UnexpectedToken) and err.token.type != "$END":
        found, wanted = f"'{err.token}'", set(err.accepts or err.expected)
    else:
        found = "the end of the text"
        if isinstance(err, UnexpectedToken):
            wanted = set(err.accepts or err.expected)
        line, column = line_and_column(text, len(text.rstrip()))
    hint = _hint(wanted, found, text)
    return QueryError(f"expected {_spoken(wanted)}, found {found}{hint}", line=line, column=column)


def _spoken(expected: set[str]) -> str:
    if len(expected & _ARITHMETIC_TERMINALS) == 4 and "COMPARISON" in expected:
        return "a comparison such as <, an arithmetic operator, or AND"
    if "NAME" in expected and {"_SEQ", "_KL"} & expected:
        return "an event type or SEQ, NEXT, AND, OR, KL, NSEQ, NOT"
    if "NAME" in expected and "NUMBER" in expected:
        return "an attribute such as a.x, a number or a string"
    words = sorted({_SPOKEN.get(name, name.strip("_").removesuffix("_WORD")) for name in expected})
    return ", ".join(words[:-1]) + (" or " if len(words) > 1 else "") + words[-1] if words else "something else"


def _hint(expected: set[str], found: str, text: str) -> str:
    if "STRING" in expected and "NAME" not in expected:
        return "; write constants, as in a.x IN (1, 2)"
    if "DURATION" in expected and "NAME" not in expected:
        return "; write the window as in WITHIN 10 min"
    if "NAME" in expected and {"_SEQ", "_KL"} & expected:
        return "; write type and alias, as in SEQ(A a, B b)"
    if "_PATTERN" in expected and not expected & {"_WITHIN", "_SEMICOLON"}:
        return "; a query starts as in PATTERN SEQ(A a, B b) WITHIN 10 min"
    if "_WITHIN" in expected and "WITHIN" not in text.upper():
        return "; every query ends with its window, as in WITHIN 10 min"
    if found == "'\"'" or found == '"\'"':
        return "; a quote is not closed"
    return ""


# ------------------------------------------------------------- tree -> values
def _query(statement: Tree[Token], default_name: str) -> Query:
    name, pattern, strategy, where, window, *returns = statement.children
    conditions, skips = _where(where)  # type: ignore[arg-type]
    line, column = statement.meta.line, statement.meta.column
    try:
        query = Query(
            pattern=_pattern(pattern),  # type: ignore[arg-type]
            where=conditions,
            skips=skips,
            window_us=_window(window),  # type: ignore[arg-type]
            name=default_name if name is None else _name(name),  # type: ignore[arg-type]
            returns=tuple(_attr(item) for item in returns if item is not None),  # type: ignore[arg-type]
        )
        if strategy is not None:
            query = _with_strategy(query, strategy)  # type: ignore[arg-type]
        if len(str(query)) > MAX_TEXT_LENGTH:  # plans and checkpoints hold it as text
            raise QueryError(f"written out, the query has more than {MAX_TEXT_LENGTH} characters; shorten it")
    except QueryError as err:
        raise err if err.line is not None else QueryError(str(err), line=line, column=column) from None
    return query


def _where(node: Tree[Token] | None) -> tuple[tuple[Predicate, ...], tuple[Predicate, ...]]:
    """The conditions of WHERE, and those among them that stand in FILTER(...)."""
    if node is None:
        return (), ()
    parts = node.children if node.data == "all_of" else [node]
    items = [child for child in parts if isinstance(child, Tree)]
    plain = tuple(_predicate(item) for item in items if item.data != "skip")
    return plain, tuple(_predicate(item.children[0]) for item in items if item.data == "skip")  # type: ignore[arg-type]


def _with_strategy(query: Query, node: Tree[Token]) -> Query:
    strategy, by = node.children
    try:
        return with_strategy(query, str(strategy).lower(), None if by is None else _name(by))  # type: ignore[arg-type]
    except QueryError as err:
        raise _located(node, str(err)) from None


def _located(node: Tree[Token] | Token, message: str) -> QueryError:
    if isinstance(node, Token):
        return QueryError(message, line=node.line, column=node.column)
    if node.meta.empty:
        return QueryError(message)
    return QueryError(message, line=node.meta.line, column=node.meta.column)


def _name(node: Tree[Token]) -> str:
    token = node.children[0]
    assert isinstance(token, Token)
    return token[1:-1].replace('""', '"') if token.type == "QUOTED" else str(token)


def _pattern(node: Tree[Token]) -> Pattern:
    try:
        return _build_pattern(node)
    except QueryError as err:
        raise err if err.line is not None else _located(node, str(err)) from None


def _build_pattern(node: Tree[Token]) -> Pattern:
    below = [child for child in node.children if isinstance(child, Tree)]
    if node.data == "event":
        types = [_name(child) if isinstance(child, Tree) else str(child) for child in below[0].children if child != "|"]
        if len(below) == 1 and (len(types) > 1 or types[0] == ANY_TYPE):
            raise QueryError(f"{types_text(types)} needs an alias; write it as in {types_text(types)} a")
        return EventRef(types[0], _name(below[1]) if len(below) > 1 else types[0], tuple(types[1:]))
    children = tuple(_pattern(child) for child in below)
    match str(node.data):
        case "seq":
            return Seq(children)
        case "conjunction":
            return And(children)
        case "disjunction":
            return Or(children)
        case "kleene":
            return Kleene(children[0])  # type: ignore[arg-type]
        case "negation":
            return Not(children[0])
        case "next" | "strict" as kind:
            return Next(children, strict=kind == "strict")
        case "exception":
            return Except(children[0], children[1])
        case "nseq":
            if len(children) != 3:
                raise QueryError(f"NSEQ takes three patterns, got {len(children)}; write it as NSEQ(A a, B b, C c)")
            return Seq((children[0], Not(children[1]), children[2]))
    raise AssertionError(f"unknown pattern node {node.data}")


def _window(node: Tree[Token]) -> int:
    sign, token = node.children
    assert isinstance(token, Token)
    if token.type == "NUMBER":
        raise _located(token, f"the window '{token}' has no unit; write it as in WITHIN {token} min")
    microseconds = _duration_us(token)
    if sign is not None or microseconds <= 0:
        raise _located(token, f"the window must be positive, got '{sign or ''}{token}'; write it as in WITHIN 10 min")
    return microseconds


def _duration_us(token: Token) -> int:
    microseconds = duration_us(token)
    if microseconds is None:
        raise _located(token, f"'{token}' is not a whole number of microseconds; use a smaller unit")
    return microseconds


def _attr(node: Tree[Token]) -> Attr:
    alias, name = (_name(child) for child in node.children)  # type: ignore[arg-type]
    return Attr(alias, name, Location(node.meta.line, node.meta.column))


def _predicate(node: Tree[Token]) -> Predicate:
    value = _value(node)
    if isinstance(value, Compare | Among | AllOf | AnyOf | Negated):
        return value
    if isinstance(value, Attr):  # a truth value on its own
        return Compare("=", value, Literal(True))
    raise _located(node, f"expected a condition, found the expression '{value}'; compare it, as in {value} < 10")


def _expression(node: Tree[Token]) -> Expr:
    value = _value(node)
    if isinstance(value, Compare | Among | AllOf | AnyOf | Negated):
        raise _located(node, f"expected a number, string or attribute, found the condition '{value}'")
    return value


def _value(node: Tree[Token]) -> Node:
    try:
        return _build_value(node)
    except DecoPaError as err:
        raise err if getattr(err, "line", None) is not None else _located(node, str(err)) from None


def _build_value(node: Tree[Token]) -> Node:
    below = [child for child in node.children if isinstance(child, Tree)]
    tokens = [child for child in node.children if isinstance(child, Token)]
    match str(node.data):
        case "number" | "duration" | "string" | "true" | "false" | "signed_number" | "signed_duration":
            return _literal(node)
        case "attribute":
            return _attr(node)
        case "call":
            function = _name(below[0]).lower()
            if function not in FUNCTIONS:
                raise QueryError(f"unknown function '{function}'{did_you_mean(function, FUNCTIONS)}")
            return Call(function, tuple(_expression(child) for child in below[1:]))
        case "negative":
            operand = _expression(below[0])
            if isinstance(operand, Literal) and isinstance(operand.value, int | float):
                return Literal(-operand.value)
            return Negative(operand)
        case "arithmetic":
            result = _expression(below[0])
            for op, child in zip(tokens, below[1:], strict=True):
                result = Arithmetic(str(op), result, _expression(child))
            return result
        case "compare":
            sides = [_expression(child) for child in below]
            ops = [{"==": "=", "<>": "!="}.get(str(op), str(op)) for op in tokens]
            parts = tuple(Compare(op, *pair) for op, pair in zip(ops, itertools.pairwise(sides), strict=True))
            return parts[0] if len(parts) == 1 else AllOf(parts)
        case "among":
            return Among(_expression(below[0]), tuple(_literal(child) for child in below[1:]))
        case "inverted":
            return Negated(_predicate(below[0]))
        case "all_of":
            return AllOf(tuple(_predicate(child) for child in below))
        case "any_of":
            return AnyOf(tuple(_predicate(child) for child in below))
        case "forall":
            return _forall(below)
        case "skip":
            raise QueryError(
                "FILTER stands inside another condition; it must be a condition of its own, as in "
                "WHERE FILTER(b.x = a.x) AND b.y > 1"
            )
    raise AssertionError(f"unknown expression node {node.data}")


def _forall(below: Sequence[Tree[Token]]) -> Predicate:
    """P on every pair of the list, the first variable before the second in it."""
    first, second, *listed = (_name(child) for child in below[:-1])
    if first == second:
        raise QueryError(f"FORALL names '{first}' twice; write it as in FORALL (i, j) IN (a, b, c): i.x < j.x")
    if len(listed) < 2:
        raise QueryError("FORALL needs at least two aliases, as in FORALL (i, j) IN (a, b): i.x < j.x")
    if len(listed) > MAX_POSITIONS:
        raise QueryError(f"FORALL over {len(listed)} aliases; a query has at most {MAX_POSITIONS}")
    body = _predicate(below[-1])
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


def _literal(node: Tree[Token]) -> Literal:
    match str(node.data):
        case "true":
            return Literal(True)
        case "false":
            return Literal(False)
        case "string":
            return Literal(str(node.children[-1])[1:-1].replace("''", "'"))
    token = node.children[-1]
    assert isinstance(token, Token)
    value = _duration_us(token) if token.type == "DURATION" else _number(token)
    signed = str(node.data).startswith("signed") and node.children[0] is not None
    return Literal(-value if signed else value)


def _number(token: Token) -> int | float:
    if re.fullmatch(r"\d+", token):
        if len(token) > 19 or int(token) >= 2**63:
            raise _located(token, f"the number {token} does not fit into 64 bits; write it with a decimal point")
        return int(token)
    value = float(token)
    if math.isinf(value):
        raise _located(token, f"the number {token} is too large")
    return value
