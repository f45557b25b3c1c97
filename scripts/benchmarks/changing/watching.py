"""Who looks at a run while its plan changes: watermarks of sinks, latencies, and memory of all processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import ray

from actors.latency import LatencyHistogram
from actors.ray_unit import UnitStatus
from cluster.deploy.deployment import Deployment
from scripts.benchmarks.processes import answers, pss_bytes

#: How long before the request and after the cut memory is looked at, and for how long.
_BEFORE_S, AFTER_CUT_S, _SPAN_S = 1.5, 5.0, 1.0


class Watch:
    """Looks every `every_s` in a thread, until it is stopped."""

    def __init__(self, every_s: float) -> None:
        self._every_s, self._left = every_s, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._left.set()
        if self._thread.ident is not None:
            self._thread.join()

    def look(self) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        while not self._left.wait(self._every_s):
            self.look()


class WatermarkWatch(Watch):
    """The least watermark of the sinks: when it was seen to have advanced, and to where."""

    def __init__(self, sinks: Callable[[], list[Any]], every_s: float = 0.01) -> None:
        """`sinks` are those that tell how far the run is now; none between two runs."""
        super().__init__(every_s)
        self._sinks, self._last = sinks, None
        #: Moments and watermarks (us).
        self.advanced: list[tuple[float, int]] = []

    def look(self) -> None:
        try:
            least = min(status.watermark_us for status in ray.get([sink.status.remote() for sink in self._sinks()]))
        except (ray.exceptions.RayError, ValueError):  # they have just been stopped
            return
        if self._last is None or least > self._last:
            self._last = least
            self.advanced.append((time.monotonic(), least))

    def gaps_s(self, from_s: float, until_s: float) -> npt.NDArray[np.float64]:
        """Times without progress that overlap a span."""
        moments = np.array([at_s for at_s, _ in self.advanced])
        ends, gaps = moments[1:], np.diff(moments)
        return gaps[(ends >= from_s) & (ends - gaps <= until_s)]


@dataclass(frozen=True)
class Memory:
    """Bytes before a change, the most of them while it was made, and 5 s after the cut."""

    before: float
    peak: float
    after: float

    @property
    def ratios(self) -> tuple[float, float]:
        return self.peak / self.before, self.after / self.before


@dataclass
class MemoryCurve:
    """Moments and bytes."""

    samples: list[tuple[float, float]] = field(default_factory=list)

    def around(self, asked_s: float, cut_s: float) -> Memory:
        """What a change took that was asked for and cut at these moments."""
        moments, sizes = (np.array(one) for one in zip(*self.samples, strict=True))

        def within(from_s: float, until_s: float) -> npt.NDArray[np.float64]:
            return sizes[(moments >= from_s) & (moments < until_s)]

        before = within(asked_s - _BEFORE_S, asked_s)
        peak = within(asked_s, cut_s + AFTER_CUT_S)
        after = within(cut_s + AFTER_CUT_S, cut_s + AFTER_CUT_S + _SPAN_S)
        return Memory(float(np.median(before)), float(peak.max()), float(np.median(after)))


class MemoryWatch(Watch):
    """Processes of all actors: their memory (PSS), and the state that their units say they hold."""

    def __init__(self, every_s: float = 0.25) -> None:
        super().__init__(every_s)
        self._pids: dict[str, int] = {}
        self.pss, self.state = MemoryCurve(), MemoryCurve()

    def look(self) -> None:
        now_s = time.monotonic()
        statuses = answers("status")
        if set(statuses) - set(self._pids):
            self._pids |= answers("pid")
        state = sum(unit.state_bytes for one in statuses.values() if isinstance(one, UnitStatus) for unit in one.units)
        self.pss.samples.append((now_s, sum(map(pss_bytes, set(self._pids.values())))))
        self.state.samples.append((now_s, state))


class Latencies:
    """How long matches took to the sinks: before changes, and while plans changed.

    A plan that is being built finds matches that are dropped at the cut, so that its sinks are read there.
    """

    def __init__(self) -> None:
        self._before = self._during = np.zeros_like(LatencyHistogram().counts)
        self._from: npt.NDArray[np.int64] | int = 0

    def calm(self, deployment: Deployment) -> None:
        """From here on it counts as before a change."""
        self._from = counts_of(deployment)

    def asked(self, deployment: Deployment) -> None:
        """A change of this plan begins."""
        now = counts_of(deployment)
        self._before = self._before + now - self._from
        self._from = now

    def retired(self, deployment: Deployment) -> None:
        """The plan of before has found all that it will find."""
        self._during = self._during + counts_of(deployment) - self._from
        self._from = 0

    def settled(self, deployment: Deployment, at_cut: npt.NDArray[np.int64] | int = 0) -> None:
        """The change is over; the new plan's sinks had counted `at_cut` when it took over."""
        self._during = self._during + counts_of(deployment) - at_cut

    @property
    def p99_s(self) -> tuple[float, float]:
        """Before, and while plans changed."""
        before, during = (LatencyHistogram.between(None, one).summary().p99_s for one in (self._before, self._during))
        return before, during


def counts_of(deployment: Deployment) -> npt.NDArray[np.int64]:
    """Latencies of the matches in the sinks of a plan, by bucket."""
    return summed(ray.get([sink.latency_counts.remote() for sink in deployment.sinks.values()]))


def summed(counts: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """Those of several sinks."""
    return sum(counts[1:], counts[0])
