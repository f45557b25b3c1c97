"""How to unite streams: the paper's binary tree by Huffman (Fig. 3), and one union of all of them.

In a binary tree an event passes as many unions as its leaf lies deep. The engine's leaf takes events of several types
at once, so each event is taken in once.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from costmodel.papers.next_cost import Either, Expression, Stream


@dataclass(frozen=True, slots=True)
class UnionTree:
    """A tree of unions, its cost (rows taken in by all of its unions) and how deep each stream lies."""

    tree: Expression
    cost: float
    depth: Mapping[str, int]


def huffman(rates: Mapping[str, float]) -> UnionTree:
    """Unites the two streams of the lowest rates until one is left; that is the cheapest binary tree."""
    ticks = itertools.count()
    heap: list[tuple[float, int, Expression, dict[str, int]]] = [
        (rate, next(ticks), Stream(name), {name: 0}) for name, rate in rates.items()
    ]
    heapq.heapify(heap)
    cost = 0.0
    while len(heap) > 1:
        rate, _, one, depths = heapq.heappop(heap)
        other_rate, _, other, other_depths = heapq.heappop(heap)
        cost += rate + other_rate
        deeper = {name: depth + 1 for name, depth in {**depths, **other_depths}.items()}
        heapq.heappush(heap, (rate + other_rate, next(ticks), Either(one, other), deeper))
    _, _, tree, depth = heap[0]
    return UnionTree(tree, cost, dict(sorted(depth.items())))


def flat_cost(rates: Mapping[str, float]) -> float:
    """Rows taken in by one union of all streams: each event once."""
    return sum(rates.values())


def cheapest_tree_cost(rates: Mapping[str, float]) -> float:
    """The least cost over all binary trees of unions, by looking at every way to cut a set of streams in two."""
    names = tuple(sorted(rates))
    known: dict[frozenset[str], float] = {frozenset({name}): 0.0 for name in names}

    def least(group: frozenset[str]) -> float:
        if group not in known:
            first = min(group)
            rest = sorted(group - {first})
            cuts = (
                frozenset({first, *chosen})
                for size in range(len(rest))
                for chosen in itertools.combinations(rest, size)
            )
            known[group] = sum(rates[name] for name in group) + min(least(one) + least(group - one) for one in cuts)
        return known[group]

    return least(frozenset(names))
