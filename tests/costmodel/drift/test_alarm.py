"""Alarms count violations in a row; deviations need size and evidence; costs in networks of nodes."""

from __future__ import annotations

import math
import random

import networkx as nx
import numpy as np
import pytest

from costmodel.drift.alarm import Alarm
from costmodel.drift.deviation import Deviation, PerRow, per_row_deviation, rate_deviation
from costmodel.drift.forwarding import tree_edges
from costmodel.drift.inequality import Inequality
from costmodel.drift.inflation import Inflation, inflated
from costmodel.drift.overload import overload_of
from costmodel.drift.readings import Reading
from decopa.errors import StatisticsError


def test_an_alarm_is_raised_by_the_last_violation_of_its_patience_and_ends_with_them() -> None:
    alarm = Alarm(3)
    raised = []
    for violated in (True, True, False, True, True, True, True, False):
        alarm = alarm.after(violated=violated)
        raised.append(alarm.raised)
    assert raised == [False, False, False, False, False, True, True, False]


def test_equality_neither_holds_nor_is_violated() -> None:
    equal = Inequality(20, 2, (5,), 10)
    assert not equal.holds
    assert not equal.violated


def test_a_deviation_needs_size_and_evidence() -> None:
    assert not Deviation(100, 120, 40.0).exceeds(1.25, 5)  # certain but small
    assert not Deviation(1, 3, 2.0).exceeds(1.25, 5)  # large but chance
    assert not Deviation(100, 125, 9.0).exceeds(1.25, 5)  # equality does not count
    assert Deviation(100, 60, -9.0).exceeds(1.25, 5)
    assert Deviation(0, 60, 9.0).exceeds(1.25, 5)


def test_chance_alone_rarely_makes_five_standard_errors_of_a_rate() -> None:
    rng = np.random.default_rng(1)
    largest = 0.0
    for mean in (0.05, 0.5, 3.0, 40.0, 2_000.0):
        for before, now in zip(rng.poisson(20 * mean, 4_000), rng.poisson(mean, 4_000), strict=True):
            largest = max(largest, abs(rate_deviation(int(before), 20.0, int(now), 1.0).z))
    assert 3 < largest < 5


def test_no_time_no_deviation() -> None:
    assert rate_deviation(0, 0.0, 10, 1.0) == Deviation(0.0, 0.0, 0.0)
    assert rate_deviation(0, 5.0, 0, 1.0).ratio == 1.0


def test_matches_that_share_rare_events_say_little() -> None:
    many, few = PerRow(100_000, 1_000, 4_000), PerRow(100_000, 1_000, 9)
    doubled = PerRow(200_000, 1_000, 4_000)
    assert per_row_deviation(many, doubled).z > 20
    assert per_row_deviation(few, PerRow(200_000, 1_000, 9)).z < 2
    assert per_row_deviation(many, PerRow(50, 1_000, 4_000)).z == 0.0


def test_smallest_trees_are_smallest() -> None:
    rng = random.Random(1)
    for _ in range(30):
        graph = nx.gnp_random_graph(7, 0.4, seed=rng.randrange(10**6))
        parts = sorted(nx.connected_components(graph), key=len)
        nodes = sorted(parts[-1])
        if len(nodes) < 3:
            continue
        terminals = rng.sample(nodes, 3)
        rest = [node for node in nodes if node not in terminals]
        least = min(
            len(terminals) + bin(mask).count("1") - 1
            for mask in range(1 << len(rest))
            if nx.is_connected(graph.subgraph([*terminals, *(n for at, n in enumerate(rest) if mask >> at & 1)]))
        )
        assert tree_edges(list(graph.edges), terminals) == least


def test_no_tree_spans_what_is_not_connected() -> None:
    with pytest.raises(StatisticsError, match="not connected"):
        tree_edges([(1, 2), (3, 4)], [1, 3])
    assert tree_edges([(1, 2)], [1]) == 0


def test_inflation_needs_something_to_inflate() -> None:
    with pytest.raises(StatisticsError, match="ratios that differ"):
        inflated([0.5, 0.5], 2.0)
    with pytest.raises(StatisticsError, match="positive factor"):
        inflated([0.5, 0.1], 0.0)
    assert inflated([0.9, 0.1], 0.5, Inflation.MAX) == pytest.approx([0.9, 0.45])


def test_an_overload_needs_busy_times_and_delays() -> None:
    told = [Reading(float(n), n, {}, busy_s={"u": n}, delay_s=0.5 * n) for n in range(5)]
    found = overload_of(told)
    assert found is not None
    assert found.exceeds()
    assert found.growth == pytest.approx(0.5)
    assert overload_of([Reading(float(n), n, {}) for n in range(5)]) is None
    assert overload_of(told[:1]) is None


def test_a_ratio_to_nothing_is_infinite() -> None:
    assert math.isinf(Deviation(0.0, 2.0, 1.0).ratio)
