"""The cheapest uniform graph, by enumeration: one combination for all bindings, every placement of its projections.

Each projection sits at one node, or at all hosts of one predecessor, every host using its own share of that one and
all matches of the others. Branches that cost more than the best graph found so far are cut, which is exact: adding a
projection never makes the transfers of others cheaper.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from decopa.errors import PlanError
from decopa.planning.network.problem.combination import minimal_covers
from decopa.planning.network.problem.instance import Instance
from decopa.planning.network.problem.subplan import NONE, Flows, Hosts, SubPlan, Workspace, single

Combination = dict[int, tuple[int, ...]]
#: Costs closer than this are equal.
_CLOSE = 1e-12
#: Types of a query above which the number of combinations is out of reach.
MAX_POSITIONS = 5


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best plan, and how each equally good one places its projections, as in `AB@2` or `ABC/AB`."""

    plan: SubPlan
    ties: tuple[tuple[str, ...], ...]

    @property
    def cost(self) -> float:
        return self.plan.cost


def combinations(instance: Instance, *, every: bool = False) -> Iterator[Combination]:
    """The uniform, non-redundant combinations (Def. 15); of beneficial projections only, unless `every`.

    Leaving others out is safe: sending their primitives instead costs less (Theorem 3 for the primitive combination).
    """
    composite = instance.projections if every else instance.beneficial_projections
    available = [*instance.primitives, *composite]
    covers = {mask: list(minimal_covers(mask, available)) for mask in (*composite, instance.full)}

    def extend(done: Combination, waiting: tuple[int, ...]) -> Iterator[Combination]:
        if not waiting:
            yield done
            return
        mask, *rest = waiting
        for cover in covers[mask]:
            new = [part for part in cover if part in covers and part not in done]
            # Larger projections first: all that read a projection are known before it is decided.
            order = sorted({*rest, *new}, key=lambda part: (-part.bit_count(), part))
            yield from extend({**done, mask: cover}, tuple(order))

    yield from extend({}, (instance.full,))


def cheapest_uniform(
    instance: Instance,
    workspace: Workspace,
    *,
    multi_sink: bool = True,
    every: bool = False,
    known: float = float("inf"),
) -> Optimum:
    """The optimum; `known` is the cost of a plan of this kind found elsewhere, which speeds the search up."""
    if len(instance.primitives) > MAX_POSITIONS:
        raise PlanError(
            f"exhaustive search is for queries of up to {MAX_POSITIONS} types, not {len(instance.primitives)}; "
            "use --strategy search"
        )
    best: SubPlan | None = None
    limit, ties = known * (1 + 1e-9), set[tuple[str, ...]]()
    nodes = range(len(instance.nodes))
    leaves = {leaf.mask: leaf for leaf in workspace.leaves(instance)}

    def options(inputs: tuple[SubPlan, ...]) -> Iterator[tuple[str, int, Hosts, SubPlan | None]]:
        for node in nodes:
            yield f"@{instance.nodes[node]}", NONE, single(node), None
        for source in inputs if multi_sink else ():
            if len(source.hosts) > 1 and source.axis != NONE:
                yield f"/{_label(instance, source.mask)}", source.axis, source.hosts, source

    def place(combination: Combination, order: list[int], done: dict[int, SubPlan], flows: Flows, cost: float,
              labels: tuple[str, ...]) -> None:  # fmt: skip
        nonlocal best, limit
        mask, *rest = order
        inputs = tuple(done[part] for part in combination[mask])
        for tag, axis, hosts, local in options(inputs):
            plan = workspace.joined(instance, mask, axis, hosts, inputs, local=local, only_local=True)
            together, extra = workspace.added(flows, plan.flows)
            total = cost + extra
            if total > limit * (1 + _CLOSE):
                continue
            named = (*labels, _label(instance, mask) + tag)
            if rest:
                place(combination, rest, {**done, mask: plan}, together, total, named)
                continue
            if best is None or total < best.cost * (1 - _CLOSE):
                ties.clear()
            if best is None or total < best.cost:
                best, limit = plan, min(limit, total)
            ties.add(named)

    for combination in combinations(instance, every=every):
        order = sorted(combination, key=lambda mask: (mask.bit_count(), _label(instance, mask)))
        place(combination, order, dict(leaves), {}, 0.0, ())
    if best is None:
        raise PlanError(f"no plan for {instance.query.pattern} costs at most {known:g}")
    return Optimum(best, tuple(sorted(ties)))


def _label(instance: Instance, mask: int) -> str:
    """The types of a projection in alphabetical order, as in ABC."""
    return "".join(sorted(instance.types[place] for place in range(len(instance.types)) if mask >> place & 1))
