"""Recorder: how far a run was at some moments, for its report."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from actors.latency import LatencyHistogram, LatencySummary

if TYPE_CHECKING:
    from cluster.deploy.deployment import Deployment

#: Above this many samples every second one is dropped, and they are taken half as often.
_MOST_SAMPLES = 600


@dataclass(frozen=True)
class Sample:
    """Since the start of the recording: seconds, events and matches so far, seconds that each process was busy.

    `latency` is that of the matches since the sample before; it is measured on Ray only, as is `busy_s`.
    """

    seconds: float
    events: int
    matches: int
    busy_s: dict[str, float]
    latency: LatencySummary = field(default_factory=LatencySummary)


class Recorder:
    """Takes a sample at most every `interval_s`; time begins with the first look."""

    def __init__(self, interval_s: float = 0.5, clock: Callable[[], float] = time.monotonic) -> None:
        self.samples: list[Sample] = []
        self._interval_s, self._clock = interval_s, clock
        self._started: float | None = None
        self._next = 0.0
        self._counts: Any = None
        #: The actors that were asked last, and how many events more than they were told of had been fed before them.
        self._asked: Deployment | None = None
        self._before = 0

    def look(self, deployment: Deployment, events: int, *, last: bool = False) -> None:
        """Asks the actors of a run how far they are, if it is time to."""
        import ray

        now = self._now()
        if now < self._next and not last:
            return
        busy = {status.name: status.busy_s for status in deployment.statuses()}
        # `events` were fed; those that the shufflers have dealt out are what has been taken up.
        taken = sum(status.events for status in deployment.shuffler_statuses())
        if deployment is not self._asked:  # another plan has taken over, whose actors count anew
            self._before = 0 if self._asked is None else events - taken
            self._asked, self._counts = deployment, None
        taken += self._before
        sinks = list(deployment.sinks.values())
        matches = sum(status.matches for status in deployment.sink_statuses())
        counts = sum(ray.get([sink.latency_counts.remote() for sink in sinks]))
        latency = LatencyHistogram.between(self._counts, counts).summary()
        self._counts = counts
        self._keep(Sample(now, min(taken, events), matches, busy, latency))

    def watching(self, progress: Callable[[int, int], None] | None) -> Callable[[int, int], None]:
        """A `progress` for the local runtime that takes samples on its way."""
        self._keep(Sample(self._now(), 0, 0, {}))

        def note(events: int, matches: int) -> None:
            now = self._now()
            if now >= self._next or len(self.samples) < 2:  # a short run has a beginning and something after it
                self._keep(Sample(now, events, matches, {}))
            if progress is not None:
                progress(events, matches)

        return note

    def _now(self) -> float:
        if self._started is None:
            self._started = self._clock()
        return self._clock() - self._started

    def _keep(self, sample: Sample) -> None:
        self.samples.append(sample)
        if len(self.samples) > _MOST_SAMPLES:
            self.samples, self._interval_s = self.samples[1::2], 2 * self._interval_s
        self._next = sample.seconds + self._interval_s
