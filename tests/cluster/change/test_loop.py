"""The loop of a run whose processes take a while to answer, and that may be lost and taken up again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future

import numpy as np

from cluster.change.loop import AdaptLoop, Clock
from cluster.change.outcome import Switched
from costmodel.capacity import Capacity
from costmodel.drift.readings import Reading as Counters
from costmodel.sampling.events import EventColumns
from costmodel.statistics import Statistics
from decopa.choices import Reading
from decopa.errors import StatisticsError
from decopa.language.text.parser import parse
from decopa.planning.change.decision import Decision
from decopa.planning.change.elastic import UnitRange
from decopa.planning.change.monitor import Monitor
from decopa.planning.change.options import Adapt
from decopa.planning.change.pricing import Pricing
from decopa.planning.plan import Plan
from decopa.planning.spread import spread_units
from decopa.planning.strategies.left_deep import left_deep

QUERY = parse("PATTERN SEQ(A a, B b) WITHIN 1 s")
PLAN = Plan((left_deep(QUERY),)).with_keys
SECOND_US = 1_000_000


class SlowRun:
    """Its counters come with every third call."""

    plan = PLAN
    events = 0

    def __init__(self) -> None:
        self.calls = 0

    def counters(self, at_s: float) -> Counters | None:
        self.calls += 1
        types = dict.fromkeys("AB", 500 * self.calls)
        return None if self.calls % 3 else Counters(at_s, round(at_s * SECOND_US), types)

    def last_events(self, span_us: int, most: int) -> EventColumns:
        raise StatisticsError("none are kept")

    def change(self, plan: Plan, begin_us: Mapping[str, int] | None = None) -> Future[Switched]:
        raise AssertionError("nothing was decided")


class Turning:
    """A becomes frequent and rare again while another plan is being built, which takes for ever."""

    plan = PLAN
    events = 0

    def __init__(self) -> None:
        self.asked: list[Future[Switched]] = []
        self._types = {"A": 0, "B": 0}

    def counters(self, at_s: float) -> Counters:
        self._types["A"] += 4_000 if 100 < at_s <= 130 else 40
        self._types["B"] += 1_000
        return Counters(at_s, round(at_s * SECOND_US), dict(self._types))

    def last_events(self, span_us: int, most: int) -> EventColumns:
        return EventColumns(np.arange(2), np.arange(2), ("A", "B"), {}, {})

    def change(self, plan: Plan, begin_us: Mapping[str, int] | None = None) -> Future[Switched]:
        self.asked.append(Future())
        return self.asked[-1]


def loop_of(run: SlowRun, later: Callable[[Callable[[], Decision | None]], Future[Decision | None]]) -> AdaptLoop:
    monitor = Monitor(PLAN, Pricing(Capacity.per_second(1e6, 1e6), Reading.LINEAR), measured=False)
    adapt = Adapt(overhead=1.0)
    return AdaptLoop(run, monitor, lambda plan, known, speed: [], adapt, Clock(by_events=True), in_background=later)


def test_counters_that_are_on_their_way_are_asked_for_again_at_the_next_step() -> None:
    run = SlowRun()
    loop = loop_of(run, lambda work: Future())
    for _ in range(3):
        loop.step(SECOND_US)
    assert (run.calls, loop.looks) == (3, 1)
    loop.step(SECOND_US)  # the next look is due a second later
    assert (run.calls, loop.looks) == (3, 1)


def test_after_a_loss_a_decision_that_was_being_made_is_forgotten_and_counters_begin_anew() -> None:
    run, thinking = SlowRun(), Future[Decision | None]()
    loop = loop_of(run, lambda work: thinking)
    for second in range(1, 60):
        loop.step(second * SECOND_US)
    assert loop.suspicions == 1  # the stream has shown what nobody knew
    looks = loop.looks
    thinking.set_result(None)
    loop.taken_up(PLAN)
    assert not loop.monitor._watch.has_reference
    for _ in range(3):
        loop.step(SECOND_US)  # the stream is played again from a checkpoint
    assert loop.looks == looks + 1 and loop.switches == []


def test_a_plan_for_rates_that_are_over_is_not_waited_for() -> None:
    run, told = Turning(), list[str]()
    pricing = Pricing(Capacity.per_second(1e4, 1e6), Reading.LINEAR)
    dealt_out = Plan((spread_units(left_deep(QUERY), 3),)).with_keys
    known = Statistics(SECOND_US, {"A": 40.0, "B": 1_000.0}, {})
    loop = AdaptLoop(
        run,
        Monitor(PLAN, pricing),
        lambda plan, known, speed: [dealt_out],
        Adapt(overhead=1.0),
        Clock(by_events=True),
        known=[known],
        tell=told.append,
    )
    for second in range(1, 200):
        loop.step(second * SECOND_US)
    ((switch,), (asked,)) = loop.switches, run.asked
    assert asked.cancelled() and switch.given_up is not None and "changed again" in switch.given_up
    assert 130 < switch.at_us / SECOND_US < 140 and "given up" in told[0]


class Busy:
    """Its one unit is busy for nine tenths of the time."""

    plan = PLAN
    events = 0

    def counters(self, at_s: float) -> Counters:
        types = dict.fromkeys("AB", round(500 * at_s))
        return Counters(at_s, round(at_s * SECOND_US), types, busy_s={"u": 0.9 * at_s})

    def last_events(self, span_us: int, most: int) -> EventColumns:
        raise StatisticsError("none are kept")

    def change(self, plan: Plan, begin_us: Mapping[str, int] | None = None) -> Future[Switched]:
        raise AssertionError("nothing was decided")


def test_while_the_load_is_high_the_next_looks_come_sooner() -> None:
    pricing = Pricing(Capacity.per_second(1e6, 1e6), Reading.LINEAR)
    monitor = Monitor(PLAN, pricing, units=UnitRange(1, 4), measured=True)
    never: Future[Decision | None] = Future()
    loop = AdaptLoop(
        Busy(), monitor, lambda *known: [], Adapt(overhead=1.0), Clock(by_events=True), in_background=lambda work: never
    )
    moments = [tenth * SECOND_US // 10 for tenth in range(100)]
    asked = next(ts_us for ts_us in moments if loop.step(ts_us) or loop.is_weighing)
    assert asked == 2 * SECOND_US  # looks after 0, 1, 1.5 and 2 seconds
