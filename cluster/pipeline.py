"""The units of one query in one process, and the channels between them."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from actors.operators.base import END_OF_STREAM, NOTHING_YET, OperatorSpec
from actors.sink import MatchSink, check_limit
from actors.unit import Channel, ProcessingUnit
from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.query.binding import BoundQuery
from shuffler.batch import Batch
from shuffler.events import EventBatch
from shuffler.layout import layout_of
from shuffler.leaves import LeafSplitter
from shuffler.partitioner import Partitioner
from shuffler.routing import Edge, RoutingTable
from shuffler.source import TraceSource


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may use: matches per query, and bytes of partial matches per unit."""

    max_matches: int = 10_000_000
    max_state_bytes: int = 4 * 2**30


@dataclass(frozen=True, slots=True)
class OperatorReport:
    """What the units of one operator did, summed up."""

    query: str
    name: str
    sub_query: str
    units: int
    ingested: int
    comparisons: int
    emitted: int
    state_bytes: int


def make_pipeline(
    plan: QueryPlan, bound: BoundQuery, source: TraceSource, limits: Limits, interleaving: random.Random | None
) -> Pipeline | SlicedPipeline:
    if plan.slices == 1:
        return Pipeline(plan, bound, source, limits, interleaving)
    return SlicedPipeline(plan, bound, source, limits, interleaving)


@dataclass
class _Sender:
    """Where a process's matches go: one partitioner per edge, and the last watermark that was sent."""

    name: str
    routes: list[tuple[Edge, Partitioner]]
    watermark_us: int = NOTHING_YET


@dataclass
class _Inbox:
    """One channel into a unit, with the messages on their way."""

    unit: ProcessingUnit
    sender: _Sender
    channel: Channel
    depth: int
    messages: deque[Batch | int] = field(default_factory=deque)


class Pipeline:
    """The units of one OR-free query and the channels between them."""

    def __init__(
        self,
        plan: QueryPlan,
        bound: BoundQuery,
        source: TraceSource,
        limits: Limits,
        interleaving: random.Random | None,
    ) -> None:
        self._plan, self._limits, self._interleaving = plan, limits, interleaving
        code_of = source.strings.pin
        self._splitter = LeafSplitter(bound, plan, code_of)
        self._wanted: Callable[[Batch], Batch] | None = None
        root = plan.root
        self._root, self._root_title = root.name, plan.text(root)
        self.sink = MatchSink(bound, layout_of(bound, root.sub_query), source.format, source.strings)
        routing = RoutingTable(plan)
        self._senders = {
            name: _Sender(name, [(edge, edge.partitioner()) for edge in routing.edges_from(operator)])
            for operator in plan.operators
            for name in routing.senders(operator)
        }
        self._units: dict[str, list[ProcessingUnit]] = {}
        self._inboxes: dict[tuple[str, int, Channel], _Inbox] = {}
        for operator in plan.operators:
            if operator.inputs:
                self._add_units(operator, OperatorSpec(bound, plan, operator, code_of), routing)
        # Nearest to the root first; plan order among equals.
        self._by_depth = sorted(self._inboxes.values(), key=lambda inbox: inbox.depth)
        self._leaf_senders = {leaf.name: self._senders[routing.senders(leaf)[0]] for leaf in plan.leaves}

    def _add_units(self, operator: PlanOperator, spec: OperatorSpec, routing: RoutingTable) -> None:
        channels = [
            Channel(side, sender)
            for side, source in enumerate(self._plan.inputs(operator))
            for sender in routing.senders(source)
        ]
        units = [
            ProcessingUnit(spec, number, channels, max_state_bytes=self._limits.max_state_bytes)
            for number in range(routing.active_units(operator))
        ]
        self._units[operator.name] = units
        for number, unit in enumerate(units):
            for channel in channels:
                self._inboxes[operator.name, number, channel] = _Inbox(
                    unit, self._senders[unit.name], channel, self._plan.depth[operator.name]
                )

    def keep_only(self, wanted: Callable[[Batch], Batch]) -> None:
        """Reports only the matches that `wanted` leaves over."""
        self._wanted = wanted

    def feed(self, events: EventBatch, mine: npt.NDArray[np.bool_] | None = None) -> None:
        """Sends a batch of events (those flagged in `mine`) through the plan until nothing is on its way."""
        found = {leaf.name: batch for leaf, batch in self._splitter.split(events, mine)}
        for name, sender in self._leaf_senders.items():
            if name in found:
                self._send(sender, found[name])
            self._send_watermark(sender, int(events.ts[-1]))
        self._drain()

    def finish(self) -> None:
        for sender in self._leaf_senders.values():
            self._send_watermark(sender, END_OF_STREAM)
        self._drain()

    @property
    def output_watermark_us(self) -> int:
        """No later match ends before this."""
        units = self._units.get(self._root)
        if units is None:  # the root is a leaf: its events are the matches
            return self._leaf_senders[self._root].watermark_us
        return min(unit.output_watermark_us for unit in units)

    def reports(self) -> Iterator[OperatorReport]:
        for operator in self._plan.operators:
            units = self._units.get(operator.name, [])
            if units:
                counters = [unit.counters for unit in units]
                yield OperatorReport(
                    self._plan.query.name,
                    operator.name,
                    operator.sub_query.text(self._plan.query),
                    operator.units,
                    sum(counter.ingested for counter in counters),
                    sum(counter.comparisons for counter in counters),
                    sum(counter.emitted for counter in counters),
                    sum(unit.logic.state_bytes for unit in units),
                )

    def _send(self, sender: _Sender, batch: Batch) -> None:
        if not sender.routes:  # the root's matches are the result
            self.sink.add(batch if self._wanted is None else self._wanted(batch))
            check_limit(self.sink.rows, self._limits.max_matches, self._root_title)
        for edge, partitioner in sender.routes:
            for number, part in partitioner.split(batch):
                self._inboxes[edge.target.name, number, Channel(edge.side, sender.name)].messages.append(part)

    def _send_watermark(self, sender: _Sender, watermark_us: int) -> None:
        if watermark_us <= sender.watermark_us:
            return
        sender.watermark_us = watermark_us
        for edge, _ in sender.routes:
            for number in range(edge.units):
                self._inboxes[edge.target.name, number, Channel(edge.side, sender.name)].messages.append(watermark_us)

    def _drain(self, above: int | None = None) -> None:
        """Delivers messages until none is left, or none to operators nearer to the root than depth `above`."""
        while (inbox := self._next(above)) is not None:
            message = inbox.messages.popleft()
            if isinstance(message, Batch):
                self._pass_on(inbox, inbox.unit.on_batch(inbox.channel, message))
            else:
                self._pass_on(inbox, inbox.unit.on_watermark(inbox.channel, message))
                self._send_watermark(inbox.sender, inbox.unit.output_watermark_us)

    def _pass_on(self, inbox: _Inbox, matches: Iterable[Batch]) -> None:
        for batch in matches:
            self._send(inbox.sender, batch)
            if self._interleaving is None and inbox.depth > 0:
                self._drain(above=inbox.depth)  # use each chunk while it is warm, and keep no more than one

    def _next(self, above: int | None) -> _Inbox | None:
        if self._interleaving is not None:
            waiting = [inbox for inbox in self._by_depth if inbox.messages]
            return self._interleaving.choice(waiting) if waiting else None
        for inbox in self._by_depth:
            if above is not None and inbox.depth >= above:
                return None
            if inbox.messages:
                return inbox
        return None


