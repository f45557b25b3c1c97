"""Stop and restore: a run with checkpoints is stopped with one and resumed on another number of units.

That is what `decopa resume --units` does, on a Ray that is there already. Events keep falling due meanwhile.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cluster.change.outcome import Switched
from cluster.checkpoint.output import PublishedMatches
from cluster.checkpoint.recovery import CheckpointedRun, CheckpointedRuntime
from cluster.options import Checkpoints
from decopa.planning.plan import Plan
from decopa.runs.result import result_table
from scripts.benchmarks.changing.paced import Paced, Record, Span
from scripts.benchmarks.changing.setting import LIMITS, Setting, UntilDone, same_matches
from shuffler.source.trace import open_trace


class Stopping(Paced):
    """Stops a run some time after it was begun or resumed, or lets it come to its end after the last change."""

    def __init__(self, plan: Plan, record: Record, source: UntilDone) -> None:
        super().__init__(plan, record)
        self.stop, self._source = threading.Event(), source
        self._left = False
        self._up_since_s = self._calm_since_s = None

    def calm(self, next_us: int) -> None:
        now_s, record, setting = time.monotonic(), self.record, self.record.setting
        if self._up_since_s is None:
            self._up_since_s = now_s
            if record.spans:
                self._resumed(record.spans[-1], now_s)
        if self._calm_since_s is None:
            if now_s - self._up_since_s < setting.after_s:
                return
            if record.spans:
                record.latencies.settled(self.deployment)
            record.latencies.calm(self.deployment)
            self._calm_since_s = now_s
        elif now_s - self._calm_since_s <= setting.calm_s:
            return
        elif len(record.made) == setting.times:
            self._source.done = True  # not before the wake of the last change has been seen to its end
        elif not self.stop.is_set():
            record.latencies.asked(self.deployment)
            record.spans.append(Span(time.monotonic()))
            self.stop.set()

    def _resumed(self, span: Span, now_s: float) -> None:
        """The first event is about to be fed; it was due a while ago, which nothing but the change is the reason of."""
        place = self._session.place
        span.cut_s = span.done_s = now_s
        pause_s = max(0.0, now_s - self.record.due_s(place.events))
        self.record.made.append(Switched(place.events, self._session.last_ts, 0, now_s - span.asked_s, pause_s))

    def leave(self) -> None:
        if self.stop.is_set() and not self._left:  # once; the actors are there until this returns
            self._left, self.record.sinks = True, list
            self.record.latencies.retired(self.deployment)
        super().leave()


def measured(setting: Setting, folder: Path) -> Record:
    """Stops and resumes as often as the setting says; matches are compared."""
    trace, number = folder / "trace.parquet", 0
    checkpoints, out = Checkpoints(str(folder / "checkpoints")), PublishedMatches(folder / "out")
    with Record(setting) as record:
        while True:
            source = UntilDone(open_trace(trace), setting.replay)
            changes = Stopping(setting.widths[number % 2], record, source)
            done = _run(setting, source, changes, checkpoints, out)
            if not done.stopped:
                break
            number += 1
    assert done.run is not None
    parts = [pq.read_table(part) for part in sorted((folder / "out").glob("part-*"))]
    expected = setting.expected(trace, done.run.events)
    record.same_matches = same_matches(pa.concat_tables(parts), expected)
    return record


def _run(setting: Setting, source: UntilDone, changes: Stopping, *places: Any) -> CheckpointedRun:
    checkpoints, output = places
    return CheckpointedRuntime(
        changes.plan,
        source,
        merge=lambda tables: result_table((setting.query,), list(tables.values())),
        output=output,
        checkpoints=checkpoints,
        limits=LIMITS,
        options=setting.options,
        stop=changes.stop,
        changes=changes,
    ).run()
