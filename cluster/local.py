"""The local runtime: a whole plan with all its units in one process.

Units exchange batches and watermarks through first-in-first-out channels, as they do on a cluster. Normally the
message nearest to the root is delivered first, which keeps queues short and batches in the processor's cache; with
`interleaving` the next channel is drawn at random instead, to show that the order between senders changes nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from actors.group import Limits
from actors.reports import OperatorReport
from actors.sink import MatchSink
from cluster.live import NewMatches
from cluster.pipeline import Pipeline
from decopa.planning.plan import Plan
from decopa.planning.validate import check_structure
from decopa.query.binding import bind
from shuffler.exchange.codecs import needed_attributes
from shuffler.source.stopping import StreamStopped
from shuffler.source.trace import TraceSource

#: Events per batch: long enough to make the work per batch negligible, short enough to stay in the cache.
DEFAULT_BATCH_SIZE = 65_536


class LocalRuntime:
    """Runs every query of a plan over one pass of the source.

    `ordered` puts matches in canonical order as the run goes on; without it that is left to `MatchSink.table`.
    """

    def __init__(
        self,
        plan: Plan,
        source: TraceSource,
        *,
        batch_size: int = DEFAULT_BATCH_SIZE,
        limits: Limits | None = None,
        interleaving: random.Random | None = None,
        ordered: bool = True,
    ) -> None:
        check_structure(plan)
        self._ordered = ordered
        self._source, self._batch_size = source, batch_size
        limits = limits or Limits()
        bounds = [bind(part.query, source.schema) for part in plan.parts]
        self._attributes = needed_attributes(bounds, source.schema)
        self._windows_us = max((bound.query.window_us for bound in bounds), default=0)
        self._pipelines = [
            Pipeline(part, bound, source, limits, interleaving) for part, bound in zip(plan.parts, bounds, strict=True)
        ]
        self.events = 0
        #: Whether a live run was stopped before its stream ended.
        self.stopped = False

    def stop(self) -> None:
        """Asks a live run to end; it does so when its next events come."""
        self.stopped = True

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Reads the source to its end; `progress(events, matches)` is called after every batch."""
        for _ in self._batches():
            if self._ordered:
                for pipeline in self._pipelines:
                    pipeline.sink.settle(pipeline.output_watermark_us)
            if progress is not None:
                progress(self.events, sum(pipeline.sink.rows for pipeline in self._pipelines))
        for pipeline in self._pipelines:
            pipeline.finish()

    def live(self) -> Iterator[NewMatches]:
        """Reads the source as its events arrive, and hands out the matches of each batch of them as soon as they are
        certain. A source that was asked to stop has not ended: what is still open stays so."""
        for pipeline in self._pipelines:
            pipeline.warm_up()
        try:
            for _ in self._batches():
                yield from self._taken()
                if self.stopped:
                    return
        except StreamStopped:
            self.stopped = True
            return
        for pipeline in self._pipelines:
            pipeline.finish()
        yield from self._taken()

    def _batches(self) -> Iterator[None]:
        """Works on the source, batch by batch."""
        for events in self._source.batches(self._attributes, self._batch_size):
            for pipeline in self._pipelines:
                pipeline.feed(events)
            self.events += len(events)
            # Twice the window is the latest that a match can still be on its way, held back by a NOT at its end.
            self._source.strings.forget_before(int(events.ts[-1]) - 3 * self._windows_us)
            yield

    def _taken(self) -> Iterator[NewMatches]:
        if any(sink.rows for sink in self.sinks):
            finals = tuple(pipeline.output_watermark_us for pipeline in self._pipelines)
            yield NewMatches(tuple(sink.take() for sink in self.sinks), finals)

    @property
    def sinks(self) -> list[MatchSink]:
        """The matches of each OR-free query, in the plan's order."""
        return [pipeline.sink for pipeline in self._pipelines]

    @property
    def state_bytes(self) -> int:
        return sum(report.state_bytes for report in self.reports())

    def reports(self) -> tuple[OperatorReport, ...]:
        return tuple(report for pipeline in self._pipelines for report in pipeline.reports())
