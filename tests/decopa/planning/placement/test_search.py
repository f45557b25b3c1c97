"""Placements: how near greedy, moves and exact search come to the best one."""

from __future__ import annotations

from random import Random

import pytest

from costmodel.papers.next_cost import Expression, Stream
from decopa.errors import PlanError
from decopa.planning.placement.deployment import Deployment, Operator
from decopa.planning.placement.reuse import Deployed, deploy_all, operator_count
from decopa.planning.placement.search import by_moves, exact, greedy, place

RATES = {f"E{power}": 2.0**power for power in range(8)}


def random_deployment(rng: Random, nodes: int | None = None) -> Deployment:
    """A random tree of three to five operators over sources on random nodes, some of them busy."""
    names = tuple(f"N{number}" for number in range(nodes or rng.choice((3, 4))))
    count = rng.randrange(3, 6)
    sources = {f"E{number}": float(rng.randrange(1, 30)) for number in range(count + 1)}
    open_ends = list(sources)
    operators = []
    for number in range(count):
        left, right = (open_ends.pop(rng.randrange(len(open_ends))) for _ in range(2))
        operators.append(
            Operator(f"o{number}", (left, right), float(rng.randrange(1, 20)), float(rng.randrange(1, 40)))
        )
        open_ends.append(f"o{number}")
    running = {node: {"x": float(rng.randrange(0, 40))} for node in names if rng.random() < 0.5}
    return Deployment(tuple(operators), sources, {name: rng.choice(names) for name in sources}, names, running)


def all_placements_least(deployment: Deployment) -> float:
    """By enumeration over all nodes, apart from the code under test."""
    import itertools

    names = [one.name for one in deployment.operators]
    return min(
        deployment.cost(dict(zip(names, choice, strict=True)))
        for choice in itertools.product(deployment.nodes, repeat=len(names))
    )


def gaps(cases: int) -> tuple[list[float], list[float], list[float]]:
    """By how much greedy, moves and exact search exceed the least cost, over random cases."""
    rng = Random(11)
    found: tuple[list[float], list[float], list[float]] = ([], [], [])
    for _ in range(cases):
        deployment = random_deployment(rng)
        least = all_placements_least(deployment)
        for gap, way in zip(found, (greedy, by_moves, exact), strict=True):
            gap.append(deployment.cost(way(deployment)) / least - 1)
    return found


def test_moves_come_within_half_a_percent_and_exact_search_finds_the_least() -> None:
    by_greedy, moved, searched = gaps(40)
    assert max(searched) <= 1e-12
    assert sum(moved) / len(moved) <= 0.005 and max(moved) <= 0.05
    assert sum(by_greedy) / len(by_greedy) > 0.02


@pytest.mark.slow
def test_on_300_random_cases_too() -> None:
    by_greedy, moved, searched = gaps(300)
    assert max(searched) <= 1e-12
    assert sum(moved) / len(moved) <= 0.005 and max(moved) <= 0.05
    assert 0.05 <= sum(by_greedy) / len(by_greedy) <= 0.30


def test_a_node_that_nothing_speaks_for_is_left_out_without_loss() -> None:
    rng = Random(5)
    for _ in range(10):
        deployment = random_deployment(rng, nodes=5)
        assert deployment.cost(exact(deployment)) == pytest.approx(all_placements_least(deployment))


def test_the_default_is_exact_where_it_is_small_and_moves_elsewhere() -> None:
    small, large = random_deployment(Random(1)), random_deployment(Random(2), nodes=40)
    assert small.cost(place(small)) == small.cost(exact(small))
    assert large.cost(place(large)) <= large.cost(greedy(large))


def test_what_cannot_be_placed_is_refused() -> None:
    with pytest.raises(PlanError, match="comes no earlier"):
        Deployment((Operator("n", ("E1",), 1.0, 1.0),), {}, {}, ("N1",))
    with pytest.raises(PlanError, match="unknown way"):
        place(random_deployment(Random(1)), "best-of")


# ------------------------------------------------------------------------ reuse
def random_queries(count: int, operators: int = 5) -> list[list[Expression]]:
    rng = Random(3)
    return [[Stream(f"E{rng.randrange(8)}") for _ in range(operators + 1)] for _ in range(count)]


def test_an_equal_expression_is_deployed_once() -> None:
    deployed = Deployed(RATES)
    (query,) = random_queries(1)
    first, trees = deploy_all([query, query], RATES, method="optimal")
    assert first.cost == pytest.approx(deploy_all([query], RATES, method="optimal")[0].cost)
    assert operator_count(trees) == 10 and not first.added(trees[0]) and deployed.cost == 0


def test_trees_chosen_by_what_they_add_cost_a_quarter_less_than_rewriting_first() -> None:
    queries = random_queries(200)
    printed, trees = deploy_all(queries, RATES, method="printed")
    shared, _ = deploy_all(queries, RATES, method="shared")
    assert operator_count(trees) == 1_000
    assert len(shared.costs) < len(printed.costs)
    assert printed.cost / shared.cost >= 1.25
