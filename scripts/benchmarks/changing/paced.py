"""Paced: a run whose plan's state is filled first, and which then goes by the clock, also across a stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cluster.change.deployed.plan_changes import Cutting, PlanChanges
from cluster.change.outcome import Switched
from cluster.deploy.deployment import Deployment
from cluster.feeding import FeedBlock
from cluster.session import Session
from decopa.planning.plan import Plan
from scripts.benchmarks.changing.setting import Setting
from scripts.benchmarks.changing.watching import Latencies, MemoryWatch, WatermarkWatch
from shuffler.source.pacing import Replay


@dataclass
class Span:
    """A change: when it was asked for, when the new plan took over, and when it was done."""

    asked_s: float
    cut_s: float = 0.0
    done_s: float = 0.0


@dataclass
class Record:
    """What is seen of changes of one kind, in one run or in several that continue each other."""

    setting: Setting
    spans: list[Span] = field(default_factory=list)
    made: list[Switched] = field(default_factory=list)
    latencies: Latencies = field(default_factory=Latencies)
    memory: MemoryWatch | None = None
    #: For each block, when it was fed and how many events came before it.
    fed: list[tuple[float, int]] = field(default_factory=list)
    #: When the stream began to go by the clock, at which event.
    paced: tuple[float, int] | None = None
    #: Whether the matches are those of a run whose plan does not change.
    same_matches: bool = False
    #: The sinks that tell how far the run is.
    sinks: Callable[[], list[Any]] = list
    _watermarks: WatermarkWatch | None = None

    def __enter__(self) -> Record:
        if self.setting.memory:
            self.memory = MemoryWatch()
            self.memory.start()
        return self

    def __exit__(self, *error: object) -> None:
        for one in (self._watermarks, self.memory):
            if one is not None:
                one.stop()

    @property
    def watermarks(self) -> WatermarkWatch:
        assert self._watermarks is not None, "the stream ended before it was paced"
        return self._watermarks

    def begin(self, events: int) -> None:
        """From now on, with this event, the stream goes by the clock."""
        self.paced = time.monotonic(), events
        self._watermarks = WatermarkWatch(lambda: self.sinks())
        self._watermarks.start()

    def due_s(self, event: int) -> float:
        """When an event is to be fed."""
        assert self.paced is not None
        return self.paced[0] + (event - self.paced[1]) / self.setting.rate


def per_second(fed: list[tuple[float, int]], from_s: float, until_s: float) -> float:
    """How many events were fed in a second; between two blocks they count evenly. `fed` are moments, and how many
    events had been fed before. Works for watermarks, too."""
    moments, events = zip(*fed, strict=True)
    before, after = np.interp([from_s, until_s], moments, events)
    return float(after - before) / (until_s - from_s)


def least_per_second(seen: list[tuple[float, int]], from_s: float, until_s: float) -> float:
    """The least progress within a second; what was seen at a moment holds until the next one."""
    moments, values = (np.array(one) for one in zip(*seen, strict=True))
    begins = np.arange(from_s, max(until_s - 1.0, from_s) + 0.01, 0.05)
    at, then = (np.maximum(np.searchsorted(moments, when, side="right") - 1, 0) for when in (begins, begins + 1.0))
    return float((values[then] - values[at]).min())


class Paced(PlanChanges):
    """Fills the state of the plan as fast as it takes events, then feeds by the clock; `calm` is called between two
    blocks from then on."""

    def __init__(self, plan: Plan, record: Record, **options: Any) -> None:
        super().__init__(plan, **options)
        self.record = record
        self._first_us: int | None = None
        self._is_paced = False

    def follow(self, session: Session, cutting: Cutting, deploy: Callable[[Plan], Deployment]) -> None:
        super().follow(session, cutting, deploy)
        self.record.sinks = self._sinks

    def between_blocks(self, next_us: int | None = None) -> None:
        assert next_us is not None, "a stored trace tells when its next event is"
        if not self._is_paced:
            self._pace(next_us)
        if self._is_paced:
            self.calm(next_us)
        # Between two events of one time no cut is made.
        super().between_blocks(next_us if self.may_cut else self._session.last_ts)

    @property
    def may_cut(self) -> bool:
        """Whether a new plan that is level may take over."""
        return True

    def calm(self, next_us: int) -> None:
        """The stream goes by the clock."""

    def fed(self, block: FeedBlock, ordinal: int, number: int) -> None:
        self.record.fed.append((time.monotonic(), ordinal))
        super().fed(block, ordinal, number)

    def _pace(self, next_us: int) -> None:
        session, record = self._session, self.record
        if record.paced is not None:
            # Taken up again: events were due all the time. A replay begins with the event that is due now, and the
            # next one is one of those before it.
            place = session.place
            missed = round((time.monotonic() - record.due_s(place.events)) * record.setting.rate)
            session.go_on_from(place.events + missed, place.blocks)
            session.replay_from_here(next_us, record.setting.replay)
            session.go_on_from(place.events, place.blocks)
        elif self._first_us is None:
            self._first_us = next_us
            session.replay_from_here(next_us, Replay())
            return
        elif next_us - self._first_us < record.setting.fill_us:
            return
        else:
            session.settle()
            session.replay_from_here(next_us, record.setting.replay)
            record.begin(session.events)
        self._is_paced = True

    def _sinks(self) -> list[Any]:
        """Up to the cut the old plan tells how far the run is: it has blocks before the cut that are not due yet."""
        retiring = self._retiring
        session = self._session if retiring is None or retiring.stopped else retiring.old
        return list(session.deployment.sinks.values())

    @property
    def deployment(self) -> Deployment:
        return self._session.deployment
