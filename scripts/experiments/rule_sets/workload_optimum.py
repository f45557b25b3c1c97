"""How far plans of many patterns are from the optimum, in MCEP's cost of trees (partial matches held).

Small workloads are compared with all combinations of trees; large ones with the optimum of an integer program: a
sub-pattern is computed (y), one of its splits is taken (x), and a split needs both its parts computed. Roots and leaves
are paid by every plan and left out of the comparison.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import time
from collections.abc import Hashable

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix

from decopa.planning.workload.trees.instance_problem import InstanceProblem, avoidable_cost, exhaustive_trees
from decopa.planning.workload.trees.mcep import TypePattern
from decopa.planning.workload.trees.multitree import TreeProblem, sub_patterns
from decopa.planning.workload.trees.response import Budget, best_responses
from decopa.planning.workload.trees.search import LocalSearch
from decopa.query.pattern import Seq
from decopa.traces.rule_sets import RuleSet, families, independent

#: The solver stops this close to the optimum, relative to the avoidable cost.
GAP = 1e-6
#: A plan this close to the bound counts as the optimum; else plans are compared with the bound.
_PROVEN = 1e-3


def proven_optimum(problem: TreeProblem, seconds: float) -> tuple[float, float]:
    """The least avoidable cost of trees of all patterns in one window, and a bound below it that is proven."""
    splits: dict[Hashable, set[tuple[Hashable | None, Hashable | None]]] = {}
    costs: dict[Hashable, float] = {}
    roots = {problem.form(pattern, problem.full(pattern)) for pattern in range(problem.patterns)}
    for pattern in range(problem.patterns):
        window = problem.window(pattern)
        for mask in sub_patterns(problem.full(pattern)):
            form = problem.form(pattern, mask)
            if form in splits or not mask & (mask - 1):
                continue
            splits[form] = {
                tuple(None if not one & (one - 1) else problem.form(pattern, one) for one in (left, mask ^ left))
                for left in sub_patterns(mask)
                if left != mask
            }
            costs[form] = 0.0 if form in roots else problem.join_cost(pattern, mask, 0, 0, window)
    number = {form: place for place, form in enumerate(splits)}
    ways = [(form, way) for form, all_ways in splits.items() for way in all_ways]
    rows: list[tuple[int, int, float]] = [(number[form], number[form], -1.0) for form in splits]
    lines = len(number)
    for place, (form, way) in enumerate(ways, start=len(number)):
        rows.append((number[form], place, 1.0))  # a sub-pattern that is computed has a split
        for needed in way:
            if needed is not None:
                rows += [(lines, number[needed], 1.0), (lines, place, -1.0)]  # whose parts are computed
                lines += 1
    at, columns, values = zip(*rows, strict=True)
    size = len(number) + len(ways)
    objective = np.zeros(size)
    objective[: len(number)] = [costs[form] for form in splits]
    low = np.zeros(size)
    low[[number[form] for form in roots if form in number]] = 1.0
    found = milp(
        objective,
        integrality=np.array([1] * len(number) + [0] * len(ways)),
        bounds=Bounds(low, np.ones(size)),
        constraints=LinearConstraint(coo_matrix((values, (at, columns)), shape=(lines, size)).tocsr(), lb=0.0),
        options={"mip_rel_gap": GAP, "time_limit": seconds},
    )
    return float(found.fun), float(found.mip_dual_bound)


def _processor(seconds: float) -> Budget:
    """Time of the processor, so that what else a machine does decides nothing."""
    return Budget(seconds, time.process_time)


def instances_of(rules: RuleSet) -> InstanceProblem:
    """A rule set as MCEP sees it."""
    patterns = [
        TypePattern(
            "SEQ" if isinstance(one.pattern, Seq) else "AND", tuple(one.position(a).type for a in one.aliases), 1
        )
        for one in rules.queries
    ]
    return InstanceProblem(patterns, rules.rates, rules.selectivities)


def small(seed: int, windows: tuple[int, ...]) -> InstanceProblem:
    """Two to four patterns of three or four of five types."""
    draw, types = random.Random(seed), "ABCDE"
    patterns = [
        TypePattern(draw.choice(("SEQ", "AND")), tuple(sorted(draw.sample(types, draw.choice((3, 3, 4))))), window)
        for window in (draw.choice(windows) for _ in range(draw.choice((2, 2, 3, 4))))
    ]
    rates = {name: draw.uniform(0.5, 5) for name in types}
    pairs = {pair: draw.choice((0.01, 0.1, 0.5, 1.0)) for pair in itertools.combinations(types, 2)}
    return InstanceProblem(patterns, rates, pairs)


def compare_small(cases: int) -> None:
    """Prints how often best responses and MCEP's annealing find the optimum of small workloads."""
    ours, theirs = [], []
    for seed in range(cases):
        problem = small(seed, (4,) if seed % 5 < 3 else (1, 2, 10))
        best, _ = exhaustive_trees(problem)
        ours.append(best_responses(problem).cost / best)
        theirs.append(LocalSearch(problem, seed=seed).anneal(_processor(2.0), first_neighbours=50).cost / best)
    print("| small workloads | optimal | worst |\n| --- | --- | --- |")
    for name, found in (("best responses", ours), ("annealing as printed, 2 s", theirs)):
        optimal = sum(one <= 1 + 1e-9 for one in found) / len(found)
        print(f"| {name} | {100 * optimal:.1f} % of {len(found)} | {max(found):.4f} |", flush=True)


