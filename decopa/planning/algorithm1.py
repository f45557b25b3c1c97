"""The paper's own construction (Algorithm 1, with the slips of its listing corrected): strategy `decopa-paper`.

Sub-queries that are rate-reducing are built bottom-up; each keeps the split with the least sum of comparisons, out of
sampled left-deep splits and joins of two smaller such sub-queries.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

from costmodel.capacity import Capacity
from costmodel.logarithms import log_sum
from costmodel.throughput import Reading, load_at
from decopa.errors import PlanError
from decopa.planning.baselines import proportional_units
from decopa.planning.construct import skeletons
from decopa.planning.split import Split, SplitSpace, Step, split_of
from decopa.planning.subquery import SubQuery
from decopa.planning.units import Assignment, assign_units

#: Left-deep splits drawn per sub-query; all of them if there are no more.
SAMPLES = 24


def construct_as_printed(
    space: SplitSpace, units: int, capacity: Capacity, reading: Reading = Reading.LINEAR, *, seed: int = 1
) -> Assignment:
    """The plan of Algorithm 1; KL positions are closed last, by whichever split makes fewer comparisons."""
    best: tuple[float, Split] | None = None
    for skeleton in skeletons(space):
        steps: tuple[Step, ...] = skeleton.fixed
        for core in skeleton.cores:
            steps += _core_split(space, core, units - len(skeleton.fixed), random.Random(seed))
        split = split_of(steps)
        cost = _log_cost(space, split, [1] * len(split))
        if len(split) <= units and (best is None or cost < best[0]):
            best = cost, split
    if best is None:
        raise PlanError(f"no split of {space.query.pattern} has at most {units} operators")
    return assign_units(space, best[1], units, capacity, reading)


def _core_split(space: SplitSpace, core: Sequence[str], units: int, rng: random.Random) -> Split:
    if len(core) < 2:
        return ()
    root = SubQuery(frozenset(core))
    reducing = [
        sub_query
        for size in range(2, len(core))
        for sub_query in (SubQuery(frozenset(aliases)) for aliases in itertools.combinations(core, size))
        if space.rates.is_rate_reducing(sub_query.aliases, ())
    ]
    splits: dict[SubQuery, Split] = {}
    costs: dict[SubQuery, float] = {}
    for sub_query in [*reducing, root]:
        for split in _left_deep_samples(sub_query, core, rng):
            cost = _log_cost(space, split, [1] * len(split))
            if cost < costs.get(sub_query, math.inf):
                splits[sub_query], costs[sub_query] = split, cost
    total = log_sum(*costs.values())  # the root included, or it would be given more units than there are
    for sub_query in [*reducing, root]:
        share = max(1, round(math.exp(costs[sub_query] - total) * units))
        costs[sub_query] = _log_cost_on(space, splits[sub_query], share)
        candidates = [one for one in reducing if one.aliases < sub_query.aliases and costs[one] < costs[sub_query]]
        for left, right in itertools.combinations(candidates, 2):
            if left.aliases | right.aliases != sub_query.aliases:
                continue
            split = split_of((*splits[left], *splits[right], Step(sub_query, (left, right))))
            if len({step.sub_query for step in split}) < len(split) or len(split) > units:
                continue
            cost = _log_cost_on(space, split, share)
            if cost < costs[sub_query]:
                splits[sub_query], costs[sub_query] = split, cost
    return splits[root]


def _left_deep_samples(sub_query: SubQuery, core: Sequence[str], rng: random.Random) -> list[Split]:
    aliases = [alias for alias in core if alias in sub_query.aliases]
    if math.factorial(len(aliases)) <= 2 * SAMPLES:
        orders = [order for order in itertools.permutations(aliases) if order[0] < order[1]]
    else:
        orders = [tuple(rng.sample(aliases, len(aliases))) for _ in range(SAMPLES)]
    found = []
    for order in orders:
        done = SubQuery(frozenset(order[:1]))
        steps = []
        for alias in order[1:]:
            joined = SubQuery(done.aliases | {alias})
            steps.append(Step(joined, (done, SubQuery(frozenset({alias})))))
            done = joined
        found.append(split_of(steps))
    return found


def _log_cost_on(space: SplitSpace, split: Split, units: int) -> float:
    """The sum of comparisons per unit, with units in proportion to comparisons."""
    return _log_cost(space, split, proportional_units(space, split, max(units, len(split))))


def _log_cost(space: SplitSpace, split: Split, units: Sequence[int]) -> float:
    loads = [load_at(space.price(step), 0.0, Reading.LINEAR).comparisons for step in split]
    return log_sum(*(load.log_per_unit(count) for load, count in zip(loads, units, strict=True)))
