"""Events in, deliveries out: what a shuffler does with a batch of events for one query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from decopa.errors import CheckpointError
from decopa.planning.plan import QueryPlan
from decopa.query.binding import BoundQuery
from shuffler.routing.leaves import LeafSplitter
from shuffler.routing.slices import Slices
from shuffler.routing.table import Delivery, RoutingTable, Sender, SenderState
from shuffler.rows.batch import Batch
from shuffler.rows.events import EventBatch
from shuffler.rows.strings import StringPool

#: The senders of a feeder: for each copy of the plan, by leaf.
FeederState = tuple[Mapping[str, SenderState], ...]


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
        self._slices = Slices(plan)
        self._splitter = LeafSplitter(bound, plan, strings)
        self._root = plan.root.name
        self._senders = [
            {leaf.name: Sender(routing.senders(leaf)[number], routing.edges_from(leaf)) for leaf in plan.leaves}
            for _ in range(plan.slices)
        ]

    def feed(self, events: EventBatch) -> Iterator[tuple[int, Delivery]]:
        """The events, then a watermark at the time of the last one."""
        for copy, senders in enumerate(self._senders):
            mine = self._slices.members(events.ts, copy)
            for leaf, batch in self._splitter.split(events, mine):
                for delivery in senders[leaf.name].rows(self._reported(leaf.name, copy, batch)):
                    yield copy, delivery
        yield from self.advance(int(events.ts[-1]))

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
