"""The choice among candidate plans when statistics were measured and so are known only within intervals.

Every candidate is priced in several worlds: the one in the middle of all intervals, and worlds drawn from them. In each
world some candidate is best; the regret of another is how many times as long it takes. The candidate with the smallest
worst regret is chosen: it is good over the whole interval rather than best at its middle. A plan that forms KL groups
early carries their large errors, and so has to earn its place.

How long a plan takes is the share of time that its busiest unit needs; where several units share a processor, all of
their work counts as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from costmodel.capacity import Capacity
from costmodel.logarithms import value_of
from costmodel.rates import QueryRates
from costmodel.throughput import Scaling, load_at
from decopa.choices import Reading
from decopa.errors import PlanError
from decopa.planning.plan import QueryPlan
from decopa.planning.split import Split, SplitSpace, Step, split_of
from decopa.planning.strategies.algorithm1 import construct_as_printed
from decopa.planning.strategies.baselines import query_order, split_of_plan
from decopa.planning.strategies.chain_split import cheapest_split
from decopa.planning.strategies.construct import construct, is_searched, skeletons
from decopa.planning.strategies.cover import JoinCover
from decopa.planning.strategies.left_deep import left_deep
from decopa.planning.strategies.side_by_side import staying_sides
from decopa.planning.strategies.units import Assignment, assign_units, reassigned, to_plan

#: Worlds beside the middle one.
_DRAWN_WORLDS = 6
#: A regret smaller by this much is no reason to prefer a plan that takes more work.
_EQUAL = 0.02
#: A plan whose partial matches travel from unit to unit must be predicted to be faster than one whose matches stay by
#: this factor: both ends pay for a message, which the model does not price (docs/benchmarks/delivery.md, Ray).
TRAVELLING = 1.2


@dataclass(frozen=True)
class Candidate:
    """A split on units of its steps' own, or with `hosts` all of it on each of that many units."""

    assignment: Assignment
    hosts: int = 0

    @property
    def together(self) -> bool:
        """Whether all operators are on one unit."""
        return self.hosts == 1

    def plan(self, space: SplitSpace) -> QueryPlan:
        plan = to_plan(space, self.assignment)
        if not self.hosts:
            return plan
        hosts = tuple(range(self.hosts))
        return replace(
            plan,
            operators=tuple(
                replace(one, units=self.hosts, hosts=hosts) if one.inputs or self.together else one
                for one in plan.operators
            ),
        )


@dataclass(frozen=True)
class Choice:
    """A candidate with what it costs at the middle of all intervals (share of time) and its worst regret (a factor)."""

    candidate: Candidate
    seconds_per_second: float
    worst_regret: float


def ranked(
    space: SplitSpace,
    units: int,
    capacity: Capacity,
    reading: Reading = Reading.LINEAR,
    *,
    processors: int | None = None,
    seed: int = 1,
) -> list[Choice]:
    """The candidate plans for `units` units that share `processors` processors (default: one each), best first."""
    rng = np.random.default_rng(seed)
    known = space.rates.statistics
    drawn = [QueryRates(space.query, known.drawn(rng), space.rates.model) for _ in range(_DRAWN_WORLDS)]
    worlds = [space, *(SplitSpace(space.query, rates) for rates in drawn)]
    searched = worlds if is_searched(space.query) else worlds[:1]  # larger queries in the middle one only
    splits = [split for world in searched for split in least_work_splits(world, capacity)]
    found = list(dict.fromkeys(candidates(space, units, capacity, reading, splits, processors=processors, seed=seed)))
    shared = max(1, units if processors is None else min(processors, units))  # a lone position has no units
    costs = np.array([[_log_cost(one, world, capacity, reading, shared) for one in found] for world in worlds])
    weighed = costs + np.array([0.0 if one.hosts or units == 1 else math.log(TRAVELLING) for one in found])
    regrets = (weighed - weighed.min(axis=1, keepdims=True)).max(axis=0)
    totals = [_log_work(one, space, capacity) for one in found]
    order = sorted(range(len(found)), key=lambda at: (round(float(regrets[at]) / _EQUAL), totals[at], at))
    return [Choice(found[at], value_of(float(costs[0, at])), math.exp(min(700.0, regrets[at]))) for at in order]


