"""Tables of several queries become one."""

from __future__ import annotations

import pyarrow as pa
import pytest

import decopa
from decopa.language.text.parser import parse_workload
from decopa.runs.preparation.prepare import check_delivery
from decopa.runs.result import combined
from decopa.runs.support import Way


def test_an_alias_that_is_a_group_elsewhere_holds_lists_and_what_is_missing_stays_missing() -> None:
    groups = pa.table({"query": ["q0"], "b": pa.array([[1, 2]], pa.list_(pa.int64()))})
    alternatives = pa.table({"query": ["q1", "q1"], "b": pa.array([3, None], pa.int64())})
    assert combined([groups, alternatives]).column("b").to_pylist() == [[1, 2], [3], None]


def test_matches_of_each_query_are_in_columns_of_its_own() -> None:
    text = "QUERY q1 PATTERN SEQ(A a, B b) WITHIN 1 s\nQUERY q2 PATTERN SEQ(A u, B v) WITHIN 1 s RETURN v.x"
    events = pa.table({"id": [0, 1], "ts": [0, 10], "type": ["A", "B"], "x": [1.0, 2.0]})
    result = decopa.run_detailed(text, events, runtime="local")
    assert {name: table.column_names[3:] for name, table in result.by_query.items()} == {
        "q1": ["a", "b"],
        "q2": ["u", "v", "v.x"],
    }
    assert result.matches.num_rows == 2


def test_more_columns_than_a_table_takes_are_in_the_tables_of_the_queries_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("decopa.runs.result.MOST_COLUMNS", 6)
    monkeypatch.setattr("decopa.runs.preparation.prepare.MOST_COLUMNS", 3)
    text = "QUERY q1 PATTERN SEQ(A a, B b) WITHIN 1 s\nQUERY q2 PATTERN SEQ(A u, B v) WITHIN 1 s"
    events = pa.table({"id": [0, 1], "ts": [0, 10], "type": ["A", "B"]})
    result = decopa.run_detailed(text, events, runtime="local")
    assert result.matches.column_names == ["query", "start_ts", "end_ts"]
    assert result.by_query["q2"].column("v").to_pylist() == [1]
    spec = decopa.RunSpec(output=decopa.Output("matches.csv"))
    with pytest.raises(decopa.DecoPaError, match="2 queries have 4 columns, too many for one file; write a folder"):
        check_delivery(spec, parse_workload(text), Way.LOCAL)
