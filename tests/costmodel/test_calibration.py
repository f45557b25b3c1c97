"""Fitting what a unit can do, the objective on its busy time, and the search for the rate that is sustained."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.calibration import (
    BusyModel,
    Calibration,
    Measurement,
    NodeCalibration,
    fit_busy_model,
    node_speeds,
)
from costmodel.capacity import Capacity
from costmodel.costs import InputRate, OperatorLoad, join_load
from costmodel.sustainable import Trial, largest_sustainable
from costmodel.throughput import AssignedOperator, Limit, is_throughput_valid, largest_scaling, units_needed
from decopa.choices import Objective
from decopa.errors import StatisticsError

LOADS = [(10_000, 0, 0), (10_000, 1_000_000, 100), (5_000, 50_000_000, 20_000), (20_000, 0, 400_000), (3, 70, 9)]
COSTS = st.floats(1e-10, 1e-4) | st.just(0.0)


def measured(model: BusyModel, loads: list[tuple[int, int, int]]) -> list[Measurement]:
    return [Measurement("load", *load, model.busy_s(*load)) for load in loads]


@given(st.floats(1e-8, 1e-4), COSTS, COSTS)
def test_the_fit_recovers_known_costs(ingested: float, comparison: float, emitted: float) -> None:
    truth = BusyModel(ingested, comparison, emitted)
    found = fit_busy_model(measured(truth, LOADS))
    for load in LOADS:
        assert found.busy_s(*load) == pytest.approx(truth.busy_s(*load), rel=1e-6)


def test_no_cost_is_negative_when_measurements_contradict_each_other() -> None:
    odd = [Measurement("", 1_000, 0, 0, 1.0), Measurement("", 1_000, 1_000, 0, 0.5)]
    found = fit_busy_model(odd)
    assert found.per_comparison_s == 0
    assert found.per_ingested_s > 0
    assert found.capacity.max_comparisons >= 1e12


def test_nothing_measured_is_refused() -> None:
    with pytest.raises(StatisticsError, match="more events"):
        fit_busy_model([Measurement("", 1, 1, 1, 0.0)])


def test_capacity_json_has_mean_spread_and_nodes_and_can_be_planned_with() -> None:
    models = (BusyModel(1e-6, 1e-8, 1e-7), BusyModel(3e-6, 1e-8, 1e-7))
    node = NodeCalibration("n1", models, tuple(measured(models[0], LOADS)))
    text = Calibration("PATTERN ...", (node,)).to_json()
    document = json.loads(text)
    assert document["measured"]["nodes"][0]["node"] == "n1"
    assert document["measured"]["spread"]["ingested"] == pytest.approx(0.5)
    capacity = Capacity.from_json(text)
    assert capacity.max_ingestion == pytest.approx(500_000)
    assert capacity.max_emission == pytest.approx(1e7)
    assert capacity.for_window(2_000_000).max_emission == pytest.approx(2e7)


def test_nodes_have_speeds_as_shares_of_the_mean() -> None:
    models = {"10.0.0.1 (abcdef)": BusyModel(1e-6, 1e-8, 1e-7), "10.0.0.2 (123456)": BusyModel(1e-6, 3e-8, 1e-7)}
    nodes = [NodeCalibration(name, (model,), tuple(measured(model, LOADS))) for name, model in models.items()]
    speeds = node_speeds(Calibration("PATTERN ...", tuple(nodes)).to_json())
    assert speeds == {"10.0.0.1": pytest.approx(2.0), "10.0.0.2": pytest.approx(2 / 3)}
    assert node_speeds(Capacity(5, 6).to_json()) == {}


def test_a_node_without_speed_is_refused() -> None:
    text = Capacity.per_second(5, 6).to_json({"nodes": [{"node": "n1", "kappa": 0.0}]})
    with pytest.raises(StatisticsError, match=r"c\.json: the speed of a node"):
        node_speeds(text, "c.json")


def test_a_capacity_without_emission_is_written_as_before() -> None:
    assert json.loads(Capacity(5, 6).to_json()).keys() == {"format", "version", "max_ingestion", "max_comparisons"}


# ----------------------------------------------------------------------- busy time


class _Fixed:
    def __init__(self, load: OperatorLoad) -> None:
        self._load = load

    def load(self, log_scaling: float = 0.0) -> OperatorLoad:
        return self._load.times(log_scaling)


JOIN = _Fixed(join_load(InputRate.of(100, partitioned=True), InputRate.of(10)).emitting(math.log(50), shared=True))


def busy_at(units: int, capacity: Capacity, scaling: float) -> float:
    ingested, compared, emitted = 100 / units + 10, 2_000 / units, 50 / units
    return scaling * capacity.busy(ingested, compared, emitted)


@given(st.integers(1, 9))
def test_the_largest_c_keeps_a_unit_busy_all_the_time_and_no_longer(units: int) -> None:
    capacity = Capacity(500, 4_000, max_emission=100, objective=Objective.BUSY)
    found = largest_scaling([AssignedOperator("q", JOIN, units)], capacity)
    assert found.limit is Limit.BUSY
    assert busy_at(units, capacity, found.scaling_factor) == pytest.approx(1)
    assigned = [AssignedOperator("q", JOIN, units)]
    assert is_throughput_valid(assigned, capacity, found.scaling_factor)
    assert not is_throughput_valid(assigned, capacity, found.scaling_factor * 1.001)


def test_as_many_units_are_needed_as_busy_time_asks_for() -> None:
    capacity = Capacity(500, 4_000, max_emission=100, objective=Objective.BUSY)
    for scaling in (0.5, 1.0, 2.0, 5.0):
        needed = units_needed(JOIN, capacity, scaling)
        assert needed is not None
        assert busy_at(needed.units, capacity, scaling) <= 1 + 1e-9
        assert needed.units == 1 or busy_at(needed.units - 1, capacity, scaling) > 1
    assert units_needed(JOIN, capacity, 60.0) is None  # the broadcast input alone is too much


def test_the_limits_of_the_paper_ignore_emission_and_do_not_add_up() -> None:
    capacity = Capacity(500, 4_000, max_emission=1)
    found = largest_scaling([AssignedOperator("q", JOIN, 1)], capacity)
    assert found.scaling_factor == pytest.approx(2)
    assert found.limit is Limit.COMPARISON


# ----------------------------------------------------------------------- the search


@given(st.floats(1, 1e6), st.floats(0.01, 100))
def test_the_search_finds_a_known_limit(limit: float, off: float) -> None:
    def offer(rate: float) -> Trial:
        return Trial(rate, rate <= limit, min(rate, limit))

    found = largest_sustainable(offer, limit * off, precision=0.05, most_trials=40)
    assert found.precise
    assert found.rate <= limit <= found.rate * 1.05 * (1 + 1e-9)
    assert len(found.trials) <= 14


def test_a_good_guess_takes_few_trials() -> None:
    def offer(rate: float) -> Trial:
        return Trial(rate, rate <= 1_000, min(rate, 1_000))

    assert len(largest_sustainable(offer, 930).trials) <= 4


def test_a_search_that_ends_too_early_says_so() -> None:
    found = largest_sustainable(lambda rate: Trial(rate, True, rate), 10, most_trials=3)
    assert found.failed is None
    assert not found.precise
    nothing = largest_sustainable(lambda rate: Trial(rate, False, 0.0), 10, most_trials=3)
    assert nothing.rate == 0
    assert nothing.failed is not None


def test_a_noisy_system_ends_the_search_all_the_same() -> None:
    answers = iter([True, False, False, True, True, False, True, False, True, True])
    found = largest_sustainable(lambda rate: Trial(rate, next(answers), rate * 0.9), 100, most_trials=10)
    assert len(found.trials) <= 10
