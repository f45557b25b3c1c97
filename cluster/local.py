"""The local runtime: a whole plan with all its units in one process.

Units exchange batches and watermarks through first-in-first-out channels, as they do on a cluster. Normally the
message nearest to the root is delivered first, which keeps queues short and batches in the processor's cache; with
`interleaving` the next channel is drawn at random instead, to show that the order between senders changes nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from actors.group import Limits
from actors.host import PartsHost
from actors.outlet import Outcome, OutletSpec, outcome_of, taker_of
from actors.parts import PartSink
from actors.reports import OperatorReport, UnitReport, operator_report, unit_reports
from actors.sink import MatchSink, check_limit
from cluster.live import NewMatches
from decopa.choices import DEFAULT_BATCH_SIZE
from decopa.planning.plan import Plan
from decopa.planning.validate import check_structure
from decopa.query.binding import bind
from shuffler.exchange.codecs import needed_attributes
from shuffler.routing.feeder import WorkloadFeeder
from shuffler.routing.table import END_OF_STREAM, NOTHING_YET, Delivery
from shuffler.routing.topology import Topology
from shuffler.rows.batch import Batch
from shuffler.source.stopping import StreamStopped
from shuffler.source.trace import TraceSource

TABLE = OutletSpec()


class Watching(Protocol):
    """Looks at a run now and then: at the reports of each part's operators."""

    @property
    def due(self) -> bool: ...

    def look(self, reports: Sequence[Sequence[OperatorReport]]) -> None: ...


class LocalRuntime:
    """Runs every query of a plan over one pass of the source.

    `outlet` says what becomes of matches: a table, unless it is told otherwise. A `watch` looks at the operators while
    the run is going, and may end it.
    """

    def __init__(
        self,
        plan: Plan,
        source: TraceSource,
        *,
        batch_size: int = DEFAULT_BATCH_SIZE,
        limits: Limits | None = None,
        interleaving: random.Random | None = None,
        outlet: OutletSpec = TABLE,
        watch: Watching | None = None,
    ) -> None:
        check_structure(plan)
        self._source, self._batch_size, self._plan = source, batch_size, plan
        self._limits = limits or Limits()
        topology = Topology(plan)
        bounds = [bind(part.query, source.schema) for part in plan.parts]
        self._attributes = needed_attributes(bounds, source.schema)
        self._windows_us = max((bound.query.window_us for bound in bounds), default=0)
        self._feeder = WorkloadFeeder(topology.routing, bounds, source.strings)
        self._host = PartsHost(
            topology,
            bounds.__getitem__,
            source.strings,
            limits=self._limits,
            outside=self._outside,
            counting=lambda part: outlet.counts_only(bounds[part].query),
            interleaving=interleaving,
            on_progress=self._look,
        )
        self._takers = {
            part: taker_of(
                outlet, plan.parts[part], bounds[part], source.format, source.strings, self._limits, str(part)
            )
            for part in topology.sink_of
        }
        #: How far each sender of each part's matches has come.
        self._watermarks: dict[int, dict[tuple[int, str], int]] = {
            part: {
                (copy, sender): NOTHING_YET
                for copy in range(plan.parts[part].slices)
                for sender in topology.routing[part].senders(plan.parts[part].root)
            }
            for part in self._takers
        }
        #: Parts that have found matches or heard of a watermark since their matches were last put in their place.
        self._touched: set[int] = set()
        self._watch = watch
        self.events = 0
        #: Whether a live run was stopped before its stream ended.
        self.stopped = False

    def stop(self) -> None:
        """Asks a live run to end; it does so when its next events come."""
        self.stopped = True

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Reads the source to its end; `progress(events, matches)` is called after every batch."""
        try:
            self._run(progress)
        except BaseException:
            for taker in self._takers.values():
                if isinstance(taker, PartSink):
                    taker.abandon()
            raise

    def _run(self, progress: Callable[[int, int], None] | None) -> None:
        for _ in self._batches():
            self._settle()
            if progress is not None:
                progress(self.events, self.matches)
        self._finish()

    def _settle(self) -> None:
        """Puts matches that are final in their place."""
        for part in self._touched:
            self._takers[part].settle(min(self._watermarks[part].values()))
        self._touched.clear()

    def _finish(self) -> None:
        self._deliver(self._feeder.advance(END_OF_STREAM))
        for taker in self._takers.values():
            taker.settle(END_OF_STREAM)

    def _deliver(self, deliveries: Iterator[tuple[int, int, Delivery]]) -> None:
        for part, copy, delivery in deliveries:
            self._host.take(part, copy, delivery)
        self._host.drain()

    def _outside(self, part: int, copy: int, delivery: Delivery) -> None:
        """What leaves a plan that is hosted here as a whole comes from its roots."""
        self._touched.add(part)
        if not isinstance(delivery.content, Batch):
            self._watermarks[part][copy, delivery.sender] = delivery.content
            return
        taker, plan = self._takers[part], self._plan.parts[part]
        taker.add(delivery.content)
        if isinstance(taker, MatchSink):
            check_limit(taker.rows, self._limits.max_matches, plan.text(plan.root))

    def _look(self) -> None:
        if self._watch is not None and self._watch.due:
            self._watch.look(self._part_reports())

    def warm_up(self) -> None:
        """Loads compiled loops, so that the first events need not wait."""
        self._host.warm_up()
        for sink in self.sinks:
            sink.warm_up()

    def live(self) -> Iterator[NewMatches]:
        """Reads the source as its events arrive, and hands out the matches of each batch of them as soon as they are
        certain. A source that was asked to stop has not ended: what is still open stays so."""
        self.warm_up()
        try:
            for _ in self._batches():
                yield from self._taken()
                if self.stopped:
                    return
        except StreamStopped:
            self.stopped = True
            return
        self._finish()
        yield from self._taken()

    def _batches(self) -> Iterator[None]:
        """Works on the source, batch by batch."""
        for events in self._source.batches(self._attributes, self._batch_size):
            self._deliver(self._feeder.feed(events))
            self.events += len(events)
            # Twice the window is the latest that a match can still be on its way, held back by a NOT at its end.
            self._source.strings.forget_before(int(events.ts[-1]) - 3 * self._windows_us)
            yield

    def _taken(self) -> Iterator[NewMatches]:
        if any(sink.rows for sink in self.sinks):
            finals = tuple(min(marks.values()) for marks in self._watermarks.values())
            yield NewMatches(tuple(sink.take() for sink in self.sinks), finals)

    @property
    def sinks(self) -> list[MatchSink]:
        """Those who collect the matches of each OR-free query, where rows are wanted."""
        return [taker for taker in self._takers.values() if isinstance(taker, MatchSink)]

    @property
    def outcomes(self) -> list[Outcome]:
        """What became of the matches of each OR-free query, in the plan's order."""
        return [outcome_of(taker) for taker in self._takers.values()]

    @property
    def matches(self) -> int:
        return sum(taker.rows for taker in self._takers.values())

    @property
    def state_bytes(self) -> int:
        return sum(report.state_bytes for report in self.reports())

    def reports(self) -> tuple[OperatorReport, ...]:
        return tuple(report for reports in self._part_reports() for report in reports)

    def _part_reports(self) -> list[tuple[OperatorReport, ...]]:
        units: list[list[UnitReport]] = [[] for _ in self._plan.parts]
        for (part, copy), group in self._host.groups.items():
            units[part] += unit_reports(group.units, copy, part)
        found = []
        for plan, mine in zip(self._plan.parts, units, strict=True):
            reports = (operator_report(plan, operator, mine) for operator in plan.operators)
            found.append(tuple(report for report in reports if report is not None))
        return found
