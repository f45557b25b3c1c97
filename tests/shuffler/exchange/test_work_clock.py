"""Time at work and time waited."""

from __future__ import annotations

from dataclasses import dataclass, field

from shuffler.exchange.work_clock import WorkClock


@dataclass
class Times:
    now: float = 100.0
    waited: float = 7.0
    clock: WorkClock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = WorkClock(lambda: self.waited, lambda: self.now)


def test_waiting_is_not_work() -> None:
    times = Times()
    times.clock.begin()
    times.now, times.waited = 105.0, 9.0
    times.clock.end()
    assert times.clock.busy_s == 3.0


def test_time_between_two_pieces_of_work_is_idle() -> None:
    times = Times()
    for _ in range(2):
        times.clock.begin()
        times.now += 1.0
        times.clock.end()
        times.now += 10.0
    assert times.clock.busy_s == 2.0


def test_what_is_at_work_counts_before_it_is_done() -> None:
    times = Times()
    times.clock.begin()
    times.now += 4.0
    assert times.clock.busy_s == times.clock.at_work_s == 4.0


def test_work_can_be_booked_as_declared() -> None:
    times = Times()
    times.clock.begin()
    times.now += 4.0
    times.clock.end(0.5)
    assert times.clock.busy_s == 0.5
