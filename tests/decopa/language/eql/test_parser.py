"""EQL, the paper's language: what its texts become, and what wrong ones are told."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import decopa
from actors.columnar.jit import interpreted
from decopa.commands.cli import main
from decopa.errors import QueryError
from decopa.language.eql.parser import parse_eql
from decopa.language.front import read_queries
from decopa.language.text.parser import parse

FRAUD = """SELECT * FROM ( t S1 ; t S2 ; t L )
WHERE FILTER(S1.acc = S2.acc), FILTER(S2.acc = L.acc),
      S1.amount < 100 AND S2.amount < 100 AND
      L.amount > 250 AND (S1, L) OCCURS WITHIN 12 hours"""
LARGE = """SELECT * FROM ( t T1; t T2; t T3 )
WHERE FILTER(T1.acc = T2.acc), FILTER(T2.acc = T3.acc),
      T1.amount > 1000 AND T2.amount > 1000
      AND T3.amount > 1000 WITHIN 1 day"""
CURRENCY = "SELECT * FROM t T1+; t T2 WHERE ALL(T1.currency) <> T2.currency WITHIN 1 h"


def test_the_queries_of_the_paper_become_next_filter_and_iter() -> None:
    (fraud,) = parse_eql(FRAUD)
    assert fraud == parse(
        "PATTERN NEXT(t S1, t S2, t L) WHERE FILTER(S1.acc = S2.acc) AND FILTER(S2.acc = L.acc) AND S1.amount < 100 "
        "AND S2.amount < 100 AND L.amount > 250 WITHIN 12 h"
    )
    (large,) = parse_eql(LARGE)
    assert str(large.pattern) == "NEXT(t T1, t T2, t T3)" and len(large.skips) == 2 and len(large.where) == 3
    (currency,) = parse_eql(CURRENCY)
    assert currency == parse("PATTERN NEXT(ITER(t T1), t T2) WHERE T1.currency != T2.currency WITHIN 1 h")


@pytest.mark.parametrize("text", [FRAUD, LARGE, CURRENCY])
def test_their_native_text_is_read_back_as_the_same_query(text: str) -> None:
    (query,) = read_queries(text)
    assert parse(str(query)) == query


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("A ; B ; C", "NEXT(A A, B B, C C)"),
        ("A ; (B ; C)", "NEXT(A A, B B, C C)"),
        ("A \\ E ; B", "NEXT(EXCEPT(A A, E E), B B)"),
        ("(A ; B) \\ E", "EXCEPT(NEXT(A A, B B), E E)"),
        ("A ; (B ; C \\ E)", "NEXT(A A, B B, EXCEPT(C C, E E))"),
        ("A ; ((B ; C) \\ E)", "NEXT(A A, EXCEPT(NEXT(B B, C C), E E))"),
        ("A | B ; C", "OR(A A, NEXT(B B, C C))"),
        ("A ; (B | C) x", "NEXT(A A, (B|C) x)"),
        ("A ; (B x | C x)", "NEXT(A A, (B|C) x)"),
        ("(A | B) ; C", "NEXT(OR(A A, B B), C C)"),
        ("A ; B+", "NEXT(A A, B B)"),
        ("A a @ 5 sec ; B", "NEXT(A a @ 5 s, B B)"),
    ],
)
def test_plus_binds_before_exception_before_next_before_union(text: str, pattern: str) -> None:
    (query,) = parse_eql(f"SELECT * FROM {text} WITHIN 1 min")
    assert str(query.pattern) == pattern


def test_contains_and_selection() -> None:
    (query,) = parse_eql("select S.amount, B.x from A S; B where S.what CONTAINS '50%' within 1 min as cards")
    assert query == parse(
        "QUERY cards PATTERN NEXT(A S, B B) WHERE S.what LIKE '%50\\%%' WITHIN 1 min RETURN S.amount, B.x"
    )


def test_another_pair_that_occurs_within_a_time_is_a_condition() -> None:
    (query,) = parse_eql("SELECT * FROM A; B; C WHERE (A, C) OCCURS WITHIN 5 sec, (A, B) OCCURS WITHIN 1 sec")
    assert query.window_us == 5_000_000 and [str(one) for one in query.where] == ["abs((B.ts - A.ts)) <= 1000000"]


def test_a_run_of_one_currency_before_another() -> None:
    money = ["USD", "USD", "EUR", "USD", "GBP"]
    table = pa.table({"id": range(5), "ts": range(5), "type": ["t"] * 5, "currency": money})
    with interpreted():
        assert decopa.run(CURRENCY, table).num_rows == 7
        assert decopa.run("SELECT * FROM t T1+; t T2 WITHIN 1 h", table).num_rows == 10


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        (
            "SELECT * FROM A ; B",
            "1, column 1",
            "no window; add (A, B) OCCURS WITHIN 12 hours to WHERE",
        ),
        ("SELECT * FROM A ; B WHERE A.x = 1", "1, column 1", "the query has no window"),
        ("SELECT * FROM A WHERE FILTER(A.x = 1) WITHIN 1 h", "1, column 30", "write the condition without FILTER"),
        ("SELECT * FROM A; B WHERE NOT FILTER(B.x = 1) WITHIN 1 h", "1, column 30", "FILTER stands inside another"),
        ("SELECT * FROM A; B WHERE C.x = 1 WITHIN 1 h", "1, column 26", "unknown alias 'C'"),
        ("SELECT * FROM A; B WHERE B.x > PREV(B.x) WITHIN 1 h", "1, column 37", "use PREV with KL or ITER"),
        ("SELECT * FROM A; (B | C) WITHIN 1 h", "1, column 15", "give them one alias, as in A a; (B | C) x"),
        ("SELECT * FROM (A; B)+ WITHIN 1 h", "1, column 15", "+ repeats single events"),
        ("SELECT * FROM A; WITHIN 1 h", "1, column 18", "expected '(' or a name"),
        ("SELECT * FROM FILTER(A; B) WITHIN 1 h", "1, column 21", "FILTER is a condition: write it in WHERE"),
        ("SELECT * FROM A+ a; B WITHIN 1 h", "1, column 18", "the alias stands before '+', as in A a+"),
        ("SELECT * FROM A, B WITHIN 1 h", "1, column 16", "joined by ';', as in A a ; B b"),
        ("SELECT * FROM A; B WITHIN 1 parsec", "1, column 29", "'parsec' is no unit of time: write us"),
        ("SELECT * FROM A a; B WHERE a.s CONTAINS 5 WITHIN 1 h", "1, column 41", "a text in single quotes"),
        ("SELECT FROM A; B WITHIN 1 h", "1, column 13", "expected '.'"),
        ("SELECT * FROM A; B WITHIN 10", "1, column 27", "has no unit"),
        ("SELECT * FROM A; B WHERE A.x = WITHIN 1 h", "1, column 32", "an attribute such as a.x"),
        ("SELECT C.x FROM A; B WITHIN 1 h", "1, column 8", "unknown alias 'C'"),
        ("SELECT * FROM A a; A a WITHIN 1 h", "1, column 1", "alias 'a' is used twice"),
    ],
)
def test_a_wrong_text_is_told_line_column_and_what_to_write(text: str, place: str, said: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_eql(text)
    assert f"line {place}: " in str(caught.value) and said in str(caught.value) and "\n" not in str(caught.value)


def test_a_wrong_text_ends_the_command_with_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "SELECT * FROM A ; B", "--units", "2"]) == 2
    assert "WITHIN 12 hours" in capsys.readouterr().err


def test_the_language_can_be_named() -> None:
    with pytest.raises(QueryError, match="SELECT"):
        read_queries("PATTERN A a WITHIN 1 s", "eql")
    with pytest.raises(QueryError, match="unknown language"):
        read_queries("PATTERN A a WITHIN 1 s", "sql")


def fuzzed(rng: random.Random) -> str:
    words = ["B b", "5 sec", '"', "'", "'x'", "\\"]
    words += "SELECT * FROM WHERE FILTER( ) ( ; | + @ A a.x PREV( ALL( WITHIN OCCURS".split()  # noqa: SIM905
    words += "CONTAINS , = <> AND NOT 10 - AS".split()  # noqa: SIM905
    start = rng.choice(("", "SELECT * FROM A a; B b ", "SELECT * FROM A; B WHERE "))
    return start + " ".join(rng.choice(words) for _ in range(rng.randrange(1, 14)))


@pytest.mark.parametrize("count", [3_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_whatever_is_typed_ends_in_a_query_or_in_one_line(count: int) -> None:
    rng = random.Random(count)
    for _ in range(count):
        text = fuzzed(rng)
        try:
            found = parse_eql(text)
        except QueryError as err:
            lines = str(err).splitlines()
        else:
            lines = [str(query) for query in found if parse(str(query)) == query]
        assert len(lines) == 1 or "$" in text