class SlicedPipeline:
    """Copies of a pipeline that take turns on batches of two windows (see `QueryPlan.slices`).

    Copy k gets the events of every n-th window and of the one after it, and reports the matches that begin in the
    first of the two, so that each match is found whole by exactly one copy. A NOT at the start of a SEQ also looks at
    the window before.
    """

    def __init__(
        self,
        plan: QueryPlan,
        bound: BoundQuery,
        source: TraceSource,
        limits: Limits,
        interleaving: random.Random | None,
    ) -> None:
        self._slices, self._window_us = plan.slices, bound.query.window_us
        looks_back = any(not negation.after for negation in bound.query.negations)
        self._reach = (1, 0, -1) if looks_back else (0, -1)
        self._copies = [Pipeline(plan, bound, source, limits, interleaving) for _ in range(plan.slices)]
        self.sink = self._copies[0].sink
        for number, copy in enumerate(self._copies):
            copy.sink = self.sink
            copy.keep_only(partial(self._begun_in, number))

    def _begun_in(self, number: int, batch: Batch) -> Batch:
        first = batch.columns["min_ts"] // self._window_us % self._slices == number
        return batch if bool(first.all()) else batch.take(np.flatnonzero(first))

    def feed(self, events: EventBatch) -> None:
        windows = events.ts // self._window_us
        for number, copy in enumerate(self._copies):
            mine = np.zeros(len(events), dtype=np.bool_)
            for offset in self._reach:
                mine |= (windows + offset) % self._slices == number
            copy.feed(events, mine)

    def finish(self) -> None:
        for copy in self._copies:
            copy.finish()

    @property
    def output_watermark_us(self) -> int:
        return min(copy.output_watermark_us for copy in self._copies)

    def reports(self) -> Iterator[OperatorReport]:
        """The copies summed up, operator by operator."""
        for same in zip(*(copy.reports() for copy in self._copies), strict=True):
            yield replace(
                same[0],
                units=self._slices,
                ingested=sum(one.ingested for one in same),
                comparisons=sum(one.comparisons for one in same),
                emitted=sum(one.emitted for one in same),
                state_bytes=sum(one.state_bytes for one in same),
            )
