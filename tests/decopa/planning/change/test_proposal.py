"""Worth it or not: gain, traffic, costs, cool-downs, units, memory; each rule by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

import decopa
from costmodel.capacity import Capacity
from costmodel.drift.readings import Counts, Stretch
from costmodel.rates import QueryRates
from costmodel.statistics import Statistics
from costmodel.sub_queries import SubQuerySelectivity
from decopa.errors import PlanError
from decopa.planning.change.candidates import candidate_plans, dealt_by_rate
from decopa.planning.change.elastic import Load, LoadWatch, UnitRange, smallest_units
from decopa.planning.change.memory import Remembered, seen_by
from decopa.planning.change.past import Audit, Past, Switched
from decopa.planning.change.pricing import PlanValue, Pricing
from decopa.planning.change.proposal import Ground, Proposal, Seed, SwitchRules, propose, same_split
from decopa.planning.change.repair import on_one_unit
from decopa.planning.change.traffic import rows_per_second, rows_per_window
from decopa.planning.plan import Plan
from decopa.planning.planner import plan_workload
from decopa.planning.price import plan_units
from tests.support.plan_text import operator, plan_of

SECOND_US = 1_000_000
RULES = SwitchRules()


def pair(units: int, *, dealt: str = "c") -> Plan:
    """SEQ(N, C) on some units."""
    leaves = (operator("n", "n", partitioned=dealt == "n"), operator("c", "c", partitioned=dealt == "c"))
    return Plan((plan_of("SEQ(N n, C c)", *leaves, operator("o", "n c", "n c", units=units)),))


def rates(n: float, c: float) -> Statistics:
    return Statistics.of(SECOND_US, {"N": n, "C": c}, {("N", "C"): 0.001})


def value(c: float, rows: float = 100.0, load: float = 0.5, units: int = 3) -> PlanValue:
    return PlanValue(c, rows, load, units)


def proposal(now: PlanValue, new: PlanValue, *, history_s: float = 1.0, warm_up_s: float = 1.0) -> Proposal:
    return Proposal(pair(1), now, new, Seed.HISTORY, history_s, warm_up_s)


# -------------------------------------------------------------------- traffic
@pytest.mark.parametrize(("units", "dealt", "rows"), [(3, "c", 100 + 3 * 20), (3, "n", 20 + 3 * 100), (1, "c", 120)])
def test_dealt_rows_are_sent_once_and_broadcast_rows_to_every_unit(units: int, dealt: str, rows: float) -> None:
    plan = pair(units, dealt=dealt)
    assert rows_per_window(plan.parts[0], rates(20, 100)) == pytest.approx(rows)
    assert rows_per_second(plan, [rates(20, 100)]) == pytest.approx(rows)


def test_one_unit_gets_every_row_once() -> None:
    assert rows_per_window(on_one_unit(pair(5)).parts[0], rates(700, 100)) == pytest.approx(800)


def test_the_larger_input_is_dealt_out() -> None:
    pricing = Pricing(Capacity(1e6, 1e9))
    assert dealt_by_rate(pair(5), [rates(300, 100)], pricing) == pair(5, dealt="n")
    assert dealt_by_rate(pair(5), [rates(30, 100)], pricing) == pair(5)


# ------------------------------------------------------------------ worth it?
def test_a_plan_that_sustains_a_quarter_more_is_worth_it() -> None:
    assert proposal(value(1.0), value(1.25)).ground(RULES, 60) is Ground.GAIN
    assert proposal(value(1.0), value(1.24)).ground(RULES, 60) is None


def test_a_plan_that_sends_less_is_worth_it_if_it_sustains_as_much() -> None:
    assert proposal(value(1.0, 100), value(1.0, 69)).ground(RULES, 60) is Ground.TRAFFIC
    assert proposal(value(1.0, 100), value(1.0, 71)).ground(RULES, 60) is None
    assert proposal(value(1.0, 100), value(0.99, 30)).ground(RULES, 60) is None


def test_a_plan_that_sends_less_may_sustain_less_if_that_is_enough() -> None:
    assert proposal(value(9.0, 100), value(1.5, 50)).ground(RULES, 60) is Ground.TRAFFIC
    assert proposal(value(9.0, 100), value(1.4, 50)).ground(RULES, 60) is None


def test_a_gain_must_pay_for_the_switch_within_the_horizon() -> None:
    # Saves 0.2 of a unit's time; warming up takes 0.8 x (10 + 10) seconds, twice that is 32: from 160 s on.
    slow = proposal(value(1.0), value(1.25), history_s=10, warm_up_s=10)
    assert slow.ground(RULES, 150) is None
    assert slow.ground(RULES, 170) is Ground.GAIN


def test_rows_saved_must_pay_for_the_rows_of_the_warm_up() -> None:
    # Saves 50 rows a second; warming up sends 50 x 20, twice that is 2000: from 40 s on.
    slow = proposal(value(1.0, 100), value(1.0, 50), history_s=10, warm_up_s=10)
    assert slow.ground(RULES, 39) is None
    assert slow.ground(RULES, 41) is Ground.TRAFFIC


def test_fewer_units_are_worth_it_if_they_are_enough() -> None:
    assert proposal(value(5.0, units=8), value(1.5, units=3)).ground(RULES, 60) is Ground.FEWER_UNITS
    assert proposal(value(5.0, units=8), value(1.3, units=3)).ground(RULES, 60) is None


def test_the_same_split_starts_from_states_and_another_one_from_history() -> None:
    query = "SEQ(A a, B b, C c)"
    a, b, c = operator("a", "a"), operator("b", "b", partitioned=True), operator("c", "c")
    left = Plan((plan_of(query, a, b, c, operator("o1", "a b", "a b", units=2), operator("o2", "a b c", "o1 c")),))
    renamed = Plan((plan_of(query, a, b, c, operator("x", "a b", "a b", units=5), operator("y", "a b c", "x c")),))
    right = Plan((plan_of(query, a, b, c, operator("o1", "b c", "b c", units=2), operator("o2", "a b c", "a o1")),))
    assert same_split(left, renamed)
    assert not same_split(left, right)
    same = propose(left, renamed, value(1), value(2), history_s=60, barrier_age_s=4)
    assert (same.seed, same.history_s, same.warm_up_s) == (Seed.STATES, 4, 4)
    other = propose(left, right, value(1), value(2, load=0.25), history_s=60, speed=2.0)
    assert (other.seed, other.history_s) == (Seed.HISTORY, 60)
    assert other.warm_up_s == pytest.approx(10)  # 30 s of work at a third of what is left
    loaded = propose(left, right, value(1), value(2, load=0.95), history_s=60, speed=2.0)
    assert (loaded.seed, loaded.warm_up_s) == (Seed.DUAL_RUN, 30)


def test_rules_that_make_no_sense_are_refused() -> None:
    with pytest.raises(PlanError, match="above 1"):
        SwitchRules(gain=0.9)
    with pytest.raises(PlanError, match="between 0 and 1"):
        SwitchRules(fewer_rows=1.5)
    with pytest.raises(PlanError, match="horizon must be positive"):
        SwitchRules(horizon_s=0)


# ----------------------------------------------------------------------- past
def switch(at_s: float, before: Plan, after: Plan, took_s: float = 1.0, history_s: float = 0.0) -> Switched:
    return Switched(at_s, took_s, before, after, history_s)


def test_after_a_switch_the_run_cools_down() -> None:
    past = Past().after(switch(100, pair(1), pair(3)), RULES)
    assert past.is_cooling(109)
    assert not past.is_cooling(110)
    assert Past().after(switch(100, pair(1), pair(3), took_s=20), RULES).cool_down_s == 60
    assert Past().after(switch(100, pair(1), pair(3), history_s=50), RULES).cool_down_s == 50
    assert not Past().is_cooling(0)


def test_swinging_back_soon_doubles_the_cool_down_up_to_its_limit() -> None:
    past, at, plans = Past(), 100.0, (pair(1), pair(3))
    waits = []
    for turn in range(9):
        past = past.after(switch(at, plans[turn % 2], plans[(turn + 1) % 2]), RULES)
        waits.append(past.cool_down_s)
        at += 2 * past.cool_down_s
    assert waits == [10, 20, 40, 80, 160, 320, 600, 600, 600]
    calm = past.after(switch(at + 5_000, plans[1], plans[0]), RULES)
    assert calm.cool_down_s == 10


def test_going_on_to_a_third_plan_is_no_swinging() -> None:
    past = Past().after(switch(100, pair(1), pair(3)), RULES).after(switch(111, pair(3), pair(5)), RULES)
    assert past.cool_down_s == 10


def test_the_horizon_is_the_middle_length_of_past_regimes() -> None:
    past = Past(began_s=0)
    assert past.horizon_s(RULES) == 60
    for at in (500, 800, 1_000):
        past = past.after(switch(at, pair(1), pair(3)), RULES)
    assert past.horizon_s(RULES) == 300
    quick = Past().after(switch(5, pair(1), pair(3)), RULES)
    assert quick.horizon_s(RULES) == 60


def test_half_of_the_promise_is_the_least_that_an_audit_accepts() -> None:
    assert not Audit(Ground.GAIN, 3.0, 2.0).failed
    assert Audit(Ground.GAIN, 3.0, 1.9).failed
    barred = Past().after_audit(Audit(Ground.GAIN, 3.0, 1.0), {"A": 10.0})
    assert barred.bars({"A": 12.0}, 1.25)
    assert not barred.bars({"A": 13.0}, 1.25)
    assert not barred.after(switch(9, pair(1), pair(3)), RULES).bars({"A": 10.0}, 1.25)


def test_an_attempt_that_was_given_up_is_not_repeated_at_once() -> None:
    past = Past().after_giving_up(50, RULES)
    assert past.is_cooling(59)
    assert not past.is_cooling(60)


# ---------------------------------------------------------------------- units
def test_the_smallest_number_of_units_with_room_to_spare_is_taken() -> None:
    assert smallest_units(UnitRange(2, 8), lambda n: n / 3) == 5  # 5 / 3 > 1 / 0.7 > 4 / 3
    assert smallest_units(UnitRange(2, 8), lambda n: n * 10.0) == 2
    assert smallest_units(UnitRange(2, 8), lambda n: n / 100) == 8


def test_a_range_of_units_has_its_smaller_end_first() -> None:
    with pytest.raises(PlanError, match="8:2"):
        UnitRange(8, 2)
    with pytest.raises(PlanError, match="0:2"):
        UnitRange(0, 2)


def test_load_is_high_after_three_looks_and_low_after_eight_seconds() -> None:
    watch = LoadWatch()
    seen = []
    for second, busiest in enumerate([0.9, 0.9, 0.5, 0.9, 0.9, 0.9] + [0.3] * 10):
        watch = watch.after(float(second), busiest)
        if watch.load is not None:
            seen.append((second, watch.load))
    assert seen == [(5, Load.HIGH), (14, Load.LOW), (15, Load.LOW)]


def test_candidates_for_a_range_have_as_few_units_as_are_enough() -> None:
    query = decopa.parse("PATTERN SEQ(A a, B b) WITHIN 1 s")
    known = Statistics.of(SECOND_US, {"A": 100, "B": 1_000}, {("A", "B"): 0.01})
    pricing = Pricing(Capacity(10_000, 100_000))
    running = plan_workload([query], known, pricing.capacity, units=2).plan
    assert min(map(plan_units, candidate_plans(running, [known], pricing, units=UnitRange(1, 8)))) == 1
    assert min(map(plan_units, candidate_plans(running, [known], pricing, units=UnitRange(2, 8)))) >= 2
    best = candidate_plans(running, [known], pricing, units=UnitRange(1, 8))[0]
    units = pricing.value(best, [known]).units
    assert pricing.value(best, [known]).scaling_factor >= RULES.enough
    fewer = plan_workload([query], known, pricing.capacity, units=units - 1).plan
    assert pricing.value(fewer, [known]).scaling_factor < RULES.enough


# --------------------------------------------------------------------- memory
def test_what_ran_is_remembered_and_forgotten_with_age() -> None:
    query = decopa.parse("PATTERN SEQ(A a, B b, C c) WITHIN 1 s")
    known = Statistics.of(SECOND_US, dict.fromkeys("ABC", 100.0), {("A", "B"): 0.1, ("B", "C"): 0.1, ("A", "C"): 0.1})
    plan = plan_workload([query], known, Capacity(1e6, 1e9), units=3).plan
    (part,) = plan.parts
    first = next(one for one in part.operators if one.inputs and len(one.sub_query.aliases) == 2)
    root = part.root
    counts = {(0, first.name): Counts(0, 0, 20_000), (0, root.name): Counts(0, 0, 500_000)}
    leaves = {(0, leaf.name): 10_000 for leaf in part.leaves}
    found = seen_by(plan, Stretch(100.0, 100 * SECOND_US, {}, leaves, counts, {}), [known])
    pricing = Pricing(Capacity(1e6, 1e9))
    memory = Remembered().noting(found, 100 * SECOND_US)
    (informed,) = memory.informed([known], 100 * SECOND_US, longest_us=50 * SECOND_US)
    assert QueryRates(query, informed).rate(first.sub_query.aliases) == pytest.approx(200)
    assert QueryRates(query, informed).rate(root.sub_query.aliases) == pytest.approx(5_000)
    assert pricing.value(plan, [informed]).rows_per_s != pytest.approx(pricing.value(plan, [known]).rows_per_s)
    later = memory.informed([known], 140 * SECOND_US, longest_us=50 * SECOND_US)
    assert later == [informed]
    assert memory.informed([known], 151 * SECOND_US, longest_us=50 * SECOND_US) == [known]


def test_a_sample_beats_what_is_older_and_counters_beat_a_sample() -> None:
    old, sample = (SubQuerySelectivity("SEQ(A a, B b)", share) for share in (0.5, 0.2))
    known = replace(rates(1, 1), sub_queries=(sample,))
    memory = Remembered().noting({(0, old.pattern): old}, 10)
    assert memory.informed([known], 11, longest_us=100)[0].sub_queries == (sample,)
    assert memory.informed([known], 10, longest_us=100)[0].sub_queries == (old,)


def test_too_few_matches_are_not_remembered() -> None:
    counts = {(0, "o"): Counts(0, 0, 99)}
    leaves = {(0, "n"): 10, (0, "c"): 10}
    assert seen_by(pair(1), Stretch(1.0, SECOND_US, {}, leaves, counts, {}), [rates(10, 10)]) == {}
