"""Searches as MCEP describes them (4.2, appendix B): simulated annealing and tabu search over multitrees.

A neighbour lets two patterns (EDGE) or up to k of them (VERTEX) take a sub-pattern that they have in common from one
place; each gets its own cheapest tree that contains it. Deterministic for a seed, best so far when the time is up.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, replace

from decopa.planning.workload.trees.multitree import MultiTree, TreeProblem, sub_patterns
from decopa.planning.workload.trees.response import Budget, Responder

#: Appendix B: how fast the threshold falls, neighbours that it begins with, and those of a step of tabu search.
COOLING, FIRST_NEIGHBOURS = 0.99, 1_000
TABU_NEIGHBOURS, TABU_LENGTH = 100, 10_000
#: The threshold, as a share of the first, at which nothing worse is taken any more.
_COLD = 1e-6


def acceptance(old: float, new: float, threshold: float) -> float:
    """The probability to go on from a neighbour: 1 if it is better. The difference is new minus old, so that a worse
    one makes the exponent negative; print does not say."""
    return 1.0 if new <= old else math.exp(-(new - old) / threshold)


def cooling_steps(first: float, last: float, factor: float = COOLING) -> int:
    """Steps until the threshold has fallen that far."""
    return max(0, math.ceil(math.log(last / first) / math.log(factor)))


@dataclass(frozen=True)
class Neighbourhood:
    """How many patterns change at once: 2 along an edge of the multi-pattern graph, or up to k around a vertex."""

    most: int = 2


EDGE, V4, V8 = Neighbourhood(2), Neighbourhood(4), Neighbourhood(8)


class LocalSearch:
    """Searches for cheap multitrees of one problem; all of them begin with each pattern's own best tree."""

    def __init__(
        self,
        problem: TreeProblem,
        *,
        seed: int = 1,
        neighbourhood: Neighbourhood = EDGE,
        responder: Responder | None = None,
    ) -> None:
        self._problem, self._neighbourhood = problem, neighbourhood
        self._responder = responder or Responder(problem)
        self._random = random.Random(seed)
        self._uses: dict[Hashable, list[tuple[int, int]]] = {}
        for pattern in range(problem.patterns):
            for mask in sub_patterns(problem.full(pattern)):
                if mask & (mask - 1):
                    self._uses.setdefault(problem.form(pattern, mask), []).append((pattern, mask))
        self._uses = {form: uses for form, uses in self._uses.items() if len({one for one, _ in uses}) > 1}
        self._forms_of: dict[int, list[Hashable]] = {}
        for form, uses in self._uses.items():
            for pattern in dict.fromkeys(one for one, _ in uses):
                self._forms_of.setdefault(pattern, []).append(form)

    def start(self) -> MultiTree:
        """Every pattern's own best tree; equal sub-patterns are computed once."""
        trees = MultiTree()
        for pattern in range(self._problem.patterns):
            trees.add(pattern, self._responder.best(pattern))
        return trees

    def neighbour(self, trees: MultiTree) -> MultiTree:
        """Another solution near this one; the same if nothing can be shared."""
        if not self._forms_of:
            return trees
        vertex = self._random.choice(sorted(self._forms_of))
        form = self._random.choice(self._forms_of[vertex])
        others = sorted({one for one, _ in self._uses[form]} - {vertex})
        chosen = [vertex, *self._random.sample(others, min(self._neighbourhood.most - 1, len(others)))]
        window = max(self._problem.window(one) for one in chosen)
        masks = dict(self._uses[form])
        changed, pinned = trees.copy(), MultiTree()
        for pattern in chosen:
            changed.remove(pattern)
        pinned.add("pinned", self._responder.best(vertex, None, masks[vertex], window))
        for pattern in chosen:
            found = self._responder.best(pattern, pinned)
            # The pinned sub-pattern is part of the tree now, not of somebody else's.
            changed.add(pattern, replace(found, tree=(*pinned.nodes.items(), *found.tree)))
        return changed

    def anneal(self, budget: Budget, *, first_neighbours: int = FIRST_NEIGHBOURS) -> MultiTree:
        """Simulated annealing with the threshold of appendix B."""
        over, current = budget.deadline(), self.start()
        cost = current.cost
        sampled: list[float] = []
        while len(sampled) < first_neighbours and not over():
            sampled.append(abs(self.neighbour(current).cost - cost))
        threshold = first = max(sampled, default=0.0)
        best, best_cost = current, cost
        while threshold > _COLD * first and not over():
            other = self.neighbour(current)
            price = other.cost
            if self._random.random() < acceptance(cost, price, threshold):
                current, cost = other, price
                if cost < best_cost:
                    best, best_cost = current, cost
            threshold *= COOLING
        return best

    def tabu(self, budget: Budget, *, neighbours: int = TABU_NEIGHBOURS, most_steps: int | None = None) -> MultiTree:
        """Tabu search: the best of some neighbours that were not visited lately."""
        over, current = budget.deadline(), self.start()
        best, best_cost = current, current.cost
        visited: deque[Hashable] = deque([_identity(current)], maxlen=TABU_LENGTH)
        known, steps = set(visited), 0
        while not over() and (most_steps is None or steps < most_steps):
            steps += 1
            around = [self.neighbour(current) for _ in range(neighbours if not over() else 0)]
            fresh = [one for one in around if _identity(one) not in known]
            if not fresh:
                break
            current = min(fresh, key=lambda one: one.cost)
            if len(visited) == visited.maxlen:
                known.discard(visited[0])
            visited.append(_identity(current))
            known.add(visited[-1])
            if current.cost < best_cost:
                best, best_cost = current, current.cost
        return best


def _identity(trees: MultiTree) -> Hashable:
    return frozenset((key, node.inputs) for key, node in trees.nodes.items())
