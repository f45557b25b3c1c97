"""KL and ITER with sizes and PREV find exactly what the referee finds, under every accepted plan."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import decopa
from actors.columnar.jit import interpreted
from tests.property.test_next import check
from tests.support.examples import examples
from tests.support.groups import group_queries


@settings(max_examples=examples(100))
@given(st.data())
def test_groups_and_runs_find_exactly_their_matches(data: st.DataObject) -> None:
    check(data, data.draw(group_queries()), max_events=9)


def found(text: str, values: list[int]) -> int:
    table = pa.table({"id": range(len(values)), "ts": range(len(values)), "type": ["T"] * len(values), "x": values})
    with interpreted():
        return int(decopa.run(text, table).num_rows)


def test_rising_runs_over_5_7_6_8_9_are_nine() -> None:
    assert found("PATTERN ITER(T t) WHERE t.x > PREV(t.x) WITHIN 1 s", [5, 7, 6, 8, 9]) == 9
    assert found("PATTERN ITER(T t) WITHIN 1 s", [5, 7, 6]) == 6
    assert found("PATTERN KL(T t) WITHIN 1 s", [5, 7, 6]) == 7


def test_runs_of_one_currency_before_another_are_seven_of_ten() -> None:
    currencies = [1, 1, 2, 1, 3]  # USD, USD, EUR, USD, GBP
    assert found("PATTERN NEXT(ITER(T a), T b) WITHIN 1 s", currencies) == 10
    assert found("PATTERN NEXT(ITER(T a), T b) WHERE a.x != b.x WITHIN 1 s", currencies) == 7
