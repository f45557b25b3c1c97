"""PartsHost: the units of several parts of a plan that one process hosts.

In the local runtime one host has the whole plan; on a cluster a host is what one actor hosts.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial

from actors.group import GroupState, Limits, Tap, UnitGroup
from actors.operators.succession_scan import EventScan
from actors.unit import Channel, ProcessingUnit
from decopa.errors import CheckpointError, LimitError
from decopa.planning.workload.packing import part_order
from decopa.query.binding import BoundQuery
from shuffler.routing import feeder
from shuffler.routing.parameters import tables_of
from shuffler.routing.table import END_OF_STREAM, NOTHING_YET, Delivery, Edge, Sender
from shuffler.routing.topology import Topology
from shuffler.routing.views import ViewReader
from shuffler.rows.batch import Batch
from shuffler.rows.events import EventBatch
from shuffler.rows.strings import StringPool

#: Rows that may wait in the groups that take them before these are worked on.
_MOST_WAITING = 1 << 20

#: Part of the plan and copy of it.
GroupKey = tuple[int, int]
#: Takes what leaves the units of a copy of a part.
Outside = Callable[[int, int, Delivery], None]


class _TappedView:
    """A view of matches that units in here find, for the part `part`; each of these units has a sender of its own.

    A `prompt` one passes every watermark on. Others keep it until the part is worked on anyway, so that a part that got
    no rows is not called for it.
    """

    def __init__(
        self, part: int, operator: str, reader: ViewReader, senders: dict[int, Sender], *, prompt: bool
    ) -> None:
        self.part, self.operator, self.reader, self.senders, self.prompt = part, operator, reader, senders, prompt
        self.watermarks = dict.fromkeys(senders, NOTHING_YET)


class PartsHost:
    """A group of units for each copy of a part: all of the plan, or those in `hosted`; and the views of what they find.

    A part is worked on after those that it takes matches from, until nothing waits in it; one that got nothing is not
    called. With `interleaving` the next group is drawn at random, and so is the next channel in it. `counting` says of
    which parts only the number of matches is asked for. `on_limit` hears of a part that exceeds a limit, if the others
    shall go on without it; it is dropped, with those that take its matches.
    """

    def __init__(
        self,
        topology: Topology,
        bounds: Callable[[int], BoundQuery],
        strings: StringPool,
        *,
        limits: Limits,
        outside: Outside,
        hosted: Mapping[GroupKey, Sequence[tuple[str, int]]] | None = None,
        counting: Callable[[int], bool] = lambda part: False,
        interleaving: random.Random | None = None,
        on_progress: Callable[[], None] = lambda: None,
        on_limit: Callable[[int, LimitError], None] | None = None,
    ) -> None:
        self._topology, self._outside, self._interleaving = topology, outside, interleaving
        self._on_limit = on_limit
        #: Parts that are worked on no more.
        self.dropped: set[int] = set()
        self._bounds, self._strings, self._counting = bounds, strings, counting
        parts = topology.plan.parts
        everything = {(part, copy): None for part in range(len(parts)) for copy in range(parts[part].slices)}
        self._hosted = dict(everything if hosted is None else hosted)
        self._rank = {part: rank for rank, part in enumerate(part_order(topology.plan))}
        self._views = self._tapped_views()
        self._views_of: dict[int, list[_TappedView]] = {}
        for views in self._views.values():
            for view in views:
                self._views_of.setdefault(view.part, []).append(view)
        self.groups = {
            key: self._group(key, limits, self._leaving(key), interleaving, on_progress, self._taps(key[0]))
            for key in self._hosted
        }
        #: The root units in here, by part.
        self._roots: dict[int, list[ProcessingUnit]] = {}
        for (part, _), group in self.groups.items():
            root = parts[part].root.name
            mine = [unit for (operator, _), unit in group.units.items() if operator == root]
            self._roots.setdefault(part, []).extend(mine)
        self._absorbs = False
        self._waiting: list[tuple[int, GroupKey]] = []
        self._is_waiting: set[GroupKey] = set()

    def close(self) -> None:
        """Lets go of all units. They refer to each other in circles, so what they hold would otherwise stay in memory
        until Python looks for garbage."""
        for held in (self.groups, self._roots, self._views, self._views_of):
            held.clear()

    def _leaving(self, key: GroupKey) -> Callable[[Delivery], None]:
        fragment = self._topology.plan.parts[key[0]].fragment

        def leave(delivery: Delivery) -> None:
            if delivery.edge is not None or not fragment:  # a fragment's matches leave through views only
                self._outside(*key, delivery)

        return leave

    def _tapped_views(self) -> dict[tuple[int, str], list[_TappedView]]:
        """The views of what units in here find, by part and operator."""
        plan, routing = self._topology.plan, self._topology.routing
        hosted: dict[tuple[int, str], list[int]] = {}
        for (part, _), units in self._hosted.items():
            for operator in plan.parts[part].operators if units is None else ():
                active = plan.parts[part].roles(operator).active_units
                hosted[part, operator.name] = list(range(active if operator.inputs else 0))
            for name, number in units or ():
                hosted.setdefault((part, name), []).append(number)
        found: dict[tuple[int, str], list[_TappedView]] = {}
        for source, views in self._topology.taken_from.items():
            numbers = hosted.get(source, [])
            for part, operator in views if numbers else ():
                edges = routing[part].edges_from(operator)
                names = routing[part].senders(operator)
                senders = {number: Sender(names[number], edges) for number in numbers}
                reader = ViewReader(
                    plan,
                    plan.parts[part],
                    operator,
                    self._bounds(part),
                    self._bounds(source[0]),
                    self._strings,
                    counting=operator == plan.parts[part].root and self._counts_only(part),
                )
                prompt = self._is_prompt(part, edges)
                view = _TappedView(part, operator.name, reader, senders, prompt=prompt)
                found.setdefault(source, []).append(view)
        return found

    def _is_prompt(self, part: int, edges: Sequence[Edge]) -> bool:
        """Whether a part must hear of every watermark at once: because others wait for it, because matches do, or
        because it costs little."""
        plan = self._topology.plan
        if len(plan.parts) <= feeder.FEW_PARTS or plan.parts[part].query.negations or not edges:
            return True
        units = self._hosted.get((part, 0), ())
        return units is not None and any(
            (edge.target.name, number) not in units for edge in edges for number in range(edge.units)
        )

    def _taps(self, part: int) -> dict[str, Tap]:
        return {name: self._tap(views) for (of, name), views in self._views.items() if of == part}

    def _tap(self, views: Sequence[_TappedView]) -> Tap:
        tables = tables_of([view.reader for view in views])

        def hear(number: int, content: Batch | int) -> None:
            if isinstance(content, Batch):
                for places, table in tables:
                    for place, rows in table.read(content):
                        view = views[places[place]]
                        self._pass_on(view.part, view.senders[number].rows(rows))
                return
            for view in views:
                view.watermarks[number] = content
                if view.prompt or content == END_OF_STREAM:
                    self._pass_on(view.part, view.senders[number].watermark(content))

        return hear

    def _pass_on(self, part: int, deliveries: Iterator[Delivery]) -> None:
        """From a view to the units that take it, in here or elsewhere."""
        if part in self.dropped:
            return
        group = self.groups.get((part, 0))
        for delivery in deliveries:
            edge = delivery.edge
            if edge is None or group is None or (edge.target.name, delivery.unit) not in group.units:
                self._guarded(part, partial(self._outside, part, 0, delivery))
                continue
            channel = Channel(edge.side, delivery.sender)
            group.accept(edge.target.name, delivery.unit, channel, delivery.content)
            self._wake((part, 0))
            if group.waiting_rows > _MOST_WAITING and self._interleaving is None:
                self._guarded(part, group.drain)

    def _guarded(self, part: int, work: Callable[[], None]) -> None:
        """Works for a part, which is dropped if that exceeds a limit and the others shall go on."""
        try:
            work()
        except LimitError as err:
            if self._on_limit is None:
                raise
            self._drop(part)
            self._on_limit(part, err)

    def _drop(self, part: int) -> None:
        """Forgets a part, the other alternatives of its query, those that take its matches, and fragments that nobody
        uses any more."""
        plan = self._topology.plan
        users: dict[int, set[int]] = {}
        for (source, _), views in self._topology.taken_from.items():
            users.setdefault(source, set()).update(user for user, _ in views)
        waiting = [part]
        while waiting:
            one = waiting.pop()
            if one in self.dropped:
                continue
            self.dropped.add(one)
            waiting += users.get(one, ())
            if not plan.parts[one].fragment:
                name = plan.parts[one].query.name
                waiting += [other for other in plan.reported if plan.parts[other].query.name == name]
            waiting += [source for source, others in users.items()
                        if plan.parts[source].fragment and others <= self.dropped]  # fmt: skip
        for key in [key for key in self.groups if key[0] in self.dropped]:
            del self.groups[key]

    def _group(
        self,
        key: GroupKey,
        limits: Limits,
        outside: Callable[[Delivery], None],
        interleaving: random.Random | None = None,
        on_progress: Callable[[], None] = lambda: None,
        taps: Mapping[str, Tap] | None = None,
    ) -> UnitGroup:
        part, copy = key
        return UnitGroup(
            self._topology.plan.parts[part],
            self._bounds(part),
            self._strings.pin,
            routing=self._topology.routing[part],
            limits=limits,
            outside=outside,
            hosted=self._hosted[key],
            copy=copy,
            interleaving=interleaving,
            counting=self._counts_only(part),
            on_progress=on_progress,
            taps=taps,
            gathering=len(self._topology.plan.parts) > feeder.FEW_PARTS,
        )

    def _counts_only(self, part: int) -> bool:
        """Whether nobody looks at the matches of a part: they are counted, and no view takes them."""
        plan = self._topology.plan.parts[part]
        taken = plan.fragment or (part, plan.root.name) in self._topology.taken_from
        return not taken and self._counting(part)

    def warm_up(self) -> None:
        """Loads compiled loops, so that the first events need not wait; one copy of each part is enough."""
        for part in dict.fromkeys(part for part, _ in self._hosted):
            key = next(one for one in self._hosted if one[0] == part)
            self._group(key, Limits(), lambda delivery: None).sample()

    def absorb(self, parts: Collection[int]) -> None:
        """These parts, and no others, are built from events of which all matches are out. One that others take matches
        from is none: they may need what it finds."""
        if not parts and not self._absorbs:
            return
        self._absorbs = bool(parts)
        viewed = {part for part, _ in self._topology.taken_from}
        for (part, _), group in self.groups.items():
            group.absorb(absorbs=part in parts and part not in viewed)

    def accept(self, part: int, copy: int, target: str, unit: int, channel: Channel, content: Batch | int) -> None:
        """Puts rows or a watermark into a channel of a unit; `drain` delivers them."""
        if part in self.dropped:
            return
        self.groups[part, copy].accept(target, unit, channel, content)
        self._wake((part, copy))

    def take(self, part: int, copy: int, delivery: Delivery) -> None:
        """As `accept`, for what a sender sends; without an edge it leaves at once."""
        edge = delivery.edge
        if part in self.dropped:
            return
        if edge is None:
            self._guarded(part, partial(self._outside, part, copy, delivery))
        else:
            channel = Channel(edge.side, delivery.sender)
            self.accept(part, copy, edge.target.name, delivery.unit, channel, delivery.content)

    @cached_property
    def unsplit_parts(self) -> frozenset[int]:
        """The parts that read events as they are, where they can."""
        return frozenset(part for (part, _), group in self.groups.items() if group.scan is not None)

    def reads(self, part: int, events: EventBatch) -> bool:
        """Whether a part need not have these events split."""
        scan = self._scan(part)
        return scan is not None and scan.takes(events)

    def read(self, part: int, events: EventBatch, taken: Mapping[str, int]) -> Sequence[EventBatch]:
        """The part finds the matches that the events complete. Returns what is to be split then, if that has become
        necessary."""
        self._guarded(part, partial(self.groups[part, 0].read, events, taken))
        scan = self._scan(part)
        return () if scan is None or scan.active else scan.release()

    def release(self, part: int) -> Sequence[EventBatch]:
        """What a part has read and not decided, in order of time; it is to be split before later events."""
        scan = self._scan(part)
        return () if scan is None else scan.release()

    def taken_off(self, part: int, taken: Mapping[str, int]) -> None:
        """Hears how many of the released events each leaf takes: units count them again."""
        scan = self._scan(part)
        if scan is not None:
            scan.count_events(taken, -1)

    def read_on(self, events: EventBatch) -> None:
        """After events that were split, the last ones: parts read the next ones as they are, if they can."""
        for part in self.unsplit_parts:
            scan = self._scan(part)
            if scan is not None and not scan.active:
                scan.enter(events)

    def _scan(self, part: int) -> EventScan | None:
        group = self.groups.get((part, 0))
        return None if group is None else group.scan

    def drain(self) -> set[int]:
        """Delivers everything that waits; returns the parts that had something to do."""
        worked: set[int] = set()
        while self._waiting:
            if self._interleaving is None:
                _, key = heapq.heappop(self._waiting)
            else:
                _, key = self._waiting.pop(self._interleaving.randrange(len(self._waiting)))
            self._tell(key[0])
            self._is_waiting.discard(key)
            if key in self.groups:
                worked.add(key[0])
                self._guarded(key[0], self.groups[key].drain)
        return worked

    def _tell(self, part: int) -> None:
        """Passes on the watermarks that a part's views have kept."""
        for view in self._views_of.get(part, ()):
            for number, watermark_us in view.watermarks.items():
                self._pass_on(part, view.senders[number].watermark(watermark_us))

    def catch_up(self) -> None:
        """Tells all parts how far their views have come: nobody keeps what is out of its window."""
        for part in self._views_of:
            self._tell(part)
        self.drain()

    def snapshot(self) -> dict[GroupKey, GroupState]:
        """What the units of each group hold, and where its views are in dealing out matches that are found in here."""
        found = {key: group.snapshot() for key, group in self.groups.items()}
        for part, views in self._views_of.items():
            senders = {
                (view.operator, number): sender.snapshot() for view in views for number, sender in view.senders.items()
            }
            before = found.get((part, 0), GroupState({}, {}))
            found[part, 0] = replace(before, views=senders)
        return found

    def restore(self, states: Mapping[GroupKey, GroupState]) -> None:
        """Goes on from a snapshot; the states may hold more units and views than are in here."""
        for key, group in self.groups.items():
            if key not in states:
                title = self._topology.titles[key[0]]
                raise CheckpointError(f"the checkpoint has no state of {title}; rescale it first")
            group.restore(states[key])
        for part, views in self._views_of.items():
            saved = states[part, 0].views if (part, 0) in states else {}
            for view in views:
                for number, sender in view.senders.items():
                    if (view.operator, number) not in saved:
                        raise CheckpointError(f"the checkpoint has no state of view {view.operator}; rescale it first")
                    sender.restore(saved[view.operator, number])
                    view.watermarks[number] = sender.watermark_us

    def _wake(self, key: GroupKey) -> None:
        if key not in self._is_waiting:
            self._is_waiting.add(key)
            heapq.heappush(self._waiting, (self._rank[key[0]], key))

    def hosts_root(self, part: int) -> bool:
        return bool(self._roots.get(part))

    def units(self) -> list[ProcessingUnit]:
        """All units of this host."""
        return [unit for group in self.groups.values() for unit in group.units.values()]

    def output_watermark_us(self, part: int) -> int:
        """No later match that the part's root units in here find ends before this."""
        return min(unit.output_watermark_us for unit in self._roots[part])
