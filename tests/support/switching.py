"""A simulated cluster whose plan changes while processes die.

Everything that decides is the product's own: nodes, channels, barriers, states as bytes and how they are dealt out
anew, the ring of blocks, how far a plan looks back, and who reports which match at a cut. Simulated are the network,
the moments at which things happen, and the bookkeeping of `cluster.checkpoint.coordinator` and
`cluster.change.deployed.plan_changes`. One seed, one schedule.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

import pyarrow as pa

from actors.group import Limits
from actors.node import SinkNode, UnitNode
from actors.state.codec import ShufflerState, encode_shuffler
from cluster.change.cut import matches_at_cut, reported
from cluster.change.history import BlockRing, HistoryGone
from cluster.change.staying import carried_parts, with_sources
from cluster.checkpoint.restoring import Snapshot, restored
from cluster.checkpoint.restoring import joined as joined_states
from cluster.deploy.beginning import Building, Restored
from cluster.matches import joined
from cluster.session import StreamPlace
from decopa.planning.history import history_us
from decopa.planning.plan import Plan
from decopa.query.binding import bind
from decopa.query.query import Query
from decopa.runs.result import result_table
from shuffler.exchange.channel import Message, OutgoingChannel
from shuffler.exchange.codecs import needed_attributes
from shuffler.exchange.node import Marks, ReplayStart, ShufflerNode
from shuffler.exchange.outbox import FlushPolicy
from shuffler.routing.feeder import FeederState
from shuffler.routing.table import NOTHING_YET
from shuffler.routing.topology import Topology
from shuffler.rows.columns import Place, timestamps_us
from shuffler.rows.events import EventFormat
from shuffler.source.pacing import Replay
from shuffler.source.trace import Block, open_trace
from tests.support.simulation import UNBOUNDED


@dataclass
class Cut:
    """A checkpoint, or without checkpoints the cut alone: what has come of it so far."""

    number: int
    side: Side
    block: int
    events: int
    watermark_us: int
    muted: bool = False
    #: The plan that wants to begin with what units hold here, and whether it is built from events in part.
    wanted_by: Plan | None = None
    joins: bool = False
    #: What the side found before it took over states of others, and its sinks have no more.
    found: Mapping[str, pa.Table] = field(default_factory=dict)
    units: dict[str, bytes] = field(default_factory=dict)
    shufflers: dict[str, tuple[FeederState, ...]] = field(default_factory=dict)
    matches: dict[str, tuple[pa.Table, ...]] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        told = self.units.keys() == self.side.units.keys() or not self.keeps_states
        return told and len(self.matches) == len(self.side.sinks)

    @property
    def keeps_states(self) -> bool:
        return self.side.cluster.checkpoints_made or self.wanted_by is not None

    @property
    def snapshot(self) -> Snapshot:
        topology = self.side.topology
        names = zip(topology.shuffler_names, topology.shuffler_keys, strict=True)
        shufflers = {
            key: encode_shuffler(topology.routing, ShufflerState(number, self.shufflers[name]), topology.titles)
            for number, (name, key) in enumerate(names)
        }
        return Snapshot(topology, StreamPlace(self.events, self.block), lambda: {**self.units, **shufflers})

    @property
    def tables(self) -> dict[str, pa.Table]:
        """The matches before the cut, by the keys of their parts."""
        return joined(self.found, self.side.topology.by_key(self.matches))


@dataclass
class Joining:
    """A new side that builds some parts and takes over the `carried` ones; what both held once they were level."""

    carried: frozenset[str]
    ran: Cut | None = None
    made: Cut | None = None


class Side:
    """The processes of one plan. A side that is taken up again after a crash keeps its generation."""

    def __init__(
        self,
        cluster: SwitchingCluster,
        plan: Plan,
        generation: int,
        attempt: int,
        saved: Restored | None = None,
        building: Building | None = None,
    ) -> None:
        building = building or Building()
        self.cluster, self.generation, self.attempt = cluster, generation, attempt
        self.topology = topology = Topology(plan, cluster.shufflers)
        chaos, form = cluster.chaos, cluster.form
        self.channels = {
            channel: OutgoingChannel(channel[0], window=UNBOUNDED, attempt=attempt) for channel in topology.channels
        }
        policy = FlushPolicy(max_rows=chaos.choice((1, 4, 100)), interval_s=chaos.choice((0.0, 3.0)))
        self.sinks = {
            name: SinkNode(
                name,
                topology,
                form,
                limits=Limits(),
                clock=cluster.clock,
                attempt=attempt,
                cut=partial(cluster.sink_cut, self, name),
            )
            for name in topology.sink_names
        }
        self.units = {
            process.name: UnitNode(
                process.name,
                topology,
                form,
                send=partial(self._send, process.name),
                limits=Limits(),
                policy=policy,
                clock=cluster.clock,
                attempt=attempt,
                cut=partial(cluster.unit_cut, self, process.name),
                state=saved.units[process.name] if saved else None,
                absorbing=building.absorbing,
            )
            for process in topology.units
        }
        self.shufflers = [
            ShufflerNode(
                number,
                topology,
                form,
                send=partial(self._send, name),
                mark=self._mark,
                replay=Replay(),
                batch_size=2,
                policy=policy,
                clock=cluster.clock,
                sleep=lambda seconds: None,
                state=saved.shufflers[name] if saved else None,
                silent=building.silent,
            )
            for number, name in enumerate(topology.shuffler_names)
        ]
        #: Blocks that it has not been fed yet, while it is built.
        self.waiting: deque[int] = deque()

    @property
    def plan(self) -> Plan:
        return self.topology.plan

    def feed(self, number: int, block: Block, ordinal: int) -> None:
        self.shufflers[number % len(self.shufflers)].feed(block.rows, block.place, ordinal, ReplayStart(0.0, 0))

    def barrier(self, cut: Cut) -> None:
        for name, shuffler in zip(self.topology.shuffler_names, self.shufflers, strict=True):
            cut.shufflers[name] = shuffler.barrier(cut.number, cut.watermark_us)

    def receive(self, target: str, message: Message) -> None:
        node = self.units.get(target) or self.sinks[target]
        node.receive(message)

    def _send(self, process: str, target: str, message: Message) -> None:
        stamped = self.channels[process, target].stamp(message)
        for _ in range(2 if self.cluster.chaos.random() < 0.1 else 1):
            self.cluster.on_their_way.append((self.generation, target, stamped))

    def _mark(self, marks: Marks) -> None:
        for sink in self.sinks.values():
            sink.mark(marks)


class SwitchingCluster:
    """Draws what happens next. Without `checkpoints_made` nothing but a new side that is still being built may die."""

    #: How likely each thing is, if it can happen; a message is delivered otherwise.
    odds: Mapping[str, float] = {
        "join": 0.4,
        "crash": 0.018,
        "checkpoint": 0.06,
        "change": 0.16,
        "lose": 0.003,
        "cut": 0.4,
        "warm": 0.3,
        "feed": 0.25,
    }

    def __init__(
        self,
        plans: Sequence[Plan],
        events: pa.Table,
        *,
        shufflers: int,
        chaos: Random,
        crashes: int,
        checkpoints: bool = True,
        block_rows: int = 3,
    ) -> None:
        self.chaos, self.shufflers, self.checkpoints_made = chaos, shufflers, checkpoints
        self._plans, self._crashes = plans, crashes if checkpoints else 0
        source = open_trace(events)
        self.form: EventFormat = source.format
        bounds = [bind(part.query, source.schema) for plan in plans for part in plan.parts]
        self._blocks: list[Block] = list(source.blocks(needed_attributes(bounds, source.schema), block_rows))
        self._ordinals = [0]
        for block in self._blocks:
            self._ordinals.append(self._ordinals[-1] + block.rows.num_rows)
        clock, unit = self.form.columns.clock, self.form.columns.unit
        each = [timestamps_us(one.rows.column(clock), clock, Place("block"), unit) for one in self._blocks]
        #: The first and the last time of every block.
        self._times = [(int(times[0]), int(times[-1])) for times in each]
        self.on_their_way: list[tuple[int, str, Message]] = []
        self._published: dict[str, list[pa.Table]] = {key: [] for key in reported(plans[0])}
        self._complete: Cut | None = None
        self._attempt, self._number, self._generation, self._time = -1, 0, 0, 0.0
        self.done: Counter[str] = Counter()
        self._start()

    def run(self, queries: Sequence[Query]) -> pa.Table:
        while not self._step():
            pass
        self._publish(self._tables(self.running))
        return result_table(queries, [pa.concat_tables(self._published[key]) for key in self._published])

    # ------------------------------------------------------------- what happens

    def _step(self) -> bool:
        for what, odds in self.odds.items():
            if self.chaos.random() < odds and getattr(self, f"_may_{what}")():
                getattr(self, f"_{what}")()
                return False
        if self.on_their_way:
            self._deliver()
        return self._ended and not self.on_their_way and not self._pending

    def _start(self) -> None:
        """All processes anew, from the last complete checkpoint, with the plan that it names."""
        self._attempt += 1
        saved = self._complete
        plan, generation = (saved.side.plan, saved.side.generation) if saved else (self._plans[0], 0)
        held = Restored(saved.units, saved.shufflers) if saved else None
        self.running = Side(self, plan, generation, self._attempt, held)
        self._new: Side | None = None
        self._retiring: Side | None = None
        self._pending: deque[Cut] = deque()
        self._block = saved.block if saved else 0
        self._last_us = saved.watermark_us if saved else NOTHING_YET
        self._ring: BlockRing[int] | None = None
        self._ended = False
        self._joining: Joining | None = None
        #: What the side that is built found before it was joined.
        self._found: Mapping[str, pa.Table] = {}

    def _may_crash(self) -> bool:
        return self._crashes > 0

    def _crash(self) -> None:
        self._crashes -= 1
        phase = "building" if self._new else "cutting" if self._pending and self._pending[-1].muted else "running"
        self.done.update(crashes=1, **{f"crashes while {phase}": 1})
        self._start()

    def _may_checkpoint(self) -> bool:
        return self.checkpoints_made and not self._pending and not self._ended

    def _checkpoint(self) -> None:
        self._begin(self.running, NOTHING_YET)
        self.done["checkpoints"] += 1

    def _may_change(self) -> bool:
        asked = bool(self._pending) and self._pending[0].wanted_by is not None
        return self._new is None and self._retiring is None and not self._ended and not asked

    def _change(self) -> None:
        plan = self.chaos.choice(self._plans)
        everything, carried = frozenset(plan.keys), self._carried(plan)
        if carried == everything:
            if not self._pending:
                self._begin(self.running, NOTHING_YET, wanted_by=plan)
                return
            carried = frozenset()
        history: list[int] = []
        if self._block:
            try:
                history = self._kept(plan, with_sources(plan, everything - carried))
            except HistoryGone:
                self.done["refused"] += 1
                return
        self._build(plan, carried, history)

    def _carried(self, plan: Plan) -> frozenset[str]:
        """The parts that take over what the running plan holds, most of the time."""
        return carried_parts(self.running.plan, plan) if self.chaos.random() < 0.7 else frozenset()

    def _build(self, plan: Plan, carried: frozenset[str], history: Sequence[int]) -> None:
        self._generation += 1
        built = frozenset(plan.keys) - carried
        absorbing = reported(self.running.plan).keys() & reported(plan).keys() & built
        building = Building(frozenset(absorbing), carried - with_sources(plan, built))
        self._new = Side(self, plan, self._generation, self._attempt, building=building)
        self._new.waiting.extend(history)
        self._joining, self._found = Joining(carried) if carried else None, {}
        self.done["begun"] += 1

    def _may_join(self) -> bool:
        """Whether what the new side builds is level with the running one, so that both can tell what they hold."""
        joining, new = self._joining, self._new
        if joining is None or joining.made is not None or new is None or new.waiting or self._pending:
            return False
        return not self._ended

    def _join(self) -> None:
        assert self._joining is not None and self._new is not None
        self._joining.made = Cut(0, self._new, self._block, self._ordinals[self._block], NOTHING_YET)
        self._new.barrier(self._joining.made)
        self._begin(self.running, NOTHING_YET, wanted_by=self._new.plan, joins=True)

    def _take_joined(self) -> None:
        """Once both sides have told what they hold, the new one begins with it."""
        joining, new = self._joining, self._new
        if joining is None or joining.ran is None or joining.made is None or new is None or self._ended:
            return
        if not joining.made.complete:
            return
        self._joining = None
        self._generation += 1
        topology = Topology(new.plan, self.shufflers)
        held = joined_states(joining.ran.snapshot, joining.carried, joining.made.snapshot, topology, self.form)
        self._new = Side(self, new.plan, self._generation, self._attempt, held)
        self._new.waiting.extend(range(joining.made.block, self._block))
        self._found = {key: table for key, table in joining.made.tables.items() if key not in joining.carried}
        self.done["joined"] += 1

    def _answer(self, cut: Cut) -> None:
        """Gives states to the plan that wants them, if it still does."""
        if cut.wanted_by is None or self._ended:
            return
        if not cut.joins:
            self._carry(cut)
        elif self._joining is not None and self._joining.made is not None:
            self._joining.ran = cut
            self._take_joined()

    def _carry(self, cut: Cut) -> None:
        """The plan that has asked begins with what the units held at this cut."""
        assert cut.wanted_by is not None
        self._generation += 1
        topology = Topology(cut.wanted_by, self.shufflers)
        held = restored(cut.snapshot, topology, self.form, counted=False)
        self._new = Side(self, cut.wanted_by, self._generation, self._attempt, held)
        self._new.waiting.extend(range(cut.block, self._block))
        self.done.update(begun=1, carried=1)

    def _kept(self, plan: Plan, keys: frozenset[str]) -> list[int]:
        if self._ring is None:  # the run has just been taken up
            raise HistoryGone
        parts = [part for key, part in zip(plan.keys, plan.parts, strict=True) if key in keys]
        return list(self._ring.since(self._last_us - max(history_us(Plan((part,))) for part in parts)))

    def _may_lose(self) -> bool:
        """A process of the side that is being built dies."""
        return self._new is not None

    def _lose(self) -> None:
        self._new = self._joining = None
        self.done["abandoned"] += 1

    def _may_warm(self) -> bool:
        told = self._joining is not None and self._joining.made is not None
        return self._new is not None and bool(self._new.waiting) and not told

    def _warm(self) -> None:
        assert self._new is not None
        number = self._new.waiting.popleft()
        self._new.feed(number, self._blocks[number], self._ordinals[number])

    def _may_cut(self) -> bool:
        ready = self._new is not None and not self._new.waiting and self._joining is None
        return ready and not self._pending and not self._ended

    def _cut(self) -> None:
        assert self._new is not None
        self._begin(self.running, self._last_us)
        self._begin(self._new, self._last_us, muted=True)
        self._retiring, self.running, self._new = self.running, self._new, None
        self.done["cut"] += 1

    def _may_feed(self) -> bool:
        return not self._ended and (self._block < len(self._blocks) or not self._pending)

    def _feed(self) -> None:
        if self._block == len(self._blocks):
            self._new = self._joining = None
            for shuffler in self.running.shufflers:
                shuffler.finish()
            self._ended = True
            return
        number, block = self._block, self._blocks[self._block]
        self.running.feed(number, block, self._ordinals[number])
        first_us, self._last_us = self._times[number]
        if self._ring is None:
            reach_us = max(map(history_us, self._plans))
            self._ring = BlockRing(reach_us, from_us=NOTHING_YET if number == 0 else first_us)
        self._ring.add(number, self._last_us, 1)
        if self._new is not None:
            self._new.waiting.append(number)
        self._block += 1

    def _deliver(self) -> None:
        place = self.chaos.randrange(len(self.on_their_way))
        generation, target, message = self.on_their_way.pop(place)
        for side in (self.running, self._new, self._retiring):
            if side is not None and side.generation == generation:
                side.receive(target, message)

    # ------------------------------------------------------------- cuts and checkpoints

    def _begin(
        self,
        side: Side,
        watermark_us: int,
        *,
        muted: bool = False,
        wanted_by: Plan | None = None,
        joins: bool = False,
    ) -> None:
        self._number += 1
        place = self._block, self._ordinals[self._block]
        found = self._found_until_joined() if muted else {}
        cut = Cut(self._number, side, *place, watermark_us, muted, wanted_by, joins, found)
        self._pending.append(cut)
        side.barrier(cut)
        self._complete_what_is()

    @property
    def _cuts(self) -> list[Cut]:
        """Those that something may still come of."""
        joining = self._joining
        return [*self._pending, *([] if joining is None or joining.made is None else [joining.made])]

    def _found_until_joined(self) -> Mapping[str, pa.Table]:
        return self._found

    def unit_cut(self, side: Side, name: str, number: int, state: bytes) -> None:
        for cut in self._cuts:
            if cut.number == number and cut.side is side:
                cut.units[name] = state
        self._complete_what_is()
        self._take_joined()

    def sink_cut(self, side: Side, name: str, number: int, matches: tuple[pa.Table, ...]) -> None:
        for cut in self._cuts:
            if cut.number == number and cut.side is side:
                cut.matches[name] = matches
        self._complete_what_is()
        self._take_joined()

    def _complete_what_is(self) -> None:
        """In the order of the numbers: the last cut of the old plan comes before the first of the new one."""
        if not self.checkpoints_made:
            if self._pending and self._pending[0].wanted_by is not None and self._pending[0].complete:
                asked = self._pending.popleft()
                self._publish(asked.tables)
                self._answer(asked)
            elif len(self._pending) == 2 and all(cut.complete for cut in self._pending):
                old, new = self._pending
                self._unite(old, new)
            return
        while self._pending and self._pending[0].complete:
            cut = self._pending.popleft()
            if not cut.muted:
                self._publish(cut.tables)
            else:
                self._retiring = None
                self.done["completed"] += 1
            self._complete = cut
            self._answer(cut)

    def _unite(self, old: Cut, new: Cut) -> None:
        """Without checkpoints: as `cluster.change.deployed.driver_cut`."""
        queries = reported(old.side.plan) | reported(new.side.plan)
        earlier = {key: pa.concat_tables(tables) for key, tables in self._published.items() if tables}
        at_cut = matches_at_cut(joined(earlier, old.tables), new.tables, queries, old.watermark_us)
        self._published = {key: [table] for key, table in at_cut.items()}
        self._pending.clear()
        self._retiring = None
        self.done["completed"] += 1

    def _publish(self, tables: dict[str, pa.Table]) -> None:
        for key, table in tables.items():
            self._published[key].append(table)

    def _tables(self, side: Side) -> dict[str, pa.Table]:
        found = {name: tuple(taker.take() for taker in sink.takers) for name, sink in side.sinks.items()}
        return side.topology.by_key(found)

    def clock(self) -> float:
        self._time += 1.0
        return self._time
