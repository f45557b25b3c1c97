"""Best responses: the cheapest tree of one pattern while all others stay as they are, until nobody can do better.

Given what the others compute, the cheapest tree of a pattern is found exactly, by dynamic programming over its
sub-patterns. Rounds of such responses end at a point where no pattern alone can improve. Joint moves then let all
patterns that contain a sub-pattern take it from one place at once, and are kept if the whole becomes cheaper.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from decopa.planning.workload.trees.multitree import Chosen, Key, MultiTree, Node, TreeProblem

#: A cost must fall by this share to count as better: sums in another order differ in their last digits.
_BETTER = 1e-9


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a search may take; None is as long as it likes."""

    seconds: float | None = None
    clock: Callable[[], float] = time.monotonic

    def deadline(self) -> Callable[[], bool]:
        """Tells whether the time is up."""
        if self.seconds is None:
            return lambda: False
        end = self.clock() + self.seconds
        return lambda: self.clock() >= end


class Responder:
    """Finds trees of patterns of one problem; with `left_deep` those that add one event after the other."""

    def __init__(self, problem: TreeProblem, *, left_deep: bool = False) -> None:
        self._problem, self._left_deep = problem, left_deep
        self._splits: dict[tuple[int, int], dict[int, list[tuple[int, int, float]]]] = {}

    def best(
        self, pattern: int, others: MultiTree | None = None, mask: int | None = None, window: int | None = None
    ) -> Chosen:
        """The cheapest tree of a pattern, or of the sub-pattern `mask` of it in another window, next to `others`."""
        return self.constrained(pattern, others, mask, window)

    def constrained(
        self,
        pattern: int,
        others: MultiTree | None = None,
        mask: int | None = None,
        window: int | None = None,
        fits: Callable[[int], bool] = lambda mask: True,
    ) -> Chosen:
        """The cheapest tree all of whose sub-patterns fit."""
        problem = self._problem
        wanted = problem.full(pattern) if mask is None else mask
        width = problem.window(pattern) if window is None else window
        there = {} if others is None else others.nodes
        found: dict[int, tuple[float, Key | None, tuple[int, int] | None]] = {}

        def value(one: int) -> float:
            if one not in found:
                found[one] = solve(one)
            return found[one][0]

        def solve(one: int) -> tuple[float, Key | None, tuple[int, int] | None]:
            form = problem.form(pattern, one)
            cheapest: tuple[float, Key | None, tuple[int, int] | None] = (math.inf, None, None)
            for wide in problem.windows(form):
                if wide >= width and (form, wide) in there:
                    price = problem.view_cost(pattern, one, wide) if wide > width else 0.0
                    if price < cheapest[0]:
                        cheapest = price, (form, wide), None
            if not one & (one - 1):
                alone = problem.leaf_cost(pattern, one, width)
                return cheapest if cheapest[0] <= alone else (alone, None, None)
            if cheapest[0] == 0.0:
                return cheapest
            for left, right, cost in self._ways(pattern, one, width):
                if (
                    cost < cheapest[0]
                    and (fits(left) or not left & (left - 1))
                    and (fits(right) or not right & (right - 1))
                ):
                    total = cost + value(left) + value(right)
                    if total < cheapest[0] * (1 - _BETTER):
                        cheapest = total, None, (left, right)
            return cheapest

        value(wanted)
        tree: dict[Key, Node] = {}
        views = 0.0

        def build(one: int) -> Key:
            nonlocal views
            price, used, split = found[one]
            if used is not None:
                views += price
                return used
            key = problem.form(pattern, one), width
            if key not in tree:
                if split is None:
                    tree[key] = Node((), price)
                else:
                    inputs = build(split[0]), build(split[1])
                    tree[key] = Node(inputs, problem.join_cost(pattern, one, *split, width))
            return key

        root = build(wanted)
        return Chosen(root, tuple(tree.items()), views)

    def _ways(self, pattern: int, mask: int, window: int) -> list[tuple[int, int, float]]:
        """Every way to put a sub-pattern together from two disjoint ones, the cheapest first."""
        known = self._splits.setdefault((pattern, window), {})
        if mask not in known:
            lowest, ways = mask & -mask, []
            left = (mask - 1) & mask
            while left:
                right = mask ^ left
                chain = not left & (left - 1) or not right & (right - 1)
                if left & lowest and (chain or not self._left_deep):
                    ways.append((left, right, self._problem.join_cost(pattern, mask, left, right, window)))
                left = (left - 1) & mask
            known[mask] = sorted(ways, key=lambda way: way[2])
        return known[mask]


