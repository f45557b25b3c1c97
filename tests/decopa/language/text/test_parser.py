from __future__ import annotations

import pytest

from decopa.errors import QueryError
from decopa.language.text.parser import parse, parse_workload
from decopa.query.conditions.predicate import (
    AllOf,
    Among,
    AnyOf,
    Arithmetic,
    Attr,
    Call,
    Compare,
    Literal,
    Negated,
    Negative,
    Predicate,
)
from decopa.query.pattern import And, EventRef, Kleene, Not, Or, Seq

A, B, C, D = (EventRef(name, name.lower()) for name in "ABCD")
AX, BX = Attr("a", "x"), Attr("b", "x")


def condition(text: str) -> Predicate:
    (predicate,) = parse(f"PATTERN SEQ(A a, B b, C c) WHERE {text} WITHIN 1 s").where
    return predicate


# -------------------------------------------------------------------- pattern
def test_the_bike_query_of_the_design_parses() -> None:
    query = parse("""
        QUERY bikes                                    -- optional name
        PATTERN SEQ(ShortY sy, LongC lc, AND(LongY ly, VLongY vly))
        WHERE  FORALL (i, j) IN (sy, lc, ly, vly): dist_km(i.lat, i.lon, j.lat, j.lon) >= 6
           AND sy.duration < ly.duration AND lc.user = 'Customer'
        WITHIN 24 h
        RETURN sy.id, lc.start_station                 -- optional; default: every event id
    """)
    assert query.name == "bikes"
    assert query.window_us == 24 * 3_600_000_000
    assert query.returns == (Attr("sy", "id"), Attr("lc", "start_station"))
    assert len(query.where) == 6 + 2
    assert query.where[0] == Compare(
        ">=",
        Call("dist_km", (Attr("sy", "lat"), Attr("sy", "lon"), Attr("lc", "lat"), Attr("lc", "lon"))),
        Literal(6),
    )


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("A a", A),
        ("A", EventRef("A", "A")),
        ("SEQ(A a, B b)", Seq((A, B))),
        ("AND(A a, SEQ(B b, C c))", And((A, Seq((B, C))))),
        ("OR(A a, B b)", Or((A, B))),
        ("SEQ(A a, KL(B b))", Seq((A, Kleene(B)))),
        ("SEQ(A a, NOT(B b), C c)", Seq((A, Not(B), C))),
        ("NSEQ(A a, B b, C c)", Seq((A, Not(B), C))),
        ("NSEQ(A a, SEQ(B b, D d), C c)", Seq((A, Not(Seq((B, D))), C))),
        ("SEQ(A a, A a2)", Seq((A, EventRef("A", "a2")))),
        ('SEQ("my ""type""" a, B b)', Seq((EventRef('my "type"', "a"), B))),
        ('"SEQ" a', EventRef("SEQ", "a")),
    ],
)
def test_patterns_parse_to_their_tree(text: str, pattern: object) -> None:
    assert parse(f"PATTERN {text} WITHIN 1 s").pattern == pattern


def test_keywords_may_be_written_in_any_case() -> None:
    upper = parse("QUERY n PATTERN SEQ(A a, NOT(B b), C c) WHERE a.x IN (1) AND NOT a.y = TRUE WITHIN 1 s RETURN a.x")
    lower = parse("query n pattern seq(A a, not(B b), C c) where a.x in (1) and not a.y = true within 1 s return a.x")
    assert lower == upper


def test_names_that_begin_like_keywords_are_names() -> None:
    assert parse("PATTERN SEQ(Sequel a, ANDroid b) WITHIN 1 s").event_types == ("Sequel", "ANDroid")


def test_comments_end_with_their_line() -> None:
    assert parse("PATTERN A a -- WITHIN 2 s\nWITHIN 1 s").window_us == 1_000_000