def compare_large(first: int, cases: int, queries: int, solver_s: float, search_s: float) -> None:
    """Prints the avoidable cost of best responses and of MCEP's searches, relative to the proven optimum."""
    print("\n| workload | optimum proven to | best responses | in s (processor) | annealing | tabu |")
    print("| --- | --- | --- | --- | --- | --- |")
    ratios = []
    for seed in range(first, first + cases):
        for name, rules in (
            ("independent", independent(queries, 20, 0.2, seed=seed)),
            ("families", families(queries, 30, 10, 4, 1, seed=seed)),
        ):
            problem = instances_of(rules)
            found, bound = proven_optimum(problem, solver_s)
            # What the solver found in time is no optimum unless it is proven; the bound is below every plan.
            best = found if found <= bound * (1 + _PROVEN) else bound
            started = time.process_time()
            ours = avoidable_cost(problem, best_responses(problem, _processor(60.0)))
            took = time.process_time() - started
            annealed = avoidable_cost(problem, LocalSearch(problem, seed=seed).anneal(_processor(search_s)))
            tabu = avoidable_cost(problem, LocalSearch(problem, seed=seed).tabu(_processor(search_s)))
            ratios.append(ours / best)
            print(
                f"| {name} {seed} | {found / max(bound, 1e-300) - 1:.1e} | {ours / best:.4f} | {took:.1f} "
                f"| {annealed / best:.4f} | {tabu / best:.4f} |",
                flush=True,
            )
    print(f"\nbest responses: median {statistics.median(ratios):.4f}, worst {max(ratios):.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=500, help="small workloads (default: %(default)s)")
    parser.add_argument("--large", type=int, default=20, help="large workloads of each kind (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first large one (default: %(default)s)")
    parser.add_argument("--queries", type=int, default=100, help="patterns of a large one (default: %(default)s)")
    parser.add_argument("--solver-time", type=float, default=120.0, help="seconds for a proof (default: %(default)s)")
    parser.add_argument(
        "--search-time", type=float, default=180.0, help="seconds for each of MCEP's searches (default: %(default)s)"
    )
    args = parser.parse_args()
    if args.small:
        compare_small(args.small)
    if args.large:
        compare_large(args.first, args.large, args.queries, args.solver_time, args.search_time)


if __name__ == "__main__":
    main()
