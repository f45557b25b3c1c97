"""PARTITION BY finds what the query finds in the events of each value, one value at a time."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import decopa
from actors.columnar.jit import interpreted
from decopa.language.text.parser import parse
from tests.property.test_matches import run
from tests.support.brute_force import brute_force, canonical
from tests.support.engine import matches_of
from tests.support.examples import examples
from tests.support.strategies import streams

PATTERNS = (
    "SEQ(A a, B b, C c)",
    "AND(A a, KL(B b))",
    "SEQ(A a, NOT(B b), C c)",
    "NEXT(A a, B b, C c)",
    "NEXT(ITER(A a), B b)",
    "STRICT(A a, B b)",
    "OR(SEQ(A a, B b), NEXT(A a, C c))",
    "SEQ(A a, OPT(B b), C c)",
)


@settings(max_examples=examples(150))
@given(st.data())
def test_a_partitioned_query_finds_what_it_finds_in_each_part(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(PATTERNS))
    partitioned = parse(f"PATTERN {text} PARTITION BY k WITHIN 12 us RETURN a.k")
    plain = parse(f"PATTERN {text} WITHIN 12 us")
    events = data.draw(streams(partitioned, max_events=9))
    expected = [
        canonical(match)
        for value in (0, 1, 2)
        for match in brute_force(plain, [event for event in events if event.get("k") == value])
    ]
    with interpreted():
        found = run(partitioned, events)
    assert sorted(map(canonical, matches_of(partitioned, found))) == sorted(expected)


def rows(text: str, **columns: list[Any]) -> list[dict[str, Any]]:
    with interpreted():
        return list(decopa.run(text, pa.table(columns)).to_pylist())


def test_an_optional_part_is_there_or_not() -> None:
    found = rows("PATTERN SEQ(A a, OPT(B b), C c) WITHIN 1 s", id=[1, 2, 3], ts=[1, 2, 3], type=["A", "B", "C"])
    assert sorted((row["a"], row["b"] or 0, row["c"]) for row in found) == [(1, 0, 3), (1, 2, 3)]


@pytest.mark.parametrize("where", ["a.x < a.x", "a.x > 5 AND a.x < 3", "a.x BETWEEN 5 AND 2", "a.x >= 3 AND a.x < 3"])
def test_a_condition_that_never_holds_is_reported(where: str) -> None:
    table = pa.table({"id": [1], "ts": [1], "type": ["A"], "x": [4]})
    with interpreted():
        result = decopa.run_detailed(f"PATTERN A a WHERE {where} WITHIN 1 s", table)
    assert result.matches.num_rows == 0
    assert any("can never hold" in line for line in result.notices)


def test_a_condition_that_may_hold_is_not_reported() -> None:
    table = pa.table({"id": [1], "ts": [1], "type": ["A"], "x": [4]})
    with interpreted():
        result = decopa.run_detailed("PATTERN A a WHERE a.x >= 4 AND a.x <= 4 WITHIN 1 s", table)
    assert result.matches.num_rows == 1
    assert not any("never" in line or "no value" in line for line in result.notices)
