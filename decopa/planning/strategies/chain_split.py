"""The cheapest way to match a query with NEXT, by the engine's own costs.

Sub-queries of a NEXT are runs of neighbours, n(n+1)/2 of them, and what a step costs depends on the rates of its inputs
alone. So the best split of a run is made of best splits of shorter ones: the interval program of the NEXT paper (4.3),
exact here because waiting matches are decided together and bursts cost nothing.
"""

from __future__ import annotations

import math

from costmodel.capacity import Capacity
from decopa.planning.split import Split, SplitSpace, Step, split_of
from decopa.planning.strategies.baselines import query_order, split_of_plan
from decopa.planning.subquery import SubQuery, whole

#: Above this many positions, a query that has more than one NEXT in it is matched in query order.
_MOST_MIXED = 7


def cheapest_split(space: SplitSpace, capacity: Capacity) -> Split:
    """The split with the least work per window over steps whose inputs share no position."""
    query = space.query
    alone = any(chain.aliases == frozenset(query.positive_aliases) and len(chain.head) == 1 for chain in query.chains)
    if not alone and len(query.aliases) > _MOST_MIXED:
        return split_of_plan(query_order(query))
    best: dict[SubQuery, tuple[float, tuple[Step, ...]]] = {}

    def solve(sub_query: SubQuery) -> tuple[float, tuple[Step, ...]]:
        if sub_query in best:
            return best[sub_query]
        found: tuple[float, tuple[Step, ...]] = (math.inf, ())
        if len(sub_query.aliases) == 1 and not sub_query.closed:
            found = (0.0, ())
        for step in space.steps(sub_query):
            if len(step.inputs) == 2 and step.inputs[0].aliases & step.inputs[1].aliases:
                continue
            parts = [solve(one) for one in step.inputs]
            total = step_cost(space, step, capacity) + sum(cost for cost, _ in parts)
            if total < found[0]:
                found = (total, (*(one for _, steps in parts for one in steps), step))
        best[sub_query] = found
        return found

    cost, steps = solve(whole(query))
    return split_of(steps) if math.isfinite(cost) else split_of_plan(query_order(query))


def step_cost(space: SplitSpace, step: Step, capacity: Capacity) -> float:
    """The share of one unit's time that a step takes per window."""
    load = space.price(step).load()
    return load.ingestion.per_unit(1) / capacity.max_ingestion + load.comparisons.per_unit(1) / capacity.max_comparisons
