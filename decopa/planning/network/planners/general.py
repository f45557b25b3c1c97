"""The cheapest graph if every binding may choose its own combination and placement (MuSE Algorithm 1).

Branch and bound: graphs of the bindings are united and priced with Def. 4 covers, as printed. For a handful of bindings
only: it is the yardstick for planners, not one of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from decopa.errors import PlanError
from decopa.planning.network.planners.exhaustive import combinations
from decopa.planning.network.problem.combination import bits
from decopa.planning.network.problem.instance import Instance

#: (projection, node)
Place = tuple[int, int]
Edges = frozenset[tuple[Place, Place]]
#: Bindings above which the search does not end in reasonable time.
MAX_BINDINGS = 8
_CLOSE = 1e-9


def cheapest_general(instance: Instance) -> float:
    """The cost of the optimum."""
    if instance.bindings(instance.full) > MAX_BINDINGS:
        raise PlanError(
            f"the search over all choices per binding is for up to {MAX_BINDINGS} bindings; this query has "
            f"{instance.bindings(instance.full)} in {instance.network.name}; use --strategy search"
        )
    options = [_options(instance, binding) for binding in itertools.product(*instance.producers)]
    options.sort(key=lambda edges: min(price(instance, one) for one in edges), reverse=True)  # the dearest decides most
    best, _ = _descended(instance, options)

    def search(place: int, edges: Edges, cost: float) -> None:
        nonlocal best
        if cost >= best - _CLOSE:
            return
        if place == len(options):
            best = cost
            return
        priced = ((price(instance, edges | option), edges | option) for option in options[place])
        for total, united in sorted(priced, key=lambda one: one[0]):
            search(place + 1, united, total)

    search(0, frozenset(), 0.0)
    return best


def price(instance: Instance, edges: Iterable[tuple[Place, Place]]) -> float:
    """c(G) with Def. 4 covers: each vertex pays for all origins behind it, once for each other node that reads it."""
    behind: dict[Place, set[Place]] = {}
    targets: dict[Place, set[int]] = {}
    for source, reader in edges:
        behind.setdefault(reader, set()).add(source)
        targets.setdefault(source, set()).add(reader[1])
    known: dict[Place, frozenset[Place]] = {}

    def roots(vertex: Place) -> frozenset[Place]:
        if vertex not in known:
            below = behind.get(vertex)
            known[vertex] = frozenset().union(*map(roots, below)) if below else frozenset([vertex])
        return known[vertex]

    total = 0.0
    for vertex, nodes in targets.items():
        remote = len(nodes - {vertex[1]})
        if remote:
            mask, cover = vertex[0], 1
            for place in bits(mask):
                cover *= sum(root[0] == 1 << place for root in roots(vertex))
            total += instance.per_binding(mask) * cover * remote
    return total


def _options(instance: Instance, binding: tuple[int, ...]) -> list[Edges]:
    """Every graph for one binding."""
    base: dict[int, int] = {1 << place: node for place, node in enumerate(binding)}
    found: set[Edges] = set()
    for combination in combinations(instance, every=True):
        for hosts in itertools.product(range(len(instance.nodes)), repeat=len(combination)):
            at = base | dict(zip(combination, hosts, strict=True))
            found.add(frozenset(((part, at[part]), (mask, at[mask])) for mask in combination
                                for part in combination[mask]))  # fmt: skip
    return sorted(found, key=lambda edges: price(instance, edges))


def _descended(instance: Instance, options: list[list[Edges]]) -> tuple[float, list[Edges]]:
    """A good graph: each binding takes its best option given the others, until nothing changes."""
    best, kept = float("inf"), []
    for start in range(len(instance.nodes)):
        chosen = [min(one, key=lambda edges: (sum(b[1] != start for _, b in edges), price(instance, edges)))
                  for one in options]  # fmt: skip
        cost = price(instance, frozenset().union(*chosen))
        improved = True
        while improved:
            improved = False
            for place, alternatives in enumerate(options):
                others = frozenset[tuple[Place, Place]]().union(*chosen[:place], *chosen[place + 1 :])
                total, edges = min(
                    ((price(instance, others | one), one) for one in alternatives), key=lambda found: found[0]
                )
                if total < cost - _CLOSE:
                    cost, chosen[place], improved = total, edges, True
        if cost < best:
            best, kept = cost, chosen
    return best, kept
