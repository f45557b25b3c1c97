"""Random queries with NEXT: FILTER and deciding conditions of every kind, and what may stand before, in and around."""

from __future__ import annotations

from hypothesis import strategies as st

from decopa.query.conditions.predicate import Arithmetic, Attr, Compare, Literal, Predicate
from decopa.query.pattern import And, EventRef, Except, Kleene, Next, Not, Pattern, Seq
from decopa.query.query import Query

TYPES = ("A", "B", "C")
#: What is tied to earlier events by FILTER: nothing, one key, two keys, an order of values, an event further back.
FILTERS = ("none", "key", "key", "two keys", "inequality", "far")


@st.composite
def plain_chains(draw: st.DrawFn, max_positions: int = 5) -> Query:
    """NEXT over two to five events, and nothing else in the pattern."""
    aliases = "abcde"[: draw(st.integers(2, max_positions))]
    events = tuple(_event(draw, alias) for alias in aliases)
    pattern = Next(events, strict=draw(st.integers(0, 5)) == 5)
    return _query(draw, pattern, aliases)


@st.composite
def chains_in_patterns(draw: st.DrawFn) -> Query:
    """NEXT behind, beside, around and under everything else that the language has."""
    a, b, c, d, e = (_event(draw, alias) for alias in "abcde")
    shapes: dict[str, tuple[Pattern, str]] = {
        "group first": (Next((Kleene(a), b)), "ab"),
        "group, then two": (Next((Kleene(a), b, c)), "abc"),
        "after a conjunction": (Next((And((a, b)), c)), "abc"),
        "after a sequence": (Next((Seq((a, b)), c, d)), "abcd"),
        "after a strict one": (Next((Next((a, b), strict=True), c)), "abc"),
        "NOT in between": (Next((a, Not(e), b, c)), "abc"),
        "exception": (Except(Next((a, b, c)), e), "abc"),
        "exception to the right": (Next((a, b, Except(Next((c, d)), e))), "abcd"),
        "in a sequence": (Seq((d, Next((a, b)), e)), "ab"),
        "two in a conjunction": (And((Next((a, b)), Next((c, d)))), "ab"),
        "beside a group": (Seq((Next((a, b)), Kleene(c))), "ab"),
        "negated": (Seq((a, Not(Next((b, c))), d)), "bc"),
        "after an alternative's choice": (Next((Except(Seq((a, b)), e), c)), "abc"),
    }
    pattern, chain = shapes[draw(st.sampled_from(sorted(shapes)))]
    return _query(draw, pattern, chain)


def _query(draw: st.DrawFn, pattern: Pattern, chain: str) -> Query:
    skips: list[Predicate] = []
    if draw(st.booleans()):
        kind = draw(st.sampled_from(FILTERS))
        for place in range(1, len(chain)):
            skips += _skips(draw, kind, chain, place)
    else:
        for place in range(1, len(chain)):
            skips += _skips(draw, draw(st.sampled_from(FILTERS)), chain, place)
    kleene = {alias for leaf in getattr(pattern, "children", ()) if isinstance(leaf, Kleene) for alias in leaf.aliases}
    where = [_decides(draw, chain) for _ in range(draw(st.integers(0, 2)))]
    return Query(
        pattern=pattern,
        where=tuple(one for one in where if one is not None and not (kleene and _same(one))),
        skips=tuple(skips),
        window_us=draw(st.sampled_from((6, 12, 30, 2))),
        returns=tuple(Attr("a", "x") for _ in range(draw(st.integers(0, 1)))),
    )


def _same(condition: Predicate) -> bool:
    return isinstance(condition, Compare) and isinstance(condition.right, Attr) and isinstance(
        condition.left, Attr) and condition.left.alias == condition.right.alias  # fmt: skip


def _event(draw: st.DrawFn, alias: str) -> EventRef:
    if draw(st.integers(0, 6)) == 6:
        return EventRef("B", alias, ("C",))
    return EventRef("*" if draw(st.integers(0, 11)) == 11 else draw(st.sampled_from(TYPES)), alias)


def _skips(draw: st.DrawFn, kind: str, chain: str, place: int) -> list[Predicate]:
    chosen, before = chain[place], chain[place - 1]
    match kind:
        case "key":
            return [Compare("=", Attr(chosen, "k"), Attr(before, "k"))]
        case "two keys":
            return [Compare("=", Attr(before, name), Attr(chosen, name)) for name in ("k", "s")]
        case "inequality":
            return [Compare(draw(st.sampled_from(("<", ">=", "!="))), Attr(before, "x"), Attr(chosen, "x"))]
        case "far":
            return [Compare(draw(st.sampled_from(("=", "<"))), Attr(chosen, "n"), Attr(chain[0], "n"))]
    return [Compare(">", Attr(chosen, "x"), Literal(0.0))] if draw(st.integers(0, 4)) == 4 else []


def _decides(draw: st.DrawFn, chain: str) -> Predicate:
    one, other = draw(st.sampled_from(chain)), draw(st.sampled_from(chain))
    match draw(st.sampled_from(("single", "pair", "key", "text", "gap"))):
        case "single":
            return Compare(draw(st.sampled_from(("<", "!="))), Attr(one, "x"), Literal(0.5))
        case "key" if one != other:
            return Compare("=", Attr(one, "k"), Attr(other, "k"))
        case "text" if one != other:
            return Compare("!=", Attr(one, "s"), Attr(other, "s"))
        case "gap" if one != other:
            return Compare("<=", Arithmetic("-", Attr(other, "ts"), Attr(one, "ts")), Literal(5))
    return Compare("<", Attr(one, "x"), Attr(other, "y"))
