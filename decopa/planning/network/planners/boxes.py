"""Choice per binding, the paper's future work (6.1.2): boxes of origins, each with a plan of its own.

A plan for some boxes costs what the union of their transfers costs. Boxes are split along an axis while that pays; with
few bindings the search also starts from single ones. Each box is planned again given all others, until nothing changes.
Then some boxes are taken out and put back in another order, not always at their cheapest, and what is better stays:
transfers that only pay if several boxes share them are found that way.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from decopa.planning.network.problem.instance import Instance
from decopa.planning.network.problem.subplan import Flows, SubPlan, Workspace

#: Plans of one box, cheapest first, given transfers that are already paid.
Planner = Callable[[Instance, Flows], list[SubPlan]]
#: Up to so many bindings the search also starts from one box for each.
MAX_SINGLE = 16
_CLOSE = 1e-9


@dataclass(frozen=True)
class BoxPlan:
    """Plans for boxes that together are all bindings of the query."""

    plans: tuple[SubPlan, ...]
    flows: Flows
    cost: float


class BoxSearch:
    def __init__(self, workspace: Workspace, planner: Planner, existing: Flows, *, max_planned: int) -> None:
        self.workspace, self.planner, self.existing = workspace, planner, existing
        self._left = max_planned
        self._dice = random.Random(0)

    def run(self, whole: SubPlan) -> BoxPlan:
        """The best plan found, starting from one for all bindings."""
        best = self.united([whole])
        for start in self._starts(whole):
            found = self._settled(start)
            if found.cost < best.cost - _CLOSE:
                best = found
        improved = True
        while improved and self._left > 0:
            improved = False
            for place, halves in self._splits(best):
                split = self._replaced(best, place, halves)
                if split is not None and split.cost < best.cost - _CLOSE:
                    best, improved = self._settled(split), True
                    break
        return self._shaken(best, whole)

    def united(self, plans: Sequence[SubPlan]) -> BoxPlan:
        flows, cost = self.existing, 0.0
        for plan in plans:
            flows, extra = self.workspace.added(flows, plan.flows)
            cost += extra
        return BoxPlan(tuple(plans), flows, cost)

    def _planned(self, box: Instance, others: Sequence[SubPlan]) -> SubPlan:
        return self._some(box, others)[0]

    def _some(self, box: Instance, others: Sequence[SubPlan]) -> list[SubPlan]:
        self._left -= 1
        return self.planner(box, self.united(others).flows)

    def _starts(self, whole: SubPlan) -> Iterator[BoxPlan]:
        boxes = _singles(whole.instance)
        for order in (boxes, boxes[::-1]) if boxes else ():
            if self._left <= 0:
                return
            plans: list[SubPlan] = []
            for box in order:
                plans.append(self._planned(box, plans))
            yield self.united(plans)

    def _splits(self, found: BoxPlan) -> Iterator[tuple[int, tuple[Instance, Instance]]]:
        """Every way to take one origin of an axis out of a box."""
        for place, plan in enumerate(found.plans):
            box = plan.instance
            for axis in box.axes:
                producers = frozenset(box.producers[axis])
                if len(producers) > 1:
                    for node in sorted(producers)[: 1 if len(producers) == 2 else None]:
                        one = frozenset({node})
                        yield place, (box.restricted({axis: one}), box.restricted({axis: producers - one}))

    def _replaced(self, found: BoxPlan, place: int, halves: tuple[Instance, Instance]) -> BoxPlan | None:
        """The plan with one box split; None if the search has used up its effort."""
        if self._left <= 0:
            return None
        others = [*found.plans[:place], *found.plans[place + 1 :]]
        best: BoxPlan | None = None
        for one, two in (halves, halves[::-1]):
            first = self._planned(one, others)
            second = self._planned(two, [*others, first])
            first = self._planned(one, [*others, second])
            candidate = self.united([*others, first, second])
            if best is None or candidate.cost < best.cost:
                best = candidate
        return best

    def _settled(self, found: BoxPlan) -> BoxPlan:
        """Each box planned again given the others, until nothing changes."""
        improved = len(found.plans) > 1
        while improved and self._left > 0:
            improved = False
            for place, plan in enumerate(found.plans):
                others = [*found.plans[:place], *found.plans[place + 1 :]]
                candidate = self.united([*others, self._planned(plan.instance, others)])
                if candidate.cost < found.cost - _CLOSE:
                    found, improved = candidate, True
                    break
        return found

    def _shaken(self, best: BoxPlan, whole: SubPlan) -> BoxPlan:
        """Takes some single boxes out and puts them back in another order."""
        boxes = _singles(whole.instance)
        if not boxes:
            return best
        here = self._settled(self.united([self._planned(box, ()) for box in boxes]))
        while self._left > 0:
            if here.cost < best.cost - _CLOSE:
                best = here
            plans = list(here.plans)
            self._dice.shuffle(plans)
            out = self._dice.randint(2, len(plans))
            kept, boxes = plans[out:], [plan.instance for plan in plans[:out]]
            for box in boxes:
                found = self._some(box, kept)
                kept.append(found[min(int(self._dice.expovariate(2.0)), len(found) - 1)])
            candidate = self._settled(self.united(kept))
            if candidate.cost < here.cost * (1 + self._dice.choice((0.0, 0.0, 0.1))):
                here = candidate
        return best


def _singles(instance: Instance) -> list[Instance]:
    """One box for each binding, if they are few but more than one."""
    axes = [axis for axis in instance.axes if len(instance.producers[axis]) > 1]
    origins = [[frozenset({node}) for node in instance.producers[axis]] for axis in axes]
    if not 1 < math.prod(map(len, origins)) <= MAX_SINGLE:
        return []
    return [instance.restricted(dict(zip(axes, chosen, strict=True))) for chosen in itertools.product(*origins)]
