"""A run in one process that follows its stream: its plan is replaced while it goes on."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable

from actors.group import Limits
from actors.reports import OperatorReport
from actors.sinks.outlet import OutletSpec
from cluster.change.history import BlockRing, History, StoredHistory
from cluster.change.local import ChangingPipeline
from cluster.change.loop import Adaptable, AdaptLoop
from cluster.change.switches import Made
from cluster.local import LocalRuntime, Watching
from cluster.pipeline import TABLE
from cluster.readings import local_reading
from costmodel.drift.readings import Reading
from costmodel.sampling.events import EventColumns
from decopa.choices import DEFAULT_BATCH_SIZE, DEFAULT_HISTORY_BYTES
from decopa.errors import DecoPaError, StatisticsError
from decopa.planning.history import history_windows
from decopa.planning.plan import Plan
from decopa.query.binding import bind
from shuffler.exchange.codecs import needed_attributes
from shuffler.rows.events import EventBatch, measured_columns
from shuffler.source.trace import TraceSource

#: While a live stream goes on, a new plan is built for so long between two batches (s); each time a little longer, so
#: that it catches up with any stream.
_BUILD_S = 0.01
_LONGER = 1.1


class AdaptingRuntime(LocalRuntime):
    """A local run that changes its plan between two batches.

    `loop_of` makes the loop that decides. A `live` stream is held up for a moment only while another plan is built; a
    stored trace waits for it, since nobody waits for its matches.
    """

    def __init__(
        self,
        plan: Plan,
        source: TraceSource,
        loop_of: Callable[[Adaptable], AdaptLoop],
        *,
        is_live: bool,
        batch_size: int = DEFAULT_BATCH_SIZE,
        limits: Limits | None = None,
        interleaving: random.Random | None = None,
        outlet: OutletSpec = TABLE,
        watch: Watching | None = None,
        max_history_bytes: int = DEFAULT_HISTORY_BYTES,
    ) -> None:
        self._is_live = is_live
        self._history: History[EventBatch]
        if source.row_count is not None and not source.dead_letters.diverting:
            schema = source.format.schema
            attributes = needed_attributes([bind(part.query, schema) for part in plan.parts], schema)
            self._history = StoredHistory(source, attributes)
        else:
            reach_us = max(history_windows(part.query, sliced=True) * part.query.window_us for part in plan.parts)
            self._history = BlockRing(reach_us, max_history_bytes)
        self._changing = ChangingPipeline(
            plan,
            source.format,
            source.strings,
            self._history,
            limits=limits,
            interleaving=interleaving,
            outlet=outlet,
            rows_only=is_live,
            on_progress=self._look,
        )
        super().__init__(plan, source, batch_size=batch_size, watch=watch, working=self._changing)
        self._made: Made | None = None
        self._building_s = self._longest_s = 0.0
        self._budget_s = math.inf
        self.loop = loop_of(self)

    def _worked_on(self, events: EventBatch) -> None:
        self._build()
        self.loop.step(self._changing.watermark_us)

    # ------------------------------------------------------------- the change

    @property
    def plan(self) -> Plan:
        return self._changing.plan

    def counters(self, at_s: float) -> Reading:
        return local_reading(at_s, self._changing.counts, self._changing.part_reports())

    def last_events(self, span_us: int, most: int) -> EventColumns:
        batches = self._history.last(self._changing.watermark_us - span_us, most)
        if not batches:
            raise StatisticsError("no events are kept that could be measured")
        return measured_columns(batches, self._source.format, self._source.strings)

    def change(self, plan: Plan) -> None:
        self._building_s = self._longest_s = 0.0
        self._budget_s = _BUILD_S if self._is_live else math.inf
        began_s = time.perf_counter()
        self._changing.begin(plan)
        self._held_up(time.perf_counter() - began_s)
        self._build()

    def changed(self) -> Made | None:
        made, self._made = self._made, None
        return made

    def _build(self) -> None:
        """Goes on with a change that is under way."""
        if not self._changing.changing:
            return
        began_s, done = time.perf_counter(), None
        try:
            done = self._changing.step(self._budget_s)
        except DecoPaError as err:  # the old plan goes on
            self._made = Made(self.events, self._changing.watermark_us, given_up=str(err))
            return
        self._held_up(time.perf_counter() - began_s)
        self._budget_s *= _LONGER
        if done is not None:
            if self._watch is not None:
                self._watch.plan_changed(self.plan, self._changing.earlier_reports)
            self._made = Made(
                done.at_event,
                done.at_us,
                done.events,
                done.rows,
                done.comparisons,
                self._building_s,
                self._longest_s,
            )

    def _held_up(self, seconds: float) -> None:
        self._building_s += seconds
        self._longest_s = max(self._longest_s, seconds)

    def earlier_reports(self) -> tuple[OperatorReport, ...]:
        """What the operators of the plans before did."""
        return self._changing.earlier_reports
