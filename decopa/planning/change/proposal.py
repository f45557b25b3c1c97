"""Proposals: another plan for a running stream, what it would bring and cost, and whether it is worth it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from decopa.errors import PlanError
from decopa.planning.change.pricing import PlanValue
from decopa.planning.plan import Plan, QueryPlan

#: Above this load of its units a new plan would not catch up with the stream in time.
_MOST_LOAD = 0.9


class Seed(Enum):
    """How a new plan gets what the old one knows: states of a cut, for the same operators on other units; the events of
    the last windows, for others; or both plans run side by side, where catching up would take too long."""

    STATES = "states"
    HISTORY = "history"
    DUAL_RUN = "dual run"


class Ground(Enum):
    """Why a proposal is accepted."""

    GAIN = "sustains more"
    TRAFFIC = "sends less"
    FEWER_UNITS = "needs fewer units"


@dataclass(frozen=True, slots=True)
class SwitchRules:
    """When another plan is worth it: it sustains `gain` times as much; or it sends less by the share `fewer_rows`, and
    sustains as much or at least what is `enough`: 1 / headroom times the present load.

    What it brings within the horizon must be `payback` times what the switch costs. After a switch there is none for
    at least `cool_down_s`, or three times as long as it took, or as the history it replayed.
    """

    gain: float = 1.25
    fewer_rows: float = 0.3
    headroom: float = 0.7
    payback: float = 2.0
    horizon_s: float = 60.0
    cool_down_s: float = 10.0
    longest_cool_down_s: float = 600.0

    def __post_init__(self) -> None:
        if not self.gain > 1:
            raise PlanError(f"a gain must be above 1, got {self.gain:g}; 1.25 asks for a quarter more")
        if not (0 < self.fewer_rows < 1 and 0 < self.headroom <= 1):
            raise PlanError("the share of rows to save and the headroom must lie between 0 and 1")
        if self.payback < 0 or self.horizon_s <= 0 or self.cool_down_s < 0:
            raise PlanError("payback and cool-down must not be negative, and the horizon must be positive")

    @property
    def enough(self) -> float:
        return 1 / self.headroom


@dataclass(frozen=True)
class Proposal:
    """A plan beside the one that runs, both priced with the same statistics.

    `history_s` is the event time that has to be replayed, `warm_up_s` how long catching up takes at the speed of the
    stream (event time per time).
    """

    plan: Plan
    now: PlanValue
    new: PlanValue
    seed: Seed
    history_s: float
    warm_up_s: float
    speed: float = 1.0

    @property
    def gain(self) -> float:
        """How many times as much the new plan sustains."""
        return self.new.scaling_factor / self.now.scaling_factor

    @property
    def rows_saved(self) -> float:
        """The share of the rows that would not be sent any more; below 0 if more are."""
        return 1 - self.new.rows_per_s / self.now.rows_per_s if self.now.rows_per_s > 0 else 0.0

    def ground(self, rules: SwitchRules, horizon_s: float) -> Ground | None:
        """Why the switch is worth it; None if it is not."""
        sustains = self.new.scaling_factor >= min(self.now.scaling_factor, rules.enough)
        if self.gain >= rules.gain and self._pays_in_work(rules, horizon_s):
            return Ground.GAIN
        if sustains and self.rows_saved >= rules.fewer_rows and self._pays_in_rows(rules, horizon_s):
            return Ground.TRAFFIC
        if self.new.units < self.now.units and self.new.scaling_factor >= rules.enough:
            return Ground.FEWER_UNITS
        return None

    def _pays_in_work(self, rules: SwitchRules, horizon_s: float) -> bool:
        """Seconds of work that the busiest unit saves, against those that warming up takes on top of what the old plan
        does meanwhile, as it would anyway."""
        now, new = 1 / self.now.scaling_factor, 1 / self.new.scaling_factor
        replayed_s = self.history_s / self.speed + self.warm_up_s
        return (now - new) * horizon_s >= rules.payback * new * replayed_s

    def _pays_in_rows(self, rules: SwitchRules, horizon_s: float) -> bool:
        """Rows that are saved, against those that the new plan gets while it catches up."""
        saved = (self.now.rows_per_s - self.new.rows_per_s) * horizon_s * self.speed
        return saved >= rules.payback * self.new.rows_per_s * (self.history_s + self.warm_up_s * self.speed)


def propose(
    running: Plan,
    plan: Plan,
    now: PlanValue,
    new: PlanValue,
    *,
    history_s: float,
    barrier_age_s: float = 0.0,
    speed: float = 1.0,
) -> Proposal:
    """Puts a plan beside the one that runs. `history_s` is what another split must have seen: some windows of event
    time. The same split starts from states that are `barrier_age_s` old."""
    speed = speed if speed > 0 else 1.0
    same = same_split(running, plan)
    replayed_s = barrier_age_s * speed if same else history_s
    if new.load <= _MOST_LOAD:
        warm_up_s = replayed_s / speed * new.load / (1 - new.load)
        if same or warm_up_s <= history_s / speed:
            return Proposal(plan, now, new, Seed.STATES if same else Seed.HISTORY, replayed_s, warm_up_s, speed)
    elif same:
        return Proposal(plan, now, new, Seed.STATES, replayed_s, replayed_s / speed, speed)
    return Proposal(plan, now, new, Seed.DUAL_RUN, 0.0, history_s / speed, speed)


def same_split(one: Plan, other: Plan) -> bool:
    """Whether two plans have the same operators, whatever their units, hosts and partition flags are."""
    return len(one.parts) == len(other.parts) and all(map(_same_operators, one.parts, other.parts))


def _same_operators(one: QueryPlan, other: QueryPlan) -> bool:
    if one.query != other.query or (one.slices > 1) != (other.slices > 1):
        return False
    return _shape(one) == _shape(other)


def _shape(part: QueryPlan) -> frozenset[object]:
    """The sub-queries that are joined, whatever operators are called."""
    return frozenset(
        (operator.sub_query, frozenset(source.sub_query for source in part.inputs(operator)), operator.view)
        for operator in part.operators
    )
