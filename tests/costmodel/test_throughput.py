"""The largest scaling factor, under both readings of c, and the units that a c asks for."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from costmodel.capacity import Capacity
from costmodel.logarithms import LOG_ZERO, MAX_VALUE, value_of
from costmodel.pricing import Flow, Join, KleeneUnary, PricedOperator
from costmodel.rates import PAPER, KleeneGroup, RateFormula
from costmodel.throughput import (
    AssignedOperator,
    Limit,
    Reading,
    Scaling,
    is_sustainable,
    is_throughput_valid,
    largest_scaling,
    units_needed,
)
from tests.support.drawn import CAPACITIES, OPERATORS, PLANS

Plan = list[AssignedOperator]
READINGS = st.sampled_from(Reading)


def events(rate: float, *, partitioned: bool = False) -> Flow:
    return Flow(RateFormula(math.log(rate)), partitioned)


def test_equality_with_a_limit_is_sustained() -> None:
    assert is_sustainable([6_000], [60_000], Capacity(6_000, 60_000))
    assert not is_sustainable([6_000.1], [1], Capacity(6_000, 60_000))
    assert is_sustainable([], [], Capacity(1, 1))


@pytest.mark.parametrize("reading", Reading)
def test_nothing_to_do_is_unlimited(reading: Reading) -> None:
    nothing = Flow(RateFormula(LOG_ZERO))
    for plan in ([], [AssignedOperator("q", Join(nothing, nothing))]):
        found = largest_scaling(plan, Capacity(1, 1), reading)
        assert found.unlimited
        assert found.limit is None
        assert found.scaling_factor == MAX_VALUE
        assert str(found) == "c is unlimited"


def test_the_limit_that_binds_is_named() -> None:
    plan = [AssignedOperator("o1", Join(events(10), events(10))), AssignedOperator("o2", Join(events(500), events(1)))]
    found = largest_scaling(plan, Capacity(100, 1e6))
    assert found == Scaling(pytest.approx(math.log(100 / 501)), "o2", Limit.INGESTION)
    assert str(found) == "c = 0.199601, limited by ingestion at o2"


def test_a_kleene_rate_that_explodes_has_a_c_between_one_event_and_all() -> None:
    # 1000 events without any condition form 2^1000 groups; some 13 of them already make 10,000.
    group = KleeneGroup(math.log(1_000), 0.0, 0.0, PAPER)
    plan = [AssignedOperator("q", KleeneUnary(events(1_000), RateFormula(0.0, 0, (group,))))]
    linear, rates = (largest_scaling(plan, Capacity(1e6, 1e5), reading) for reading in Reading)
    assert linear.log_scaling == pytest.approx(math.log(1e5) - math.log(1e3) - 1_000 * math.log(2))
    assert 0.012 < rates.scaling_factor < 0.014
    assert rates.limit is Limit.COMPARISON


def test_bisection_is_exact_where_c_has_a_closed_form() -> None:
    pair = Flow(RateFormula(math.log(300), positions=2))
    plan = [AssignedOperator("q", Join(pair, pair), units=1)]
    found = largest_scaling(plan, Capacity(1e9, 60_000), Reading.RATES)
    assert found.scaling_factor == pytest.approx((60_000 / (2 * 300 * 300)) ** (1 / 4), rel=1e-9)


def test_an_operator_that_sustains_nearly_the_best_so_far_does_not_lower_it_by_more() -> None:
    # Found by chance: both sustain the same c but for the last digit, which once ended the search too early.
    pair, group = Flow(RateFormula(0.0, 2)), KleeneGroup(0.0, math.log(1 / 64), LOG_ZERO)
    first = Join(pair, Flow(RateFormula(0.0, 0, (KleeneGroup(math.log(1 / 64), 0.0, LOG_ZERO),))))
    second = Join(pair, Flow(RateFormula(0.0, 0, (group,))))
    plan = [AssignedOperator("o1", first), AssignedOperator("o2", second)]
    capacity = Capacity(11.875, 1.1875)
    alone = [largest_scaling([one], capacity, Reading.RATES).log_scaling for one in plan]
    assert largest_scaling(plan, capacity, Reading.RATES).log_scaling == pytest.approx(min(alone), abs=1e-9)


# --------------------------------------------------------------------- properties
@given(PLANS, CAPACITIES, READINGS)
def test_a_plan_sustains_what_its_weakest_operator_does(plan: Plan, capacity: Capacity, reading: Reading) -> None:
    alone = [largest_scaling([one], capacity, reading).log_scaling for one in plan]
    found = largest_scaling(plan, capacity, reading).log_scaling
    assert found == pytest.approx(min(alone), rel=1e-9, abs=1e-9)


@given(PLANS, CAPACITIES, READINGS)
def test_a_plan_is_valid_at_its_largest_c_and_not_above(plan: Plan, capacity: Capacity, reading: Reading) -> None:
    found = largest_scaling(plan, capacity, reading)
    assume(1e-300 < found.scaling_factor < 1e280)  # beyond, the number of events itself is at the end of floats
    assert is_throughput_valid(plan, capacity, found.scaling_factor, reading)
    assert not is_throughput_valid(plan, capacity, found.scaling_factor * (1 + 1e-6), reading)


@given(PLANS, CAPACITIES, READINGS, st.data())
def test_c_never_falls_with_more_units(plan: Plan, capacity: Capacity, reading: Reading, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(plan) - 1))
    larger = [replace(one, units=one.units + (number == place)) for number, one in enumerate(plan)]
    before, after = (largest_scaling(each, capacity, reading).log_scaling for each in (plan, larger))
    assert after >= before - 1e-9 * max(1.0, abs(before))


@given(PLANS, CAPACITIES, READINGS, st.floats(1, 10))
def test_c_never_falls_with_more_capacity(plan: Plan, capacity: Capacity, reading: Reading, factor: float) -> None:
    larger = Capacity(capacity.max_ingestion * factor, capacity.max_comparisons * factor)
    before, after = (largest_scaling(plan, each, reading).log_scaling for each in (capacity, larger))
    assert after >= before - 1e-9 * max(1.0, abs(before))


@given(PLANS, CAPACITIES)
def test_scaled_rates_allow_a_c_between_1_and_that_of_linear_costs(plan: Plan, capacity: Capacity) -> None:
    linear, rates = (largest_scaling(plan, capacity, reading).log_scaling for reading in Reading)
    slack = 1e-9 * max(1.0, abs(linear))
    assert min(0.0, linear) - slack <= rates <= max(0.0, linear) + slack


@given(st.floats(1, 1e6), st.floats(1, 1e6), st.integers(1, 9), st.booleans())
def test_both_readings_agree_on_single_events_that_only_have_to_be_taken_in(
    left: float, right: float, units: int, partitioned: bool
) -> None:
    plan = [AssignedOperator("q", Join(events(left, partitioned=partitioned), events(right)), units)]
    linear, rates = (largest_scaling(plan, Capacity(1_000, 1e18), reading) for reading in Reading)
    assert rates.log_scaling == pytest.approx(linear.log_scaling, abs=1e-9)
    assert linear.limit is rates.limit is Limit.INGESTION


@given(OPERATORS, CAPACITIES, st.floats(0.01, 100), READINGS)
def test_the_units_needed_sustain_c_and_one_fewer_do_not(
    operator: PricedOperator, capacity: Capacity, scaling_factor: float, reading: Reading
) -> None:
    def sustained(units: int) -> bool:
        return is_throughput_valid([AssignedOperator("q", operator, units)], capacity, scaling_factor, reading)

    needed = units_needed(operator, capacity, scaling_factor, reading)
    if needed is None:
        assert not sustained(1)
        return
    assume(needed.units < 10**6)
    assert needed.units == max(1, math.ceil(needed.exact * (1 - 1e-9)))
    assert sustained(needed.units)
    assert needed.units == 1 or not sustained(needed.units - 1) or needed.exact > needed.units - 1 - 1e-6


@given(PLANS, CAPACITIES, READINGS)
def test_no_scaling_factor_is_infinite_or_undefined(plan: Plan, capacity: Capacity, reading: Reading) -> None:
    found = largest_scaling(plan, capacity, reading)
    assert math.isfinite(found.log_scaling)
    assert 0 <= found.scaling_factor <= MAX_VALUE
    assert found.scaling_factor == value_of(found.log_scaling)
