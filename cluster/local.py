"""The local runtime: one pass of a source through a pipeline in this process."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from actors.group import Limits
from actors.reports import OperatorReport
from actors.sinks.outlet import Outcome, OutletSpec
from actors.sinks.sink import MatchSink
from cluster.live import NewMatches
from cluster.pipeline import TABLE, Pipeline
from decopa.choices import DEFAULT_BATCH_SIZE, DEFAULT_BATCH_SIZE_OF_MANY
from decopa.planning.plan import Plan
from shuffler.routing.counts import FeedCounts
from shuffler.routing.feeder import FEW_PARTS
from shuffler.rows.events import EventBatch
from shuffler.source.stopping import StreamStopped
from shuffler.source.trace import TraceSource


class Watching(Protocol):
    """Looks at a run now and then: at the reports of each part's operators."""

    @property
    def due(self) -> bool: ...

    def look(self, reports: Sequence[Sequence[OperatorReport]]) -> None: ...

    def plan_changed(self, plan: Plan, earlier: Sequence[OperatorReport]) -> None:
        """From now on reports are those of another plan; `earlier` are those of the ones before."""
        ...


class Working(Protocol):
    """A whole plan in one process, as `Pipeline` is."""

    @property
    def attributes(self) -> list[str]: ...

    @property
    def events(self) -> int: ...

    @property
    def matches(self) -> int: ...

    @property
    def sinks(self) -> list[MatchSink]: ...

    @property
    def outcomes(self) -> list[Outcome]: ...

    @property
    def counts(self) -> FeedCounts: ...

    @property
    def dropped(self) -> Mapping[str, str]: ...

    def warm_up(self) -> None: ...

    def feed(self, events: EventBatch) -> None: ...

    def forget_strings(self) -> None: ...

    def settle(self) -> None: ...

    def finish(self) -> None: ...

    def abandon(self) -> None: ...

    def close(self) -> None: ...

    def new_matches(self) -> NewMatches | None: ...

    def part_reports(self) -> list[tuple[OperatorReport, ...]]: ...


class LocalRuntime:
    """Runs every query of a plan over one pass of the source.

    `outlet` says what becomes of matches: a table, unless it is told otherwise. A `watch` looks at the operators while
    the run is going, and may end it. With `interleaving` the order between senders is drawn at random. `working` is
    what works instead of a `Pipeline` of the plan.
    """

    def __init__(
        self,
        plan: Plan,
        source: TraceSource,
        *,
        batch_size: int | None = None,
        limits: Limits | None = None,
        interleaving: random.Random | None = None,
        outlet: OutletSpec = TABLE,
        watch: Watching | None = None,
        working: Working | None = None,
    ) -> None:
        few = len(plan.parts) <= FEW_PARTS
        self._batch_size = batch_size or (DEFAULT_BATCH_SIZE if few else DEFAULT_BATCH_SIZE_OF_MANY)
        self._source, self._watch = source, watch
        self._pipeline: Working = working or Pipeline(
            plan,
            source.format,
            source.strings,
            limits=limits,
            interleaving=interleaving,
            outlet=outlet,
            on_progress=self._look,
        )
        #: Whether a live run was stopped before its stream ended.
        self.stopped = False

    def stop(self) -> None:
        """Asks a live run to end; it does so when its next events come."""
        self.stopped = True

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Reads the source to its end; `progress(events, matches)` is called after every batch."""
        try:
            for _ in self._batches(gather=True):
                self._pipeline.settle()
                if progress is not None:
                    progress(self.events, self.matches)
            self._pipeline.finish()
        except BaseException:
            self._pipeline.abandon()
            raise

    def close(self) -> None:
        """Lets go of all that is held here, matches and state; there is nothing to ask for any more."""
        self._pipeline.close()

    def _look(self) -> None:
        if self._watch is not None and self._watch.due:
            self._watch.look(self._pipeline.part_reports())

    def warm_up(self) -> None:
        """Loads compiled loops, so that the first events need not wait."""
        self._pipeline.warm_up()

    def live(self) -> Iterator[NewMatches]:
        """Reads the source as its events arrive, and hands out the matches of each batch of them as soon as they are
        certain. A source that was asked to stop has not ended: what is still open stays so."""
        self.warm_up()
        try:
            for _ in self._batches(gather=False):
                yield from self._taken()
                if self.stopped:
                    return
        except StreamStopped:
            self.stopped = True
            return
        self._pipeline.finish()
        yield from self._taken()

    def _batches(self, *, gather: bool) -> Iterator[None]:
        """Works on the source, batch by batch."""
        for events in self._source.batches(self._pipeline.attributes, self._batch_size, gather=gather):
            self._pipeline.feed(events)
            self._pipeline.forget_strings()
            self._worked_on(events)
            yield

    def _worked_on(self, events: EventBatch) -> None:
        """Called after every batch."""

    def _taken(self) -> Iterator[NewMatches]:
        found = self._pipeline.new_matches()
        if found is not None:
            yield found

    @property
    def dropped(self) -> Mapping[str, str]:
        """Queries that exceeded a limit and were dropped, with what they exceeded."""
        return self._pipeline.dropped

    @property
    def events(self) -> int:
        return self._pipeline.events

    @property
    def sinks(self) -> list[MatchSink]:
        """Those who collect the matches of each OR-free query, where rows are wanted."""
        return self._pipeline.sinks

    @property
    def outcomes(self) -> list[Outcome]:
        """What became of the matches of each OR-free query, in the plan's order."""
        return self._pipeline.outcomes

    @property
    def matches(self) -> int:
        return self._pipeline.matches

    @property
    def counts(self) -> FeedCounts:
        """Events by type and rows by leaf so far."""
        return self._pipeline.counts

    @property
    def state_bytes(self) -> int:
        return sum(report.state_bytes for report in self.reports())

    def reports(self) -> tuple[OperatorReport, ...]:
        return tuple(report for reports in self._pipeline.part_reports() for report in reports)
