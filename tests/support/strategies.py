"""Random queries and small streams that make their matches likely."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from decopa.query.conditions.bounds import bound_of
from decopa.query.conditions.predicate import (
    COMPARISONS,
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
    attributes,
)
from decopa.query.pattern import And, EventRef, Kleene, Not, Or, Pattern, Seq
from decopa.query.query import Query
from tests.support.brute_force import combinations, surroundings

TYPES = ("A", "B", "C")
ALIASES = ("a", "b", "c", "d", "e")
#: What each attribute may be worth: few values, so that they repeat, each of them also missing at times.
VALUES: dict[str, Sequence[Any]] = {
    "k": (0, 1, 2),
    "n": (-3, -1, 0, 2, 5),
    "x": (-1.5, 0.0, 0.5, 2.0),
    "y": (0.0, 1.0, 2.5),
    "s": ("p", "q", "o'r"),
    "flag": (True, False),
}
#: More combinations than this and the referee takes longer than the engine deserves.
AFFORDABLE = 4_000

Scope = tuple[int, ...]


@dataclass(frozen=True)
class Leaf:
    """A position of the pattern as written: its alias, whether it is a KL one, and the NOTs around it."""

    alias: str
    kleene: bool
    scope: Scope


# -------------------------------------------------------------------- queries
@st.composite
def queries(draw: st.DrawFn, max_positions: int = 5) -> Query:
    """Nested SEQ, AND, OR, KL and NOT over few types, with conditions of every kind the language has."""
    pattern = draw(patterns(max_positions))
    leaves = tuple(dict.fromkeys(written_leaves(pattern)))
    where = draw(st.lists(conditions(leaves), max_size=3))
    positive = [leaf.alias for leaf in leaves if not leaf.scope]
    reported = st.builds(Attr, st.sampled_from(positive), st.sampled_from([*VALUES, "id", "ts"]))
    return Query(
        pattern=pattern,
        where=tuple(where),
        window_us=draw(st.sampled_from((6, 12, 20, 3, 1))),
        name=draw(st.sampled_from(("q", "two words"))),
        returns=tuple(draw(st.lists(reported, max_size=2, unique=True))),
    )


@st.composite
def patterns(draw: st.DrawFn, max_positions: int = 5) -> Pattern:
    return _subtree(draw, draw(st.integers(1, max_positions)), iter(ALIASES))


def _subtree(draw: st.DrawFn, size: int, names: Iterator[str]) -> Pattern:
    """A pattern over the next `size` aliases."""
    if size == 1:
        event = EventRef(draw(st.sampled_from(TYPES)), next(names))
        return Kleene(event) if _one_in(draw, 5) else event
    kind = draw(st.sampled_from((Seq, Seq, Seq, And, And, Or, None)))
    if kind is None:  # alternatives that bind the same aliases: a match of both must appear once
        events = tuple(_subtree(draw, 1, names) for _ in range(size))
        shuffled = tuple(draw(st.permutations(events)))
        return Or((Seq(events), And(shuffled) if draw(st.booleans()) else Seq(shuffled)))
    sizes = _parts(draw, size)
    negated = [(kind is Seq or kind is And) and _one_in(draw, 4 if kind is Seq else 8) for _ in sizes]
    negated[draw(st.integers(0, len(sizes) - 1))] = False
    children = []
    for part, absent in zip(sizes, negated, strict=True):
        child = _subtree(draw, part, names)
        children.append(Not(child) if absent else child)
    built: Pattern = kind(tuple(children))
    return Seq((built,)) if _one_in(draw, 20) else built


def _parts(draw: st.DrawFn, size: int) -> list[int]:
    """Two or more positive numbers that sum up to `size`."""
    cuts = sorted(draw(st.sets(st.integers(1, size - 1), min_size=1)))
    return [end - start for start, end in itertools.pairwise([0, *cuts, size])]


def _one_in(draw: st.DrawFn, chances: int) -> bool:
    return draw(st.integers(1, chances)) == chances  # shrinks to False


def written_leaves(pattern: Pattern) -> Iterator[Leaf]:
    numbers = itertools.count()

    def visit(node: Pattern, scope: Scope) -> Iterator[Leaf]:
        match node:
            case EventRef():
                yield Leaf(node.alias, False, scope)
            case Kleene():
                yield from (Leaf(alias, True, scope) for alias in node.aliases)
            case Not():
                yield from visit(node.child, (*scope, next(numbers)))
            case _:
                for child in node.children:
                    yield from visit(child, scope)

    return visit(pattern, ())


# ----------------------------------------------------------------- conditions
@st.composite
def conditions(draw: st.DrawFn, leaves: tuple[Leaf, ...]) -> Predicate:
    """A condition on one to three leaves that may stand together: one scope, or a NOT and what is around it."""
    scope = draw(st.sampled_from(sorted({leaf.scope for leaf in leaves})))
    family = [leaf for leaf in leaves if leaf.scope in (scope, scope[:-1])]
    chosen = draw(st.lists(st.sampled_from(family), min_size=1, max_size=3, unique=True))
    kind = draw(st.sampled_from(("simple", "simple", "simple", "either", "both", "not", "pairs")))
    if kind == "pairs":
        groups = [leaf for leaf in chosen if leaf.kleene]
        return draw(_pair_comparison(groups[0])) if groups else draw(_simple(chosen))
    if kind == "simple":
        return draw(_simple(chosen))
    if kind == "not":
        return Negated(draw(_simple(chosen)))
    inner = tuple(draw(_simple(chosen)) for _ in range(2))
    return AnyOf(inner) if kind == "either" else Negated(AllOf(inner))


@st.composite
def _pair_comparison(draw: st.DrawFn, group: Leaf) -> Predicate:
    """`b.x < b.y + 1` or `abs(b.x - b.x) >= 1` on a KL alias: holds for every two members."""
    if draw(st.booleans()):
        twin = _twin(draw, group.alias)
        limit = 150.5 if isinstance(twin, Call) else draw(st.sampled_from((-1, 0, 0.5, 2)))
        absolute = Call("abs", (twin,)) if _one_in(draw, 2) else twin
        return Compare(draw(st.sampled_from(COMPARISONS)), absolute, Literal(limit))
    left, right = (_numeric(draw, [group]) for _ in range(2))
    return Compare(draw(st.sampled_from(COMPARISONS)), left, right)


def _twin(draw: st.DrawFn, alias: str) -> Expr:
    """An expression that takes a value from itself: of two members of a group."""
    if _one_in(draw, 2):
        point = (Attr(alias, "x"), Attr(alias, "y"))
        return Call("dist_km", (*point, *point))
    value = Attr(alias, draw(st.sampled_from(("x", "y", "k", "n", "ts"))))
    whole: Expr = Arithmetic("+", value, Literal(1)) if _one_in(draw, 3) else value
    return Arithmetic(draw(st.sampled_from(("-", "-", "/"))), whole, whole)


@st.composite
def _simple(draw: st.DrawFn, leaves: list[Leaf]) -> Predicate:
    kinds = ("number", "number", "key", "text", "flag", "among", "gap", "distance", "missing", "like")
    kind = draw(st.sampled_from(kinds))
    first, second = leaves[0], leaves[-1]
    same = draw(st.sampled_from(("=", "!=")))
    # An alias on both sides of a comparison would compare members of a KL group with each other.
    other_side = second if second is not first or not first.kleene else None
    match kind:
        case "key":
            name = draw(st.sampled_from(("k", "n", "id")))
            right = Attr(other_side.alias, draw(st.sampled_from(("k", name)))) if other_side else Literal(1)
            return Compare(same, Attr(first.alias, name), right)
        case "text":
            text = Literal(draw(st.sampled_from(("p", "o'r", "unseen"))))
            return Compare(same, Attr(first.alias, "s"), Attr(other_side.alias, "s") if other_side else text)
        case "flag":
            flag = Literal(draw(st.booleans()))
            return Compare(same, Attr(first.alias, "flag"), Attr(other_side.alias, "flag") if other_side else flag)
        case "among":
            name = draw(st.sampled_from(("k", "n", "s")))
            options = draw(st.lists(st.sampled_from([*VALUES[name]]), min_size=1, max_size=2, unique=True))
            return Among(Attr(first.alias, name), tuple(map(Literal, options)))
        case "missing":
            name = draw(st.sampled_from(("k", "x", "s", "flag")))
            absent = Missing(Attr(first.alias, name))
            return absent if draw(st.booleans()) else Negated(absent)
        case "like":
            pattern = draw(st.sampled_from(("p", "%", "o'_", "%r", "_", "P", "\\%")))
            return Like(Attr(first.alias, "s"), pattern, draw(st.booleans()))
        case "gap" if first is not second:
            gap = Arithmetic("-", Attr(second.alias, "ts"), Attr(first.alias, "ts"))
            return Compare(draw(st.sampled_from(COMPARISONS)), gap, Literal(draw(st.integers(-3, 5))))
        case "distance" if first is not second:
            points = tuple(Attr(leaf.alias, name) for leaf in (first, second) for name in ("x", "y"))
            return Compare(draw(st.sampled_from(("<", ">="))), Call("dist_km", points), Literal(150.5))
    cut = draw(st.integers(1, len(leaves)))
    sides = [_numeric(draw, leaves[:cut]), _numeric(draw, leaves[cut:])]
    left, right = sides if draw(st.booleans()) else reversed(sides)
    return Compare(draw(st.sampled_from(COMPARISONS)), left, right)


def _numeric(draw: st.DrawFn, leaves: Sequence[Leaf]) -> Expr:
    """A numeric expression that names each of the leaves."""
    if not leaves:
        return Literal(draw(st.sampled_from((-1, 0, 2, 0.5, -1.5))))
    terms: list[Expr] = [Attr(leaf.alias, draw(st.sampled_from(("x", "x", "y", "k", "n", "ts")))) for leaf in leaves]
    if _one_in(draw, 3):
        terms.append(Literal(draw(st.sampled_from((1, 3, 0.5)))))
    result: Expr = terms[0]
    for term in terms[1:]:
        op = draw(st.sampled_from(("+", "-", "*", "/", "min", "max")))
        result = Call(op, (result, term)) if op in ("min", "max") else Arithmetic(op, result, term)
    functions = ("abs", "sqrt", "negative", "floor", "ceil", "round", "log", "mod", "hour", "weekday", "length")
    match draw(st.sampled_from(("as it is",) * 6 + functions)):
        case "abs" | "sqrt" | "floor" | "ceil" | "round" | "log" as function:
            return Call(function, (result,))
        case "mod":
            return Call("mod", (result, Literal(draw(st.sampled_from((2, 0, 1.5))))))
        case "hour" | "weekday" as function if len(leaves) == 1:
            return Call(function, (Attr(leaves[0].alias, draw(st.sampled_from(("ts", "n")))),))
        case "length" if len(leaves) == 1:
            return Call("length", (Attr(leaves[0].alias, "s"),))
        case "negative":
            return Negative(result)
    return result


# -------------------------------------------------------------------- streams
@st.composite
def workloads(draw: st.DrawFn, max_queries: int = 5, max_positions: int = 4) -> list[Query]:
    """Several queries, whose aliases mean different things, some of them a variation of the one before."""
    found: list[Query] = []
    for number in range(draw(st.integers(2, max_queries))):
        query = draw(queries(max_positions))
        if found and _one_in(draw, 2):
            query = replace(found[-1], window_us=draw(st.sampled_from((6, 12, 20, 3))))
            if _one_in(draw, 2):
                leaves = tuple(dict.fromkeys(written_leaves(query.pattern)))
                query = replace(query, where=(*query.where, draw(conditions(leaves))))
        found.append(replace(query, name=f"q{number}"))
    return found


@st.composite
def rules_of_one_template(draw: st.DrawFn, max_queries: int = 6, max_positions: int = 4) -> list[Query]:
    """Queries that differ in constants and windows only."""
    first = draw(queries(max_positions))
    leaves = tuple(dict.fromkeys(written_leaves(first.pattern)))
    extra = [draw(conditions(leaves)) for _ in range(draw(st.integers(0, 2)))]
    plain = [leaf for leaf in leaves if not leaf.scope and not leaf.kleene]
    if plain:
        leaf = draw(st.sampled_from(plain))
        op = draw(st.sampled_from(("<", "<=", ">", ">=", "=")))
        extra.append(Compare(op, Attr(leaf.alias, draw(st.sampled_from(("x", "k", "ts")))), Literal(0)))
    first = replace(first, where=(*first.where, *extra))
    found = []
    for number in range(draw(st.integers(2, max_queries))):
        where = tuple(_with_other_constant(draw, one) for one in first.where)
        window_us = first.window_us if _one_in(draw, 2) else draw(st.sampled_from((3, 6, 12)))
        found.append(replace(first, where=where, window_us=window_us, name=f"q{number}"))
    return found


def _with_other_constant(draw: st.DrawFn, predicate: Predicate) -> Predicate:
    bound = bound_of(predicate)
    if bound is None:
        return predicate
    texts, flags, numbers = ("p", "o'r", "unseen"), (True, False), (-1, 0, 2, 0.5, -1.5, 5, 150.5)
    options = texts if isinstance(bound.value, str) else flags if isinstance(bound.value, bool) else numbers
    return replace(bound, value=draw(st.sampled_from(options))).predicate


def streams(query: Query, max_events: int = 12) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Events in time order, with ties, repeated and missing values, and types the query does not know."""
    return workload_streams([query], max_events)


