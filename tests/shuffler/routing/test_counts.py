"""What shufflers count: events by type, rows that pass a leaf's conditions, and how far they are."""

from __future__ import annotations

import numpy as np
import pytest

import decopa
from decopa.planning.plan import Plan
from decopa.planning.strategies.baselines import rip, state_parallel
from decopa.query.binding import bind
from shuffler.routing.counts import FeedCounts
from shuffler.routing.feeder import WorkloadFeeder
from shuffler.routing.table import NOTHING_YET
from shuffler.routing.topology import Topology
from shuffler.source.trace import open_trace
from tests.support.small_traces import trace

QUERY = decopa.parse("PATTERN SEQ(A a, B b, A c) WHERE a.x > 5 WITHIN 1 s")
TYPES = ["A", "B", "A", "X", "A", "B"] * 10
VALUES = list(range(10)) * 6


def counts_after(plan: Plan, batch_size: int, rows: slice = slice(None)) -> FeedCounts:
    source = open_trace(trace(type=TYPES, x=VALUES).slice(rows.start or 0, (rows.stop or 60) - (rows.start or 0)))
    bounds = [bind(part.query, source.schema) for part in plan.parts]
    feeder = WorkloadFeeder(Topology(plan).routing, bounds, source.strings)
    for batch in source.batches(["x"], batch_size):
        for _ in feeder.feed(batch):
            pass
    return feeder.counts


@pytest.mark.parametrize("batch_size", [1, 7, 60])
def test_events_are_counted_by_type_and_by_leaf_after_its_conditions(batch_size: int) -> None:
    counts = counts_after(Plan((state_parallel(QUERY),)), batch_size)
    a_events = [x for name, x in zip(TYPES, VALUES, strict=True) if name == "A"]
    assert counts.types == {"A": 30, "B": 20, "X": 10}
    leaves = {leaf.name: leaf for leaf in state_parallel(QUERY).leaves}
    found = {min(leaves[name].sub_query.aliases): rows for (_, name), rows in counts.leaves.items()}
    assert found == {"a": sum(x > 5 for x in a_events), "b": 20, "c": 30}
    assert counts.last_ts == 590


def test_nothing_is_counted_before_the_first_event() -> None:
    plan = Plan((state_parallel(QUERY),))
    source = open_trace(trace(type=TYPES, x=VALUES))
    feeder = WorkloadFeeder(Topology(plan).routing, [bind(QUERY, source.schema)], source.strings)
    assert (feeder.counts.types, feeder.counts.last_ts) == ({}, NOTHING_YET)
    assert set(feeder.counts.leaves.values()) == {0}


def test_counts_of_shufflers_that_share_a_stream_add_up() -> None:
    plan = Plan((state_parallel(QUERY),))
    parts = [counts_after(plan, 5, slice(0, 25)), counts_after(plan, 5, slice(25, 60))]
    assert FeedCounts.united(parts) == counts_after(plan, 60)
    assert FeedCounts.united([]) == FeedCounts()


def test_every_copy_of_a_sliced_plan_counts_the_rows_it_gets() -> None:
    counts = counts_after(Plan((rip(QUERY, 3),)), 60)
    assert counts.types["B"] == 20
    assert sum(counts.leaves.values()) >= 30 + 20 + np.sum(np.array(VALUES)[[t == "A" for t in TYPES]] > 5)
