"""ShufflerNode: rows of a trace in, messages to units and sinks out. No Ray; clock and sleep come as arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from decopa.errors import TraceError
from shuffler.exchange.codecs import Codecs, needed_attributes
from shuffler.exchange.outbox import Clock, FlushPolicy, Outbox, Send
from shuffler.routing.counts import FeedCounts
from shuffler.routing.feeder import FeederState, WorkloadFeeder
from shuffler.routing.table import END_OF_STREAM, NOTHING_YET, Delivery
from shuffler.routing.topology import Topology
from shuffler.rows.columns import Place
from shuffler.rows.events import EventBatch, EventConverter, EventFormat
from shuffler.source.pacing import Replay

#: Marks of arrival that a batch leaves for the measurement of latency, at most.
MARKS_PER_BATCH = 64
#: Marks gather for this long: sinks can wait for them, and a call costs as much as one with events.
MARKS_EVERY_S = 0.1
Marks = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class ReplayStart:
    """When and where in the stream a replay began: the same for all shufflers. `replay` says how fast it goes from
    here, if not as the shuffler was told when it was made."""

    at_s: float
    first_ts: int
    first_ordinal: int = 0
    replay: Replay | None = None


class ShufflerNode:
    """Shuffler `number` of a topology. Events must come in time order; every block says where in the stream it is.

    `mark` gets (ts, time of arrival) pairs: an event has arrived when it was due, or when its batch was taken up. The
    parts of the keys in `silent` get nothing.
    """

    def __init__(
        self,
        number: int,
        topology: Topology,
        form: EventFormat,
        *,
        send: Send,
        mark: Callable[[Marks], None],
        replay: Replay,
        batch_size: int,
        policy: FlushPolicy,
        clock: Clock,
        sleep: Callable[[float], None],
        state: tuple[FeederState, ...] | None = None,
        silent: Collection[str] = (),
    ) -> None:
        self.name = topology.shuffler_names[number]
        self._replay, self._batch_size, self._policy = replay, batch_size, policy
        self._mark, self._clock, self._sleep = mark, clock, sleep
        self._marks: list[tuple[int, float]] = []
        self._marked_s = clock()
        self._converter = EventConverter(form)
        codecs = Codecs(topology.plan, form.schema, self._converter.strings)
        parts = range(len(topology.plan.parts))
        bounds = [codecs.bound(part) for part in parts]
        self._attributes = needed_attributes(bounds, form.schema)
        self._window_us = max((bound.query.window_us for bound in bounds), default=0)
        quiet = [topology.titles.index(key) for key in silent]
        self._feeder = WorkloadFeeder(topology.routing, bounds, self._converter.strings, number=number, silent=quiet)
        if state is not None:
            self._feeder.restore(state)
        self.outbox = Outbox(self.name, topology, codecs.codec, send=send, policy=policy, clock=clock)
        self._last_ts: int | None = None
        #: When events of a paced replay were sent last, and whether some wait in the outbox since.
        self._shuffled_at, self._held_back = 0.0, False
        self.events = 0

    @property
    def counts(self) -> FeedCounts:
        """Events by type and rows by leaf, since this shuffler was made."""
        return self._feeder.counts

    def feed(
        self, rows: pa.RecordBatch, place: Place, first_ordinal: int, start: ReplayStart, *, urgent: bool = False
    ) -> None:
        """Shuffles one block of rows, at the pace of the replay, or without one and urgently if nothing of it may wait
        for company."""
        if not rows.num_rows:
            return
        events = self._converter.convert(rows, place, self._attributes, first_ordinal)
        self._check_order(events, place)
        replay = start.replay or self._replay
        if replay.is_paced:
            self._feed_paced(events, start, replay)
        else:
            for begin in range(0, len(events), self._batch_size):
                batch = events.slice(begin, min(begin + self._batch_size, len(events)))
                self._marks.append((int(batch.ts[-1]), self._clock()))
                self._shuffle(batch, urgent=urgent)

    def finish(self) -> None:
        """The end of the stream."""
        self.flush(END_OF_STREAM)

    def flush(self, watermark_us: int = NOTHING_YET) -> None:
        """Passes on what waits: the stream has nothing more for the moment, and nothing earlier than the watermark."""
        self._hand_over_marks()  # before the rows, or the last matches of a run are there and nobody knows since when
        self._put(self._feeder.advance(watermark_us))
        self.outbox.flush(urgent=True)

    def barrier(self, number: int, watermark_us: int = NOTHING_YET) -> tuple[FeederState, ...]:
        """Cuts the stream here: whatever was fed before is before the cut, for every receiver, and no event before the
        watermark follows. Returns what it takes to go on from here."""
        self._put(self._feeder.advance(watermark_us))  # no part keeps what is out of its window
        self.outbox.flush(barrier=number)
        return self._feeder.snapshot()

    def _feed_paced(self, events: EventBatch, start: ReplayStart, replay: Replay) -> None:
        due = start.at_s + replay.arrivals(events.ts, events.first_ordinal - start.first_ordinal, start.first_ts)
        begin = 0
        while begin < len(events):
            now = self._clock()
            arrived = int(np.searchsorted(due, now, side="right"))
            # Events wait for company for one flush interval: a message costs about the same whatever it carries. The
            # end of the block ends the wait, or blocks shorter than the interval would hold the stream back: the rest
            # of it waits in the outbox, for the next block.
            company_s = self._shuffled_at + self._policy.interval_s - now
            wait_s = min(max(float(due[begin]) - now, company_s), float(due[-1]) - now)
            if wait_s > 0 and arrived - begin < self._batch_size:
                if self._held_back and company_s <= 0:  # no company came in time
                    self._shuffled_at, self._held_back = now, False
                    self.outbox.flush(urgent=True)
                else:
                    self._sleep(min(wait_s, company_s) if self._held_back else wait_s)
                continue
            end = min(arrived, begin + self._batch_size)
            points = np.unique(np.linspace(begin, end - 1, min(MARKS_PER_BATCH, end - begin)).astype(np.int64))
            self._marks += [(int(events.ts[point]), float(due[point])) for point in points]
            urgent = end == arrived and company_s <= 0
            self._shuffled_at, self._held_back = now if urgent else self._shuffled_at, not urgent
            self._shuffle(events.slice(begin, end), urgent=urgent)
            begin = end

    def _shuffle(self, batch: EventBatch, *, urgent: bool) -> None:
        self._put(self._feeder.feed(batch))
        self.events += len(batch)
        if self.outbox.flush(urgent=urgent):  # rows that wait have their strings in the pool
            self._converter.strings.forget_before(int(batch.ts[0]) - 3 * self._window_us)
        if self._clock() - self._marked_s >= MARKS_EVERY_S:
            self._hand_over_marks()

    def _hand_over_marks(self) -> None:
        if self._marks:
            self._mark(tuple(self._marks))
        self._marks, self._marked_s = [], self._clock()

    def _put(self, deliveries: Iterable[tuple[int, int, Delivery]]) -> None:
        for part, copy, delivery in deliveries:
            self.outbox.put(part, copy, delivery)

    def _check_order(self, events: EventBatch, place: Place) -> None:
        """Sources promise time order; what breaks it would make matches go missing in silence."""
        backward = np.flatnonzero(events.ts[1:] < events.ts[:-1])
        if len(backward) or (self._last_ts is not None and int(events.ts[0]) < self._last_ts):
            row = place.at(int(backward[0]) + 1 if len(backward) else 0)
            raise TraceError(f"{place.source}: {row} is earlier than the row before; sort the events by time")
        self._last_ts = int(events.ts[-1])
