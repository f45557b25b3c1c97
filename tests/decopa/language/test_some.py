"""Workloads in which some queries are wrong."""

from __future__ import annotations

import pytest

from decopa.errors import QueryError
from decopa.language.some import readable_queries

GOOD = "QUERY one PATTERN SEQ(A a, B b) WITHIN 1 s\n"
BAD = "QUERY two PATTERN SEQ(A a, ) WITHIN 1 s\n"


def test_queries_around_a_bad_one_are_read() -> None:
    found, bad = readable_queries(f"-- rules\n{GOOD}{BAD}QUERY three\nPATTERN AND(A a, C c)\nWITHIN 2 s\n")
    assert [query.name for query in found] == ["one", "three"]
    assert [one.name for one in bad] == ["two"]
    assert "line 3, column" in bad[0].reason


def test_the_second_of_two_queries_with_one_name_is_left_out() -> None:
    found, bad = readable_queries(GOOD + GOOD)
    assert len(found) == 1
    assert str(bad[0]) == "query one was left out: an earlier query has the same name; give each its own"


def test_a_text_without_any_good_query_is_refused() -> None:
    with pytest.raises(QueryError, match="none of 1 queries can be read"):
        readable_queries(BAD)


def test_a_text_of_one_query_without_a_name_is_read_as_it_is() -> None:
    found, bad = readable_queries("PATTERN SEQ(A a, B b) WITHIN 1 s")
    assert len(found) == 1 and not bad
