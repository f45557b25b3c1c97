"""A live source, processes that die at any moment, partitions read in any order: no match is lost, none comes twice."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from actors.columnar.jit import interpreted
from shuffler.source.live.merging import PartitionMerge
from shuffler.source.live.position import Position
from tests.property.test_crashes import EVENTS, PLAN, QUERY
from tests.property.test_matches import ATTRIBUTES
from tests.support.brute_force import brute_force, canonical
from tests.support.crashing_stream import CrashingStream, scripted
from tests.support.engine import matches_of, table_of
from tests.support.examples import examples
from tests.support.plans import plans
from tests.support.strategies import queries, streams

#: DECOPA_EXAMPLES multiplies them: 6 makes 360.
SCHEDULES = 60


def as_sets(match: Any) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Events of a group that share their time have no order between partitions."""
    return tuple((alias, tuple(sorted(ids))) for alias, ids in canonical(match))


def test_restarts_of_a_stream_lose_nothing_and_repeat_nothing() -> None:
    """Says how much was tried: `pytest -s` shows it."""
    tried: Counter[str] = Counter()

    @settings(max_examples=examples(SCHEDULES))
    @given(st.data())
    def schedule(data: st.DataObject) -> None:
        query = data.draw(queries())
        events = data.draw(streams(query))
        plan = data.draw(plans(query))
        note(f"{query}\n{plan.to_json()}")
        seed = data.draw(st.integers(0, 2**16))
        table, chaos = table_of(events, ATTRIBUTES), Random(seed)
        partitions, disorder_us = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 3))
        opened = scripted(table, chaos, partitions=partitions, disorder_us=disorder_us)
        with interpreted():
            shufflers = data.draw(st.integers(1, 3))
            cluster = CrashingStream(plan, table, opened, shufflers=shufflers, chaos=chaos, crashes=12)
            found = cluster.run([query])
        expected = sorted(map(as_sets, brute_force(query, events)))
        assert sorted(map(as_sets, matches_of(query, found))) == expected
        tried.update(schedules=1, crashes=cluster.recoveries, checkpoints=cluster.checkpoints, matches=len(expected))

    schedule()
    print(", ".join(f"{count:,} {what}" for what, count in tried.items()))
    assert tried["schedules"] >= examples(SCHEDULES)
    assert min(tried["crashes"], tried["checkpoints"]) >= tried["schedules"] // 4 and tried["matches"]  # not idle ones


def found_with(seed: int) -> list[object]:
    table, chaos = table_of(EVENTS), Random(seed)
    opened = scripted(table, chaos, partitions=3, disorder_us=4)
    with interpreted():
        cluster = CrashingStream(PLAN, table, opened, shufflers=2, chaos=chaos, crashes=12)
        return sorted(map(canonical, matches_of(QUERY, cluster.run([QUERY]))))


def test_a_position_without_the_rows_that_wait_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation can fail: if a checkpoint had offsets alone, rows that were read but held would be lost."""
    expected = sorted(map(canonical, brute_force(QUERY, EVENTS)))
    assert all(found_with(seed) == expected for seed in range(6))
    monkeypatch.setattr(PartitionMerge, "snapshot", lambda self, ready=None: Position("", {}).merge)
    assert any(found_with(seed) != expected for seed in range(6))
