"""Whether queues grow: delays over a window of observation."""

from __future__ import annotations

import math

import pytest

from costmodel.sustainable import delay_growth


def delays(load: float, *, seconds: float = 10.0, interval: float = 0.4) -> list[tuple[float, float]]:
    """A stream that brings `load` seconds of work per second, looked at now and then: delays fall when a message is
    done, one per interval."""
    samples = []
    for step in range(int(seconds / 0.13) + 1):
        now = step * 0.13
        done = now if load <= 1 else now / load
        samples.append((now, now - done + (now % interval)))
    return samples


@pytest.mark.parametrize("load", [0.5, 0.99, 1.0])
def test_delays_that_go_up_and_down_with_messages_do_not_grow(load: float) -> None:
    assert delay_growth(delays(load), 0.0, 10.0) == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize("load", [1.03, 1.1, 2.0])
def test_delays_grow_by_what_is_left_of_every_second(load: float) -> None:
    assert delay_growth(delays(load), 0.0, 10.0) == pytest.approx(1 - 1 / load, abs=0.01)


def test_busy_hours_that_repeat_in_each_half_are_no_growth() -> None:
    samples = [(step / 10, 3.0 if step % 50 > 35 else 0.5) for step in range(100)]
    assert delay_growth(samples, 0.0, 10.0) == pytest.approx(0.0, abs=0.02)


def test_samples_outside_the_window_do_not_count() -> None:
    samples = [(0.0, 100.0), *((step / 10, 1.0) for step in range(20, 101)), (11.0, 100.0)]
    assert delay_growth(samples, 2.0, 10.0) == 0.0


@pytest.mark.parametrize("moments", [(), (1.0, 2.0), (8.0, 9.0)])
def test_without_a_look_at_each_half_nothing_counts_as_sustained(moments: tuple[float, ...]) -> None:
    assert delay_growth([(moment, 0.0) for moment in moments], 0.0, 10.0) == math.inf
