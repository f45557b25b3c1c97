"""Two plans in turns in one run: beside each other, with a stream that stands still, and both for a window."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

from cluster.change.deployed.ray_run import ChangingRayRuntime
from cluster.change.outcome import Switched
from cluster.deploy.deployment import Deployment
from decopa.planning.history import history_us
from decopa.planning.plan import Plan
from scripts.benchmarks.changing.paced import Paced, Record, Span
from scripts.benchmarks.changing.setting import LIMITS, Setting, UntilDone, same_matches
from scripts.benchmarks.changing.watching import summed
from shuffler.source.trace import open_trace

#: A new plan is given up if it is not level by then; large states take a while.
_PATIENCE_S = 300.0


class Turns(Paced):
    """Asks for the other of two plans, as often as the setting says, and notes how each change went."""

    def __init__(self, plans: tuple[Plan, Plan], record: Record, source: UntilDone, *, waits: bool = False) -> None:
        patience_s = _PATIENCE_S + record.setting.window_s
        super().__init__(plans[0], record, waits=waits, told=self._note, patience_s=patience_s)
        self._plans, self._source = plans, source
        self._asked: Future[Switched] | None = None
        self._at_cut: list[Any] = []
        #: Since when nothing changes, and since when that counts as calm.
        self._idle_since_s = self._calm_since_s = None

    def calm(self, next_us: int) -> None:
        if not self.is_idle:
            return
        now_s, record, setting = time.monotonic(), self.record, self.record.setting
        if self._asked is not None:
            span, asked, self._asked = record.spans[-1], self._asked, None
            span.done_s, self._idle_since_s, self._calm_since_s = now_s, now_s, None
            record.made.append(asked.result())  # a change that was not made ends the measurement
        elif self._idle_since_s is None:
            self._idle_since_s = now_s
        if self._calm_since_s is None:
            if now_s - self._idle_since_s < setting.after_s:
                return
            if self._at_cut:
                record.latencies.settled(self.deployment, summed(ray.get(self._at_cut)))
            record.latencies.calm(self.deployment)
            self._calm_since_s = now_s
        elif now_s - self._calm_since_s <= setting.calm_s:
            return
        elif len(record.made) == setting.times:
            self._source.done = True  # not before the wake of the last change has been seen to its end
        else:
            record.latencies.asked(self.deployment)
            record.spans.append(Span(time.monotonic()))
            self._asked = self.ask(self._plans[self.plan == self._plans[0]])

    def ask(self, plan: Plan) -> Future[Switched]:
        return self.change(plan)

    def _note(self, phase: str, deployment: Deployment) -> None:
        if phase == "cutting":
            self.record.spans[-1].cut_s = time.monotonic()
            self._at_cut = [sink.latency_counts.remote() for sink in self.deployment.sinks.values()]
        elif phase == "retiring":
            self.record.latencies.retired(deployment)


class DualRun(Turns):
    """As Kolchinsky & Schuster change a plan: the new one begins with nothing and works beside the old one, until it
    has seen every event that a later match can need."""

    _from_us: int | None = None

    def ask(self, plan: Plan) -> Future[Switched]:
        self._from_us = self._session.last_ts
        # No part needs anything of before, so no history is replayed.
        return self.change(plan, dict.fromkeys(plan.keys, self._from_us + 1))

    @property
    def may_cut(self) -> bool:
        """Whether the new plan has seen all events from the first one on that the next match can be made of."""
        return self._from_us is None or self._session.last_ts - history_us(self._plans[0]) > self._from_us


def measured(setting: Setting, way: str, folder: Path) -> Record:
    """Changes in one run, in one of these WAYS; matches are compared."""
    kind = WAYS[way]
    trace, plans = folder / "trace.parquet", setting.splits if kind.splits else setting.widths
    with Record(setting) as record:
        source = UntilDone(open_trace(trace), setting.replay)
        changes = kind.changes(plans, record, source, waits=kind.waits)
        run = ChangingRayRuntime(plans[0], source, changes, limits=LIMITS, options=setting.options).run()
    (found,) = run.matches
    record.same_matches = same_matches(found, setting.expected(trace, run.events))
    return record


@dataclass(frozen=True)
class Way:
    """A way to change: between two splits or two numbers of units, and whether the stream stands still."""

    splits: bool
    waits: bool = False
    changes: type[Turns] = Turns


WAYS = {
    "beside": Way(splits=True),
    "beside, other units": Way(splits=False),
    "stands still": Way(splits=True, waits=True),
    "dual run": Way(splits=True, changes=DualRun),
}
