"""Clocks of several machines: how far they differ is found out, and set right."""

from __future__ import annotations

import pytest

from shuffler.exchange.wall_clock import ClockReading, WallClock, clock_offset


def test_a_clock_that_is_ahead_is_found_and_set_right() -> None:
    found = clock_offset([ClockReading(100.0, 105.1, 100.2)])
    assert found.ahead_s == pytest.approx(5.0)
    assert found.error_s == pytest.approx(0.1)
    clock = WallClock(lambda: 205.0)
    clock.set_right(found.correction_s)
    assert clock() == pytest.approx(200.0)


def test_several_readings_bound_the_offset_more_closely_than_each() -> None:
    slow_answer, slow_question = ClockReading(0.0, 0.01, 1.0), ClockReading(5.0, 5.99, 6.0)
    found = clock_offset([slow_answer, slow_question])
    assert found.ahead_s == pytest.approx(0.0)
    assert found.error_s == pytest.approx(0.01)


def test_a_difference_that_the_way_explains_is_left_alone() -> None:
    assert clock_offset([ClockReading(0.0, 0.9, 1.0)]).correction_s == 0.0


def test_a_clock_that_is_behind_is_found_too() -> None:
    assert clock_offset([ClockReading(100.0, 97.5, 101.0)]).correction_s == pytest.approx(-3.0)
