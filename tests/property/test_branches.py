"""Splitting OR, taking KL off under NOT and writing conditions anew must not change what a query means."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import decopa
from actors.columnar.jit import interpreted
from tests.support.brute_force import brute_force, canonical
from tests.support.examples import examples
from tests.support.strategies import queries, streams


@settings(max_examples=examples(150))
@given(st.data())
def test_the_branches_of_a_query_find_its_matches_together(data: st.DataObject) -> None:
    query = data.draw(queries())
    events = data.draw(streams(query))
    together = {canonical(match) for branch in query.branches for match in brute_force(branch, events)}
    assert together == set(map(canonical, brute_force(query, events)))


def test_an_alias_may_be_a_group_in_one_query_of_a_workload_only() -> None:
    events = pa.table({"id": [1, 2], "ts": [0, 5], "type": ["A", "B"]})
    workload = "PATTERN SEQ(A a, B b) WITHIN 10 us; PATTERN SEQ(A a, KL(B b)) WITHIN 10 us"
    with interpreted():
        assert decopa.run(workload, events)["b"].to_pylist() == [[2], [2]]
