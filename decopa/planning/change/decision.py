"""What a monitor has decided, and whether that still holds while the plan is built."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from costmodel.drift.deviation import Deviation
from costmodel.drift.readings import Stretch
from costmodel.drift.watch import Finding
from costmodel.statistics import Statistics
from decopa.planning.change.proposal import Ground, Proposal
from decopa.planning.plan import Plan

#: A type that has stopped still has a rate, since prices need one.
_SELDOM = 1e-3


@dataclass(frozen=True)
class Decision:
    """Switch to the proposal's plan: on what ground, and because of what change."""

    proposal: Proposal
    ground: Ground
    reason: str
    at_s: float
    ts_us: int
    #: Events per window that it was decided with.
    rates: Mapping[str, float]
    #: What the old plan did just before, for the audit.
    before: Stretch | None = None

    @property
    def plan(self) -> Plan:
        return self.proposal.plan

    def __str__(self) -> str:
        now, new = self.proposal.now, self.proposal.new
        return (
            f"{self.reason}: the new plan {self.ground.value} "
            f"(c {now.scaling_factor:.3g} -> {new.scaling_factor:.3g}, "
            f"rows sent {now.rows_per_s:.4g} -> {new.rows_per_s:.4g} a second)"
        )


@dataclass(frozen=True)
class Pending:
    """A decision that is being carried out, with the statistics it was made with. `doubts` counts the looks in a row
    at which the rates were `changed` once more, to those of the stretch `recent`. The `is_first` decision about a plan
    that was made without statistics follows from no change."""

    decision: Decision
    known: tuple[Statistics, ...]
    changed: tuple[Finding, ...] = ()
    doubts: int = 0
    recent: Stretch | None = None
    is_first: bool = False

    def after(self, recent: Stretch | None, at_s: float, window_us: int) -> Pending:
        """After another look, at `at_s`; what happened before the decision does not count."""
        if recent is None or at_s - recent.seconds < self.decision.at_s:
            return self
        changed = misjudged(self.decision.rates, recent, window_us)
        return replace(self, changed=changed, doubts=self.doubts + 1 if changed else 0, recent=recent)

    def known_now(self, window_us: int) -> list[Statistics]:
        """The statistics with the rates of the last looks; `window_us` is the longest window."""
        assert self.recent is not None
        rates, found = self.recent.rates(window_us), []
        for one in self.known:
            share = one.window_us / window_us
            now = {name: max(_SELDOM, share * rates[name]) for name in one.rates.keys() & rates.keys()}
            found.append(replace(one, rates={**one.rates, **now}))
        return found


def misjudged(rates: Mapping[str, float], after: Stretch, window_us: int) -> tuple[Finding, ...]:
    """The rates that differ by more than chance and half as much again from those that a switch was decided with."""
    found = []
    for name, now in after.rates(window_us).items():
        expected = rates.get(name, now) * after.windows(window_us)
        z = 2 * (math.sqrt(after.types[name] + 0.375) - math.sqrt(expected + 0.375))
        deviation = Deviation(rates.get(name, now), now, z)
        if deviation.exceeds(1.5, 5):
            found.append(Finding(f"rate of {name}", deviation))
    return tuple(found)
