"""The referee for long streams against the one for short ones."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.brute_force import brute_force, brute_force_by_window
from tests.support.examples import examples
from tests.support.strategies import queries, streams


@settings(max_examples=examples(150))
@given(st.data())
def test_looking_at_one_window_at_a_time_finds_the_same_matches(data: st.DataObject) -> None:
    query = data.draw(queries())
    events = data.draw(streams(query))
    assert brute_force_by_window(query, events) == brute_force(query, events)
