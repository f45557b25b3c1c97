"""Problems of shared trees in MCEP's cost: the partial matches that all nodes hold (M12)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from costmodel.papers.instances import Pair, instances
from decopa.planning.workload.trees.mcep import TypePattern
from decopa.planning.workload.trees.multitree import MultiTree, TreeProblem, sub_patterns
from decopa.planning.workload.trees.problem import QueryProblem


class InstanceProblem:
    """Patterns over types, as MCEP writes them."""

    def __init__(
        self, patterns: Sequence[TypePattern], rates: Mapping[str, float], selectivities: Mapping[Pair, float]
    ) -> None:
        self._patterns, self._rates, self._selectivities = tuple(patterns), rates, selectivities
        self._windows: dict[Hashable, set[int]] = {}
        for number, pattern in enumerate(self._patterns):
            for mask in sub_patterns(self.full(number)):
                self._windows.setdefault(self.form(number, mask), set()).add(int(pattern.window))

    @property
    def patterns(self) -> int:
        return len(self._patterns)

    def full(self, pattern: int) -> int:
        return (1 << len(self._patterns[pattern].types)) - 1

    def window(self, pattern: int) -> int:
        return int(self._patterns[pattern].window)

    def names(self, pattern: int, mask: int) -> tuple[str, ...]:
        return tuple(one for bit, one in enumerate(self._patterns[pattern].types) if mask >> bit & 1)

    def form(self, pattern: int, mask: int) -> Hashable:
        types = self.names(pattern, mask)
        if len(types) == 1 and not self._patterns[pattern].conditions:
            return types  # leaves of a type are always shared
        return self._patterns[pattern].projected(frozenset(types))

    def windows(self, form: Hashable) -> Sequence[int]:
        return sorted(self._windows[form])

    def join_cost(self, pattern: int, mask: int, left: int, right: int, window: int) -> float:
        return self._held(pattern, mask, window)

    def leaf_cost(self, pattern: int, mask: int, window: int) -> float:
        return self._held(pattern, mask, window)

    def view_cost(self, pattern: int, mask: int, window: int) -> float:
        return 0.0

    def _held(self, pattern: int, mask: int, window: int) -> float:
        return instances(self.names(pattern, mask), window, self._rates, self._selectivities)


class QueryInstances(QueryProblem):
    """Queries, priced by the partial matches that their plans hold instead of by the work that they make."""

    def join_cost(self, pattern: int, mask: int, left: int, right: int, window: int) -> float:
        return self._held(pattern, mask, window)

    def leaf_cost(self, pattern: int, mask: int, window: int) -> float:
        return self._held(pattern, mask, window)

    def view_cost(self, pattern: int, mask: int, window: int) -> float:
        return 0.0

    def _held(self, pattern: int, mask: int, window: int) -> float:
        key = self.form(pattern, mask), None, None, window
        if key not in self._costs:
            self._costs[key] = self._space(pattern, window).rates.rate(self.names(pattern, mask))
        return self._costs[key]


def avoidable_cost(problem: TreeProblem, trees: MultiTree) -> float:
    """What is left of a solution's cost without roots and leaves, which every plan pays."""
    fixed = {chosen.root for chosen in trees.chosen.values()}
    return sum(node.cost for key, node in trees.nodes.items() if node.inputs and key not in fixed)


def exhaustive_trees(problem: TreeProblem) -> tuple[float, int]:
    """The least cost over all combinations of trees, and how many there are; for small problems."""
    choices = [list(_trees(problem, pattern, problem.full(pattern))) for pattern in range(problem.patterns)]
    best, tried = float("inf"), 0

    def extend(place: int, nodes: dict[tuple[Hashable, Hashable], tuple[int, int, int]]) -> None:
        nonlocal best, tried
        if place == len(choices):
            tried += 1
            cost = 0.0
            for pattern, mask, window in nodes.values():
                single = not mask & (mask - 1)
                cost += (
                    problem.leaf_cost(pattern, mask, window)
                    if single
                    else problem.join_cost(pattern, mask, 0, 0, window)
                )
            best = min(best, cost)
            return
        for tree in choices[place]:
            wider = dict(nodes)
            for shape, mask in _nodes(problem, place, tree):
                window = problem.window(place)
                known = wider.get(shape)
                wider[shape] = (place, mask, window if known is None else max(window, known[2]))
            extend(place + 1, wider)

    extend(0, {})
    return best, tried


def _trees(problem: TreeProblem, pattern: int, mask: int) -> Iterator[object]:
    if not mask & (mask - 1):
        yield mask
        return
    lowest, left = mask & -mask, (mask - 1) & mask
    while left:
        if left & lowest:
            for one in _trees(problem, pattern, left):
                for other in _trees(problem, pattern, mask ^ left):
                    yield (mask, one, other)
        left = (left - 1) & mask


def _nodes(problem: TreeProblem, pattern: int, tree: object) -> Iterator[tuple[tuple[Hashable, Hashable], int]]:
    """The nodes of a tree by their shapes: equal sub-trees over equal sub-patterns are one node."""
    if isinstance(tree, tuple):
        mask, one, other = tree
        below = [*_nodes(problem, pattern, one)], [*_nodes(problem, pattern, other)]
        yield from (*below[0], *below[1])
        shape = frozenset((below[0][-1][0], below[1][-1][0]))
        yield (problem.form(pattern, mask), shape), mask
    else:
        assert isinstance(tree, int)
        yield (problem.form(pattern, tree), None), tree
