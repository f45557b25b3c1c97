"""Query text -> Query. Errors name line, column, the offending text and what to write instead."""

from __future__ import annotations

from collections import Counter

from lark import Token, Tree
from lark.exceptions import UnexpectedInput

from decopa.errors import QueryError
from decopa.language.conditions import duration_of, located, name_of, split_conditions
from decopa.language.grammars import parser_of
from decopa.language.limits import MAX_QUERIES, MAX_TEXT_LENGTH, check_text, check_tree
from decopa.language.syntax import syntax_error
from decopa.language.text.returned import ranking_of, returned_of
from decopa.query.conditions.predicate import Location
from decopa.query.pattern import (
    ANY_TYPE,
    And,
    EventRef,
    Except,
    Kleene,
    Next,
    Not,
    Or,
    Pattern,
    Seq,
    kleene_aliases,
    types_text,
)
from decopa.query.query import Query
from decopa.query.rewrite.optional import Optional, expanded
from decopa.query.rewrite.partition import with_partition
from decopa.query.rewrite.strategy import with_strategy


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
    check_text(text, "PATTERN")
    try:
        tree = parser_of("decopa.language.text").parse(text)
    except UnexpectedInput as err:
        raise syntax_error(err, text) from None
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


# ------------------------------------------------------------- tree -> values
def _query(statement: Tree[Token], default_name: str) -> Query:
    name, pattern, strategy, partition, where, window, returned, order, limit = statement.children
    conditions, skips = split_conditions(where)  # type: ignore[arg-type]
    line, column = statement.meta.line, statement.meta.column
    try:
        built = _pattern(pattern)  # type: ignore[arg-type]
        returns, summary, output = returned_of(returned, kleene_aliases(built))  # type: ignore[arg-type]
        query = Query(
            pattern=built,
            where=conditions,
            skips=skips,
            window_us=_window(window),  # type: ignore[arg-type]
            name=default_name if name is None else name_of(name),  # type: ignore[arg-type]
            returns=returns,
            summary=summary,
            output=output,
            ranking=ranking_of(order, limit),  # type: ignore[arg-type]
        )
        if strategy is not None:
            query = _with_strategy(query, strategy)  # type: ignore[arg-type]
        if partition is not None:
            (by,) = partition.children  # type: ignore[union-attr]
            query = with_partition(query, name_of(by), _at(by))  # type: ignore[arg-type]
        if len(str(query)) > MAX_TEXT_LENGTH:  # plans and checkpoints hold it as text
            raise QueryError(f"written out, the query has more than {MAX_TEXT_LENGTH} characters; shorten it")
    except QueryError as err:
        raise err if err.line is not None else QueryError(str(err), line=line, column=column) from None
    return query


def _with_strategy(query: Query, node: Tree[Token]) -> Query:
    strategy, by = node.children
    try:
        named = (None, None) if by is None else (name_of(by), _at(by))  # type: ignore[arg-type]
        return with_strategy(query, str(strategy).lower(), *named)
    except QueryError as err:
        raise located(node, str(err)) from None


def _at(node: Tree[Token]) -> Location:
    return Location(node.meta.line, node.meta.column)


def _pattern(node: Tree[Token]) -> Pattern:
    try:
        return _build_pattern(node)
    except QueryError as err:
        raise err if err.line is not None else located(node, str(err)) from None


def _build_pattern(node: Tree[Token]) -> Pattern:
    below = [child for child in node.children if isinstance(child, Tree)]
    if node.data == "event":
        listed = [child for child in below[0].children if child != "|"]
        types = [name_of(child) if isinstance(child, Tree) else str(child) for child in listed]
        alias, timer = node.children[1:]
        if alias is None and (len(types) > 1 or types[0] == ANY_TYPE):
            raise QueryError(f"{types_text(types)} needs an alias; write it as in {types_text(types)} a")
        named = types[0] if alias is None else name_of(alias)  # type: ignore[arg-type]
        delay_us = 0 if timer is None else _window(timer, "timer", "A a @ 5 s")  # type: ignore[arg-type]
        return EventRef(types[0], named, tuple(types[1:]), delay_us, _at(node))
    if node.data in ("seq", "conjunction"):
        parts = [Optional(_pattern(c.children[0])) if c.data == "optional" else _pattern(c) for c in below]  # type: ignore[arg-type]
        return expanded(Seq if node.data == "seq" else And, parts)
    children = tuple(_pattern(child) for child in below if child.data != "size")
    match str(node.data):
        case "optional":
            raise QueryError(
                f"OPT({children[0]}) stands outside of SEQ and AND; write it as in SEQ(A a, OPT(B b), C c)"
            )
        case "disjunction":
            return Or(children)
        case "kleene" | "runs" as kind:
            least, most = _size(node.children[-1])
            return Kleene(children[0], least, most, kind == "runs")  # type: ignore[arg-type]
        case "negation":
            return Not(children[0])
        case "next" | "strict" as kind:
            return Next(children, strict=kind == "strict")
        case "exception":
            return Except(children[0], children[1])
        case "until":
            if not isinstance(children[0], Kleene):
                raise QueryError(
                    f"UNTIL ends a group, and {children[0]} is none; write it as in SEQ(A a, KL(B b) UNTIL(C c))"
                )
            return Except(children[0], children[1])
        case "nseq":
            if len(children) != 3:
                raise QueryError(f"NSEQ takes three patterns, got {len(children)}; write it as NSEQ(A a, B b, C c)")
            return Seq((children[0], Not(children[1]), children[2]))
    raise AssertionError(f"unknown pattern node {node.data}")


def _size(node: Tree[Token] | Token | None) -> tuple[int, int | None]:
    """Least and most members of a group as in {2,5}, {3,} or {4}."""
    if not isinstance(node, Tree) or node.data != "size":
        return 1, None
    tokens = [child for child in node.children if isinstance(child, Token)]
    numbers = [token for token in tokens if token.type == "NUMBER"]
    for token in numbers:
        if not token.isdigit() or len(token) > 6:
            raise located(token, f"the size of a group is a whole number, got '{token}'; write it as in {{2,5}}")
    least = int(numbers[0])
    if len(numbers) == 2:
        return least, int(numbers[1])
    return least, None if len(tokens) > 1 else least


def _window(node: Tree[Token], what: str = "window", example: str = "WITHIN 10 min") -> int:
    sign, token = node.children
    assert isinstance(token, Token)
    if token.type == "NUMBER":
        raise located(token, f"the {what} '{token}' has no unit; write it as in {example}")
    microseconds = duration_of(token)
    if sign is not None or microseconds <= 0:
        raise located(token, f"the {what} must be positive, got '{sign or ''}{token}'; write it as in {example}")
    return microseconds
