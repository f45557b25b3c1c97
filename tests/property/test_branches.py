"""Splitting OR, taking KL off under NOT and writing conditions anew must not change what a query means."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

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
