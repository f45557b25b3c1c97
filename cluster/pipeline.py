"""One OR-free query in one process: events in, matches out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial

from actors.group import Limits, UnitGroup
from actors.outlet import OutletSpec, taker_of
from actors.parts import PartSink
from actors.reports import OperatorReport, operator_report, unit_reports
from actors.sink import MatchSink, check_limit
from actors.unit import Channel
from decopa.planning.plan import QueryPlan
from decopa.query.binding import BoundQuery
from shuffler.routing.feeder import LeafFeeder
from shuffler.routing.table import END_OF_STREAM, NOTHING_YET, Delivery, RoutingTable
from shuffler.rows.batch import Batch
from shuffler.rows.events import EventBatch
from shuffler.source.trace import TraceSource

TABLE = OutletSpec()


class Pipeline:
    """All copies of a plan, each with all its units; several only if the plan is sliced."""

    def __init__(
        self,
        part: int,
        plan: QueryPlan,
        bound: BoundQuery,
        source: TraceSource,
        limits: Limits,
        interleaving: random.Random | None,
        outlet: OutletSpec = TABLE,
        on_progress: Callable[[], None] = lambda: None,
    ) -> None:
        self._plan, self._limits = plan, limits
        code_of, routing = source.strings.pin, RoutingTable(plan)
        self.taker = taker_of(outlet, plan, bound, source.format, source.strings, limits, str(part))
        self._feeder = LeafFeeder(plan, bound, source.strings, routing=routing)
        self._hosting = partial(UnitGroup, plan, bound, code_of, routing=routing)
        self._groups = [
            self._hosting(
                limits=limits,
                outside=partial(self._outside, copy),
                copy=copy,
                interleaving=interleaving,
                counting=outlet.counts_only(bound.query),
                on_progress=on_progress,
            )
            for copy in range(plan.slices)
        ]
        self._watermarks = {
            (copy, sender): NOTHING_YET for copy in range(plan.slices) for sender in routing.senders(plan.root)
        }

    def warm_up(self) -> None:
        """Loads compiled loops, so that the first events need not wait."""
        self._hosting(limits=Limits(), outside=lambda delivery: None).sample()
        if isinstance(self.taker, MatchSink):
            self.taker.warm_up()

    def feed(self, events: EventBatch) -> None:
        """Sends a batch of events through the plan until nothing is on its way."""
        self._deliver(self._feeder.feed(events))

    def finish(self) -> None:
        self._deliver(self._feeder.advance(END_OF_STREAM))
        self.taker.settle(END_OF_STREAM)

    def settle(self) -> None:
        """Lets go of matches that are final."""
        self.taker.settle(self.output_watermark_us)

    def abandon(self) -> None:
        """Lets go of files, after a failure."""
        if isinstance(self.taker, PartSink):
            self.taker.abandon()

    @property
    def output_watermark_us(self) -> int:
        """No later match ends before this."""
        return min(self._watermarks.values())

    def reports(self) -> Iterator[OperatorReport]:
        units = [report for copy, group in enumerate(self._groups) for report in unit_reports(group.units, copy)]
        for operator in self._plan.operators:
            report = operator_report(self._plan, operator, units)
            if report is not None:
                yield report

    def _deliver(self, deliveries: Iterator[tuple[int, Delivery]]) -> None:
        for copy, delivery in deliveries:
            edge = delivery.edge
            if edge is None:
                self._outside(copy, delivery)
            else:
                channel = Channel(edge.side, delivery.sender)
                self._groups[copy].accept(edge.target.name, delivery.unit, channel, delivery.content)
        for group in self._groups:
            group.drain()

    def _outside(self, copy: int, delivery: Delivery) -> None:
        """What leaves a plan that is hosted here as a whole comes from its root."""
        if not isinstance(delivery.content, Batch):
            self._watermarks[copy, delivery.sender] = delivery.content
        else:
            self.taker.add(delivery.content)
            if isinstance(self.taker, MatchSink):
                check_limit(self.taker.rows, self._limits.max_matches, self._plan.text(self._plan.root))
