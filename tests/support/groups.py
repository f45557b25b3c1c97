"""Random queries with groups: sizes, runs, and conditions between neighbours, alone and among other events."""

from __future__ import annotations

from hypothesis import strategies as st

from decopa.query.conditions.predicate import (
    COMPARISONS,
    AnyOf,
    Arithmetic,
    Attr,
    Compare,
    Expr,
    Literal,
    Missing,
    Negated,
    Over,
    Predicate,
)
from decopa.query.pattern import And, EventRef, Except, Kleene, Next, Not, Pattern, Seq
from decopa.query.query import Query


@st.composite
def group_queries(draw: st.DrawFn) -> Query:
    least = draw(st.sampled_from((1, 1, 2, 3)))
    most = draw(st.sampled_from((None, None, least, least + 1)))
    runs = draw(st.booleans())
    kind = EventRef("B", "b", ("C",)) if draw(st.integers(0, 4)) == 4 else EventRef("B", "b")
    group = Kleene(kind, least, most, runs)
    a, c = EventRef("A", "a"), EventRef(draw(st.sampled_from(("B", "C"))), "c")
    shapes: dict[str, Pattern] = {
        "alone": group,
        "after": Seq((a, group)),
        "between": Seq((a, group, c)),
        "beside": And((a, group)),
        "then next": Next((group, c)),
        "then the next two": Next((group, c, a)),
        "before a gap": Seq((group, Not(c), a)),
        "until": Seq((a, Except(group, c))),
        "until, then": Seq((Except(group, c), a)),
        "all but": Except(Next((group, a)), c),
    }
    name = draw(st.sampled_from(sorted(shapes)))
    other = (
        "a"
        if name
        in ("after", "between", "beside", "then the next two", "before a gap", "until", "until, then", "all but")
        else None
    )
    where = [_condition(draw, other) for _ in range(draw(st.integers(0, 2)))]
    if draw(st.booleans()):
        where.append(_figure_condition(draw, other))
    skips: list[Predicate] = []
    if runs and draw(st.booleans()):
        skips.append(draw(st.sampled_from((
            Compare("=", Attr("b", "k"), Attr("b", "k", previous=True)),
            Compare(">", Attr("b", "x"), Literal(-1.0)),
            Compare("!=", Attr("b", "x", previous=True), Attr("b", "x")),
        ))))  # fmt: skip
    return Query(shapes[name], tuple(where), draw(st.sampled_from((3, 8, 20))), skips=tuple(skips))


def _figure_condition(draw: st.DrawFn, other: str | None) -> Predicate:
    """`sum(b.x) > 1`, `count(b) = 2 OR max(b.n) < a.n` and the like."""
    function = draw(st.sampled_from(("count", "sum", "avg", "min", "max", "first", "last")))
    name = "id" if function == "count" else draw(st.sampled_from(("x", "n", "k")))
    figure = Over(function, Attr("b", name))
    limits: list[Expr] = [Literal(1), Literal(0.5), Over("count", Attr("b", "id")), Over("min", Attr("b", "x"))]
    limits += [] if other is None else [Attr(other, "x"), Attr(other, "n")]
    first = Compare(draw(st.sampled_from(COMPARISONS)), figure, draw(st.sampled_from(limits)))
    return draw(st.sampled_from((first, Negated(first), AnyOf((first, Missing(Over("last", Attr("b", "x"))))))))


def _condition(draw: st.DrawFn, other: str | None) -> Predicate:
    before, now = Attr("b", "x", previous=True), Attr("b", "x")
    choices: list[Predicate] = [
        Compare(">", now, before),
        Compare("<=", before, Arithmetic("+", now, Literal(1))),
        Compare("!=", Attr("b", "k"), Attr("b", "k", previous=True)),
        Compare("<", now, Literal(1.0)),
        Compare("<", now, now),
    ]
    if other is not None:
        choices += [Compare("=", Attr("b", "k"), Attr(other, "k")), Compare("<", Attr(other, "x"), now)]
    return draw(st.sampled_from(choices))
