"""Planners: valid plans, as fast as they say, and nothing faster overlooked."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import decopa
from costmodel.capacity import Capacity
from costmodel.costs import Load
from costmodel.rates import QueryRates
from costmodel.statistics import Statistics
from costmodel.throughput import AssignedOperator, is_throughput_valid, load_at
from decopa.choices import COST_BASED, Reading
from decopa.errors import PlanError, StatisticsError
from decopa.language.text.parser import parse
from decopa.planning.plan import QueryPlan
from decopa.planning.planner import plan_workload
from decopa.planning.price import operator_prices, price_plan, units_of
from decopa.planning.split import Split, SplitSpace, Step, split_of
from decopa.planning.strategies.exhaustive import best_assignment
from decopa.planning.strategies.units import assign_units
from decopa.planning.subquery import SubQuery, whole
from decopa.planning.validate import violations
from decopa.query.query import Query
from scripts.benchmarks.single_core.workload import make_events
from tests.support.examples import examples
from tests.support.golden_form import pattern_of
from tests.support.shared import decopa_entries

CAPACITY = Capacity(6500, 60_000)
MOTIVATING = parse("PATTERN SEQ(A a, B b, C c) WITHIN 1 min")
MOTIVATING_STATISTICS = Statistics.of(
    MOTIVATING.window_us,
    {"A": 1000, "B": 1000, "C": 30},
    {("A", "B"): 0.01, ("A", "C"): 0.01, ("B", "C"): 0.01},
)
FIGURE_2 = Capacity(6000, 60_000)


def drawn(seed: int, *, types: tuple[int, int] = (3, 5), kleene: bool = False) -> tuple[Query, Statistics]:
    """A random query with random rates and selectivities."""
    rng = random.Random(seed)
    names = [chr(ord("A") + place) for place in range(rng.randint(*types))]
    leaves = [f"{name} {name.lower()}" for name in names]
    if kleene and rng.random() < 0.5:
        place = rng.randrange(len(leaves))
        leaves[place] = f"KL({leaves[place]})"
    cut = rng.randint(1, len(leaves) - 1)
    inner = f"{rng.choice(('SEQ', 'AND'))}({', '.join(leaves[cut:])})" if len(leaves) - cut > 1 else leaves[cut]
    pattern = f"{rng.choice(('SEQ', 'AND'))}({', '.join([*leaves[:cut], inner])})"
    query = parse(f"PATTERN {pattern} WITHIN 1 min")
    rates = {name: 10 ** rng.uniform(0.5, 3.5) if not kleene else rng.uniform(2, 30) for name in names}
    pairs = itertools.combinations_with_replacement(names, 2)
    return query, Statistics.of(query.window_us, rates, {pair: rng.uniform(0.01, 0.1) for pair in pairs})


def planned(
    query: Query, statistics: Statistics, strategy: str, units: int, reading: Reading = Reading.LINEAR
) -> QueryPlan:
    return plan_workload([query], statistics, CAPACITY, units=units, strategy=strategy, reading=reading).plan.parts[0]


def log_c(plan: QueryPlan, statistics: Statistics, reading: Reading = Reading.LINEAR) -> float:
    return price_plan(plan, statistics, CAPACITY, reading=reading).scaling.log_scaling


# ------------------------------------------------------------------- worked examples
@pytest.mark.parametrize(
    ("strategy", "c"),
    [("decopa", 2 / 3), ("decopa-paper", 2 / 3), ("exhaustive", 2 / 3), ("hybrid", 0.09), ("state", 0.03),
     ("centralized", 60_000 / 2_600_000), ("rip", 2 * 60_000 / 2_600_000)],
)  # fmt: skip
def test_the_motivating_example_sustains_what_the_paper_says(strategy: str, c: float) -> None:
    result = plan_workload([MOTIVATING], MOTIVATING_STATISTICS, FIGURE_2, units=4, strategy=strategy)
    priced = price_plan(result.plan.parts[0], MOTIVATING_STATISTICS, FIGURE_2)
    assert priced.scaling.scaling_factor == pytest.approx(c)


@pytest.mark.usefixtures("shared")
def test_exhaustive_search_finds_the_golden_optima() -> None:
    entries = decopa_entries("decopa_best_plan")
    assert entries
    for entry in entries:
        given_inputs, expected = entry["inputs"], entry["expected"]
        space = golden_space(given_inputs)
        capacity = Capacity(given_inputs["iota"], given_inputs["kappa"])
        best = best_assignment(space, given_inputs["units"], capacity)
        assert best is not None
        assert best.scaling.scaling_factor == pytest.approx(expected["c"], rel=1e-9)
        found = {
            "".join(sorted(step.sub_query.aliases)): units for step, units in zip(best.split, best.units, strict=True)
        }
        if sum(found.values()) == given_inputs["units"] and len(expected["splits"]) == 1:
            assert set(found) == {name for split in expected["splits"] for name in split}


@pytest.mark.usefixtures("shared")
def test_the_sums_of_comparisons_of_all_splits_are_the_golden_ones() -> None:
    (entry,) = decopa_entries("decopa_split_costs")
    space = golden_space(entry["inputs"])
    costs = {}
    for split in all_splits(space):
        loads = [load_at(space.price(step), 0.0, Reading.LINEAR).comparisons for step in split]
        names = sorted(("".join(sorted(step.sub_query.aliases)) for step in split), key=lambda name: (len(name), name))
        costs["+".join(names)] = sum(load.per_unit(1) for load in loads)
    assert costs == pytest.approx(entry["expected"])


def golden_space(inputs: dict[str, Any]) -> SplitSpace:
    query = Query(pattern_of(inputs["pattern"]), (), 60_000_000)
    pairs = {tuple(pair.split(",")): value for pair, value in inputs["sel"].items()}
    statistics = Statistics.of(query.window_us, inputs["rates"], pairs)  # type: ignore[arg-type]
    return SplitSpace(query, QueryRates(query, statistics))


def all_splits(space: SplitSpace) -> set[Split]:
    """Every split, by plain enumeration."""

    def ways(pending: tuple[SubQuery, ...], chosen: tuple[Step, ...]) -> set[Split]:
        done = {step.sub_query for step in chosen}
        open_ones = [one for one in dict.fromkeys(pending) if one not in done and list(space.steps(one))]
        if not open_ones:
            return {split_of(chosen)}
        first = max(open_ones, key=lambda one: one.sort_key)
        return {
            split
            for step in space.steps(first)
            for split in ways((*open_ones[1:], *open_ones[:1], *step.inputs), (*chosen, step))
        }

    return ways((whole(space.query),), ())


# ------------------------------------------------------------------------ properties
@pytest.mark.slow
@settings(max_examples=examples(30))
@given(st.integers(0, 10**6), st.integers(3, 9), st.sampled_from(list(Reading)), st.booleans())
def test_every_plan_is_valid_and_sustains_its_c(seed: int, units: int, reading: Reading, kleene: bool) -> None:
    query, statistics = drawn(seed, kleene=kleene)
    for strategy in COST_BASED:
        plan = planned(query, statistics, strategy, units, reading)
        assert not list(violations(plan)), strategy
        assert units_of(plan) <= units, strategy
        if any(operator.hosts for operator in plan.operators) or plan.slices > 1:
            continue
        prices = operator_prices(plan, QueryRates(query, statistics))
        assigned = [AssignedOperator(name, price, plan.operator(name).units) for name, price in prices.items()]
        c = math.exp(log_c(plan, statistics, reading))
        assert is_throughput_valid(assigned, CAPACITY, c, reading), strategy
        assert not is_throughput_valid(assigned, CAPACITY, c * 1.001, reading), strategy


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(st.integers(0, 10**6), st.sampled_from(list(Reading)))
def test_more_units_never_make_the_default_plan_slower(seed: int, reading: Reading) -> None:
    query, statistics = drawn(seed, types=(3, 6))
    sustained = [
        log_c(planned(query, statistics, "decopa", units, reading), statistics, reading) for units in range(5, 15)
    ]
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(sustained))


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(st.integers(0, 10**6), st.integers(4, 10), st.sampled_from(list(Reading)))
def test_the_default_plan_is_nearly_the_best_there_is(seed: int, units: int, reading: Reading) -> None:
    query, statistics = drawn(seed)
    best = log_c(planned(query, statistics, "exhaustive", units, reading), statistics, reading)
    for strategy in COST_BASED:
        assert log_c(planned(query, statistics, strategy, units, reading), statistics, reading) <= best + 1e-6
    assert log_c(planned(query, statistics, "decopa", units, reading), statistics, reading) >= best + math.log(0.9)


@settings(max_examples=examples(10))
@given(st.integers(0, 10**6), st.integers(3, 8), st.sampled_from(list(Reading)))
def test_bounded_search_finds_what_plain_enumeration_finds(seed: int, units: int, reading: Reading) -> None:
    query, statistics = drawn(seed, types=(3, 4))
    assert_best_of_all_splits(query, statistics, units, reading)


@pytest.mark.parametrize("reading", Reading)
@pytest.mark.parametrize(
    "pattern",
    ["SEQ(A a, KL(B b), C c)", "AND(KL(A a), KL(B b))", "SEQ(A a, KL(B b), KL(C c))", "SEQ(A a, NOT(B b), C c, D d)",
     "SEQ(KL(A a), NOT(KL(B b)), C c)"],
)  # fmt: skip
def test_bounded_search_looks_at_all_splits_of_kl_and_not(pattern: str, reading: Reading) -> None:
    query = parse(f"PATTERN {pattern} WITHIN 1 min")
    rates = {"A": 12.0, "B": 5.0, "C": 20.0, "D": 300.0}
    pairs = itertools.combinations_with_replacement(rates, 2)
    statistics = Statistics.of(query.window_us, rates, {pair: 0.05 + 0.01 * n for n, pair in enumerate(pairs)})
    for units in (4, 5, 9):
        assert_best_of_all_splits(query, statistics, units, reading)


def assert_best_of_all_splits(query: Query, statistics: Statistics, units: int, reading: Reading) -> None:
    space = SplitSpace(query, QueryRates(query, statistics))
    by_hand = max(
        assign_units(space, split, units, CAPACITY, reading).scaling.log_scaling
        for split in all_splits(space)
        if len(split) <= units
    )
    found = best_assignment(space, units, CAPACITY, reading)
    assert found is not None
    assert found.scaling.log_scaling == pytest.approx(by_hand, abs=1e-8)


def test_the_same_input_gives_the_same_plan() -> None:
    query, statistics = drawn(7)
    for strategy in COST_BASED:
        assert planned(query, statistics, strategy, 8) == planned(query, statistics, strategy, 8)


def test_units_go_to_the_operator_that_limits() -> None:
    load = Load(log_shared=math.log(100))
    assert load.per_unit(4) == pytest.approx(25)
    plan = planned(MOTIVATING, MOTIVATING_STATISTICS, "decopa", 8)
    priced = price_plan(plan, MOTIVATING_STATISTICS, CAPACITY)
    binding = [one for one in priced.operators if one.limit is not None]
    assert len(binding) == 1
    assert max(
        binding[0].comparison_share, binding[0].ingestion_share
    ) * priced.scaling.scaling_factor == pytest.approx(1)


# ------------------------------------------------------------------------- workloads
def test_a_workload_divides_its_units_among_its_queries() -> None:
    queries = [MOTIVATING, parse("QUERY other PATTERN AND(A a, C c) WITHIN 1 min")]
    plan = decopa.plan(queries, MOTIVATING_STATISTICS, units=9, capacity=CAPACITY)
    assert [part.query.name for part in plan.parts] == ["q", "other"]
    assert sum(map(units_of, plan.parts)) <= 9


def test_alternatives_are_planned_each() -> None:
    query = parse("PATTERN SEQ(A a, OR(B b, C c)) WITHIN 1 min")
    assert len(decopa.plan(query, MOTIVATING_STATISTICS, units=4, capacity=CAPACITY).parts) == 2


# ------------------------------------------------------------------------- bad input
def test_too_few_units_fall_back_to_one_unit_and_say_so() -> None:
    result = plan_workload([MOTIVATING], MOTIVATING_STATISTICS, CAPACITY, units=1, strategy="decopa")
    assert units_of(result.plan.parts[0]) == 1
    assert "needs 2 operators but has 1 unit" in result.notices[0]


@pytest.mark.parametrize(
    ("statistics", "message"),
    [
        (Statistics.of(MOTIVATING.window_us, {"A": 1, "B": 1}, {}), "no rate for event type 'C'"),
        (Statistics.of(1000, {"A": 1, "B": 1, "C": 1}, {}), "window"),
    ],
)
def test_statistics_that_do_not_fit_are_refused(statistics: Statistics, message: str) -> None:
    with pytest.raises(StatisticsError, match=message):
        plan_workload([MOTIVATING], statistics, CAPACITY, units=4)


def test_an_idle_unit_takes_a_share_of_the_heavy_operator() -> None:
    events = make_events("seq3", events=20_000, seed=1)
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x AND a.y < c.y WITHIN 141 ms"
    known = decopa.stats(text, events)
    (plan,) = decopa.plan(text, known, units=2).parts
    assert [plan.root.hosts, plan.root.units] == [(0, 1), 2]
    assert units_of(plan) == 2
    found = decopa.run(text, events, planning=decopa.Planning(plan=decopa.plan(text, known, units=2)))
    assert found.equals(decopa.run(text, events))


def test_an_unknown_strategy_and_no_units_are_refused() -> None:
    with pytest.raises(PlanError, match="did you mean 'hybrid'"):
        plan_workload([MOTIVATING], MOTIVATING_STATISTICS, CAPACITY, units=4, strategy="hybird")
    with pytest.raises(PlanError, match="at least one unit"):
        plan_workload([MOTIVATING], MOTIVATING_STATISTICS, CAPACITY, units=0)


def test_exhaustive_search_is_refused_for_long_queries() -> None:
    query, statistics = drawn(1, types=(8, 8))
    with pytest.raises(PlanError, match="use `decopa`"):
        planned(query, statistics, "exhaustive", 10)


def test_a_search_without_end_is_refused_unless_there_is_something_to_fall_back_on() -> None:
    query, statistics = drawn(1, types=(5, 5))
    space = SplitSpace(query, QueryRates(query, statistics))
    with pytest.raises(PlanError, match="more splits on 8 units than `exhaustive` looks at; use `decopa`"):
        best_assignment(space, 8, CAPACITY, max_work=50)
    complete = best_assignment(space, 8, CAPACITY)
    assert best_assignment(space, 8, CAPACITY, seed=complete, max_work=50) == complete


def test_groups_beyond_all_reckoning_still_get_a_plan() -> None:
    """2^5000 groups: no scaling factor is sustained, but there is a plan that runs."""
    query = parse("PATTERN SEQ(A a, KL(B b), C c) WITHIN 1 h")
    rates = Statistics(query.window_us, {"A": 50.0, "B": 5000.0, "C": 80.0}, default_selectivity=0.5)
    for strategy in COST_BASED:
        assert plan_workload([query], rates, Capacity.per_second(2e6, 1e8), units=3, strategy=strategy).plan.parts
