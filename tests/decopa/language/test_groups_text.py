"""Groups as a user writes them: sizes, UNTIL, aggregates over members; and what is said about mistakes."""

from __future__ import annotations

import pytest

from decopa.errors import QueryError
from decopa.language.builder import event, kleene, over, seq
from decopa.language.builder import query as query_of
from decopa.language.text.parser import parse
from decopa.query.conditions.predicate import Over, figures
from decopa.query.output import Ranking
from decopa.query.pattern import Except, Kleene


def test_until_is_an_exception_to_the_group() -> None:
    query = parse("PATTERN SEQ(A a, KL(B b){2,} UNTIL (C c)) WITHIN 1 s")
    assert query == parse("PATTERN SEQ(A a, EXCEPT(KL(B b){2,}, C c)) WITHIN 1 s")
    inner = query.pattern.children[1]  # type: ignore[union-attr]
    assert isinstance(inner, Except) and isinstance(inner.child, Kleene)


def test_aggregates_over_members_are_conditions_of_their_own_and_written_back() -> None:
    text = "PATTERN SEQ(A a, KL(B b)) WHERE count(b) >= 2 AND a.x < b.x AND sum(b.x) > a.x + min(b.y) WITHIN 1 s"
    query = parse(text)
    assert [str(one) for one in query.having] == ["count(b) >= 2", "sum(b.x) > (a.x + min(b.y))"]
    assert [str(one) for one in query.where] == ["a.x < b.x"]
    assert [one.function for condition in query.having for one in figures(condition)] == ["count", "sum", "min"]
    assert parse(str(query)) == query


def test_min_of_two_numbers_is_no_aggregate() -> None:
    query = parse("PATTERN KL(B b) WHERE min(b.x, b.y) > 1 AND min(b.x) > 0 WITHIN 1 s")
    assert len(query.where) == 1
    (condition,) = query.having
    assert isinstance(next(figures(condition)), Over)


def test_a_sub_query_without_the_group_has_no_condition_on_it() -> None:
    query = parse("PATTERN SEQ(A a, KL(B b), C c) WHERE sum(b.x) > a.x WITHIN 1 s")
    assert query.project(["a", "b"]).having == query.having
    assert query.project(["b", "c"]).having == ()
    assert query.project(["a", "b"], stripped=["b"]).having == ()


def test_returned_expressions_names_and_ranking_are_written_back() -> None:
    text = (
        "PATTERN SEQ(A a, KL(B b)) WITHIN 1 s RETURN a.x + max(b.x) AS highest, b.x, count(b), a.* "
        "ORDER BY highest DESC, count(b), a.x LIMIT 10"
    )
    query = parse(text.replace(", a.x LIMIT", " LIMIT"))
    assert query.columns == ("highest", "b.x", "count(b)", "a.*")
    assert query.ranking == Ranking((("highest", True), ("count(b)", False)), 10)
    assert parse(str(query)) == query
    assert query.with_every_attribute(["id", "ts", "x"]).columns == ("highest", "b.x", "count(b)", "a.ts", "a.x")
    with pytest.raises(QueryError, match=r"ORDER BY a.x: no such column"):
        parse(text)


