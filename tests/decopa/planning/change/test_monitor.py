"""The monitor on streams of counters: no switch without reason, the right plan after a change, no swinging."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

import pytest

import decopa
from costmodel.capacity import Capacity
from costmodel.drift.readings import Reading as Counters
from costmodel.drift.watch import Suspicion
from costmodel.statistics import Statistics
from decopa.choices import Reading
from decopa.planning.change.elastic import UnitRange
from decopa.planning.change.monitor import Monitor
from decopa.planning.change.past import Audit
from decopa.planning.change.pricing import Pricing
from decopa.planning.change.proposal import Ground, SwitchRules, same_split
from decopa.planning.change.repair import on_one_unit
from decopa.planning.plan import Plan
from decopa.planning.planner import plan_workload
from tests.support.drifting import Drifting

MINUTE_US = 60_000_000
SELECTIVITIES = {("A", "B"): 0.01, ("A", "C"): 0.01, ("B", "C"): 0.01}
#: The mirrored rates of the specification: per minute, with selectivities of 0.01 and units of iota 6000, kappa 60000.
PHASE_1, PHASE_2 = {"A": 30.0, "B": 1000.0, "C": 1000.0}, {"A": 1000.0, "B": 1000.0, "C": 30.0}
CAPACITY = Capacity(6000, 60_000)
QUERY = decopa.parse("PATTERN SEQ(A a, B b, C c) WITHIN 1 min")


def known(rates: Mapping[str, float]) -> Statistics:
    return Statistics.of(MINUTE_US, rates, SELECTIVITIES)


def planned(rates: Mapping[str, float], capacity: Capacity = CAPACITY) -> Plan:
    return plan_workload([QUERY], known(rates), capacity, units=4).plan


PLAN_1, PLAN_2 = planned(PHASE_1), planned(PHASE_2)


def after_300_s(second: float) -> Mapping[str, float]:
    return PHASE_1 if second < 300 else PHASE_2


def monitor(plan: Plan, capacity: Capacity = CAPACITY, rules: SwitchRules | None = None) -> Monitor:
    return Monitor(plan, Pricing(capacity), rules=rules)


@pytest.mark.parametrize(("reading", "right", "stale"), [(Reading.LINEAR, 0.667, 0.02), (Reading.RATES, 0.904, 0.173)])
def test_mirrored_rates_are_priced_as_the_specification_says(reading: Reading, right: float, stale: float) -> None:
    pricing = Pricing(CAPACITY, reading)
    for plan, own, other in ((PLAN_1, PHASE_1, PHASE_2), (PLAN_2, PHASE_2, PHASE_1)):
        assert pricing.value(plan, [known(own)]).scaling_factor == pytest.approx(right, abs=6e-4)
        assert pricing.value(plan, [known(other)]).scaling_factor == pytest.approx(stale, abs=6e-4)


def test_mirrored_rates_lead_to_the_right_plan_in_both_directions() -> None:
    def rates(second: float) -> Mapping[str, float]:
        return PHASE_1 if second < 600 or second >= 1_200 else PHASE_2

    stream = Drifting(PLAN_1, known(PHASE_1), rates, monitor(PLAN_1), units=4)
    first, second = stream.play(1_800)
    assert same_split(first.plan, PLAN_2)
    assert same_split(second.plan, PLAN_1)
    assert 600 < first.at_s <= 660
    assert 1_200 < second.at_s <= 1_260
    for decision in (first, second):
        assert decision.ground is Ground.GAIN
        assert decision.proposal.now.scaling_factor < 0.1
        assert decision.proposal.new.scaling_factor > 0.5
        assert "rate of A" in decision.reason or "rate of C" in decision.reason
    assert [audit.failed for audit in stream.monitor.audits] == [False, False]


@pytest.mark.parametrize("seed", range(2))
def test_a_stationary_stream_is_never_switched(seed: int) -> None:
    stream = Drifting(PLAN_1, known(PHASE_1), lambda second: PHASE_1, monitor(PLAN_1), units=4, seed=seed)
    assert stream.play(1_000) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_stationary_stream_of_hours_is_never_switched(seed: int) -> None:
    stream = Drifting(PLAN_1, known(PHASE_1), lambda second: PHASE_1, monitor(PLAN_1), units=4, seed=seed)
    assert stream.play(10_000) == []


@pytest.mark.parametrize("cool_down_s", [120.0, 240.0])
def test_square_waves_switch_at_most_once_per_cool_down(cool_down_s: float) -> None:
    period_s = cool_down_s / 2

    def rates(second: float) -> Mapping[str, float]:
        return PHASE_1 if second % period_s < period_s / 2 else PHASE_2

    rules = SwitchRules(cool_down_s=cool_down_s)
    stream = Drifting(PLAN_1, known(PHASE_1), rates, monitor(PLAN_1, rules=rules), units=4, took_s=1.0)
    seconds = 1_200
    decisions = stream.play(seconds)
    switches = stream.monitor.past.switches
    assert all(later.at_s - earlier.at_s >= cool_down_s for earlier, later in itertools.pairwise(switches))
    assert 1 <= len(decisions) <= seconds / cool_down_s


def test_a_change_that_no_plan_profits_from_is_asked_about_once() -> None:
    asked = []

    class Counting(Drifting):
        def _replanned(self, known: object, speed: float) -> list[Plan]:
            asked.append(self._now)
            return super()._replanned(known, speed)

    def rates(second: float) -> Mapping[str, float]:
        return {name: rate * (1.0 if second < 300 else 2.0) for name, rate in PHASE_1.items()}

    stream = Counting(PLAN_1, known(PHASE_1), rates, monitor(PLAN_1), units=4)
    assert stream.play(800) == []
    assert 1 <= len(asked) <= 4


def test_the_monitor_waits_while_a_switch_is_under_way() -> None:
    stream = Drifting(PLAN_1, known(PHASE_1), after_300_s, monitor(PLAN_1), units=4, took_s=200.0)
    assert len(stream.play(480)) == 1


def test_after_a_switch_that_was_given_up_the_monitor_tries_again_later() -> None:
    watched = monitor(PLAN_1, rules=SwitchRules(cool_down_s=60))
    stream = Drifting(PLAN_1, known(PHASE_1), after_300_s, watched, units=4, took_s=5.0, gives_up=True)
    decided = [decision.at_s for decision in stream.play(600)]
    assert len(decided) >= 2
    assert all(later - earlier >= 65 for earlier, later in itertools.pairwise(decided))


def test_a_first_switch_that_was_given_up_is_tried_again_although_no_rate_changes() -> None:
    """A plan that was made without statistics: there is nothing from which the stream has deviated."""
    unmeasured = Monitor(PLAN_2, Pricing(CAPACITY), rules=SwitchRules(cool_down_s=60), measured=False)
    stream = Drifting(PLAN_2, known(PHASE_1), lambda second: PHASE_1, unmeasured, units=4, took_s=5.0, gives_up=True)
    decided = stream.play(400)
    assert len(decided) >= 2 and {decision.reason for decision in decided} == {"the stream was measured"}
    assert all(later.at_s - earlier.at_s >= 65 for earlier, later in itertools.pairwise(decided))


def test_a_plan_that_is_being_built_is_given_up_once_the_rates_it_is_for_are_over() -> None:
    def rates(second: float) -> Mapping[str, float]:
        return PHASE_2 if 300 <= second < 360 else PHASE_1

    stream = Drifting(PLAN_1, known(PHASE_1), rates, monitor(PLAN_1), units=4, took_s=400.0)
    assert len(stream.play(650)) == 1
    ((when_s, why),) = stream.withdrawn
    assert 360 < when_s < 375 and ("rate of A" in why or "rate of C" in why)
    assert stream.plan == PLAN_1 and stream.monitor.past.switches == ()


def test_a_plan_that_is_being_built_is_not_given_up_while_it_is_still_the_better_one() -> None:
    def rates(second: float) -> Mapping[str, float]:
        return PHASE_1 if second < 300 else {**PHASE_2, "A": 1000.0 if second < 320 else 2000.0}

    stream = Drifting(PLAN_1, known(PHASE_1), rates, monitor(PLAN_1), units=4, took_s=60.0)
    assert len(stream.play(500)) >= 1
    assert stream.withdrawn == [] and same_split(stream.monitor.past.switches[0].after, PLAN_2)


def looked(at_s: float, event_s: float, busy_s: float, delay_s: float) -> Counters:
    types = {name: round(rate * event_s) for name, rate in PHASE_1.items()}
    return Counters(at_s, round(1e6 * event_s), types, busy_s={"q/o1/0": busy_s}, delay_s=delay_s)


@pytest.mark.parametrize(("speed", "is_overload"), [(0.5, True), (1.5, False)])
def test_a_plan_that_works_off_a_backlog_is_busy_but_not_overloaded(speed: float, is_overload: bool) -> None:
    """Its delays grow while its queues fill, but it is faster than the stream."""
    watched = monitor(PLAN_1)
    readings = [looked(float(s), float(s), 0.5 * s, 0.1) for s in range(10)]
    readings += [looked(10.0 + s, 10 + speed * s, 5.0 + s, 0.1 + 0.2 * s) for s in range(10)]
    found = [watched.look(reading) for reading in readings]
    assert any(one is not None and one.urgent for one in found) == is_overload
    # What the next plan has to sustain is the stream, not what comes through.
    assert {one.speed for one in found if one is not None and one.urgent} <= {1.0}


def test_a_switch_that_brings_less_than_half_is_not_repeated_at_these_rates() -> None:
    watched = monitor(PLAN_1)
    rates = {"A": 1000.0, "B": 1000.0, "C": 30.0}
    watched.past = watched.past.after_audit(Audit(Ground.GAIN, 20.0, 1.1), rates)
    stream = Drifting(PLAN_1, known(PHASE_1), after_300_s, watched, units=4)
    assert stream.play(500) == []
    other = monitor(PLAN_1)
    other.past = other.past.after_audit(Audit(Ground.GAIN, 20.0, 18.0), rates)
    stream = Drifting(PLAN_1, known(PHASE_1), after_300_s, other, units=4)
    assert len(stream.play(500)) == 1


def overloaded(offered: float, done: float) -> Suspicion:
    """What a monitor with up to 8 units says of a stream of which it is offered and does so much."""
    watched = Monitor(PLAN_1, Pricing(CAPACITY), units=UnitRange(2, 8))
    for second in range(1, 40):
        event_s = second + (second - 30) * (done - 1) if second > 30 else float(second)
        rates = {name: round(rate / 60 * event_s) for name, rate in PHASE_1.items()}
        delay_s = max(0.0, second - 30) * (1 - done / offered)
        busy_s = {"u": 0.7 * min(second, 30) + max(0, second - 30)}
        found = watched.look(Counters(float(second), round(event_s * 1e6), rates, busy_s=busy_s, delay_s=delay_s))
        if found is not None and second >= 36:  # all looks that count are of the overload
            return found
    raise AssertionError("no overload was told")


@pytest.mark.parametrize(("offered", "done"), [(3.0, 1.5), (2.0, 1.6), (3.0, 0.5)])
def test_delays_that_grow_tell_how_much_more_comes_than_is_done(offered: float, done: float) -> None:
    assert overloaded(offered, done).speed == pytest.approx(offered, rel=0.25)


def test_an_overload_never_leads_to_a_plan_that_sustains_less() -> None:
    watched = Monitor(PLAN_1, Pricing(CAPACITY.times(1000)), units=UnitRange(2, 8))
    alone = on_one_unit(PLAN_1)
    calm = replace(overloaded(3.0, 1.5), urgent=False)
    decision = watched.weigh(calm, [known(PHASE_1)], [alone])
    assert decision is not None and decision.ground is not Ground.GAIN
    assert watched.weigh(replace(calm, urgent=True), [known(PHASE_1)], [alone]) is None


def loaded(watched: Monitor, busiest: float, seconds: int) -> list[float]:
    """Looks at steady rates with one unit as busy as that; the times at which the monitor asks for other units."""
    asked = []
    for second in range(seconds):
        rates = {name: round(rate / 60 * second) for name, rate in PHASE_1.items()}
        found = watched.look(Counters(float(second), second * 1_000_000, rates, busy_s={"u": busiest * second}))
        if found is not None:
            assert "load of the busiest unit" in str(found)
            asked.append(found.at_s)
    return asked


def test_other_numbers_of_units_are_asked_for_when_the_load_is_high_or_was_low_for_long() -> None:
    watched = Monitor(PLAN_1, Pricing(CAPACITY), units=UnitRange(2, 8))
    assert not watched.is_alert
    assert loaded(watched, 0.9, 10)[0] == 3
    assert watched.is_alert
    watched = Monitor(PLAN_1, Pricing(CAPACITY), units=UnitRange(2, 8))
    assert loaded(watched, 0.3, 100)[0] == pytest.approx(61, abs=2)
    assert loaded(Monitor(PLAN_1, Pricing(CAPACITY), units=UnitRange(2, 8)), 0.6, 100) == []
    assert loaded(monitor(PLAN_1), 0.9, 100) == []  # a fixed number of units stays


def test_a_low_load_that_changes_nothing_does_not_hide_a_change_of_rates() -> None:
    watched = Monitor(PLAN_1, Pricing(CAPACITY), units=UnitRange(2, 8))
    counts, asked_at, reasons = dict.fromkeys(PHASE_1, 0.0), None, []
    for second in range(1, 300):
        changed = asked_at is not None and second > asked_at + 5
        for name, rate in PHASE_1.items():
            counts[name] += rate / 60 / (5 if changed else 1)
        types = {name: int(count) for name, count in counts.items()}
        found = watched.look(Counters(float(second), second * 1_000_000, types, busy_s={"u": 0.1 * second}))
        if found is not None:
            asked_at = asked_at or second
            reasons.append((second, str(found)))
            watched.dismiss(found)
    assert asked_at is not None and "load" in reasons[0][1]
    assert any("rate of B" in why and at <= asked_at + 20 for at, why in reasons)