def candidates(
    space: SplitSpace,
    units: int,
    capacity: Capacity,
    reading: Reading,
    least_work: Sequence[Split],
    *,
    processors: int | None,
    seed: int,
) -> Iterator[Candidate]:
    """Splits that may be best: by throughput, by work, as the paper finds them, in query order."""
    splits = [*least_work, split_of_plan(left_deep(space.query)), split_of_plan(query_order(space.query))]
    with suppress(PlanError):  # more operators than units
        constructed = construct(space, units, capacity, reading)
        yield Candidate(constructed)
        splits.insert(0, constructed.split)
        if not space.query.chosen_in_order:
            splits.append(construct_as_printed(space, units, capacity, reading, seed=seed).split)
    for split in dict.fromkeys(splits):
        if len(split) <= units:
            yield Candidate(assign_units(space, split, units, capacity, reading))
    for split in dict.fromkeys(splits):
        if len(split) > 1 and (processors is not None or len(split) > units):
            yield Candidate(assign_units(space, split, len(split), capacity, reading), hosts=1)
    for split in dict.fromkeys(splits) if units > 1 and processors != 1 else ():
        sides = staying_sides(space, split) if len(split) > 1 else None
        if sides is not None:
            yield Candidate(Assignment(split, (units,) * len(split), sides, Scaling(0.0)), hosts=units)


def least_work_splits(space: SplitSpace, capacity: Capacity) -> Iterator[Split]:
    """For each way to close KL positions last, the joins with the least sum of work: without shared positions, which
    has the fewest operators, and with them. With NEXT or ITER, the split with the least work of all."""
    if space.query.chosen_in_order:
        yield cheapest_split(space, capacity)
        return
    best: dict[bool, tuple[float, Split]] = {}
    covered = cache(lambda core: JoinCover(space, core, capacity, Reading.LINEAR))
    joined = cache(lambda core, shared: covered(core).least_work(shared=shared))
    for skeleton in skeletons(space):
        for shared in (False, True):
            total, steps = 0.0, list(skeleton.fixed)
            for core in skeleton.cores:
                cost, joins = joined(core, shared)
                total += cost
                steps += joins
            split = split_of(steps)
            total += sum(math.exp(min(700.0, _log_step(space, step, capacity))) for step in skeleton.fixed)
            if shared not in best or total < best[shared][0]:
                best[shared] = total, split
    yield from (split for _, split in best.values())


def _log_step(space: SplitSpace, step: Step, capacity: Capacity) -> float:
    load = load_at(space.price(step), 0.0, Reading.LINEAR)
    parts = [value_of(part.log_per_unit(1)) for part in (load.ingestion, load.comparisons, load.emission)]
    return math.log(max(1e-300, capacity.busy(*parts)))


def _log_work(candidate: Candidate, space: SplitSpace, capacity: Capacity) -> float:
    """The time that all units together need, as a logarithm of shares of one processor."""
    assignment = candidate.assignment
    total = 0.0
    for step, side, count in zip(assignment.split, assignment.partitioned, assignment.units, strict=True):
        load = load_at(space.price(step, side), 0.0, Reading.LINEAR)
        units = 1 if candidate.together else count
        parts = [min(1e290, part.per_unit(units) * units) for part in (load.ingestion, load.comparisons, load.emission)]
        total += capacity.busy(*parts)
    return math.log(max(1e-300, min(total, 1e300)))


def _log_cost(candidate: Candidate, space: SplitSpace, capacity: Capacity, reading: Reading, processors: int) -> float:
    """The time that a candidate needs: of its busiest unit, and of all of them on the processors there are."""
    work = _log_work(candidate, space, capacity)
    if candidate.together or processors == 1:
        return work
    if candidate.hosts:
        return work - math.log(min(candidate.hosts, processors))
    busiest = -reassigned(space, candidate.assignment, capacity, reading).scaling.log_scaling
    return max(busiest, work - math.log(processors))


def best_plans(choices: Sequence[Choice], space: SplitSpace, most: int) -> list[QueryPlan]:
    """The different plans of the first few choices."""
    plans = dict.fromkeys(choice.candidate.plan(space) for choice in choices[: 2 * most])
    return list(plans)[:most]
