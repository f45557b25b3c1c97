"""Best responses: the cheapest tree of one pattern while all others stay as they are, until nobody can do better.

Given what the others compute, the cheapest tree of a pattern is found exactly, by dynamic programming over its
sub-patterns. Rounds of such responses end at a point where no pattern alone can improve. Joint moves then let all
patterns that contain a sub-pattern take it from one place at once, and are kept if the whole becomes cheaper.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from decopa.planning.workload.trees.multitree import Chosen, Key, MultiTree, Node, TreeProblem, sub_patterns

#: A cost must fall by this share to count as better: sums in another order differ in their last digits.
_BETTER = 1e-9
#: Workloads of up to so many patterns get more starts, in which what n patterns contain costs 1 / n ** power.
_FEW_PATTERNS, _POWERS = 200, (0.25, 0.75)


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


class _SubPattern(NamedTuple):
    """What does not change about a sub-pattern in a window."""

    key: Key
    #: Where others may have found its matches, in this window or in a wider one, with the price of taking them.
    elsewhere: tuple[tuple[Key, float], ...]
    #: Every way to put it together from two disjoint ones with its cost, the cheapest first; none for a single event,
    #: which costs `alone`.
    ways: tuple[tuple[int, int, float], ...]
    alone: float


class Responder:
    """Finds trees of patterns of one problem; with `left_deep` those that add one event after the other."""

    def __init__(self, problem: TreeProblem, *, left_deep: bool = False) -> None:
        self._problem, self._left_deep = problem, left_deep
        self._known: dict[tuple[int, int], dict[int, _SubPattern]] = {}

    def of(self, problem: TreeProblem) -> Responder:
        """One that finds trees of the same shapes for another problem."""
        return Responder(problem, left_deep=self._left_deep)

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
        fits: Callable[[int], bool] | None = None,
    ) -> Chosen:
        """The cheapest tree all of whose sub-patterns fit."""
        wanted = self._problem.full(pattern) if mask is None else mask
        width = self._problem.window(pattern) if window is None else window
        known = self._known.setdefault((pattern, width), {})
        there = {} if others is None else others.nodes
        #: The least price of each sub-pattern, who has it, and how it is put together.
        found: dict[int, tuple[float, Key | None, tuple[int, int] | None]] = {}

        def solve(one: int) -> float:
            here = known.get(one) or self._learn(known, pattern, one, width)
            price, used, split = math.inf, None, None
            for key, view in here.elsewhere:
                if view < price and key in there:
                    price, used = view, key
            if not here.ways:
                found[one] = (price, used, None) if price <= here.alone else (here.alone, None, None)
                return found[one][0]
            for left, right, cost in here.ways:
                if cost >= price:
                    break
                if fits is not None and not all(fits(side) for side in (left, right) if side & (side - 1)):
                    continue
                total = cost + (found[left][0] if left in found else solve(left))
                if total < price:
                    total += found[right][0] if right in found else solve(right)
                if total < price * (1 - _BETTER):
                    price, used, split = total, None, (left, right)
            found[one] = price, used, split
            return price

        solve(wanted)
        tree: dict[Key, Node] = {}
        views = 0.0

        def build(one: int) -> Key:
            nonlocal views
            price, used, split = found[one]
            if used is not None:
                views += price
                return used
            key = known[one].key
            if key not in tree:
                if split is None:
                    tree[key] = Node((), price)
                else:
                    inputs = build(split[0]), build(split[1])
                    tree[key] = Node(inputs, self._problem.join_cost(pattern, one, *split, width))
            return key

        root = build(wanted)
        return Chosen(root, tuple(tree.items()), views)

    def _learn(self, known: dict[int, _SubPattern], pattern: int, mask: int, window: int) -> _SubPattern:
        problem, form = self._problem, self._problem.form(pattern, mask)
        elsewhere = tuple(
            ((form, wide), problem.view_cost(pattern, mask, wide) if wide > window else 0.0)
            for wide in problem.windows(form)
            if wide >= window
        )
        ways = self._ways(pattern, mask, window)
        alone = math.inf if ways else problem.leaf_cost(pattern, mask, window)
        known[mask] = _SubPattern((form, window), elsewhere, ways, alone)
        return known[mask]

    def _ways(self, pattern: int, mask: int, window: int) -> tuple[tuple[int, int, float], ...]:
        lowest, ways = mask & -mask, []
        left = (mask - 1) & mask
        while left:
            right = mask ^ left
            chain = not left & (left - 1) or not right & (right - 1)
            if left & lowest and (chain or not self._left_deep):
                ways.append((left, right, self._problem.join_cost(pattern, mask, left, right, window)))
            left = (left - 1) & mask
        return tuple(sorted(ways, key=lambda way: way[2]))


def best_responses(
    problem: TreeProblem, budget: Budget | None = None, *, responder: Responder | None = None
) -> MultiTree:
    """A multitree that no pattern alone can improve, nor any joint move that was tried: the cheapest one of what is
    found from several starts."""
    over = (budget or Budget()).deadline()
    responder = responder or Responder(problem)
    found: list[MultiTree] = []
    for trees in _starts(problem, responder):
        _respond(problem, responder, trees, range(problem.patterns), over)
        found.append(_joint_moves(problem, responder, trees, over))
        if over():
            break
    return min(found, key=lambda one: one.cost)


def _starts(problem: TreeProblem, responder: Responder) -> Iterator[MultiTree]:
    """Trees to begin with: added one after the other; the best of each pattern alone; and, for workloads that are small
    enough to try more, the best of each if what several patterns contain costs less than it does.

    Where one start leads to a dead end, others hardly ever do: with the first two the worst of 20 workloads of 100
    patterns was 3.5 % above the optimum.
    """
    for alone in (False, True):
        trees = MultiTree()
        for pattern in range(problem.patterns):
            trees.add(pattern, responder.best(pattern, None if alone else trees))
        yield trees
    for power in _POWERS if problem.patterns <= _FEW_PATTERNS else ():
        trees, hopeful = MultiTree(), responder.of(_SharedPrices(problem, power))
        for pattern in range(problem.patterns):
            wanted, window = {key for key, _ in hopeful.best(pattern).tree}, problem.window(pattern)
            trees.add(
                pattern,
                responder.constrained(pattern, trees, fits=partial(_is_one_of, problem, pattern, window, wanted)),
            )
        yield trees


def _is_one_of(problem: TreeProblem, pattern: int, window: int, keys: set[Key], mask: int) -> bool:
    return (problem.form(pattern, mask), window) in keys


class _SharedPrices:
    """A problem in which a sub-pattern costs the less, the more patterns contain it, as if some of them shared it."""

    def __init__(self, problem: TreeProblem, power: float) -> None:
        self._problem, self._power = problem, power
        self._containing: Counter[Hashable] = Counter()
        for pattern in range(problem.patterns):
            self._containing.update({problem.form(pattern, mask) for mask in sub_patterns(problem.full(pattern))})
        self.patterns, self.full, self.window = problem.patterns, problem.full, problem.window
        self.form, self.windows = problem.form, problem.windows
        self.leaf_cost, self.view_cost = problem.leaf_cost, problem.view_cost

    def join_cost(self, pattern: int, mask: int, left: int, right: int, window: int) -> float:
        containing = self._containing[self.form(pattern, mask)]
        return self._problem.join_cost(pattern, mask, left, right, window) / float(containing**self._power)


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
        for mask in sub_patterns(problem.full(pattern)):
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
