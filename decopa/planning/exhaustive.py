"""The best plan of all: every split on every allocation of units, for queries small enough to look at them all."""

from __future__ import annotations

import math

from costmodel.capacity import Capacity
from costmodel.throughput import Reading, units_needed
from decopa.errors import PlanError
from decopa.planning.split import Split, SplitSpace, Step, split_of
from decopa.planning.subquery import SubQuery, whole
from decopa.planning.units import Assignment, assign_units

#: Above this many positions the number of splits is out of reach.
MAX_POSITIONS = 6
#: A split must beat the best one so far by this share to be worth looking at.
_GAIN = 1e-9


def best_assignment(
    space: SplitSpace,
    units: int,
    capacity: Capacity,
    reading: Reading = Reading.LINEAR,
    *,
    seed: Assignment | None = None,
    max_steps: int | None = None,
) -> Assignment | None:
    """The assignment with the largest c over all splits with at most `units` operators; None if there is none.

    Depth first over the sub-queries that still need a step. A branch is left as soon as the units that its steps need
    to sustain more than the best c so far, and one for each sub-query still open, exceed the units there are. `seed`
    is a known assignment to beat; `max_steps` bounds how many branches are looked at.
    """
    search = _Search(space, units, capacity, reading, seed, math.inf if max_steps is None else max_steps)
    root = whole(space.query)
    search.extend({}, [root] if list(space.steps(root)) else [], 0)
    if not list(space.steps(root)):
        return assign_units(space, (), units, capacity, reading)
    return search.best


class _Search:
    def __init__(
        self,
        space: SplitSpace,
        units: int,
        capacity: Capacity,
        reading: Reading,
        seed: Assignment | None,
        max_steps: float,
    ) -> None:
        self.space, self.units, self.capacity, self.reading = space, units, capacity, reading
        self.best = seed
        self.left = max_steps
        self._steps: dict[SubQuery, list[Step]] = {}
        self._needed: dict[Step, int | None] = {}
        self._target = -math.inf

    def extend(self, chosen: dict[SubQuery, Step], pending: list[SubQuery], used: int) -> None:
        if self.left <= 0:
            return
        if not pending:
            self._finish(split_of(chosen.values()))
            return
        self.left -= 1
        sub_query = max(pending, key=lambda one: one.sort_key)
        rest = [one for one in pending if one != sub_query]
        for step in self.steps_of(sub_query):
            needed = self.needed(step)
            if needed is None:
                continue
            opened = [
                one
                for one in dict.fromkeys(step.inputs)
                if one not in chosen and one not in rest and self.steps_of(one)
            ]
            if used + needed + len(rest) + len(opened) <= self.units:
                self.extend({**chosen, sub_query: step}, rest + opened, used + needed)

    def steps_of(self, sub_query: SubQuery) -> list[Step]:
        """Steps of a sub-query, the promising ones first."""
        if sub_query not in self._steps:
            found = list(self.space.steps(sub_query))
            found.sort(key=lambda step: (sum(map(self.space.log_rate, step.inputs)), step.sort_key))
            self._steps[sub_query] = found
        return self._steps[sub_query]

    def needed(self, step: Step) -> int | None:
        """Units with which the step sustains more than the best c so far; None if no number does."""
        target = -math.inf if self.best is None else self.best.scaling.log_scaling + _GAIN
        if target != self._target:
            self._target = target
            self._needed = {}
        if step not in self._needed:
            self._needed[step] = self._units_needed(step, target)
        return self._needed[step]

    def _units_needed(self, step: Step, log_target: float) -> int | None:
        if log_target == -math.inf:
            return 1
        # With the input dealt out that suits the step best: if another one must be, it needs no fewer.
        found = units_needed(self.space.price(step), self.capacity, math.exp(log_target), self.reading)
        return None if found is None else found.units

    def _finish(self, split: Split) -> None:
        try:
            found = assign_units(self.space, split, self.units, self.capacity, self.reading)
        except PlanError:
            return
        if self.best is None or found.scaling.log_scaling > self.best.scaling.log_scaling:
            self.best = found
