"""The best plan of all: every split on every allocation of units, for queries small enough to look at them all."""

from __future__ import annotations

import math

from costmodel.capacity import Capacity
from costmodel.throughput import units_needed
from decopa.choices import Reading
from decopa.errors import PlanError
from decopa.planning.split import Split, SplitSpace, Step, split_of
from decopa.planning.strategies.units import Assignment, assign_units
from decopa.planning.subquery import SubQuery, whole

#: Above this many positions the number of splits is out of reach.
MAX_POSITIONS = 6
#: Branches looked at before the strategy gives up, where a step that is priced counts as several: about two seconds.
MAX_WORK = 100_000
_PRICED = 20
#: A split must beat the best one so far by this share to be worth looking at.
_GAIN = 1e-9


def best_assignment(
    space: SplitSpace,
    units: int,
    capacity: Capacity,
    reading: Reading = Reading.LINEAR,
    *,
    seed: Assignment | None = None,
    max_work: int | None = None,
) -> Assignment | None:
    """The assignment with the largest c over all splits with at most `units` operators; None if there is none.

    Depth first over the sub-queries that still need a step. A branch is left as soon as the units that its steps need
    to sustain more than the best c so far, and those that its open sub-queries are known to need, exceed the units
    there are. `seed` is a known assignment to beat. `max_work` bounds how many branches are looked at and steps priced:
    with a seed the search then ends with the best so far, without one it is refused.
    """
    search = _Search(space, units, capacity, reading, seed, math.inf if max_work is None else max_work)
    if not search.steps:
        return assign_units(space, (), units, capacity, reading)
    search.extend(1 << (len(search.steps) - 1), units)
    if search.left <= 0 and seed is None:
        raise PlanError(
            f"{space.query.pattern} has more splits on {units} units than `exhaustive` looks at; use `decopa`"
        )
    return search.best


class _Search:
    """Sub-queries are numbered such that all that one is matched from come before it; sets of them are bit masks.

    Taking the last open sub-query first, no step leads back to one that has its step already. What the open ones need
    thus depends on them alone, and is remembered. It only grows with the c to beat, so it stays a lower bound.
    """

    def __init__(
        self,
        space: SplitSpace,
        units: int,
        capacity: Capacity,
        reading: Reading,
        seed: Assignment | None,
        max_work: float,
    ) -> None:
        self.space, self.units, self.capacity, self.reading = space, units, capacity, reading
        self.best = seed
        self.left = max_work
        #: By sub-query: its steps, the promising ones first, each with the sub-queries that it opens.
        self.steps = _numbered_steps(space)
        self._chosen: list[Step] = []
        self._finished = 0
        self._fewest: dict[int, float] = {}
        self._needed: dict[int, list[float]] = {}
        self._target = -math.inf

    def extend(self, pending: int, budget: int) -> None:
        """Looks at all ways to match the open sub-queries on `budget` units."""
        if self.left <= 0:
            return
        if not pending:
            self._finish(split_of(self._chosen))
            return
        self.left -= 1
        finished, number = self._finished, pending.bit_length() - 1
        rest = pending ^ (1 << number)
        fewest = math.inf
        for place, (step, opened) in enumerate(self.steps[number]):
            needed, following = self._units_of(number)[place], rest | opened
            if needed + self._known(following) <= budget:
                self._chosen.append(step)
                self.extend(following, budget - int(needed))
                self._chosen.pop()
            fewest = min(fewest, needed + self._known(following))
        if self._finished == finished and self.left > 0:
            self._fewest[pending] = fewest

    def _known(self, pending: int) -> float:
        """Units that open sub-queries need at least: one each, or what an earlier look at them has shown."""
        return self._fewest.get(pending, pending.bit_count())

    def _units_of(self, number: int) -> list[float]:
        """For each step of a sub-query, units with which it sustains more than the best c so far."""
        target = -math.inf if self.best is None else self.best.scaling.log_scaling + _GAIN
        if target != self._target:
            self._target = target
            self._needed = {}
        if number not in self._needed:
            self.left -= _PRICED * len(self.steps[number])
            self._needed[number] = [self._units_needed(step, target) for step, _ in self.steps[number]]
        return self._needed[number]

    def _units_needed(self, step: Step, log_target: float) -> float:
        if log_target == -math.inf:
            return 1
        # With the input dealt out that suits the step best: if another one must be, it needs no fewer.
        dealt = self.space.preferred(step, log_target if self.reading is Reading.RATES else 0.0)
        found = units_needed(self.space.price(step, dealt), self.capacity, math.exp(log_target), self.reading)
        return math.inf if found is None else found.units

    def _finish(self, split: Split) -> None:
        self._finished += 1
        try:
            found = assign_units(self.space, split, self.units, self.capacity, self.reading)
        except PlanError:
            return
        if self.best is None or found.scaling.log_scaling > self.best.scaling.log_scaling:
            self.best = found


def _numbered_steps(space: SplitSpace) -> list[list[tuple[Step, int]]]:
    """The steps of every sub-query that the query can be matched from, the query last; leaves have no number."""
    steps: dict[SubQuery, list[Step]] = {}
    waiting = [whole(space.query)]
    while waiting:
        sub_query = waiting.pop()
        if sub_query not in steps:
            steps[sub_query] = list(space.steps(sub_query))
            waiting += [one for step in steps[sub_query] for one in step.inputs]
    ordered = sorted((one for one, found in steps.items() if found), key=_inputs_first)
    numbers = {sub_query: number for number, sub_query in enumerate(ordered)}
    for sub_query in ordered:
        steps[sub_query].sort(key=lambda step: (sum(map(space.log_rate, step.inputs)), step.sort_key))
    return [
        [(step, sum(1 << numbers[one] for one in set(step.inputs) & numbers.keys())) for step in steps[sub_query]]
        for sub_query in ordered
    ]


def _inputs_first(sub_query: SubQuery) -> tuple[object, ...]:
    """Inputs have fewer positions than what is matched from them, or the same and fewer KL closed."""
    size, aliases, closed = sub_query.sort_key
    return size, aliases, len(closed), closed
