"""A run in one process that follows its stream: its plan is replaced while it goes on."""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from actors.group import Limits
from actors.reports import OperatorReport
from actors.sinks.outlet import OutletSpec
from cluster.change.history import BlockRing, History, StoredHistory
from cluster.change.local import ChangingPipeline, Replayed
from cluster.change.loop import Adaptable, AdaptLoop
from cluster.change.outcome import ChangeAbandoned, Switched
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
BUILD_S = 0.01
LONGER = 1.1


@dataclass(frozen=True, slots=True)
class _Asked:
    plan: Plan
    begin_us: Mapping[str, int] | None
    made: Future[Switched] = field(default_factory=Future)


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
        #: Changes that were asked for, the one under way first.
        self._asked: deque[_Asked] = deque()
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
        batches = self._history.last(self._changing.watermark_us - span_us, most, len)
        if not batches:
            raise StatisticsError("no events are kept that could be measured")
        return measured_columns(batches, self._source.format, self._source.strings)

    def change(self, plan: Plan, begin_us: Mapping[str, int] | None = None) -> Future[Switched]:
        """Asks for another plan, from the thread that feeds; a stored trace has it at once."""
        asked = _Asked(plan, begin_us)
        self._asked.append(asked)
        self._build()
        return asked.made

    def _build(self) -> None:
        """Goes on with the changes that were asked for."""
        while self._asked:
            asked, began_s = self._asked[0], time.perf_counter()
            if asked.made.cancelled():
                self._asked.popleft()
                self._changing.give_up()
                continue
            try:
                done = self._stepped(asked)
            except DecoPaError as err:  # the old plan stays
                self._asked.popleft().made.set_exception(ChangeAbandoned(str(err)))
                continue
            self._held_up(time.perf_counter() - began_s)
            if done is None:
                return
            if self._watch is not None:
                self._watch.plan_changed(self.plan, self._changing.earlier_reports)
            made = Switched(done.at_event, done.at_us, done.events, self._building_s, self._longest_s)
            self._asked.popleft().made.set_result(made)

    def _stepped(self, asked: _Asked) -> Replayed | None:
        if not self._changing.changing:
            self._building_s = self._longest_s = 0.0
            self._budget_s = BUILD_S if self._is_live else math.inf
            self._changing.begin(asked.plan, asked.begin_us)
            if self._is_live:  # that took a moment; the next events first
                return None
        self._budget_s *= LONGER
        return self._changing.step(self._budget_s)

    def _held_up(self, seconds: float) -> None:
        self._building_s += seconds
        self._longest_s = max(self._longest_s, seconds)

    def earlier_reports(self) -> tuple[OperatorReport, ...]:
        """What the operators of the plans before did."""
        return self._changing.earlier_reports
