"""EQL text -> Query: `;` is NEXT, `|` a choice of types or alternatives, `+` ITER, `\\` EXCEPT, `@` a timer.

FILTER items skip, the others decide. The window is the time within which the first and the last event occur, or a
trailing WITHIN.
"""

from __future__ import annotations

from dataclasses import replace

from lark import Token, Tree
from lark.exceptions import UnexpectedInput

from decopa.errors import QueryError
from decopa.language.conditions import attr_of, duration_of, located, name_of, split_conditions
from decopa.language.grammars import parser_of
from decopa.language.limits import MAX_QUERIES, check_text, check_tree
from decopa.language.syntax import syntax_error
from decopa.query.analysis import alternatives, structure
from decopa.query.conditions.predicate import Arithmetic, Attr, Call, Compare, Literal, Location, Predicate, conjuncts
from decopa.query.pattern import EventRef, Except, Kleene, Next, Or, Pattern, leaves
from decopa.query.query import Query


def parse_eql(text: str) -> tuple[Query, ...]:
    """All statements of an EQL text; a $ may stand between two. Unnamed ones are called q, or q1, q2, ...

    >>> print(parse_eql("SELECT * FROM A ; B WHERE (A, B) OCCURS WITHIN 5 sec")[0])
    QUERY q
    PATTERN NEXT(A A, B B)
    WITHIN 5 s
    """
    check_text(text)
    try:
        tree = parser_of("decopa.language.eql").parse(text)
    except UnexpectedInput as err:
        raise syntax_error(err, text, start="SELECT * FROM A a; B b WITHIN 10 min") from None
    check_tree(tree)
    if len(tree.children) > MAX_QUERIES:
        raise QueryError(f"{len(tree.children)} queries in one text; at most {MAX_QUERIES} are allowed")
    several = len(tree.children) > 1
    return tuple(
        _statement(statement, f"q{number}" if several else "q")  # type: ignore[arg-type]
        for number, statement in enumerate(tree.children, start=1)
    )


def _statement(node: Tree[Token], default_name: str) -> Query:
    parts = {str(child.data): child for child in node.children if isinstance(child, Tree) and child.data != "item"}
    items = [child for child in node.children if isinstance(child, Tree) and child.data == "item"]
    window = next((c for c in node.children if isinstance(c, Tree) and c.data == "window"), None)
    name = next((c for c in node.children if isinstance(c, Tree) and c.data == "name"), None)
    known = {"selection", "item", "window", "name"}
    pattern_node = next(c for c in node.children if isinstance(c, Tree) and c.data not in known)
    try:
        pattern = _pattern(pattern_node)
        split = [split_conditions(item.children[0]) for item in items]  # type: ignore[arg-type]
        where = [part for plain, _ in split for one in plain for part in conjuncts(one)]
        skips = tuple(one for _, skipping in split for one in skipping)
        window_us, where = _window(pattern, where, window)
        if window_us is None:
            first, last = _ends(pattern)
            raise located(
                node,
                f"the query has no window; add ({first}, {last}) OCCURS WITHIN 12 hours to WHERE, or WITHIN 12 hours "
                "at the end",
            )
        returns = tuple(attr_of(one) for one in parts["selection"].children if isinstance(one, Tree))
        called = default_name if name is None else name_of(name)
        return Query(pattern, tuple(where), window_us, called, returns, skips=skips)
    except QueryError as err:
        raise err if err.line is not None else located(node, str(err)) from None


def _pattern(node: Tree[Token]) -> Pattern:
    try:
        return _built(node)
    except QueryError as err:
        raise err if err.line is not None else located(node, str(err)) from None


def _built(node: Tree[Token]) -> Pattern:
    below = [child for child in node.children if isinstance(child, Tree)]
    match str(node.data):
        case "event":
            stream = name_of(below[0])
            place = Location(node.meta.line, node.meta.column)
            return EventRef(stream, name_of(below[1]) if len(below) > 1 else stream, at=place)
        case "group":
            inner = _pattern(below[0])
            return inner if len(below) == 1 else _one_of(inner, name_of(below[1]))
        case "timer":
            timed = _pattern(below[0])
            (token,) = (child for child in below[1].children if isinstance(child, Token))
            if not isinstance(timed, EventRef) or token.type == "NUMBER":
                raise QueryError("a timer is an event and a time, as in A a @ 5 sec")
            return replace(timed, delay_us=duration_of(token))
        case "iteration":
            repeated = _pattern(below[0])
            if not isinstance(repeated, EventRef):
                raise QueryError(f"+ repeats single events, got {repeated}; write it as in (A a+; B b)")
            return Kleene(repeated, runs=True)
    left, right = (_pattern(child) for child in below)
    match str(node.data):
        case "next":
            return Next((left, _successor(right)))
        case "exception":
            return Except(left, right)
    return Or((*_choices(left), *_choices(right)))


def _choices(pattern: Pattern) -> tuple[Pattern, ...]:
    return pattern.children if isinstance(pattern, Or) else (pattern,)


def _successor(pattern: Pattern) -> Pattern:
    """What may follow: A;(B+) is A;B, since the run of one ends first (3.2); streams of one alias are one position."""
    if isinstance(pattern, Kleene):
        return pattern.child
    if isinstance(pattern, Or) and all(isinstance(one, EventRef) for one in pattern.children):
        names = {leaf.alias for leaf in leaves(pattern)}
        if len(names) == 1:
            return _one_of(pattern, names.pop())
        streams = " | ".join(leaf.type for leaf in leaves(pattern))
        raise QueryError(
            f"the streams that may come next have several aliases ({', '.join(sorted(names))}); the next event of "
            f"either is meant, so give them one alias, as in A a; ({streams}) x"
        )
    return pattern


def _one_of(pattern: Pattern, alias: str) -> EventRef:
    """One event of any of the streams."""
    if not all(isinstance(one, EventRef) for one in _choices(pattern)):
        raise QueryError(
            f"the alias '{alias}' stands behind {pattern}; only a choice of streams has one, as in (A | B) x"
        )
    first, *others = leaves(pattern)
    return EventRef(first.type, alias, tuple(leaf.type for leaf in others), at=first.at)


def _ends(pattern: Pattern) -> tuple[str, str]:
    """The aliases of the first and the last event of a pattern, of its first alternative if it has several."""
    positions = [one.alias for one in structure(alternatives(pattern)[0]).positions if not one.scope]
    return positions[0], positions[-1]


def _window(pattern: Pattern, where: list[Predicate], node: Tree[Token] | None) -> tuple[int | None, list[Predicate]]:
    """The window, and the conditions that are left: (first, last) OCCURS WITHIN t is the window itself."""
    if node is not None:
        (token,) = (child for child in node.children if isinstance(child, Token))
        if token.type == "NUMBER":
            raise located(token, f"the window '{token}' has no unit; write it as in WITHIN {token} min")
        return duration_of(token), where
    ends = _ends(pattern)
    for condition in where:
        match condition:
            case Compare(
                op="<=",
                left=Call(
                    function="abs",
                    arguments=(Arithmetic(op="-", left=Attr(name="ts") as one, right=Attr(name="ts") as other),),
                ),
                right=Literal(value=int() as limit),
            ) if {one.alias, other.alias} == set(ends):
                return limit, [kept for kept in where if kept is not condition]
    return None, where
