"""Past: the switches of a run and what they teach: when the next one may come, and how long a plan will be right."""

from __future__ import annotations

import itertools
import statistics as summary
from collections.abc import Mapping
from dataclasses import dataclass, replace

from decopa.planning.change.proposal import Ground, SwitchRules
from decopa.planning.plan import Plan

#: A return to the plan before within so many cool-downs doubles the cool-down.
_SOON = 4
#: Cool-downs are so many times as long as the last switch took.
_TIMES_LAST = 3


@dataclass(frozen=True)
class Switched:
    """A switch that was made: when it was done, how long it took from the decision on, from which plan to which."""

    at_s: float
    took_s: float
    before: Plan
    after: Plan
    history_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Audit:
    """What a switch promised and what it brought, as ratios: of the work of the busiest unit, or of rows sent."""

    ground: Ground
    predicted: float
    measured: float

    @property
    def failed(self) -> bool:
        """Whether less than half of the promise came true."""
        return self.measured - 1 < (self.predicted - 1) / 2


@dataclass(frozen=True)
class Past:
    """All switches since the run began at `began_s`, and how long to wait after the last one. `barred` are the rates
    of the last switch if it failed its audit: while they last, the run stays with what it has."""

    began_s: float = 0.0
    switches: tuple[Switched, ...] = ()
    cool_down_s: float = 0.0
    barred: tuple[Mapping[str, float], ...] = ()
    #: When the last attempt was given up, if that was after the last switch.
    given_up_s: float | None = None

    def is_cooling(self, now_s: float) -> bool:
        """Whether it is too soon for another switch."""
        last = [self.switches[-1].at_s] if self.switches else []
        last += [] if self.given_up_s is None else [self.given_up_s]
        return bool(last) and now_s < max(last) + self.cool_down_s

    def horizon_s(self, rules: SwitchRules) -> float:
        """How long a plan is expected to be right: as long as those before, in the middle."""
        times = [self.began_s, *(one.at_s for one in self.switches)]
        regimes = [later - earlier for earlier, later in itertools.pairwise(times)]
        return max(rules.horizon_s, summary.median(regimes)) if regimes else rules.horizon_s

    def after(self, switch: Switched, rules: SwitchRules) -> Past:
        """The past with one more switch. Swinging back soon makes the next wait twice as long."""
        wait_s = max(rules.cool_down_s, _TIMES_LAST * switch.took_s, switch.history_s)
        if self.switches:
            last = self.switches[-1]
            soon = switch.at_s - last.at_s <= _SOON * self.cool_down_s
            if last.before == switch.after and soon:
                wait_s = max(wait_s, min(2 * self.cool_down_s, rules.longest_cool_down_s))
        return replace(self, switches=(*self.switches, switch), cool_down_s=wait_s, barred=(), given_up_s=None)

    def after_giving_up(self, at_s: float, rules: SwitchRules) -> Past:
        """An attempt that came to nothing is not repeated at once."""
        return replace(self, given_up_s=at_s, cool_down_s=max(rules.cool_down_s, self.cool_down_s))

    def after_audit(self, audit: Audit, rates: Mapping[str, float]) -> Past:
        return replace(self, barred=(*self.barred, dict(rates))) if audit.failed else self

    def bars(self, rates: Mapping[str, float], ratio: float) -> bool:
        """Whether a switch at about these rates has failed before."""
        return any(
            all(_near(rate, known.get(name, 0.0), ratio) for name, rate in rates.items()) for known in self.barred
        )


def _near(one: float, other: float, ratio: float) -> bool:
    return one == other or (min(one, other) > 0 and max(one, other) <= ratio * min(one, other))
