"""Adapt: how a run follows its stream, as one value of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from decopa.choices import DEFAULT_ADAPT_EVERY_S, DEFAULT_ADAPT_GAIN, DEFAULT_HISTORY_BYTES
from decopa.errors import PlanError
from decopa.planning.change.elastic import UnitRange
from decopa.planning.change.proposal import SwitchRules


@dataclass(frozen=True, slots=True)
class Adapt:
    """When a running plan is replaced by another one.

    The run looks at its counters every `every_s` seconds, or as often as `overhead`, a share of its time, allows. It
    changes to a plan that sustains `gain` times as much, or that sends `fewer_rows` (a share) less between units; then
    not again for `cool_down_s` at least. `horizon_s` is how long a plan is expected to be right, for the first time.
    `units` are the fewest and the most processing units it may take. `max_history_bytes` of events are kept to build a
    plan from. Every change is written to the file `log`, a line of JSON each.
    """

    gain: float = DEFAULT_ADAPT_GAIN
    every_s: float = DEFAULT_ADAPT_EVERY_S
    units: tuple[int, int] | None = None
    fewer_rows: float = 0.3
    cool_down_s: float = 10.0
    horizon_s: float = 60.0
    overhead: float = 0.01
    max_history_bytes: int = DEFAULT_HISTORY_BYTES
    log: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.every_s < math.inf:
            raise PlanError(f"a run looks at itself every so many seconds, more than 0, got {self.every_s:g}")
        if not 0 < self.overhead <= 1:
            raise PlanError(f"the overhead is a share of a run's time, between 0 and 1, got {self.overhead:g}")
        if self.max_history_bytes < 1:
            raise PlanError(f"a history takes a byte at least, got {self.max_history_bytes}")
        _ = self.rules, self.unit_range

    @property
    def rules(self) -> SwitchRules:
        return SwitchRules(
            gain=self.gain, fewer_rows=self.fewer_rows, cool_down_s=self.cool_down_s, horizon_s=self.horizon_s
        )

    @property
    def unit_range(self) -> UnitRange | None:
        return None if self.units is None else UnitRange(*self.units)
