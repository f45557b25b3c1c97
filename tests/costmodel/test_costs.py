"""Loads of operators: what each unit bears and what units share."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.costs import (
    InputRate,
    Load,
    OperatorLoad,
    ingestion,
    join_load,
    kleene_binary_load,
    kleene_unary_load,
    negation_load,
    total_load,
)
from costmodel.logarithms import LOG_MAX, LOG_ZERO, MAX_VALUE, log_of, log_sum, value_of
from costmodel.pricing import PricedOperator
from decopa.errors import PlanError
from tests.support.drawn import OPERATORS


def loads_of(operator: PricedOperator, log_scaling: float = 0.0) -> tuple[Load, Load]:
    load = operator.load(log_scaling)
    return load.ingestion, load.comparisons


def test_a_join_does_not_care_which_input_is_partitioned() -> None:
    few, many = InputRate.of(40), InputRate.of(100)
    shared = [
        join_load(InputRate.of(40, partitioned=True), many).comparisons,
        join_load(few, InputRate.of(100, partitioned=True)).comparisons,
    ]
    assert [load.per_unit(4) for load in shared] == pytest.approx([2_000, 2_000])


def test_partitioning_the_larger_input_takes_in_less() -> None:
    assert ingestion(InputRate.of(100, partitioned=True), InputRate.of(40)).per_unit(4) == pytest.approx(65)
    assert ingestion(InputRate.of(100), InputRate.of(40, partitioned=True)).per_unit(4) == pytest.approx(110)


def test_candidates_take_the_place_of_the_product() -> None:
    load = join_load(InputRate.of(40), InputRate.of(100, partitioned=True), log_candidates=math.log(300))
    assert load.comparisons.per_unit(3) == pytest.approx(100)


def test_negation_costs_what_a_join_costs() -> None:
    positive, negated = InputRate.of(40, partitioned=True), InputRate.of(100)
    assert negation_load(positive, negated) == join_load(positive, negated)


def test_one_unit_for_several_operators_bears_their_sum() -> None:
    one = join_load(InputRate.of(1000), InputRate.of(1000))
    other = join_load(InputRate.of(10_000), InputRate.of(30))
    both = total_load([one, other])
    assert both.comparisons.per_unit(1) == pytest.approx(2_600_000)
    assert both.ingestion.per_unit(1) == pytest.approx(12_030)
    assert total_load([]) == OperatorLoad(Load(), Load())
    assert Load().per_unit(3) == 0


@pytest.mark.parametrize("load", [join_load, negation_load])
def test_inputs_that_are_both_hashed_by_a_key_are_shared_by_the_units(
    load: Callable[[InputRate, InputRate], OperatorLoad],
) -> None:
    left, right = InputRate.of(30, partitioned=True), InputRate.of(50, partitioned=True)
    assert load(left, right).ingestion.per_unit(4) == pytest.approx(20)
    assert load(left, right).comparisons.per_unit(4) == pytest.approx(750)


def test_a_negated_input_alone_cannot_be_partitioned() -> None:
    with pytest.raises(PlanError, match="broadcast it"):
        negation_load(InputRate.of(1), InputRate.of(1, partitioned=True))


def test_partitioned_kleene_events_have_no_price() -> None:
    events = InputRate.of(1, partitioned=True)
    with pytest.raises(PlanError, match="no unit sees a whole group"):
        kleene_binary_load(InputRate.of(1), events, log_group_rate=0.0, log_match_rate=0.0)


def test_rates_beyond_any_float_still_have_different_prices() -> None:
    prices = [kleene_unary_load(InputRate(log), log).comparisons for log in (5_000.0, 5_001.0)]
    assert prices[0].log_per_unit(1) < prices[1].log_per_unit(1)
    assert prices[0].per_unit(1) == prices[1].per_unit(1) == MAX_VALUE


def test_logarithms_add_up() -> None:
    assert value_of(log_sum(log_of(2), log_of(3), log_of(0))) == pytest.approx(5)
    assert log_sum() == log_sum(LOG_ZERO, LOG_ZERO) == LOG_ZERO
    assert value_of(LOG_ZERO) == 0.0


@given(OPERATORS, st.integers(1, 64), st.floats(-20, 20))
def test_no_load_is_infinite_or_undefined(operator: PricedOperator, units: int, log_scaling: float) -> None:
    for load in loads_of(operator, log_scaling):
        assert LOG_ZERO <= load.log_per_unit(units) <= LOG_MAX
        assert 0 <= load.per_unit(units) <= MAX_VALUE


@given(OPERATORS, st.integers(1, 64))
def test_more_units_have_less_to_do_each(operator: PricedOperator, units: int) -> None:
    for load in loads_of(operator):
        assert load.log_per_unit(units + 1) <= load.log_per_unit(units)
        assert load.log_per_unit(units) >= load.log_each - 1e-12 * abs(load.log_each)


@given(OPERATORS, st.floats(-5, 5), st.floats(0, 5))
def test_loads_grow_at_least_linearly_in_c(operator: PricedOperator, log_scaling: float, more: float) -> None:
    for before, after in zip(loads_of(operator, log_scaling), loads_of(operator, log_scaling + more), strict=True):
        low, high = before.log_per_unit(1), after.log_per_unit(1)
        assert high >= min(low + more, LOG_MAX) - 1e-9 * max(1.0, abs(low)) or low == LOG_ZERO