def best_responses(
    problem: TreeProblem, budget: Budget | None = None, *, responder: Responder | None = None
) -> MultiTree:
    """A multitree that no pattern alone can improve, nor any joint move that was tried: the cheaper one of what is
    found from every pattern's own best tree, and from trees that were added one after the other."""
    over = (budget or Budget()).deadline()
    responder = responder or Responder(problem)
    found: list[MultiTree] = []
    for alone in (False, True):
        if found and over():
            break
        trees = MultiTree()
        for pattern in range(problem.patterns):
            trees.add(pattern, responder.best(pattern, None if alone else trees))
        _respond(problem, responder, trees, range(problem.patterns), over)
        found.append(_joint_moves(problem, responder, trees, over))
    return min(found, key=lambda one: one.cost)


def _respond(
    problem: TreeProblem, responder: Responder, trees: MultiTree, patterns: Sequence[int], over: Callable[[], bool]
) -> None:
    """Lets patterns respond in turn until none does better."""
    cost, better = trees.cost, True
    while better and not over():
        for pattern in patterns:
            trees.remove(pattern)
            trees.add(pattern, responder.best(pattern, trees))
        before, cost = cost, trees.cost
        better = cost < before * (1 - _BETTER)


def _joint_moves(problem: TreeProblem, responder: Responder, trees: MultiTree, over: Callable[[], bool]) -> MultiTree:
    containing: dict[Hashable, list[tuple[int, int]]] = {}
    for pattern in range(problem.patterns):
        full, mask = problem.full(pattern), 0
        while mask := (mask - full) & full:
            form = problem.form(pattern, mask)
            # Single events are a choice where windows differ: all may be held once, in the widest of them.
            if mask & (mask - 1) or len(problem.windows(form)) > 1:
                containing.setdefault(form, []).append((pattern, mask))
    candidates = [
        (form, window, [one for one in uses if problem.window(one[0]) <= window])
        for form, uses in containing.items()
        for window in problem.windows(form)
    ]
    candidates = [one for one in candidates if len({pattern for pattern, _ in one[2]}) > 1]
    improved = True
    while improved and not over():
        improved = False
        for form, window, uses in candidates:
            if over():
                break
            containing_it, users = {pattern for pattern, _ in uses}, trees.users((form, window))
            # Those who do not use it join the others; and all find it together, which may split it another way.
            for moving in (containing_it - users, containing_it & users):
                if not moving or (len(moving) < 2 and not users - moving):
                    continue
                tried = _together(responder, trees, (form, window), uses[0], sorted(moving))
                if tried.cost < trees.cost * (1 - _BETTER):
                    trees, improved = tried, True
    return trees


def _together(
    responder: Responder, trees: MultiTree, key: Key, first: tuple[int, int], joining: Sequence[int]
) -> MultiTree:
    """The trees if patterns that contain a sub-pattern find it computed, and respond to that twice; in between, so do
    the patterns that have lost somebody to share with."""
    tried = trees.copy()
    left = {used for pattern in joining for used in tried.used_by(pattern)}
    for pattern in joining:
        tried.remove(pattern)
    if key not in tried.nodes:
        tried.add("pinned", responder.best(first[0], tried, first[1], key[1]))
    for pattern in joining:
        tried.add(pattern, responder.best(pattern, tried))
    if "pinned" in tried.chosen:
        tried.remove("pinned")
    shared_less = (used for used in left if tried.users(used) < trees.users(used))
    bereft = {user for used in shared_less for user in tried.users(used) if isinstance(user, int)}
    for pattern in (*sorted(bereft.difference(joining)), *joining):
        tried.remove(pattern)
        tried.add(pattern, responder.best(pattern, tried))
    return tried
