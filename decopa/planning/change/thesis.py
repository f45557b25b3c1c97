"""The thesis' scheme as a strategy: watch one operator's inputs, and fall back to one unit once several are harmful.

It decides by inequality (2) alone: one direction, once, without asking what a switch costs or whether one unit sustains
the load. Here to be compared with; `monitor` decides better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy.typing as npt

from costmodel.drift.alarm import Alarm
from costmodel.drift.inequality import Inequality
from costmodel.drift.sliding import SlidingCount
from decopa.errors import PlanError
from decopa.planning.change.repair import on_one_unit
from decopa.planning.plan import Plan, PlanOperator, QueryPlan


@dataclass(frozen=True, slots=True)
class ThesisRules:
    """What the thesis says: rates over the last 10 s, a check every second, an alarm after 5 violations in a row; and
    what its code says: the new plan takes over 8 s after the alarm. In seconds of event time."""

    counted_s: float = 10.0
    every_s: float = 1.0
    violations: int = 5
    transition_s: float = 8.0


@dataclass(frozen=True, slots=True)
class ThesisDecision:
    """The alarm at `alarm_s` (t0), the plan with one unit, and the time `cut_s` (t1) at which it takes over."""

    plan: Plan
    alarm_s: float
    cut_s: float
    inequality: Inequality


class ThesisScheme:
    """Monitor and coordinator of the one operator of a plan that has several units and takes events as they come."""

    def __init__(self, plan: Plan, rules: ThesisRules | None = None) -> None:
        self._plan, self.rules = plan, rules or ThesisRules()
        part, operator = _spread_operator(plan)
        roles = part.roles(operator)
        self._units = roles.active_units
        inputs = [part.query.position(min(one.sub_query.aliases)).type for one in part.inputs(operator)]
        self._partitioning = [name for side, name in enumerate(inputs) if roles.receivers(side) == 1]
        self._others = [name for side, name in enumerate(inputs) if roles.receivers(side) > 1]
        self._counts = {name: SlidingCount(self.rules.counted_s) for name in inputs}
        self._alarm = Alarm(self.rules.violations)
        self._decided = False

    def look(self, now_s: float, events: Mapping[str, npt.ArrayLike]) -> ThesisDecision | None:
        """One check: `events` are the times (s) of the events of each type since the check before. Returns the decision
        with the alarm, which comes once."""
        for name, count in self._counts.items():
            count.add(events.get(name, ()))
        found = self.inequality(now_s)
        self._alarm = self._alarm.after(violated=found.violated)
        if not self._alarm.raised or self._decided:
            return None
        self._decided = True
        return ThesisDecision(on_one_unit(self._plan), now_s, now_s + self.rules.transition_s, found)

    def inequality(self, now_s: float) -> Inequality:
        """(2) for the last seconds. For u units of one operator |ST| is u - 1, and matches leave either plan alike."""
        counts = {name: float(count.at(now_s)) for name, count in self._counts.items()}
        return Inequality(
            sum(counts[name] for name in self._partitioning),
            self._units - 1,
            tuple(counts[name] for name in self._others),
        )


def _spread_operator(plan: Plan) -> tuple[QueryPlan, PlanOperator]:
    spread = [
        (part, operator)
        for part in plan.parts
        for operator in part.operators
        if part.roles(operator).active_units > 1 and not any(source.inputs for source in part.inputs(operator))
    ]
    if len(spread) != 1:
        raise PlanError(
            f"the thesis' scheme watches one operator with several units that takes events as they come; the plan has "
            f"{len(spread)} of them"
        )
    return spread[0]
