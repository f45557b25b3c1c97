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


def test_a_match_that_overtook_its_mark_is_measured_when_the_mark_comes() -> None:
    meter = LatencyMeter()
    meter.matches(np.array([5, 8]), 3.0)
    meter.forget_before(100)
    assert meter.histogram.summary().count == 0
    meter.mark(np.array([6, 9]), np.array([1.0, 2.5]))
    assert meter.histogram.up_to((0.49, 0.6, 1.9, 2.1)) == [0, 1, 1, 2]


def test_marks_before_the_watermark_are_forgotten() -> None:
    meter = LatencyMeter()
    meter.mark(np.arange(100), np.zeros(100))
    meter.forget_before(90)
    assert len(meter._ts) == 10
    assert meter.newest_ts == 99
    meter.matches(np.array([90, 99]), 1.0)
    assert meter.histogram.summary().count == 2
