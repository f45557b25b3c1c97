"""Tables of several queries become one."""

from __future__ import annotations

import pyarrow as pa

from decopa.runs.result import combined


def test_an_alias_that_is_a_group_elsewhere_holds_lists_and_what_is_missing_stays_missing() -> None:
    groups = pa.table({"query": ["q0"], "b": pa.array([[1, 2]], pa.list_(pa.int64()))})
    alternatives = pa.table({"query": ["q1", "q1"], "b": pa.array([3, None], pa.int64())})
    assert combined([groups, alternatives]).column("b").to_pylist() == [[1, 2], [3], None]
