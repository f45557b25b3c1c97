"""The shuffler as a Ray actor."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import ray

from shuffler.exchange.node import Marks, ReplayStart, ShufflerNode
from shuffler.exchange.outbox import FlushPolicy
from shuffler.exchange.ray_links import RayLinks
from shuffler.exchange.ray_metrics import Publisher, ShufflerMetrics
from shuffler.exchange.ray_shell import CONTROL, Shell
from shuffler.exchange.work_clock import WorkClock
from shuffler.routing.counts import FeedCounts
from shuffler.routing.feeder import FeederState
from shuffler.routing.table import NOTHING_YET
from shuffler.routing.topology import Topology
from shuffler.rows.columns import Place
from shuffler.rows.events import EventFormat
from shuffler.source.pacing import Replay
from shuffler.source.stored_rows import RowReader, StoredFile, StoredRows


@dataclass(frozen=True)
class ShufflerSetup:
    """All that a shuffler needs to know; `handles` are the actors it sends to, `sinks` want marks of arrival."""

    number: int
    topology: Topology
    form: EventFormat
    handles: Mapping[str, Any]
    sinks: tuple[Any, ...]
    replay: Replay
    batch_size: int
    policy: FlushPolicy
    window: int
    attempt: int = 0
    metrics: bool = True
    state: tuple[FeederState, ...] | None = None
    silent: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ShufflerStatus:
    """What a shuffler's process did so far; `counts` tell events by type, `rows_sent` what left it for all units."""

    events: int
    busy_s: float
    waited_s: float
    in_flight: int
    messages: int
    rows_sent: int = 0
    counts: FeedCounts = field(default_factory=FeedCounts)


class Shuffler(Shell):
    """Takes blocks of events and sends them on, as the plan says."""

    def __init__(self, setup: ShufflerSetup) -> None:
        name = setup.topology.shuffler_names[setup.number]
        super().__init__(name, f"shuffler {setup.number}")
        self._sinks = setup.sinks
        self._slept_s = 0.0
        self._reader = RowReader()
        pa.array([0]).to_numpy()  # makes Arrow import pandas, for half a second, before the first events
        with self.working():
            self._links = RayLinks(name, setup.handles, window=setup.window, attempt=setup.attempt)
            self._work = WorkClock(lambda: self._links.waited_so_far_s + self._slept_s)
            self._node = ShufflerNode(
                setup.number,
                setup.topology,
                setup.form,
                send=self._links.send,
                mark=self._mark,
                replay=setup.replay,
                batch_size=setup.batch_size,
                policy=setup.policy,
                clock=self._clock,
                sleep=self._sleep,
                state=setup.state,
                silent=setup.silent,
            )
        metrics = ShufflerMetrics(name, setup.topology, self._links, self._status)
        self._metrics = Publisher(metrics.show) if setup.metrics else None

    def greet(self) -> None:
        with self.working():
            self._links.greet()
        super().greet()

    def sees(self, files: tuple[StoredFile, ...]) -> bool:
        """Whether all these files are here."""
        return all(file.is_here for file in files)

    def _table_of(self, rows: pa.Buffer | pa.Table | StoredRows) -> pa.Table:
        if isinstance(rows, StoredRows):
            return self._reader.read(rows)
        return pa.ipc.open_stream(rows).read_all() if isinstance(rows, pa.Buffer) else rows

    def feed(
        self,
        rows: pa.Buffer | pa.Table | StoredRows,
        place: Place,
        first_ordinal: int,
        start: ReplayStart,
        urgent: bool = False,
    ) -> int:
        """Shuffles a block of events: an Arrow stream as bytes, a table that lies in the object store, or rows of a
        file that this process reads itself. If it is urgent, nothing of it waits for company on its way."""
        with self.working():
            self._work.begin()
            table = self._table_of(rows)
            first = 0
            for batch in table.to_batches():
                at = first_ordinal + first
                self._node.feed(batch, place.after(first), at, start, urgent=urgent)
                first += batch.num_rows
            self._work.end()
        return int(table.num_rows)

    def flush(self, watermark_us: int = NOTHING_YET) -> None:
        """Passes on what waits, and that nothing earlier follows; returns when the receivers have it."""
        with self.working():
            self._node.flush(watermark_us)
            self._links.wait_for_all()

    def barrier(self, number: int, watermark_us: int = NOTHING_YET) -> tuple[FeederState, ...]:
        """Cuts the stream for a checkpoint or another plan; returns this shuffler's part of it."""
        with self.working():
            return self._node.barrier(number, watermark_us)

    def finish(self) -> None:
        """Ends the stream; returns when everyone this shuffler sends to has it."""
        with self.working():
            self._node.finish()
            self._links.wait_for_all()
        if self._metrics is not None:
            self._metrics.publish()
        self.end()

    @ray.method(concurrency_group=CONTROL)
    def watch(self) -> None:
        self.watch_until_end()

    @ray.method(concurrency_group=CONTROL)
    def status(self) -> ShufflerStatus:
        return self._status()

    def _status(self) -> ShufflerStatus:
        links, node = self._links, self._node
        return ShufflerStatus(
            node.events,
            self._work.busy_s,
            links.waited_so_far_s,
            links.in_flight,
            node.outbox.messages_sent,
            node.outbox.rows_sent,
            node.counts,
        )

    def _mark(self, marks: Marks) -> None:
        for sink in self._sinks:
            sink.mark.remote(marks)

    def _sleep(self, seconds: float) -> None:
        self._slept_s += seconds
        time.sleep(seconds)
