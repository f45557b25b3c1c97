"""The default planner: the split that sustains the largest c, by a dynamic program, then a bounded exact search.

For a given c the dynamic program finds how few units a split needs; the largest c whose split fits the units is found
by bisection. It differs from the paper's Algorithm 1 in its objective (the slowest operator, not the sum of
comparisons), in considering all sub-queries rather than rate-reducing ones, and in pricing ingestion, too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from costmodel.capacity import Capacity
from costmodel.throughput import units_needed
from decopa.choices import Reading
from decopa.errors import PlanError
from decopa.planning.split import SplitSpace, Step, split_of
from decopa.planning.strategies.baselines import query_order, split_of_plan
from decopa.planning.strategies.chain_split import cheapest_split
from decopa.planning.strategies.cover import JoinCover
from decopa.planning.strategies.exhaustive import best_assignment
from decopa.planning.strategies.units import Assignment, assign_units
from decopa.planning.subquery import SubQuery, negated_part
from decopa.query.analysis import Scope
from decopa.query.query import Query

#: The bisection for c stops at this relative width; the split that it ends with is then allocated exactly.
_WIDTH = 1e-3
#: Queries up to this size are searched further, for splits that share sub-queries in ways the program cannot count. A
#: KL counts twice, since a sub-query may hold its events or its groups.
_SEARCHED_POSITIONS, _SEARCHED_WITH_KLEENE = 6, 7
#: Branches looked at in that search, where a step that is priced counts as several: about half a second.
_SEARCH_WORK = 25_000


@dataclass(frozen=True)
class Skeleton:
    """What remains to be decided is how to join `cores`; the other steps follow from them."""

    cores: tuple[tuple[str, ...], ...]
    fixed: tuple[Step, ...]


def construct(
    space: SplitSpace,
    units: int,
    capacity: Capacity,
    reading: Reading = Reading.LINEAR,
    *,
    search: bool = True,
) -> Assignment:
    """The best assignment found for `units` units; PlanError if no split has as few operators.

    Without `search` the dynamic program alone decides, which is quicker and rarely worse.
    """
    if space.query.chosen_in_order:
        return assign_units(space, cheapest_split(space, capacity), units, capacity, reading)
    best: Assignment | None = None
    cover = cache(lambda core: JoinCover(space, core, capacity, reading))
    for skeleton in skeletons(space):
        found = _best_of(space, skeleton, [cover(core) for core in skeleton.cores], units, capacity, reading)
        if found is not None and (best is None or found.scaling.log_scaling > best.scaling.log_scaling):
            best = found
    if best is None:
        # Too few units, or groups so many that no c within reach is sustained: then any order is as good.
        split = split_of_plan(query_order(space.query))
        if units < len(split):
            raise PlanError(f"no split of {space.query.pattern} has at most {units} operators")
        best = assign_units(space, split, units, capacity, reading)
    if search and is_searched(space.query):
        searched = best_assignment(space, units, capacity, reading, seed=best, max_work=_SEARCH_WORK)
        best = searched or best
    return best


def is_searched(query: Query) -> bool:
    """Whether a query is small enough to look at more than the program does within the time a user waits for a plan."""
    positions = len(query.aliases)
    return positions <= _SEARCHED_POSITIONS and positions + len(query.kleene_aliases) <= _SEARCHED_WITH_KLEENE


def _best_of(
    space: SplitSpace,
    skeleton: Skeleton,
    covers: Sequence[JoinCover],
    units: int,
    capacity: Capacity,
    reading: Reading,
) -> Assignment | None:
    def steps_at(log_scaling: float) -> tuple[Step, ...] | None:
        """Steps that sustain c on the units there are."""
        used = 0.0
        steps: list[Step] = []
        for step in skeleton.fixed:
            needed = units_needed(space.price(step), capacity, math.exp(log_scaling), reading)
            if needed is None:
                return None
            used += needed.units
        for cover in covers:
            needs, joins = cover.cheapest(log_scaling)
            used += needs
            steps += joins
            if used > units:
                return None
        return (*steps, *skeleton.fixed)

    low = -_LOWEST
    found = steps_at(low)
    if found is None:
        return None
    best = assign_units(space, split_of(found), units, capacity, reading)
    if best.scaling.unlimited:
        return best
    low, high = best.scaling.log_scaling, best.scaling.log_scaling + math.log(2)
    first = low
    while (better := steps_at(high)) is not None and high < _LOWEST:
        candidate = assign_units(space, split_of(better), units, capacity, reading)
        best = max(best, candidate, key=lambda one: one.scaling.log_scaling)
        low, high = high, high + 2 * (high - first)
    while high - low > _WIDTH:
        middle = (low + high) / 2
        better = steps_at(middle)
        if better is None:
            high = middle
        else:
            candidate = assign_units(space, split_of(better), units, capacity, reading)
            best = max(best, candidate, key=lambda one: one.scaling.log_scaling)
            low = max(middle, candidate.scaling.log_scaling)
    return best


#: Logarithm of the largest c looked at, and of one over the smallest.
_LOWEST = 300.0


def skeletons(space: SplitSpace) -> Iterator[Skeleton]:
    """The ways to close KL positions after everything else is joined, each by a unary or a binary split.

    Groups multiply all that is joined after them, so forming them last is best wherever rates are; the exact search
    looks at the rest. NOTs are decided at the end.
    """
    yield from _scope_skeletons(space, ())


def _scope_skeletons(space: SplitSpace, scope: Scope) -> Iterator[Skeleton]:
    query = space.query
    here = [position for position in query.positions if position.scope == scope]
    plain = tuple(position.alias for position in here if not position.kleene)
    kleene = tuple(position.alias for position in here if position.kleene)
    negations = [negation for negation in query.negations if negation.scope[:-1] == scope]
    inner = list(itertools.product(*(list(_scope_skeletons(space, negation.scope)) for negation in negations)))
    for unary_count in range(len(kleene) + 1):
        for unary in itertools.combinations(kleene, unary_count):
            core = plain + unary
            if not core:
                continue
            binary = tuple(alias for alias in kleene if alias not in unary)
            for order in itertools.permutations(unary + binary) if len(kleene) <= 3 else [unary + binary]:
                closing, done = _closing_steps(core, order)
                deciding = []
                for negation in negations:
                    negated = negated_part(query, negation)
                    joined = SubQuery(done.aliases | negated.aliases, done.closed | negated.closed)
                    deciding.append(Step(joined, (done, negated)))
                    done = joined
                for parts in inner:
                    cores = (core, *(one for part in parts for one in part.cores))
                    fixed = (*closing, *deciding, *(step for part in parts for step in part.fixed))
                    yield Skeleton(cores, fixed)


def _closing_steps(core: tuple[str, ...], order: tuple[str, ...]) -> tuple[list[Step], SubQuery]:
    """Closes KL positions in the given order: unary if they are in the core, else by joining their events."""
    done = SubQuery(frozenset(core))
    steps = []
    for alias in order:
        closed = SubQuery(done.aliases | {alias}, done.closed | {alias})
        events = SubQuery(frozenset({alias}))
        steps.append(Step(closed, (done,) if alias in done.aliases else (done, events)))
        done = closed
    return steps, done
