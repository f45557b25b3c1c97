"""Latency in buckets."""

from __future__ import annotations

import math

import numpy as np

from actors.latency import LatencyHistogram, LatencyMeter
from shuffler.routing.table import NOTHING_YET


def test_counts_up_to_a_bound_are_exact_to_a_bucket() -> None:
    histogram = LatencyHistogram()
    histogram.add(np.array([0.0, 0.0005, 0.004, 0.09, 0.3, 7.0, 1e6]))
    assert histogram.up_to((0.001, 0.01, 0.1, 1.0, 10.0, math.inf)) == [2, 3, 4, 5, 6, 7]


def test_nothing_is_counted_before_anything_came() -> None:
    assert LatencyHistogram().up_to((0.001, math.inf)) == [0, 0]
    assert LatencyMeter().newest_ts == NOTHING_YET


def test_the_newest_event_is_that_of_the_latest_mark() -> None:
    meter = LatencyMeter()
    meter.mark(np.array([5, 9]), np.array([1.0, 2.0]))
    meter.mark(np.array([7]), np.array([3.0]))
    assert meter.newest_ts == 9