def test_the_builder_says_the_same() -> None:
    a, b = event("A", "a"), event("B", "b")
    built = query_of(
        seq(a, kleene(b, 2)),
        where=[over("sum", b.x) > a.x, over("count", b) < 5],
        within="1 s",
        returns={"total": a.x + over("max", b.x)},
        order_by="-total",
        limit=3,
    )
    assert built == parse(
        "PATTERN SEQ(A a, KL(B b){2,}) WHERE sum(b.x) > a.x AND count(b) < 5 WITHIN 1 s "
        "RETURN a.x + max(b.x) AS total ORDER BY total DESC LIMIT 3"
    )


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("PATTERN AND(A a, B b) UNTIL(C c) WITHIN 1 s", "line 1, column 9", "UNTIL ends a group"),
        ("PATTERN KL(B b){5,2} WITHIN 1 s", "line 1, column 9", "write {2,5}"),
        ("PATTERN KL(B b){0,2} WITHIN 1 s", "line 1, column 9", "a group has at least one member"),
        ("PATTERN SEQ(A a, B b) WHERE sum(a.x) > 3 WITHIN 1 s", "line 1, column 33", "is over a single event"),
        ("PATTERN SEQ(A a, B b) WHERE count(a) > 3 WITHIN 1 s", "line 1, column 35", "is over a single event"),
        ("PATTERN KL(B b) WHERE b.x > avg(b.x) WITHIN 1 s", "line 1, column 23", "beside an aggregate"),
        ("PATTERN KL(B b) WHERE sum(b) > 3 WITHIN 1 s", "line 1, column 23", "write sum(b.x)"),
        ("PATTERN KL(B b) WHERE sum(b.x + 1) > 3 WITHIN 1 s", "line 1, column 23", "takes one attribute"),
        ("PATTERN KL(B b) WHERE count(b.x) > 3 WITHIN 1 s", "line 1, column 23", "as in count(b)"),
        ("PATTERN KL(B b) WHERE sum(PREV(b.x)) > 3 WITHIN 1 s", "line 1, column 32", "leave out PREV"),
        ("PATTERN SEQ(A a, NOT(KL(B b)), C c) WHERE sum(b.x) > 3 WITHIN 1 s", "line 1, column 47", "is negated"),
        ("PATTERN ITER(B b) WHERE FILTER(sum(b.x) > 3) WITHIN 1 s", "line 1, column 36", "without FILTER"),
        ("PATTERN SEQ(A a, B b) WHERE b.x > PREV(b.x) WITHIN 1 s", "line 1, column 40", "use PREV with KL or ITER"),
        (
            "PATTERN SEQ(A a, B b) WITHIN 1 s RETURN a.x AS b",
            "line 1, column 1",
            "two columns of the result are called 'b'",
        ),
        ("PATTERN A a WITHIN 1 s RETURN a.x + sum(a.x) AS t", "line 1, column 31", "is over all matches"),
        ("PATTERN A a WITHIN 1 s RETURN count(*), a.x + 1", "line 1, column 41", "beside aggregates over all matches"),
        ("PATTERN A a WITHIN 1 s RETURN count(*) AS n", "line 1, column 31", "leave out AS"),
        ("PATTERN A a WITHIN 1 s RETURN a.* AS n", "line 1, column 31", "leave out AS"),
        ("PATTERN A a WITHIN 1 s RETURN 1 + 2 AS n", "line 1, column 1", "names no event"),
        ("PATTERN A a WITHIN 1 s ORDER BY a.x", "line 1, column 1", "RETURN it, too"),
        ("PATTERN KL(A a) WITHIN 1 s RETURN a.x ORDER BY a.x", "line 1, column 1", "use an aggregate"),
        ("PATTERN A a WITHIN 1 s RETURN count(*) LIMIT 3", "line 1, column 1", "leave it out"),
        ("PATTERN A a WITHIN 1 s LIMIT 2.5", "line 1, column 30", "as in LIMIT 10"),
        ("PATTERN A a WITHIN 1 s LIMIT 0", "line 1, column 1", "at least one match"),
        ("PATTERN NOT(A a) WITHIN 1 s", "line 1, column 1", "no positive event"),
        ("PATTERN AND(NOT(A a), NOT(B b)) WITHIN 1 s", "line 1, column 9", "as in AND(A a, NOT(B b))"),
    ],
)
def test_mistakes_are_named_with_their_place_and_a_remedy(text: str, place: str, said: str) -> None:
    with pytest.raises(QueryError) as err:
        parse(text)
    assert str(err.value).startswith(place)
    assert said in str(err.value)