@st.composite
def workload_streams(draw: st.DrawFn, workload: Sequence[Query], max_events: int = 12) -> list[dict[str, Any]]:
    """The same for several queries."""
    compared = {attr.name for query in workload for predicate in query.conditions for attr in attributes(predicate)}
    returned = {attr.name for query in workload for attr in query.returns}
    present = sorted((compared | returned) & VALUES.keys())
    known = tuple(dict.fromkeys(name for query in workload for name in query.event_types))
    types = st.sampled_from((*known, *known, "Unrelated"))
    windows = tuple(dict.fromkeys(query.window_us for query in workload))
    values = st.fixed_dictionaries(
        {"type": types, "gap": st.sampled_from((0, 1, 1, 0, 2, 4, *windows))},
        optional={name: st.sampled_from((*VALUES[name], *VALUES[name], None)) for name in present},
    )
    events: list[dict[str, Any]] = []
    drawn: list[dict[str, Any]] = draw(st.lists(values, max_size=max_events))
    ts = draw(st.sampled_from((0, -7, 1_000)))
    for event in drawn:
        ts += event.pop("gap")
        events.append({**event, "ts": ts})
    ids_are_text = "id" not in compared and draw(st.booleans())  # conditions compare ids with whole numbers
    for event, number in zip(events, draw(st.permutations(range(len(events)))), strict=True):
        event["id"] = f"e{number}" if ids_are_text else number
    while any(combinations(query, events) > AFFORDABLE for query in workload):
        events.pop()
    return events


@st.composite
def long_streams(draw: st.DrawFn, query: Query, max_repeats: int = 10) -> list[dict[str, Any]]:
    """A short stream again and again, each time a little later, so that windows open and close many times."""
    short = draw(streams(query, max_events=8))
    gaps = draw(st.lists(st.integers(0, 2 * query.window_us), min_size=2, max_size=max_repeats))
    events: list[dict[str, Any]] = []
    ts = 0
    for round_number, gap in enumerate(gaps):
        ts += gap
        for event in short:
            new_id = (
                f"{event['id']}-{round_number}" if isinstance(event["id"], str) else event["id"] + 100 * round_number
            )
            events.append({**event, "id": new_id, "ts": event["ts"] - short[0]["ts"] + ts})
        ts = max((event["ts"] for event in events), default=ts)
    while sum(combinations(query, near) for _, near in surroundings(query, events)) > 4 * AFFORDABLE:
        del events[-(len(events) // 10 + 1) :]
    return events
