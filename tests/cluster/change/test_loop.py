"""The loop of a run whose processes take a while to answer, and that may be lost and taken up again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future

from cluster.change.loop import AdaptLoop, Clock
from cluster.change.outcome import Switched
from costmodel.capacity import Capacity
from costmodel.drift.readings import Reading as Counters
from costmodel.sampling.events import EventColumns
from decopa.choices import Reading
from decopa.errors import StatisticsError
from decopa.language.text.parser import parse
from decopa.planning.change.monitor import Decision, Monitor
from decopa.planning.change.options import Adapt
from decopa.planning.change.pricing import Pricing
from decopa.planning.plan import Plan
from decopa.planning.strategies.left_deep import left_deep

PLAN = Plan((left_deep(parse("PATTERN SEQ(A a, B b) WITHIN 1 s")),)).with_keys
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
