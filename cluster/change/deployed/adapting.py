"""AdaptingChanges: a run on Ray that follows its stream and asks itself for better plans."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import ray
from ray.exceptions import RayError

from actors.latency import LatencyHistogram
from cluster.change.deployed.cutting import Cutting
from cluster.change.deployed.plan_changes import PlanChanges
from cluster.change.deployed.successor import FedBlock
from cluster.change.loop import Adaptable, AdaptLoop, InBackground
from cluster.deploy.deployment import Deployment
from cluster.readings import deployed_reading
from cluster.session import Session
from costmodel.drift.readings import Reading
from costmodel.sampling.events import EventColumns
from decopa.choices import DEFAULT_HISTORY_BYTES
from decopa.errors import StatisticsError
from decopa.planning.plan import Plan
from decopa.query.binding import bind
from shuffler.exchange.codecs import needed_attributes
from shuffler.routing.table import NOTHING_YET
from shuffler.rows.events import EventConverter, EventFormat, measured_columns
from shuffler.source.stored_rows import RowReader, StoredRows

_LOOK_S = 0.001

LoopOf = Callable[[Adaptable, InBackground], AdaptLoop]


@dataclass(frozen=True)
class _Asked:
    """Processes that were asked for their counters at `at_s`: shufflers, then units, then sinks."""

    at_s: float
    deployment: Deployment
    shufflers: list[Any]
    units: list[Any]
    sinks: list[Any]

    @property
    def calls(self) -> list[Any]:
        return [*self.shufflers, *self.units, *self.sinks]


class AdaptingChanges(PlanChanges):
    """Makes the changes that its loop asks for; `loop_of` makes the loop, given who does in the background what would
    hold up the stream.

    A stream with a clock of its own (`timed`) tells how far its sinks are behind. With `waits` it stands still while a
    new plan is built.
    """

    def __init__(
        self,
        plan: Plan,
        form: EventFormat,
        loop_of: LoopOf,
        *,
        timed: bool,
        waits: bool,
        max_history_bytes: int = DEFAULT_HISTORY_BYTES,
        most_units: int = 0,
    ) -> None:
        super().__init__(plan, waits=waits, max_history_bytes=max_history_bytes, most_units=most_units)
        self._form, self._timed = form, timed
        self._attributes = needed_attributes([bind(part.query, form.schema) for part in plan.parts], form.schema)
        self._thinker = ThreadPoolExecutor(1, "decopa-planning")
        self._asked: _Asked | None = None
        #: Of the sinks that were asked last: latencies by bucket.
        self._latencies: tuple[Deployment, npt.NDArray[np.int64]] | None = None
        self._began = self._over = False
        self.loop = loop_of(self, self._thinker.submit)

    # ------------------------------------------------------------- as `Adaptable`

    @property
    def events(self) -> int:
        return self._session.events if self._began else 0

    def counters(self, at_s: float) -> Reading | None:
        """Asks all processes and returns at once; a later call has what they answered."""
        deployment, asked = self._session.deployment, self._asked
        if asked is None or asked.deployment is not deployment:
            self._asked = _Asked(
                at_s,
                deployment,
                [shuffler.status.remote() for shuffler in deployment.shufflers.values()],
                [unit.status.remote() for unit in deployment.units.values()],
                [sink.latency_counts.remote() for sink in deployment.sinks.values()] if self._timed else [],
            )
            return None
        ready, _ = ray.wait(asked.calls, num_returns=len(asked.calls), timeout=0, fetch_local=False)
        if len(ready) < len(asked.calls):
            return None
        self._asked = None
        try:
            shufflers, units, sinks = (ray.get(calls) for calls in (asked.shufflers, asked.units, asked.sinks))
        except RayError:  # who was lost is told by the session
            return None
        reading = deployed_reading(asked.at_s, shufflers, units, self._delay_s(deployment, sinks))
        return None if reading.ts_us == NOTHING_YET else reading

    def _delay_s(self, deployment: Deployment, sinks: list[npt.NDArray[np.int64]]) -> float | None:
        """How long the matches since the last reading of these sinks took to them; None if there were none."""
        if not sinks:
            return None
        before, self._latencies = self._latencies, (deployment, sum(sinks[1:], sinks[0]))
        if before is None or before[0] is not deployment:  # a new plan has found matches while it was built
            return None
        since = LatencyHistogram.between(before[1], self._latencies[1]).summary()
        return since.p50_s if since.count else None

    def last_events(self, span_us: int, most: int) -> EventColumns:
        ring = self._ring
        kept = [] if ring is None else ring.last(self._session.last_ts - span_us, most, lambda one: one.block.rows)
        if not kept:
            raise StatisticsError("no events are kept that could be measured")
        converter, reader = EventConverter(self._form), RowReader()
        batches = [
            converter.convert(rows, one.block.place, self._attributes, one.ordinal)
            for one in kept
            for rows in _rows_of(one, reader)
        ]
        return measured_columns(batches, self._form, converter.strings)

    # ------------------------------------------------------------- as `PlanChanges`

    def follow(self, session: Session, cutting: Cutting, deploy: Callable[[Plan], Deployment]) -> None:
        super().follow(session, cutting, deploy)
        self._asked = None
        if self._began:
            self.loop.taken_up(self.plan)
        self._began, self._over = True, False

    def between_blocks(self, next_us: int | None = None) -> None:
        if self._waits:  # what is found out late is of no use to the events before it
            began_s = time.perf_counter()
            while self.loop.is_looking:
                self._session.idle(_LOOK_S)
            self.loop.waited(time.perf_counter() - began_s)
            while self.loop.is_weighing:
                self._session.idle(_LOOK_S)
        super().between_blocks(next_us)

    def step(self) -> None:
        super().step()
        if self._session.events and not self._over:
            self.loop.step(self._session.last_ts)

    def ended(self) -> None:
        super().ended()
        self.loop.step(self._session.last_ts)  # hears what became of the last change
        self._over = True

    def close(self) -> None:
        super().close()
        self._thinker.shutdown()


def _rows_of(fed: FedBlock, reader: RowReader) -> list[pa.RecordBatch]:
    """The rows of a block that was fed: the driver holds them, or reads them again."""
    content = fed.block.content
    table = reader.read(content) if isinstance(content, StoredRows) else pa.ipc.open_stream(content).read_all()
    return [batch for batch in table.to_batches() if batch.num_rows]