# ------------------------------------------------------------------- duration
@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("5 us", 5),
        ("5us", 5),
        ("2 ms", 2_000),
        ("3 s", 3_000_000),
        ("10 min", 600_000_000),
        ("1.5 h", 5_400_000_000),
        (".5 d", 43_200_000_000),
        ("0.1 s", 100_000),
    ],
)
def test_durations_have_a_unit(text: str, microseconds: int) -> None:
    assert parse(f"PATTERN A a WITHIN {text}").window_us == microseconds


def test_a_duration_in_a_condition_is_a_number_of_microseconds() -> None:
    assert condition("b.ts - a.ts < 2 ms") == Compare(
        "<", Arithmetic("-", Attr("b", "ts"), Attr("a", "ts")), Literal(2_000)
    )


# ----------------------------------------------------------------- conditions
@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("a.x < b.x", Compare("<", AX, BX)),
        ("a.x == b.x", Compare("=", AX, BX)),
        ("a.x <> b.x", Compare("!=", AX, BX)),
        ("a.x >= -1.5", Compare(">=", AX, Literal(-1.5))),
        ("a.x = 1e3", Compare("=", AX, Literal(1000.0))),
        ("a.x = 'it''s'", Compare("=", AX, Literal("it's"))),
        ("a.x = TRUE", Compare("=", AX, Literal(True))),
        ("a.x", Compare("=", AX, Literal(True))),
        ('a."start station" = 1', Compare("=", Attr("a", "start station"), Literal(1))),
        ("a.x IN (1, -2, 'p', FALSE)", Among(AX, (Literal(1), Literal(-2), Literal("p"), Literal(False)))),
        ("NOT a.x < 1", Negated(Compare("<", AX, Literal(1)))),
        ("(a.x < 1 OR b.x < 2)", AnyOf((Compare("<", AX, Literal(1)), Compare("<", BX, Literal(2))))),
        ("-a.x < 1", Compare("<", Negative(AX), Literal(1))),
        ("- - a.x < 1", Compare("<", Negative(Negative(AX)), Literal(1))),
        ("abs(a.x - b.x) < 1", Compare("<", Call("abs", (Arithmetic("-", AX, BX),)), Literal(1))),
        ("MAX(a.x, b.x, 3) < 1", Compare("<", Call("max", (AX, BX, Literal(3))), Literal(1))),
    ],
)
def test_conditions_parse_to_their_tree(text: str, predicate: Predicate) -> None:
    assert condition(text) == predicate


def test_multiplication_binds_stronger_than_addition_and_both_go_from_left_to_right() -> None:
    parsed = condition("a.x - 1 - b.x * 2 / 3 < 0")
    product = Arithmetic("/", Arithmetic("*", BX, Literal(2)), Literal(3))
    assert parsed == Compare("<", Arithmetic("-", Arithmetic("-", AX, Literal(1)), product), Literal(0))


def test_and_binds_stronger_than_or() -> None:
    one, two, three = (Compare("<", AX, Literal(number)) for number in (1, 2, 3))
    assert condition("a.x < 1 OR a.x < 2 AND a.x < 3") == AnyOf((one, AllOf((two, three))))


def test_a_chain_of_comparisons_is_a_conjunction() -> None:
    query = parse("PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x <= c.x WITHIN 1 s")
    assert query.where == (Compare("<", AX, BX), Compare("<=", BX, Attr("c", "x")))


def test_forall_means_every_pair_in_the_order_of_the_list() -> None:
    short = parse("PATTERN SEQ(A a, B b, C c) WHERE FORALL (i, j) IN (a, c, b): i.x < j.x WITHIN 1 s")
    spelled_out = parse("PATTERN SEQ(A a, B b, C c) WHERE a.x < c.x AND a.x < b.x AND c.x < b.x WITHIN 1 s")
    assert short == spelled_out


def test_forall_takes_one_condition_and_leaves_the_next_alone() -> None:
    query = parse("PATTERN SEQ(A a, B b) WHERE FORALL (i, j) IN (a, b): i.x < j.x AND a.y < 3 WITHIN 1 s")
    assert query.where == (Compare("<", AX, BX), Compare("<", Attr("a", "y"), Literal(3)))


