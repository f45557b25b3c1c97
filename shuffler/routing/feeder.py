"""Events in, deliveries out: what a shuffler does with a batch of events, for one part of a plan and for all."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from decopa.errors import CheckpointError
from decopa.planning.plan import Plan, QueryPlan
from decopa.query.binding import BoundQuery
from decopa.query.pattern import ANY_TYPE
from shuffler.routing.counts import FeedCounts
from shuffler.routing.leaves import LeafSplitter
from shuffler.routing.slices import Slices
from shuffler.routing.table import NOTHING_YET, Delivery, RoutingTable, Sender, SenderState
from shuffler.routing.type_index import TypeIndex
from shuffler.rows.batch import Batch
from shuffler.rows.events import EventBatch
from shuffler.rows.strings import StringPool

#: The senders of a feeder: for each copy of the plan, by leaf.
FeederState = tuple[Mapping[str, SenderState], ...]
#: A workload of at most this many parts is told every watermark at once: it costs little, and matches that wait for
#: one leave as soon as they can.
FEW_PARTS = 16


class LeafFeeder:
    """Splits events among the leaves of a plan and sends them on their ways, for shuffler `number` of the table's.

    What it yields is for the copy of the plan that comes with it (always 0 unless the plan is sliced).
    """

    def __init__(
        self,
        plan: QueryPlan,
        bound: BoundQuery,
        strings: StringPool,
        *,
        routing: RoutingTable,
        number: int = 0,
    ) -> None:
        self._slices, self._since_us = Slices(plan), plan.since_us
        self._splitter = LeafSplitter(bound, plan, strings)
        self._root = plan.root.name
        self._senders = [
            {leaf.name: Sender(routing.senders(leaf)[number], routing.edges_from(leaf)) for leaf in plan.leaves}
            for _ in range(plan.slices)
        ]
        #: Rows of each leaf so far.
        self.taken = {leaf.name: 0 for leaf in plan.leaves}

    @property
    def event_types(self) -> frozenset[str]:
        """The types that some leaf takes."""
        return self._splitter.event_types

    def feed(self, events: EventBatch) -> Iterator[tuple[int, Delivery]]:
        """The events, then a watermark at the time of the last one."""
        yield from self.rows(TypeIndex(events))
        yield from self.advance(int(events.ts[-1]))

    def rows(self, index: TypeIndex) -> Iterator[tuple[int, Delivery]]:
        """The events of a batch, those that the plan sees."""
        ts = index.events.ts
        if self._since_us is not None and int(ts[-1]) < self._since_us:
            return
        for copy, senders in enumerate(self._senders):
            mine = self._slices.members(ts, copy)
            if self._since_us is not None and int(ts[0]) < self._since_us:
                seen = ts >= self._since_us
                mine = seen if mine is None else mine & seen
            for leaf, batch in self._splitter.split(index, mine):
                self.taken[leaf.name] += batch.length
                for delivery in senders[leaf.name].rows(self._reported(leaf.name, copy, batch)):
                    yield copy, delivery

    def count(self, index: TypeIndex, sign: int = 1) -> dict[str, int]:
        """How many events each leaf takes, whatever they are like; counts them as taken, or as not taken after all."""
        found = self._splitter.numbers(index)
        for leaf, rows in found.items():
            self.taken[leaf] += sign * rows
        return found

    def advance(self, watermark_us: int) -> Iterator[tuple[int, Delivery]]:
        """Promises that no earlier event follows."""
        for copy, senders in enumerate(self._senders):
            for sender in senders.values():
                for delivery in sender.watermark(watermark_us):
                    yield copy, delivery

    def snapshot(self) -> FeederState:
        return tuple({leaf: sender.snapshot() for leaf, sender in senders.items()} for senders in self._senders)

    def restore(self, state: FeederState) -> None:
        """Goes on from a snapshot of a feeder of the same plan."""
        if [senders.keys() for senders in state] != [senders.keys() for senders in self._senders]:
            raise CheckpointError(f"the checkpoint has other leaves or slices than the plan under {self._root}")
        for senders, saved in zip(self._senders, state, strict=True):
            for leaf, sender in senders.items():
                sender.restore(saved[leaf])

    def _reported(self, leaf: str, copy: int, batch: Batch) -> Batch:
        """If the root is a leaf its events are the matches."""
        return self._slices.begun_in(batch, copy) if leaf == self._root else batch


class UnsplitReader(Protocol):
    """Reads the events of some parts as they are, where it can; other events, and all of other parts, are split."""

    @property
    def unsplit_parts(self) -> frozenset[int]: ...

    def reads(self, part: int, events: EventBatch) -> bool:
        """Whether the events need not be split."""
        ...

    def read(self, part: int, events: EventBatch, taken: Mapping[str, int]) -> Sequence[EventBatch]:
        """Finds the matches that the events complete; `taken` says how many each leaf takes. Returns what `release`
        would, if later events have to be split."""
        ...

    def release(self, part: int) -> Sequence[EventBatch]:
        """Events that were read and are not decided, in order of time: they have to be split before later ones."""
        ...

    def taken_off(self, part: int, taken: Mapping[str, int]) -> None:
        """Hears how many of the released events each leaf takes: they are counted again when they come."""
        ...


class WorkloadFeeder:
    """Feeds all parts of a plan: an index by type finds the parts that take something of a batch; the others are not
    looked at.

    A part of a large workload hears of watermarks when it gets rows, or when it is a window behind: what it keeps is
    bounded, and no match depends on when it hears of one. A part with NOT always hears of them, since matches wait for
    them there. A part that shares nothing and got no rows for a window keeps nothing any more, and hears of none.
    `silent` parts get nothing at all: what they hold comes from elsewhere.

    What it yields is for the part and the copy that come with it.
    """

    def __init__(
        self,
        routing: Sequence[RoutingTable],
        bounds: Sequence[BoundQuery],
        strings: StringPool,
        *,
        number: int = 0,
        unsplit: UnsplitReader | None = None,
        silent: Collection[int] = (),
    ) -> None:
        self._unsplit, self._silent = unsplit, frozenset(silent)
        self._feeders = [
            LeafFeeder(table.plan, bound, strings, routing=table, number=number)
            for table, bound in zip(routing, bounds, strict=True)
        ]
        self._takers: dict[str, list[int]] = {}
        for part, feeder in enumerate(self._feeders):
            for event_type in feeder.event_types if part not in self._silent else ():
                self._takers.setdefault(event_type, []).append(part)
        prompt = len(bounds) <= FEW_PARTS
        patience = [0 if prompt or one.query.negations else one.query.window_us for one in bounds]
        self._patience_us = np.array(patience, dtype=np.int64)
        self._told_us = np.full(len(bounds), NOTHING_YET, dtype=np.int64)
        #: The time of the last rows of each part.
        self._fed_us = np.full(len(bounds), NOTHING_YET, dtype=np.int64)
        # Rows that come through views, or from other shufflers, are not known here; and those who take the matches of
        # a part wait for what it hears.
        viewed = {one.view.part for table in routing for one in table.plan.views if one.view is not None}
        lone = [
            table.shufflers == 1 and not table.plan.views and not table.plan.fragment and key not in viewed
            for table, key in zip(routing, Plan(tuple(table.plan for table in routing)).keys, strict=True)
        ]
        self._may_rest = np.array(lone, dtype=bool) & (self._patience_us > 0)
        self.watermark_us = NOTHING_YET
        self._seen: dict[str, int] = {}
        self._last_ts = NOTHING_YET

    @property
    def counts(self) -> FeedCounts:
        """Events by type and rows by leaf since this feeder was made; they are not part of a snapshot."""
        leaves = {(part, leaf): rows for part, one in enumerate(self._feeders) for leaf, rows in one.taken.items()}
        return FeedCounts(dict(self._seen), leaves, self._last_ts)

    def feed(self, events: EventBatch) -> Iterator[tuple[int, int, Delivery]]:
        """The events of a batch, then a watermark at the time of the last one where it is due."""
        index = TypeIndex(events)
        taking = np.zeros(len(self._feeders), dtype=bool)
        for event_type, count in index.types.items():
            self._seen[event_type] = self._seen.get(event_type, 0) + count
        for event_type in (*index.types, ANY_TYPE):
            taking[self._takers.get(event_type, [])] = True
        self._last_ts = int(events.ts[-1])
        self.watermark_us = now = max(self.watermark_us, self._last_ts)
        for part in np.flatnonzero(taking).tolist():
            yield from self._fed(part, index)
        resting = self._may_rest & (self._told_us > self._fed_us + self._patience_us)
        waited = (self._told_us <= now - self._patience_us) & ~resting
        self._fed_us[taking] = now
        behind = (self._told_us < now) & (taking | waited)
        yield from self._tell(np.flatnonzero(behind).tolist(), now)

    def advance(self, watermark_us: int) -> Iterator[tuple[int, int, Delivery]]:
        """Promises every part that no earlier event follows."""
        self.watermark_us = max(self.watermark_us, watermark_us)
        yield from self._tell(range(len(self._feeders)), self.watermark_us)

    def release(self) -> Iterator[tuple[int, int, Delivery]]:
        """What parts have read unsplit and not decided yet, and how far they are: from here on they get it all."""
        if self._unsplit is None:
            return
        for part in sorted(self._unsplit.unsplit_parts):
            yield from self._split(part, self._unsplit.release(part))
            for copy, delivery in self._feeders[part].advance(int(self._told_us[part])):
                yield part, copy, delivery

    def _fed(self, part: int, index: TypeIndex) -> Iterator[tuple[int, int, Delivery]]:
        """The events of a batch that a part takes; those that it reads as they are, it has then."""
        if self._unsplit is not None and part in self._unsplit.unsplit_parts:
            if self._unsplit.reads(part, index.events):
                left = self._unsplit.read(part, index.events, self._feeders[part].count(index))
                if not left:
                    self._told_us[part] = self.watermark_us
                yield from self._split(part, left)
                return
            yield from self._split(part, self._unsplit.release(part))
        for copy, delivery in self._feeders[part].rows(index):
            yield part, copy, delivery

    def _split(self, part: int, released: Sequence[EventBatch]) -> Iterator[tuple[int, int, Delivery]]:
        for events in released:
            assert self._unsplit is not None
            index = TypeIndex(events)
            self._unsplit.taken_off(part, self._feeders[part].count(index, -1))
            for copy, delivery in self._feeders[part].rows(index):
                yield part, copy, delivery

    def _tell(self, parts: Sequence[int], watermark_us: int) -> Iterator[tuple[int, int, Delivery]]:
        for part in parts:
            if part in self._silent:
                continue
            self._told_us[part] = watermark_us
            if self._unsplit is not None and part in self._unsplit.unsplit_parts:
                yield from self._split(part, self._unsplit.release(part))
            for copy, delivery in self._feeders[part].advance(watermark_us):
                yield part, copy, delivery

    def snapshot(self) -> tuple[FeederState, ...]:
        return tuple(feeder.snapshot() for feeder in self._feeders)

    def restore(self, states: Sequence[FeederState]) -> None:
        """Goes on from a snapshot of a feeder of the same plan."""
        for feeder, state in zip(self._feeders, states, strict=True):
            feeder.restore(state)
