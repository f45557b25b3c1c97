"""Units for the steps of a split: how many each gets, and which input is dealt out among them (6.1)."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from costmodel.capacity import Capacity
from costmodel.throughput import AssignedOperator, Scaling, largest_scaling
from decopa.choices import Reading
from decopa.errors import PlanError
from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.planning.roles import BOTH
from decopa.planning.split import Split, SplitSpace, Step, dealt_inputs
from decopa.planning.subquery import SubQuery


@dataclass(frozen=True)
class Assignment:
    """A split on units: units per step, the input each step wants dealt out, and what the whole sustains."""

    split: Split
    units: tuple[int, ...]
    partitioned: tuple[int, ...]
    scaling: Scaling


def assign_units(
    space: SplitSpace, split: Split, units: int, capacity: Capacity, reading: Reading = Reading.LINEAR
) -> Assignment:
    """The best use of `units` units for a split: raises the slowest step as far as it goes.

    Giving the next unit to the step that limits is optimal, since every step only gains by more units. What is left
    when the slowest step cannot gain any more goes to the steps that are next.
    """
    if units < len(split):
        raise PlanError(f"the split has {len(split)} operators, more than {units} units")
    best: Assignment | None = None
    tried: set[tuple[int, ...]] = set()
    log_scaling = 0.0
    while True:
        # Which input of a join is the larger one changes with c if rates do: choose again at the c that is reached.
        choices = [one for one in _consistent_choices(space, split, log_scaling) if one not in tried]
        tried.update(choices)
        before = best
        for choice in choices:
            found = _assign(space, split, choice, units, capacity, reading)
            if best is None or found.scaling.log_scaling > best.scaling.log_scaling:
                best = found
        assert best is not None
        if best is before or reading is Reading.LINEAR:
            return best
        log_scaling = best.scaling.log_scaling


def assignment_with(
    space: SplitSpace,
    split: Split,
    units: Sequence[int],
    capacity: Capacity,
    reading: Reading = Reading.LINEAR,
) -> Assignment:
    """What a split sustains on given units, with the inputs dealt out that fit together."""
    choice = _consistent_choices(space, split)[0]
    assigned = [
        AssignedOperator(str(index), space.price(step, side), count)
        for index, (step, side, count) in enumerate(zip(split, choice, units, strict=True))
    ]
    return Assignment(split, tuple(units), choice, largest_scaling(assigned, capacity, reading))


def reassigned(
    space: SplitSpace, assignment: Assignment, capacity: Capacity, reading: Reading = Reading.LINEAR
) -> Assignment:
    """The same split on the same units, with what it sustains by the rates of another space."""
    assigned = [
        AssignedOperator(str(index), space.price(step, side), count)
        for index, (step, side, count) in enumerate(
            zip(assignment.split, assignment.partitioned, assignment.units, strict=True)
        )
    ]
    return replace(assignment, scaling=largest_scaling(assigned, capacity, reading))


def plan_with_units(space: SplitSpace, split: Split, units: Sequence[int]) -> QueryPlan:
    """The plan of a split on given units, with the inputs dealt out that fit together."""
    choice = _consistent_choices(space, split)[0]
    return to_plan(space, Assignment(split, tuple(units), choice, Scaling(0.0)))


def _assign(
    space: SplitSpace, split: Split, choice: tuple[int, ...], units: int, capacity: Capacity, reading: Reading
) -> Assignment:
    prices = [space.price(step, side) for step, side in zip(split, choice, strict=True)]

    def sustained(index: int, count: int) -> float:
        return largest_scaling([AssignedOperator("", prices[index], count)], capacity, reading).log_scaling

    given = [1] * len(split)
    spare = units - len(split)
    waiting = [(sustained(index, 1), index) for index in range(len(split))]
    heapq.heapify(waiting)
    while spare and waiting:
        now, index = heapq.heappop(waiting)
        more = sustained(index, given[index] + 1)
        if more <= now + 1e-15:
            continue  # what each of its units has to do alone is the limit
        given[index] += 1
        spare -= 1
        heapq.heappush(waiting, (more, index))
    assigned = [
        AssignedOperator(str(index), price, count)
        for index, (price, count) in enumerate(zip(prices, given, strict=True))
    ]
    return Assignment(split, tuple(given), choice, largest_scaling(assigned, capacity, reading))


def _consistent_choices(space: SplitSpace, split: Split, log_scaling: float = 0.0) -> list[tuple[int, ...]]:
    """Which input each step has dealt out, such that no step gets two (Def. 5.2).

    A sub-query's matches are dealt out to all of its successors or to none. Mostly the preferred inputs fit together;
    else the ways to change the choice of the joins involved are listed.
    """
    preferred = tuple(space.preferred(step, log_scaling) for step in split)
    if not _conflicts(split, preferred):
        return [preferred]
    free = [index for index in _conflicts(split, preferred) if len(space.roles(split[index]).may_deal) > 1]
    found = []
    for sides in itertools.product((0, 1), repeat=min(len(free), 10)):
        choice = list(preferred)
        for index, side in zip(free, sides, strict=False):
            choice[index] = side
        if not _conflicts(split, tuple(choice)):
            found.append(tuple(choice))
    if not found:
        found = [_resolved(space, split, preferred)]
    return found


def _resolved(space: SplitSpace, split: Split, choice: tuple[int, ...]) -> tuple[int, ...]:
    """Takes steps out of the dealing one by one until the rest fits; -1 stands for no input dealt out."""
    sides = list(choice)
    while conflicts := _conflicts(split, tuple(sides)):
        cheapest = max(conflicts, key=lambda index: -math.inf if sides[index] < 0 else index)
        sides[cheapest] = -1
    return tuple(sides)


def _conflicts(split: Split, choice: Sequence[int]) -> list[int]:
    """Steps with two inputs dealt out, and the steps that want these inputs dealt out."""
    dealt = {one for step, side in zip(split, choice, strict=True) for one in dealt_inputs(step, side)}
    split_up = [
        step
        for step, side in zip(split, choice, strict=True)
        if side != BOTH and dealt.issuperset(step.inputs[:2]) and len(step.inputs) > 1
    ]
    torn = {one for step in split_up for one in step.inputs}
    return [
        index
        for index, (step, side) in enumerate(zip(split, choice, strict=True))
        if side >= 0 and (step in split_up or torn.intersection(dealt_inputs(step, side)))
    ]


def to_plan(space: SplitSpace, assignment: Assignment) -> QueryPlan:
    """The plan of an assignment: leaves first, then the steps, each after its inputs."""
    names: dict[SubQuery, str] = {}
    operators: list[PlanOperator] = []
    dealt = {
        one
        for step, side, count in zip(assignment.split, assignment.partitioned, assignment.units, strict=True)
        if count > 1
        for one in dealt_inputs(step, side)
    }

    def add(sub_query: SubQuery, inputs: tuple[SubQuery, ...], units: int) -> None:
        name = f"o{len(operators) + 1}"
        names[sub_query] = name
        sources = tuple(names[one] for one in inputs)
        operators.append(PlanOperator(name, sub_query, sources, units, partitioned=sub_query in dealt))

    steps = {step.sub_query: (step, count) for step, count in zip(assignment.split, assignment.units, strict=True)}
    inputs = dict.fromkeys(one for step in assignment.split for one in step.inputs if one not in steps)
    order = space.query.aliases.index
    for leaf in sorted(inputs, key=lambda one: order(min(one.aliases, key=order))):
        add(leaf, (), 1)
    for step in _topological(steps):
        add(step.sub_query, step.inputs, steps[step.sub_query][1])
    if not assignment.split:  # a query of one event
        add(SubQuery(frozenset(space.query.aliases)), (), 1)
    return QueryPlan(space.query, tuple(operators))


def _topological(steps: dict[SubQuery, tuple[Step, int]]) -> list[Step]:
    done: dict[SubQuery, Step] = {}

    def visit(sub_query: SubQuery) -> None:
        if sub_query in steps and sub_query not in done:
            step = steps[sub_query][0]
            for one in step.inputs:
                visit(one)
            done[sub_query] = step

    for sub_query in sorted(steps, key=lambda one: one.sort_key):
        visit(sub_query)
    return list(done.values())
