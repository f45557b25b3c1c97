"""A run of a plan in one process that can be saved after any event and taken up by new objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from random import Random

import pyarrow as pa

from actors.group import GroupState, Limits, UnitGroup
from actors.sinks.sink import MatchSink
from actors.state.codec import ShufflerState, UnitsCodec, UnitsState, decode_shuffler, encode_shuffler
from actors.state.migrate import rescale, rescale_feeders
from actors.unit import Channel
from decopa.planning.plan import Plan
from decopa.query.binding import bind
from shuffler.exchange.codecs import needed_attributes
from shuffler.routing.feeder import LeafFeeder
from shuffler.routing.table import END_OF_STREAM, Delivery, RoutingTable
from shuffler.rows.batch import Batch
from shuffler.rows.columns import Place
from shuffler.rows.events import EventConverter
from shuffler.rows.layout import layout_of
from shuffler.source.trace import open_trace

#: The files of a saved run: for each shuffler, and for each process with units by part of the plan.
Saved = tuple[list[bytes], list[list[bytes]]]


class ResumableRun:
    """A plan over the events of a table; `chaos` draws which shuffler gets a batch and, if `interleaved`, which
    channel between units is next."""

    def __init__(
        self, plan: Plan, events: pa.Table, chaos: Random, *, shufflers: int = 1, interleaved: bool = False
    ) -> None:
        source = open_trace(events)
        self._events, self._chaos, self._plan, self._form = events, chaos, plan, source.format
        self._converter = EventConverter(source.format)
        self.strings = self._converter.strings
        # Codes must not happen to be the same as in the run that this one goes on from.
        for number in range(chaos.randrange(4)):
            self.strings.pin(f"earlier {number}")
        self.bounds = [bind(part.query, source.schema) for part in plan.parts]
        self._attributes = needed_attributes(self.bounds, source.schema)
        self.routing = [RoutingTable(part, shufflers) for part in plan.parts]
        self._sinks = self._new_sinks()
        self.groups: list[list[UnitGroup]] = []
        self.feeders: list[list[LeafFeeder]] = []
        for number, (part, bound, routing) in enumerate(zip(plan.parts, self.bounds, self.routing, strict=True)):
            self.groups.append(
                [
                    UnitGroup(
                        part,
                        bound,
                        self.strings.pin,
                        routing=routing,
                        limits=Limits(),
                        outside=partial(self._outside, number),
                        copy=copy,
                        interleaving=chaos if interleaved else None,
                    )
                    for copy in range(part.slices)
                ]
            )
            self.feeders.append(
                [LeafFeeder(part, bound, self.strings, routing=routing, number=number) for number in range(shufflers)]
            )

    def feed(self, start: int, stop: int, batch_size: int) -> None:
        """The events from row `start` to row `stop`."""
        for begin in range(start, stop, batch_size):
            rows = self._events.slice(begin, min(batch_size, stop - begin)).combine_chunks().to_batches()[0]
            events = self._converter.convert(rows, Place("events", begin), self._attributes, begin)
            for part, feeders in enumerate(self.feeders):
                self._deliver(part, self._chaos.choice(feeders).feed(events))

    def finish(self) -> None:
        for part, feeders in enumerate(self.feeders):
            for feeder in feeders:
                self._deliver(part, feeder.advance(END_OF_STREAM))

    def take_matches(self) -> list[pa.Table]:
        """What was found since the last call, for each part of the plan."""
        sinks, self._sinks = self._sinks, self._new_sinks()
        return [sink.table() for sink in sinks]

    def save(self) -> Saved:
        """Everything as bytes; the units of a group are shared out among several processes."""
        shufflers = []
        for number in range(self.routing[0].shufflers):
            feeders = tuple(feeders[number].snapshot() for feeders in self.feeders)
            shufflers.append(encode_shuffler(self.routing, ShufflerState(number, feeders)))
        units = []
        for part, groups in enumerate(self.groups):
            codec = UnitsCodec(self.routing[part], self.bounds[part], self.strings, key=self._key(part), place=part)
            units.append(
                [
                    codec.encode(UnitsState(codec.key, copy, some, {"files": 1}))
                    for copy, group in enumerate(groups)
                    for some in self._shared_out(group.snapshot())
                ]
            )
        return shufflers, units

    def resume(self, saved: Saved) -> None:
        """Goes on from a run of the same plan."""
        for number, content in enumerate(saved[0]):
            state = decode_shuffler(self.routing, content, "shuffler")
            assert state.number == number
            for feeders, feeder in zip(self.feeders, state.feeders, strict=True):
                feeders[number].restore(feeder)
        for part, contents in enumerate(saved[1]):
            codec = UnitsCodec(self.routing[part], self.bounds[part], self.strings, key=self._key(part), place=part)
            states = [codec.decode(content, "units") for content in contents]
            for copy, group in enumerate(self.groups[part]):
                group.restore(_merged([state for state in states if state.copy == copy]))

    def resume_rescaled(self, saved: Saved, old: Sequence[RoutingTable]) -> None:
        """Goes on from a run of the same operators on other numbers of units."""
        shufflers = [decode_shuffler(old, content, "shuffler") for content in saved[0]]
        for part, contents in enumerate(saved[1]):
            codec = UnitsCodec(old[part], self.bounds[part], self.strings, key=self._key(part), place=part)
            states = [codec.decode(content, "units").group for content in contents]
            new = self.routing[part]
            self.groups[part][0].restore(rescale(old[part], new, states))
            feeders = rescale_feeders(old[part], new, [state.feeders[part] for state in shufflers])
            for feeder, state in zip(self.feeders[part], feeders, strict=True):
                feeder.restore(state)

    def counts(self) -> dict[tuple[int, int, str, int], tuple[int, int]]:
        """(ingested, emitted) of each unit."""
        return {
            (part, copy, *key): (unit.counters.ingested, unit.counters.emitted)
            for part, groups in enumerate(self.groups)
            for copy, group in enumerate(groups)
            for key, unit in group.units.items()
        }

    def _key(self, part: int) -> str:
        return self._plan.keys[part]

    def _shared_out(self, state: GroupState) -> list[GroupState]:
        owner = {key: self._chaos.randrange(2) for key in state.units}
        return [
            GroupState(
                {key: unit for key, unit in state.units.items() if owner[key] == process},
                {key: sender for key, sender in state.senders.items() if owner[key] == process},
            )
            for process in range(2)
        ]

    def _deliver(self, part: int, deliveries: Iterable[tuple[int, Delivery]]) -> None:
        for copy, delivery in deliveries:
            edge = delivery.edge
            if edge is None:
                self._outside(part, delivery)
            else:
                channel = Channel(edge.side, delivery.sender)
                self.groups[part][copy].accept(edge.target.name, delivery.unit, channel, delivery.content)
        for group in self.groups[part]:
            group.drain()

    def _outside(self, part: int, delivery: Delivery) -> None:
        if isinstance(delivery.content, Batch):
            self._sinks[part].add(delivery.content)

    def _new_sinks(self) -> list[MatchSink]:
        return [
            MatchSink(bound, layout_of(bound, part.root.sub_query), self._form, self.strings)
            for part, bound in zip(self._plan.parts, self.bounds, strict=True)
        ]


def _merged(states: Sequence[UnitsState]) -> GroupState:
    units, senders = {}, {}
    for state in states:
        units.update(state.group.units)
        senders.update(state.group.senders)
    return GroupState(units, senders)
