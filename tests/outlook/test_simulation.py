"""The simulation of a plan's processes agrees with the model where units are the limit, and shows the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.choices import Objective
from decopa.language.text.parser import parse_workload
from decopa.planning.plan import Plan
from decopa.planning.planner import plan_workload
from decopa.planning.predict import predict
from decopa.runs.model_check import predicted_rate
from scripts.outlook.simulation import Costs, Simulated, simulate

QUERIES = parse_workload("PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 1 s")
STATISTICS = Statistics(1_000_000, {"A": 300.0, "B": 200.0, "C": 100.0}, default_selectivity=0.02)
SPAN_US, EVENTS = 100_000_000, 60_000
CAPACITY = replace(Capacity.per_second(50_000, 2_000_000), objective=Objective.BUSY)
FREE = Costs(0.0, 0.0)


def planned(units: int) -> Plan:
    return plan_workload(QUERIES, [STATISTICS], CAPACITY, units=units).plan


def simulated(plan: Plan, costs: Costs, shufflers: int = 1, batch: int = 2_000) -> Simulated:
    expected = [predict(plan.parts[0], STATISTICS, SPAN_US)]
    return simulate(plan, expected, EVENTS, CAPACITY, costs=costs, shufflers=shufflers, batch=batch)


@pytest.mark.parametrize("units", [1, 2, 3, 4, 6, 8])
def test_where_units_are_the_limit_it_agrees_with_the_model(units: int) -> None:
    plan = planned(units)
    rate, slowest = predicted_rate(plan, [STATISTICS], SPAN_US, EVENTS, CAPACITY)
    found = simulated(plan, FREE)
    assert found.events_per_s == pytest.approx(rate, rel=0.15)
    assert found.busy_share > 0.85
    assert slowest is not None


def test_nothing_passes_faster_than_the_busiest_process_allows() -> None:
    for units in (1, 4, 8):
        plan = planned(units)
        assert (
            simulated(plan, FREE).events_per_s
            <= predicted_rate(plan, [STATISTICS], SPAN_US, EVENTS, CAPACITY)[0] * 1.001
        )


def test_messages_cost_what_the_model_leaves_out() -> None:
    plan = planned(8)
    assert (
        simulated(plan, Costs(5e-3, 0.0, flush_s=0.0), batch=200).events_per_s
        < 0.9 * simulated(plan, FREE, batch=200).events_per_s
    )


def test_one_slow_shuffler_is_the_limit_and_four_are_not() -> None:
    plan = planned(8)
    alone, four = simulated(plan, Costs(0.0, 1e-3)), simulated(plan, Costs(0.0, 1e-3), shufflers=4)
    assert alone.busiest.endswith("shuffler/0")
    assert alone.events_per_s == pytest.approx(1_000, rel=0.05)
    assert four.events_per_s > 3 * alone.events_per_s


@pytest.mark.parametrize("batch", [50, 500, 20_000])
def test_rows_that_wait_for_company_are_worked_on_in_the_end(batch: int) -> None:
    plan = planned(1)
    rate, _ = predicted_rate(plan, [STATISTICS], SPAN_US, EVENTS, CAPACITY)
    assert simulated(plan, Costs(0.0, 1e-6), batch=batch).events_per_s == pytest.approx(rate, rel=0.05)