# ------------------------------------------------------------------- workload
def test_a_workload_holds_several_queries() -> None:
    queries = parse_workload("PATTERN A a WITHIN 1 s; QUERY second PATTERN B b WITHIN 2 s\nPATTERN C c WITHIN 3 s;")
    assert [query.name for query in queries] == ["q1", "second", "q3"]
    assert [query.window_us for query in queries] == [1_000_000, 2_000_000, 3_000_000]


def test_a_single_unnamed_query_is_called_q() -> None:
    assert parse("PATTERN A a WITHIN 1 s").name == "q"


# --------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "a query starts as in PATTERN"),
        ("PATERN A a WITHIN 1 s", 1, 1, "found 'PATERN'"),
        ("PATTERN SEQ(A a, ) WITHIN 1 s", 1, 18, r"expected an event type .*, found '\)'; write type and alias"),
        ("PATTERN SEQ(A a B b) WITHIN 1 s", 1, 17, "found 'B'"),
        ("PATTERN SEQ(A a, B b)", 1, 22, "every query ends with its window"),
        ("PATTERN A a WITHIN 10", 1, 20, "has no unit; write it as in WITHIN 10 min"),
        ("PATTERN A a WITHIN 0 s", 1, 20, "must be positive"),
        ("PATTERN A a WITHIN -1 s", 1, 21, "must be positive"),
        ("PATTERN A a WITHIN 1.5 us", 1, 20, "not a whole number of microseconds"),
        ("PATTERN A a WITHIN 99999999999999 d", 1, 1, "positive and at most"),
        ("PATTERN SEQ(A a, B b)\nWHERE a.x < bb.x WITHIN 1 s", 2, 13, "unknown alias 'bb' .* did you mean 'b'"),
        ("PATTERN A a WITHIN 1 s RETURN c.x", 1, 31, "unknown alias 'c'"),
        ("PATTERN SEQ(A a, NOT(B b)) WITHIN 1 s RETURN b.x", 1, 46, "'b' is negated"),
        ("PATTERN SEQ(A a, B a) WITHIN 1 s", 1, 1, "alias 'a' is used twice"),
        ("PATTERN KL(OR(A a, B b)) WITHIN 1 s", 1, 9, r"KL\(\(A\|B\) a\)"),
        ("PATTERN KL(SEQ(A a, NOT(C c), B b)) WITHIN 1 s", 1, 9, "put the NOT beside the group"),
        ("PATTERN ITER(SEQ(A a, B b)) WITHIN 1 s", 1, 9, "ITER takes one event type"),
        ("PATTERN SEQ(KL(SEQ(A a, B b)), C c) WHERE a.x + b.x < c.x WITHIN 1 s", 1, 43, "a and b of one group"),
        ("PATTERN NOT(A a) WITHIN 1 s", 1, 1, "no positive event"),
        ("PATTERN OR(A a, NOT(B b)) WITHIN 1 s", 1, 9, "put NOT inside SEQ"),
        ("PATTERN NSEQ(A a, B b) WITHIN 1 s", 1, 9, "NSEQ takes three patterns"),
        ("PATTERN KL(A a) UNTIL B WITHIN 1 s", 1, 17, r"expected '\{', .*; write it with brackets, as in KL"),
        ("PATTERN KL(A a){,2} WITHIN 1 s", 1, 17, r"write the least number of members, too, as in \{1,3\}"),
        ("PATTERN KL(A a) WHERE a.x > PREV(a) WITHIN 1 s", 1, 35, r"PREV takes an attribute, as in PREV\(b.x\)"),
        ("PATTERN A a WITHIN 1 parsec", 1, 22, "'parsec' is no unit of time: write us, ms, s, min, h or d"),
        ("PATTERN A a WHERE a.x + 1 WITHIN 1 s", 1, 19, "expected a condition, found the expression"),
        ("PATTERN A a WHERE a.x < (a.x < 1) WITHIN 1 s", 1, 26, "found the condition 'a.x < 1'"),
        ("PATTERN A a WHERE 1 < 2 WITHIN 1 s", 1, 1, "names no event"),
        ("PATTERN A a WHERE sqr(a.x) < 1 WITHIN 1 s", 1, 19, "unknown function 'sqr'; did you mean 'sqrt'"),
        ("PATTERN A a WHERE abs(a.x, 1) < 1 WITHIN 1 s", 1, 19, "abs takes 1 argument"),
        ("PATTERN A a WHERE min(a.x) < 1 WITHIN 1 s", 1, 23, "is over a single event"),
        ("PATTERN A a WHERE a.x = 'open WITHIN 1 s", 1, 25, "a quote is not closed"),
        ("PATTERN A a WHERE a.x < 99999999999999999999 WITHIN 1 s", 1, 25, "does not fit into 64 bits"),
        ("PATTERN A a WHERE a.x < 1e999 WITHIN 1 s", 1, 25, "too large"),
        ("PATTERN SEQ(A a, B b) WHERE FORALL (i, i) IN (a, b): i.x < 1 WITHIN 1 s", 1, 29, "names 'i' twice"),
        ("PATTERN SEQ(A a, B b) WHERE FORALL (i, j) IN (a): i.x < 1 WITHIN 1 s", 1, 29, "at least two aliases"),
    ],
)
def test_errors_say_where_and_what(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN " + "SEQ(" * 10_000 + "A a" + ")" * 10_000 + " WITHIN 1 s",
        "PATTERN A a WHERE " + "(" * 10_000 + "a.x < 1" + ")" * 10_000 + " WITHIN 1 s",
        "PATTERN A a WHERE " + "NOT " * 10_000 + "a.x < 1 WITHIN 1 s",
        "PATTERN A a WHERE a.x < " + "- " * 10_000 + "1 WITHIN 1 s",
    ],
    ids=["pattern", "condition", "not", "minus"],
)
def test_ten_thousand_levels_of_nesting_are_refused(text: str) -> None:
    with pytest.raises(QueryError, match="nested more than"):
        parse(text)


