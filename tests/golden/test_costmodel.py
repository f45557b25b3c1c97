"""Worked examples of the DecoPa paper: rates, selectivities, costs, the largest scaling factor, units."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from costmodel.capacity import Capacity
from costmodel.costs import InputRate, Load, ingestion, join_load, kleene_binary_load, kleene_unary_load
from costmodel.kleene import KleenePairs
from costmodel.logarithms import log_of
from costmodel.pricing import Flow, Join, PricedOperator, Together
from costmodel.rates import QueryRates, RateFormula, RateModel, is_rate_reducing, rate, selectivity
from costmodel.statistics import Statistics
from costmodel.throughput import AssignedOperator, is_sustainable, largest_scaling, units_needed
from costmodel.time_order import TimeOrder
from decopa.choices import Reading
from decopa.language.text.parser import parse
from decopa.query.pattern import And, EventRef, Kleene, Pattern, Seq
from decopa.query.query import Query
from tests.support.shared import decopa_entries, decopa_entry, needs_golden

pytestmark = needs_golden

WINDOW_US = 60_000_000
Entry = dict[str, Any]


def entries(function: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("entry", decopa_entries(function), ids=lambda entry: entry["id"])


def near(entry: Entry) -> Any:
    tolerance = entry["tolerance"]
    return pytest.approx(entry["expected"], rel=tolerance.get("rel"), abs=tolerance.get("abs", 0))


def query_of(golden: Any) -> Query:
    """A golden pattern of bare types; the second A is called a2."""
    return Query(_pattern_of(golden, itertools.count(1)), (), WINDOW_US)


def _pattern_of(golden: Any, numbers: itertools.count[int]) -> Pattern:
    if isinstance(golden, str):
        return EventRef(golden, f"{golden.lower()}{next(numbers)}")
    operator, *children = golden
    below = tuple(_pattern_of(child, numbers) for child in children)
    if operator == "KL":
        (event,) = below
        assert isinstance(event, EventRef)
        return Kleene(event)
    return {"SEQ": Seq, "AND": And}[operator](below)


def statistics_of(inputs: Mapping[str, Any], rates: Mapping[str, float] | None = None) -> Statistics:
    pairs = {tuple(key.split(",")): value for key, value in inputs["sel"].items()}
    return Statistics.of(WINDOW_US, rates or inputs["rates"], pairs)


def input_of(golden: Mapping[str, Any]) -> InputRate:
    return InputRate.of(golden["rate"], partitioned=bool(golden["part"]))


def join_of(operator: Mapping[str, Any]) -> Join:
    left, right = (
        Flow(RateFormula(log_of(one["rate"]), one["types"]), bool(one["part"])) for one in operator["inputs"]
    )
    return Join(left, right)


def per_unit(load: Load, inputs: Mapping[str, Any]) -> float:
    return load.times(log_of(inputs.get("c", 1.0))).per_unit(inputs.get("units", 1))


# ----------------------------------------------------------------------- rates
@entries("decopa_query_rate")
def test_the_rate_of_a_query_is_that_of_the_paper(entry: Entry) -> None:
    inputs = entry["inputs"]
    model = RateModel(
        kleene_pairs=KleenePairs.ALL if inputs.get("kleene_pairs") == "all" else KleenePairs.NEIGHBOURS,
        smallest_group=inputs.get("kleene_from", 1),
    )
    assert rate(query_of(inputs["pattern"]), statistics_of(inputs), model) == near(entry)


@entries("decopa_selectivity")
def test_the_selectivity_of_a_query_is_that_of_the_paper(entry: Entry) -> None:
    counts = entry["inputs"]["counts"]
    query = query_of(["SEQ", *itertools.chain.from_iterable([name] * count for name, count in counts.items())])
    statistics = statistics_of(entry["inputs"], dict.fromkeys(counts, 10.0))
    assert selectivity(query, statistics) == near(entry)


@entries("decopa_rate_reducing")
def test_the_rate_reducing_sub_queries_are_those_of_the_paper(entry: Entry) -> None:
    query, statistics = query_of(entry["inputs"]["pattern"]), statistics_of(entry["inputs"])
    within = query if entry["inputs"].get("scope") == "query" else None
    found = []
    for size in range(2, len(query.aliases) + 1):
        for aliases in itertools.combinations(query.aliases, size):
            sub_query = query.project(aliases)
            if is_rate_reducing(sub_query, statistics, within=within):
                found.append("".join(sub_query.event_types))
    assert found == entry["expected"]


def test_the_rates_in_the_published_plans_are_ours(shared: Path) -> None:
    """Independent numbers: what the authors' tool wrote into its plans.

    It rounds the rate of a KL type where the group is formed, and of two values for a pair it took the larger.
    """
    tool = RateModel(time_order=TimeOrder.TOOL)
    compared = 0
    for plan in json.loads((shared / "data" / "paper_table3.json").read_text())["folders"]:
        given = dict(plan["pairwise_selectivities"])
        given |= {pair: max(values.values()) for pair, values in (plan["asymmetric_entries"] or {}).items()}
        selectivities = {(pair[0], pair[1]): value for pair, value in given.items()}
        for operator in plan["operators"]:
            groups = re.findall(r"KL\((\w)\)", operator["sub_query"])
            rates = plan["rates_per_window_unscaled"]
            rates = rates | {name: round(rates[name]) for name in groups}
            members = {(name, name): plan["kleene_self_selectivity"] for name in groups}
            pattern = re.sub(r"\b([A-I])\b", lambda found: f"{found[1]} {found[1].lower()}", operator["sub_query"])
            query = parse(f"PATTERN {pattern} WITHIN 1 min")
            found = rate(query, Statistics.of(WINDOW_US, rates, selectivities | members), tool)
            assert found == pytest.approx(operator["rate_per_window_at_c1"], rel=1e-6), operator["sub_query"]
            compared += 1
    assert compared == 79


# ----------------------------------------------------------------------- costs
@entries("decopa_input_cost")
def test_input_costs_are_those_of_the_paper(entry: Entry) -> None:
    inputs = entry["inputs"]
    assert per_unit(ingestion(*map(input_of, inputs["inputs"])), inputs) == near(entry)


@entries("decopa_comparison_cost")
def test_comparison_costs_are_those_of_the_paper(entry: Entry) -> None:
    inputs = entry["inputs"]
    left, right = map(input_of, inputs["inputs"])
    assert per_unit(join_load(left, right).comparisons, inputs) == near(entry)


@entries("decopa_kleene_unary_cost")
def test_unary_kleene_costs_are_those_of_the_paper(entry: Entry) -> None:
    inputs = entry["inputs"]
    strip = InputRate.of(inputs["r_strip"], partitioned=bool(inputs.get("part")))
    assert per_unit(kleene_unary_load(strip, log_of(inputs["r_out"])).comparisons, inputs) == near(entry)


@entries("decopa_kleene_binary_cost")
def test_binary_kleene_costs_are_those_of_the_paper(entry: Entry) -> None:
    inputs = entry["inputs"]
    load = kleene_binary_load(
        InputRate.of(inputs["r_other"], partitioned=bool(inputs.get("part_other"))),
        InputRate.of(inputs["r_kleene"]),
        log_group_rate=log_of(inputs["r_group"]),
        log_match_rate=log_of(inputs["r_out"]),
    )
    assert per_unit(load.comparisons, inputs) == near(entry)


def test_the_six_splits_of_the_motivating_example_cost_what_the_paper_compares() -> None:
    entry = decopa_entry("decopa-s22-split-costs")
    query = query_of(entry["inputs"]["pattern"])
    rates = QueryRates(query, statistics_of(entry["inputs"]))
    alias_of = {position.type: position.alias for position in query.positions}

    def join(left: str, right: str) -> PricedOperator:
        flows = [Flow(rates.formula([alias_of[name] for name in types])) for types in (left, right)]
        return Join(*flows)

    splits = {
        "AC+BC+ABC": (("A", "C"), ("B", "C"), ("AC", "BC")),
        "AC+ABC": (("A", "C"), ("AC", "B")),
        "BC+ABC": (("B", "C"), ("BC", "A")),
        "AB+ABC": (("A", "B"), ("AB", "C")),
        "AB+AC+ABC": (("A", "B"), ("A", "C"), ("AB", "AC")),
        "AB+BC+ABC": (("A", "B"), ("B", "C"), ("AB", "BC")),
    }
    costs = {
        name: Together(tuple(join(*inputs) for inputs in joins)).load().comparisons.per_unit(1)
        for name, joins in splits.items()
    }
    assert costs == near(entry)


# ------------------------------------------------------------------ throughput
@entries("decopa_scaling")
def test_the_largest_scaling_factor_is_that_of_the_paper(entry: Entry) -> None:
    inputs = entry["inputs"]
    operators = [
        AssignedOperator(name, join_of(operator), operator["units"]) for name, operator in inputs["operators"].items()
    ]
    reading = Reading.RATES if inputs.get("mode") == "scaled" else Reading.LINEAR
    found = largest_scaling(operators, Capacity(inputs["iota"], inputs["kappa"]), reading)
    expected = entry["expected"]
    assert found.scaling_factor == pytest.approx(expected["c"], rel=entry["tolerance"]["rel"])
    assert found.operator == expected["operator"]
    assert found.limit is not None and found.limit.value == expected["limit"]


def test_one_unit_for_the_whole_motivating_example_sustains_what_the_paper_computes() -> None:
    entry = decopa_entry("decopa-central-s22")
    joins = [Join(*(Flow(RateFormula(math.log(r))) for r in inputs)) for inputs in ((1000, 1000), (10_000, 30))]
    operators = [AssignedOperator("q", Together(tuple(joins)))]
    assert largest_scaling(operators, Capacity(6_000, 60_000)).scaling_factor == near(entry)


@entries("decopa_throughput_valid")
def test_throughput_validity_is_that_of_the_corrected_definition(entry: Entry) -> None:
    inputs = entry["inputs"]
    capacity = Capacity(inputs["iota"], inputs["kappa"])
    assert is_sustainable(inputs["ingestion"], inputs["comparisons"], capacity) == entry["expected"]


@entries("decopa_units")
def test_the_units_needed_are_those_of_the_paper(entry: Entry) -> None:
    inputs = entry["inputs"]
    larger, smaller = (Flow(RateFormula(math.log(inputs[name]))) for name in ("r1", "r2"))
    operator = Join(Flow(larger.rate, partitioned=True), smaller)
    found = units_needed(operator, Capacity(inputs["iota"], inputs["kappa"]), inputs.get("c", 1.0))
    assert found is not None
    assert [found.exact, found.units] == near(entry)


def test_no_number_of_units_helps_if_the_broadcast_input_alone_is_too_much() -> None:
    assert "no number of units suffices" in decopa_entry("decopa-units-formula")["resolution"]
    operator = Join(Flow(RateFormula(math.log(9_000)), partitioned=True), Flow(RateFormula(math.log(2_500))))
    assert units_needed(operator, Capacity(2_500, 1e9)) is None


def test_every_entry_on_costs_is_tested_here() -> None:
    tested = {
        "decopa_query_rate": 22, "decopa_selectivity": 6, "decopa_rate_reducing": 3, "decopa_input_cost": 7,
        "decopa_comparison_cost": 7, "decopa_kleene_unary_cost": 2, "decopa_kleene_binary_cost": 3,
        "decopa_scaling": 11, "decopa_throughput_valid": 2, "decopa_units": 6, "decopa_split_costs": 1,
    }  # fmt: skip
    assert {function: len(decopa_entries(function)) for function in tested} == tested
