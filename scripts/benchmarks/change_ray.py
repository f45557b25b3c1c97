"""How long a change of plan holds up a paced stream on Ray: feed pause, and stall of the sinks' watermark.

Two plans of one query take turns. The same changes with a stream that stands still while the new plan is built are the
peer in the same table: that is what stopping and starting anew costs.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import ray

from actors.group import Limits
from cluster.change.deployed import PlanChanges
from cluster.change.outcome import Switched
from cluster.change.ray_run import ChangingRayRuntime
from cluster.feeding import TraceBlocks, rows_per_block
from cluster.options import RayOptions
from cluster.ray_session import ray_session
from costmodel.capacity import Capacity
from decopa.planning.plan import Plan
from decopa.report.table import markdown_table
from scripts.reliability.jobs import QUERIES, plans_of, write_trace
from shuffler.source.pacing import Replay
from shuffler.source.trace import open_trace

#: Time between two changes, and what belongs to one: from a while before its cut to a while after it.
_CALM_S, _BEFORE_S, _AFTER_S = 2.0, 0.2, 1.5
_LOOK_S = 0.01


@dataclass
class WatermarkWatch:
    """Looks at the least watermark of the sinks: when it was seen to have advanced."""

    #: The sinks that tell how far the run is.
    sinks: Callable[[], list[Any]]
    #: Moments at which it had advanced.
    advanced_s: list[float] = field(default_factory=list)
    _left: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._left.set()
        self._thread.join()

    def _look(self) -> None:
        last = None
        while not self._left.wait(_LOOK_S):
            try:
                least = min(status.watermark_us for status in ray.get([sink.status.remote() for sink in self.sinks()]))
            except (ray.exceptions.RayError, ValueError):  # they have just been stopped
                continue
            if last is None or least > last:
                last = least
                self.advanced_s.append(time.monotonic())

    def gaps_s(self, from_s: float, until_s: float) -> npt.NDArray[np.float64]:
        """Times without progress that overlap a span."""
        moments = np.array(self.advanced_s)
        ends, gaps = moments[1:], np.diff(moments)
        return gaps[(ends >= from_s) & (ends - gaps <= until_s)]


class Turns(PlanChanges):
    """Asks for the other of two plans, `times` times, and notes when each had taken over."""

    def __init__(self, plans: tuple[Plan, Plan], times: int, *, waits: bool) -> None:
        super().__init__(plans[0], waits=waits)
        self._plans, self._times = plans, times
        self.cuts_s: list[float] = []
        self.results: list[Future[Switched]] = []
        #: For each change, when and after how many events it was asked for, and when and after how many it was done.
        self.spans: list[tuple[float, int, float, int]] = []
        self._asked: tuple[float, int] | None = None
        self._calm_since_s: float | None = None
        self._watch: WatermarkWatch | None = None

    @property
    def watch(self) -> WatermarkWatch:
        assert self._watch is not None
        return self._watch

    def between_blocks(self, next_us: int | None = None) -> None:
        now_s = time.monotonic()
        if self._watch is None:
            self._watch = WatermarkWatch(self._sinks)
            self._watch.start()
        if self.is_idle:
            if self._asked is not None:
                self.spans.append((*self._asked, now_s, self._session.events))
                self._asked = None
            self._calm_since_s = self._calm_since_s or now_s
            if len(self.results) < self._times and now_s - self._calm_since_s > _CALM_S:
                other = self._plans[self.plan == self._plans[0]]
                self.results.append(self.change(other))
                self._asked = now_s, self._session.events
                self._calm_since_s = None
            elif len(self.results) == self._times and now_s - self._calm_since_s > _CALM_S:
                raise Enough
        before = self.plan
        super().between_blocks(next_us)
        if self.plan != before:
            self.cuts_s.append(time.monotonic())

    def _sinks(self) -> list[Any]:
        """Up to the cut the old plan tells how far the run is: it has blocks before the cut that are not due yet."""
        retiring = self._retiring
        session = self._session if retiring is None or retiring.stopped else retiring.old
        return list(session.deployment.sinks.values())


class Enough(Exception):
    """All changes were made."""


@dataclass(frozen=True)
class Outcome:
    """What changes of one kind took."""

    kind: str
    made: list[Switched]
    extra_stalls_s: list[float]
    #: Events that were taken from the moment a change was asked for until it was done, by the rate at which they came.
    throughputs: list[float]


def measured(kind: str, *, times: int, rate: float, units: int, waits: bool, emulated: bool) -> Outcome:
    """Makes changes on a stream of `rate` events a second; connected to Ray."""
    plans = plans_of(QUERIES[2], units)
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.parquet"
        write_trace(trace, events=int(rate * (20 + 40 * times)), rate=rate, seed=1)
        changes = Turns(plans, times, waits=waits)
        replay = Replay(rate=rate)
        source = TraceBlocks(open_trace(trace), rows_per_block(replay))
        # Units are busy for a quarter of the time, asleep: the processors are free for the plan that is built.
        capacity = Capacity.per_second(4 * rate, 4_000 * rate)
        options = RayOptions(replay=replay, metrics=False, emulate={"": capacity} if emulated else {})
        try:
            ChangingRayRuntime(plans[0], source, changes, limits=Limits(), options=options).run()
        except Enough:
            pass
        finally:
            changes.watch.stop()
    made = [one.result() for one in changes.results if one.done() and one.exception() is None]
    first_s = changes.watch.advanced_s[0]
    usual_s = float(np.quantile(changes.watch.gaps_s(first_s, changes.cuts_s[0] - _CALM_S), 0.99))
    stalls = []
    for cut_s, one in zip(changes.cuts_s, made, strict=False):
        before_s = _BEFORE_S + (one.pause_s if waits else 0.0)
        stalls.append(max(0.0, float(changes.watch.gaps_s(cut_s - before_s, cut_s + _AFTER_S).max()) - usual_s))
    taken = [(events - before) / rate / (done_s - asked_s) for asked_s, before, done_s, events in changes.spans]
    return Outcome(kind, made, stalls, taken)


def table(outcomes: Sequence[Outcome]) -> str:
    """Medians and 95th percentiles, in milliseconds; building in seconds."""
    header = ("", "changes", "feed pause p50 / p95", "extra stall p50 / p95", "until level p50", "events replayed p50",
              "throughput mean / least")  # fmt: skip
    rows = []
    for one in outcomes:
        pauses = [1000 * made.pause_s for made in one.made]
        stalls = [1000 * stall_s for stall_s in one.extra_stalls_s]
        rows.append(
            [
                one.kind,
                str(len(one.made)),
                f"{np.quantile(pauses, 0.5):.1f} / {np.quantile(pauses, 0.95):.1f} ms",
                f"{np.quantile(stalls, 0.5):.0f} / {np.quantile(stalls, 0.95):.0f} ms",
                f"{np.median([made.warm_up_s for made in one.made]):.1f} s",
                f"{np.median([made.seeded for made in one.made]):,.0f}",
                f"{100 * np.mean(one.throughputs):.1f} / {min(one.throughputs, default=0.0) * 100:.1f} %",
            ]
        )
    return markdown_table(header, rows)


def ray_outcomes(times: int, rate: float, units: int, *, emulated: bool) -> list[Outcome]:
    """Of a second plan beside the first, and of stopping and starting anew."""
    with ray_session(cpus=4 * units + 8, dashboard=False):
        beside = measured(
            "beside the running plan", times=times, rate=rate, units=units, waits=False, emulated=emulated
        )
        fewer = max(1, times // 4)
        stopped = measured("stream stands still", times=fewer, rate=rate, units=units, waits=True, emulated=emulated)
    return [beside, stopped]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.benchmarks.change_ray", description=__doc__)
    parser.add_argument("--changes", type=int, default=20, help="changes to make (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=2_000, help="events per second (default: %(default)s)")
    parser.add_argument("--units", type=int, default=2, help="of the smaller plan (default: %(default)s)")
    parser.add_argument("--emulate", action="store_true", help="units pretend to be busy for a quarter of their time")
    args = parser.parse_args(arguments)
    print(table(ray_outcomes(args.changes, args.rate, args.units, emulated=args.emulate)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