def test_a_huge_text_is_refused() -> None:
    with pytest.raises(QueryError, match="characters, more than"):
        parse("x" * 1_000_000)


def test_a_workload_may_be_longer_than_a_query() -> None:
    long = "PATTERN SEQ(A a, B b) -- " + "x" * 200_000 + "\nWITHIN 1 s"
    assert len(parse_workload(f"QUERY one {long} QUERY two {long}")) == 2


def test_a_workload_beyond_its_limits_is_refused_before_it_is_parsed() -> None:
    rule = "QUERY q PATTERN SEQ(A a, B b) WITHIN 1 s\n"
    with pytest.raises(QueryError, match=r"about 9,000 queries in one text; at most 1,024 are allowed"):
        parse_workload(rule * 9_000)
    with pytest.raises(QueryError, match=r"characters, more than 16,777,216; split it"):
        parse_workload(" " * 17_000_000)
    with pytest.raises(QueryError, match=r"line 2, column 9: a query has .* characters, more than 262,144"):
        parse_workload(rule + "QUERY r PATTERN A a WHERE a.x IN (" + "1, " * 100_000 + "1) WITHIN 1 s\n" + rule)


def test_a_sum_of_hundreds_of_terms_is_refused() -> None:
    with pytest.raises(QueryError, match="terms"):
        parse("PATTERN A a WHERE a.x < " + " + ".join(["a.x"] * 500) + " WITHIN 1 s")


def test_a_thousand_conditions_are_fine() -> None:
    assert len(parse("PATTERN A a WHERE " + " AND ".join(["a.x < 1"] * 1_000) + " WITHIN 1 s").where) == 1_000


def test_two_queries_where_one_is_wanted_are_refused() -> None:
    with pytest.raises(QueryError, match="expected one query, found 2"):
        parse("PATTERN A a WITHIN 1 s PATTERN B b WITHIN 1 s")


def test_two_queries_of_one_name_are_refused() -> None:
    with pytest.raises(QueryError, match="two queries are called 'x'"):
        parse_workload("QUERY x PATTERN A a WITHIN 1 s QUERY x PATTERN B b WITHIN 1 s")
