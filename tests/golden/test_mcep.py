"""The worked numbers of MCEP (SIGMOD 2019) through the project's own functions."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from costmodel.papers.instances import event_cost, leaves_of, nodes_of, order_instances, tree_instances, trees_over
from decopa.planning.workload.trees.instance_problem import InstanceProblem, exhaustive_trees
from decopa.planning.workload.trees.mcep import (
    MultiPatternGraph,
    OrderPlanner,
    PrefixTree,
    TypePattern,
    common_sub_patterns,
    maximal,
)
from decopa.planning.workload.trees.multitree import MultiTree
from decopa.planning.workload.trees.response import Responder, best_responses
from decopa.planning.workload.trees.search import (
    COOLING,
    FIRST_NEIGHBOURS,
    TABU_LENGTH,
    TABU_NEIGHBOURS,
    acceptance,
    cooling_steps,
)
from decopa.traces.rule_sets import RATES, cores_at_density
from tests.support.shared import _load, needs_golden

ENTRIES = _load("mcep.json", "entries")


def entries(*functions: str) -> list[Any]:
    found = [entry for entry in ENTRIES if entry.get("function") in functions]
    return [pytest.param(entry, id=entry["id"]) for entry in found]


def entry(name: str) -> dict[str, Any]:
    return next(one for one in ENTRIES if one["id"] == name)


def pattern_of(item: dict[str, Any]) -> TypePattern:
    conditions = tuple((frozenset(types), text) for types, text in item.get("conditions", ()))
    return TypePattern(item["op"], tuple(item["types"]), item["window"], conditions)


def patterns_of(inputs: dict[str, Any]) -> list[TypePattern]:
    return [pattern_of(item) for item in inputs["workload"]]


def pairs_of(inputs: dict[str, Any]) -> dict[tuple[str, str], float]:
    return {tuple(sorted(pair.split(","))): value for pair, value in inputs["sel"].items()}  # type: ignore[misc]


def planner_of(inputs: dict[str, Any]) -> OrderPlanner:
    return OrderPlanner(inputs["rates"], pairs_of(inputs))


def tree_of(item: Any) -> Any:
    return item if isinstance(item, str) else (tree_of(item[0]), tree_of(item[1]))


pytestmark = needs_golden


@pytest.mark.parametrize("one", entries("mcep_node_count"))
def test_states_of_a_tree_of_orders(one: dict[str, Any]) -> None:
    tree = PrefixTree()
    for pattern, order in zip(patterns_of(one["inputs"]), one["inputs"]["orders"], strict=True):
        tree.add(pattern, order)
    assert len(tree) == one["expected"]


@pytest.mark.parametrize("one", entries("mcep_instances"))
def test_instances_of_a_tree_of_orders(one: dict[str, Any]) -> None:
    inputs = one["inputs"]
    cost = planner_of(inputs).cost(patterns_of(inputs), inputs["orders"])
    assert cost + (1 if inputs.get("root") else 0) == pytest.approx(one["expected"], rel=1e-9)


@pytest.mark.parametrize("one", entries("mcep_order_cost"))
def test_the_cost_of_an_order(one: dict[str, Any]) -> None:
    inputs = one["inputs"]
    cost = order_instances(inputs["order"], inputs["window"], inputs["rates"], pairs_of(inputs))
    assert cost == pytest.approx(one["expected"], rel=1e-9)


@pytest.mark.parametrize("one", entries("mcep_best_mpt"))
def test_the_cheapest_tree_of_orders_is_found_by_trying_all_and_by_best_responses(one: dict[str, Any]) -> None:
    inputs, expected = one["inputs"], one["expected"]
    planner, patterns = planner_of(inputs), patterns_of(inputs)
    cost, orders, tried = planner.exhaustive(patterns)
    assert cost == pytest.approx(expected["cost"], rel=1e-9)
    assert sorted(["".join(order) for order in combination] for combination in orders) == expected["orders"]
    assert tried == expected["space"]
    assert planner.cost(patterns, planner.responses(patterns)) == pytest.approx(expected["cost"], rel=1e-9)


@pytest.mark.parametrize("one", entries("mcep_independent_cost"))
def test_each_pattern_on_its_own_best_order(one: dict[str, Any]) -> None:
    planner, patterns = planner_of(one["inputs"]), patterns_of(one["inputs"])
    assert planner.cost(patterns, planner.separate_orders(patterns)) == pytest.approx(one["expected"], rel=1e-9)


@pytest.mark.parametrize("one", entries("mcep_state_lists"))
def test_states_that_wait_for_a_type(one: dict[str, Any]) -> None:
    tree = PrefixTree()
    for order in one["inputs"]["order_list"]:
        tree.add(TypePattern("AND", tuple(order), 1), order)
    assert tree.waiting_states() == one["expected"]


@pytest.mark.parametrize("one", entries("mcep_event_cost"))
def test_what_one_event_costs(one: dict[str, Any]) -> None:
    inputs = one["inputs"]
    found = event_cost(
        inputs["costs"],
        inputs["verify"],
        inputs["selectivities"],
        access=inputs["c_access"],
        create=inputs["c_create"],
        remove=inputs["c_remove"],
    )
    assert dict(zip(("CP", "CR"), found, strict=True)) == pytest.approx(one["expected"])


@pytest.mark.parametrize("one", entries("mcep_common_subpatterns"))
def test_common_sub_patterns(one: dict[str, Any]) -> None:
    first, second = pattern_of(one["inputs"]["p"]), pattern_of(one["inputs"]["q"])
    found = common_sub_patterns(first, second)
    assert sorted(map(first.text, found)) == one["expected"]["all"]
    assert sorted(map(first.text, maximal(found))) == one["expected"]["maximal"]
    assert min(first.window, second.window) == one["expected"]["window"]


@pytest.mark.parametrize("one", entries("mcep_tree_cost"))
def test_the_cost_of_a_tree(one: dict[str, Any]) -> None:
    inputs = one["inputs"]
    cost = tree_instances(tree_of(inputs["tree"]), inputs["window"], inputs["rates"], pairs_of(inputs))
    assert cost == pytest.approx(one["expected"], rel=1e-9)


@pytest.mark.parametrize("one", entries("mcep_tree_count"))
def test_how_many_trees_there_are(one: dict[str, Any]) -> None:
    assert trees_over(one["inputs"]["m"]) == one["expected"]


@pytest.mark.parametrize("one", entries("mcep_best_multitree"))
def test_the_cheapest_multitree_is_found_by_trying_all_and_by_best_responses(one: dict[str, Any]) -> None:
    inputs = one["inputs"]
    problem = InstanceProblem(patterns_of(inputs), inputs["rates"], pairs_of(inputs))
    cost, tried = exhaustive_trees(problem)
    assert cost == pytest.approx(one["expected"]["cost"], rel=1e-9)
    assert tried == one["expected"]["space"]
    assert best_responses(problem).cost == pytest.approx(one["expected"]["cost"], rel=1e-9)


@pytest.mark.parametrize("one", entries("mcep_acceptance"))
def test_how_likely_a_worse_neighbour_is_taken(one: dict[str, Any]) -> None:
    inputs = one["inputs"]
    assert acceptance(inputs["old"], inputs["new"], inputs["threshold"]) == pytest.approx(one["expected"], rel=1e-9)


@pytest.mark.parametrize("one", entries("mcep_annealing_steps"))
def test_steps_until_a_threshold_has_cooled(one: dict[str, Any]) -> None:
    inputs = one["inputs"]
    assert cooling_steps(inputs["c0"], inputs["c_end"], inputs["alpha"]) == one["expected"]


def test_the_orders_of_two_patterns_are_independent() -> None:
    pair = [TypePattern("SEQ", ("A", "B", "C"), 1), TypePattern("SEQ", ("D", "E", "F"), 1)]
    _, _, tried = OrderPlanner(dict.fromkeys("ABCDEF", 1.0), {}).exhaustive(pair)
    assert tried == entry("mcep-space-36")["expected"]


def test_the_edge_neighbourhood_has_a_move_for_each_common_sub_pattern() -> None:
    patterns = [TypePattern("SEQ", tuple(types), 1) for types in ("ABCD", "AECD", "GBHD")]
    found = [common_sub_patterns(one, other) for one, other in itertools.combinations(patterns, 2)]
    assert sum(map(len, found)) == entry("mcep-nedge")["expected"]


def test_a_pattern_is_projected_on_some_of_its_types() -> None:
    one = entry("mcep-proj")
    operator, *types = one["inputs"]["pattern"]
    assert TypePattern(operator, tuple(types), 1).text(frozenset(one["inputs"]["types"])) == one["expected"]


@pytest.mark.parametrize("one", entries("mcep_multitree"))
def test_the_cost_of_a_multitree(one: dict[str, Any]) -> None:
    inputs = one["inputs"]
    problem = InstanceProblem(patterns_of(inputs), inputs["rates"], pairs_of(inputs))
    trees, responder = MultiTree(), Responder(problem)
    for pattern, tree in enumerate(map(tree_of, inputs["trees"])):
        wanted = {frozenset(leaves_of(node)) for node in nodes_of(tree)}
        chosen = responder.constrained(
            pattern,
            trees,
            fits=lambda mask, pattern=pattern, wanted=wanted: set(problem.names(pattern, mask)) in wanted,
        )
        trees.add(pattern, chosen)
    assert len(trees.nodes) == one["expected"]["nodes"]
    assert trees.cost == pytest.approx(one["expected"]["cost"], rel=1e-9)


def test_rule_sets_are_drawn_with_the_rates_and_the_neighbours_of_the_paper() -> None:
    assert RATES[1] - RATES[0] == entry("mcep-rate-span")["expected"]
    assert 100 / cores_at_density(100, 0.5) == entry("mcep-density")["expected"]


def test_parameters_of_the_searches_are_those_of_appendix_b() -> None:
    annealing, tabu = entry("mcep-sa-params")["expected"], entry("mcep-tabu-params")["expected"]
    assert annealing == {"alpha": COOLING, "initial_neighbours": FIRST_NEIGHBOURS}
    assert tabu == {"capacity": TABU_LENGTH, "neighbours": TABU_NEIGHBOURS}


def test_erratum_a_shared_state_keeps_the_largest_window() -> None:
    tree, prefix = PrefixTree(), ("A", "B")
    for types, window in ((("A", "B", "C"), 10), (("A", "B", "D"), 20)):
        tree.add(TypePattern("SEQ", types, window), types)
    key = TypePattern("SEQ", ("A", "B"), 1).projected(frozenset(prefix)), prefix
    assert tree.window(key) == entry("mcep-shared-window")["expected"]


def test_erratum_verification_is_that_of_the_next_state() -> None:
    processing, _ = event_cost([10], [2], [0.5], access=0, create=0, remove=0)
    assert processing == 20  # on the state before it would always be 0


def test_erratum_trees_count_their_leaves_and_orders_do_not() -> None:
    inputs, expected = entry("mcep-fig8-1")["inputs"], entry("mcep-left-deep-leaves")["expected"]
    given = inputs["window"], inputs["rates"], pairs_of(inputs)
    assert tree_instances((("A", "B"), "C"), *given) == pytest.approx(expected["tree"])
    assert order_instances(("A", "B", "C"), *given) == pytest.approx(expected["order"])


def test_erratum_a_worse_neighbour_is_less_likely() -> None:
    assert acceptance(100, 110, 20) < 1 == acceptance(110, 100, 20)


def test_theorem_4_1_an_optimal_order_is_the_best_continuation_of_its_shared_prefix() -> None:
    draw = random.Random(7)
    for _ in range(10):
        types = "ABCDE"
        patterns = [TypePattern("SEQ", tuple(sorted(draw.sample(types, 3))), 4) for _ in range(3)]
        rates = {name: draw.choice((0.5, 1, 2, 3, 5)) for name in types}
        pairs = {pair: draw.choice((0.05, 0.1, 0.3, 0.5, 1)) for pair in itertools.combinations(types, 2)}
        planner = OrderPlanner(rates, pairs)
        _, (orders, *_), _ = planner.exhaustive(patterns)
        for place, order in enumerate(orders):
            others = [other for at, other in enumerate(orders) if at != place]
            shared = max(sum(1 for _ in itertools.takewhile(lambda two: two[0] == two[1], zip(order, other)))
                         for other in others)  # fmt: skip
            best = planner.best_order(patterns[place], order[:shared])[1]
            given = 4, rates, pairs
            assert order_instances(order, *given) == pytest.approx(order_instances(best, *given))


def test_a_pattern_is_added_to_the_graph_and_removed_from_it() -> None:
    graph = MultiPatternGraph()
    graph.add("one", TypePattern("SEQ", ("A", "B", "C"), 1))
    graph.add("two", TypePattern("SEQ", ("A", "C", "B"), 1))
    graph.add("other", TypePattern("SEQ", ("X", "Y"), 1))
    assert set(graph.common["one", "two"]) == {frozenset("AB"), frozenset("AC")}
    assert sorted(map(sorted, graph.components())) == [["one", "two"], ["other"]]
    graph.remove("one")
    assert not graph.common
