"""The worked examples of the NEXT CEP paper, against this project's code."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from costmodel.papers.next_cost import (
    After,
    Delayed,
    Either,
    Expression,
    Filtered,
    Stream,
    UnionBursts,
    Unless,
    cost,
    profile,
)
from decopa.planning.placement.deployment import Deployment, Operator
from decopa.planning.placement.search import exact, greedy, place
from decopa.planning.rewriter.exception import cheaper_of_both, hoisted
from decopa.planning.rewriter.next_chain import as_printed, cheapest, run_index
from decopa.planning.rewriter.trees import bracketing_count, cheapest_bracketings, union_pattern_count
from decopa.planning.rewriter.union import cheapest_tree_cost, flat_cost, huffman
from decopa.query.successor import before, chained, precedes, stream_order, successors
from tests.support.shared import needs_golden, nextcep_entries

NOT_COMPUTED = {None, "arithmetic", "next_chain"}


def expression(form: Any) -> Expression:
    if isinstance(form, str):
        return Stream(form)
    kind, first, *more = form
    if kind == "filter":
        return Filtered(expression(first))
    if kind == "@":
        return Delayed(expression(first), more[0])
    return {";": After, "|": Either, "\\": Unless}[kind](expression(first), expression(more[0]))


def streams(operands: list[str]) -> list[Expression]:
    return [Stream(name) for name in operands]


def deployment(given: dict[str, Any]) -> Deployment:
    operators = given["operators"]
    sources = {name for name, one in operators.items() if one.get("source")}
    fixed = given.get("fixed") or given["placement"]
    return Deployment(
        tuple(
            Operator(name, tuple(one["sub"]), one["mu"], one["cpu"])
            for name, one in operators.items()
            if name not in sources
        ),
        {name: operators[name]["mu"] for name in sources},
        {name: fixed[name] for name in sources},
        tuple(given.get("nodes") or dict.fromkeys(given["placement"].values())),
        given.get("running") or {},
    )


def evaluated(form: Any, given: dict[str, list[list[int]]]) -> list[tuple[int, ...]]:
    if isinstance(form, str):
        return [tuple(one) for one in given[form]]
    return chained(evaluated(form[1], given), evaluated(form[2], given))


def next_profile(expr: Any, rates: dict[str, float], union_size: str = "weighted") -> dict[str, float]:
    found = profile(expression(expr), rates, UnionBursts(union_size))
    return {
        "mu": found.rate,
        "dt": found.detection_s,
        "bsize": found.burst_size,
        "brate": found.burst_rate,
        "op_cost": found.operator_cost,
        "cost": found.cost,
    }


def next_exhaustive(operands: list[str], rates: dict[str, float]) -> dict[str, Any]:
    least, trees, count = cheapest_bracketings(streams(operands), rates)
    assert cheapest(streams(operands), rates).profile.cost == pytest.approx(least, rel=1e-9)
    return {"cost": least, "plans": [str(tree) for tree in trees], "trees": count}


def next_dp(operands: list[str], rates: dict[str, float]) -> dict[str, Any]:
    found = as_printed(streams(operands), rates)
    return {"cost": found.profile.cost, "plan": str(found.tree)}


def next_huffman(rates: dict[str, float]) -> dict[str, Any]:
    found = huffman(rates)
    assert cost(found.tree, rates) == pytest.approx(found.cost)
    return {"cost": found.cost, "depth": found.depth}


def next_deployment_cost(placement: dict[str, str], delta: str = "differ", **given: Any) -> float:
    built = deployment({**given, "placement": placement})
    return built.cost(placement) if delta == "differ" else built.printed_cost(placement)


def next_best_placement(**given: Any) -> dict[str, Any]:
    built = deployment(given)
    best = exact(built)
    assert place(built) == best
    return {"cost": built.cost(best), "placements": [best]}


def next_associative(trials: int, seed: int) -> bool:
    rng = Random(seed)

    def drawn() -> list[tuple[int, int]]:
        starts = [rng.randrange(12) for _ in range(rng.randrange(1, 5))]
        return [(start, start + rng.randrange(3)) for start in starts]

    for _ in range(trials):
        one, two, three = drawn(), drawn(), drawn()
        if sorted(chained(chained(one, two), three)) != sorted(chained(one, chained(two, three))):
            return False
    return True


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "next_before": lambda s, t: before(s, t),
    "next_tiebreak": lambda s, t: precedes(s, t),
    "next_succ": lambda t, candidates: successors(t, candidates),
    "next_sorted": lambda stream: stream_order([(start, end) for start, end in stream]),
    "next_evaluate": lambda expr, streams: sorted(evaluated(expr, streams)),
    "next_associative": next_associative,
    "next_profile": next_profile,
    "next_cost": lambda expr, rates: cost(expression(expr), rates),
    "next_exhaustive": next_exhaustive,
    "next_dp": next_dp,
    "next_index_of": lambda a, b, n: run_index(a, b, n),
    "next_huffman": next_huffman,
    "next_union_exhaustive": cheapest_tree_cost,
    "next_union_patterns": lambda n: union_pattern_count(n),
    "next_catalan": lambda n: bracketing_count(n),
    "next_deployment_cost": next_deployment_cost,
    "next_best_placement": next_best_placement,
    "next_greedy_placement": lambda **given: greedy(deployment(given)),
}


def alike(found: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(alike(found[key], value) for key, value in expected.items())
    if isinstance(expected, list):
        return len(found) == len(expected) and all(
            alike(one, other) for one, other in zip(found, expected, strict=True)
        )
    if isinstance(expected, float | int) and not isinstance(expected, bool):
        return bool(found == pytest.approx(expected, rel=1e-9))
    return bool(found == expected)


@needs_golden
@pytest.mark.parametrize(
    "entry",
    [entry for entry in nextcep_entries() if entry.get("function") not in NOT_COMPUTED],
    ids=lambda entry: entry["id"],
)
def test_a_worked_example_comes_out(entry: dict[str, Any]) -> None:
    found = FUNCTIONS[entry["function"]](**entry["inputs"])
    assert alike(found, entry["expected"]), found


@needs_golden
def test_every_entry_with_a_function_of_its_own_is_computed() -> None:
    computed = [one for one in nextcep_entries() if one.get("function") not in NOT_COMPUTED]
    chains = [one for one in nextcep_entries() if one.get("function") == "next_chain"]  # tests/golden/test_nextcep_runs
    assert len(computed) + len(chains) == 110


# ------------------------------------------------------- better than the paper's
RATES = [2.0**power for power in range(8)]


def quadruple(number: int) -> list[float]:
    return [RATES[number >> 3 * place & 7] for place in range(4)]


def least_cost(rates: list[float]) -> tuple[float, float, float]:
    names = [f"E{place}" for place in range(len(rates))]
    given = dict(zip(names, rates, strict=True))
    operands = streams(names)
    return (
        cheapest(operands, given).profile.cost,
        cheapest_bracketings(operands, given)[0],
        as_printed(operands, given).profile.cost,
    )


@pytest.mark.slow
def test_the_rewriter_misses_none_of_all_quadruples_and_of_1500_quintuples() -> None:
    missed_as_printed = 0
    for number in range(4_096):
        found, best, printed = least_cost(quadruple(number))
        assert found == pytest.approx(best, rel=1e-9), quadruple(number)
        missed_as_printed += printed > best * (1 + 1e-9)
    assert missed_as_printed == 473  # the paper's program
    rng = Random(9)
    for _ in range(1_500):
        found, best, _ = least_cost([rng.choice(RATES) for _ in range(5)])
        assert found == pytest.approx(best, rel=1e-9)


def test_the_rewriter_finds_what_the_printed_program_misses() -> None:
    assert least_cost([1, 1, 1, 4]) == (pytest.approx(7.78125), pytest.approx(7.78125), pytest.approx(8.15625))
    found, _, printed = least_cost([2, 1, 1, 4])
    assert (found, printed) == (pytest.approx(9.0625), pytest.approx(11.4167, rel=1e-4))
    rng = Random(4)
    for _ in range(150):
        found, best, _ = least_cost([rng.choice(RATES) for _ in range(rng.choice((4, 5)))])
        assert found == pytest.approx(best, rel=1e-9)


def test_a_chain_of_eight_falling_rates_costs_what_enumeration_says() -> None:
    found, best, _ = least_cost(RATES[::-1])
    assert found == pytest.approx(best) == pytest.approx(1387.855, rel=1e-6)


def test_sixteen_operands_are_rewritten_at_once() -> None:
    names = [f"E{place}" for place in range(16)]
    rng = Random(2)
    rates = {name: rng.choice(RATES) for name in names}
    assert cheapest(streams(names), rates).profile.cost <= as_printed(streams(names), rates).profile.cost * (1 + 1e-12)


def test_one_union_of_all_takes_each_event_in_once() -> None:
    rates = dict(zip("ABCDEFGH", RATES, strict=True))
    assert (huffman(rates).cost, flat_cost(rates)) == (501, 255)


def test_an_exception_moves_out_of_a_chain_behind_a_single_event_only() -> None:
    inside = After(Stream("A"), Unless(Stream("B"), Stream("C")))
    outside = Unless(After(Stream("A"), Stream("B")), Stream("C"))
    assert hoisted(inside) == outside
    chain = After(After(Stream("U"), Stream("V")), Unless(Stream("B"), Stream("C")))
    assert hoisted(chain) == chain
    rates = {"A": 10.0, "B": 4.0, "C": 25.0}
    assert (cost(inside, rates), cost(outside, rates)) == (49, 55)
    assert cheaper_of_both(inside, rates) == inside
