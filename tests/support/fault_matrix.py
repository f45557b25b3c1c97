"""A run in one process that dies at one given point of a checkpoint, and is taken up from the files it left.

Nodes, channels, barriers, states, the store of checkpoints and the folder of matches are the product's own, as is what
is read from them after the death. Simulated are the network, which keeps messages of the dead, and the driver's loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from actors.state.codec import ShufflerState, encode_shuffler
from cluster.checkpoint.output import PublishedMatches
from cluster.checkpoint.restoring import restored, snapshot_of
from cluster.checkpoint.store import CheckpointStore, Manifest, StoredState
from decopa.planning.plan import Plan
from decopa.query.query import Query
from decopa.runs.result import result_table
from shuffler.exchange.channel import Message
from tests.support.crashing import Checkpoint, CrashingCluster

ROLES = ("source", "shuffler", "unit", "sink", "coordinator", "driver")
MOMENTS = ("before", "during", "after")
#: The checkpoint that the fault hits; an earlier one is complete by then.
_STRUCK = 2


class Death(Exception):
    """A process is gone, and with it the attempt."""


class FaultyCluster(CrashingCluster):
    """`fault` is who dies and when, seen from a barrier; `struck` says whether it has happened."""

    def __init__(
        self, plan: Plan, query: Query, events: pa.Table, folder: Path, fault: tuple[str, str], chaos: Random
    ) -> None:
        self._query, self._folder, self._fault = query, folder, fault
        self.struck = False
        self._made = 0
        self._target = ""
        #: What a reader found at the moment of the death.
        self.seen: pa.Table | None = None
        super().__init__(plan, events, shufflers=2, chaos=chaos, crashes=0)

    def run(self, queries: Sequence[Query]) -> pa.Table:
        while True:
            try:
                self._live()
                return self.published()
            except Death:
                self.seen = self.published()
                self.recoveries += 1
                self._start()

    def published(self) -> pa.Table:
        """What a reader finds."""
        parts = sorted(self._out.folder.glob("part-*.parquet"))
        return pa.concat_tables([result_table([self._query], self._nothing), *map(pq.read_table, parts)])

    @property
    def _nothing(self) -> list[pa.Table]:
        return [taker.table().slice(0, 0) for sink in self.sinks for taker in sink.takers]

    # ------------------------------------------------------------- the driver

    def _start(self) -> None:
        """As a driver does that finds these folders: everything it knows is in them."""
        self._store, self._out = CheckpointStore(self._folder / "checkpoints"), PublishedMatches(self._folder / "out")
        manifest = self._store.latest()
        self._parts = () if manifest is None else manifest.parts
        self._number = 0 if manifest is None else manifest.number
        self._total = 0 if manifest is None else manifest.matches
        attempt = self._store.begin_attempt()
        self._out.prepare(self._parts, after=None if manifest is None else manifest.number)
        self._store.discard_after(self._number)
        self._complete = None
        if manifest is not None:
            found = restored(snapshot_of(self._store, manifest), self.topology, self._form)
            self._complete = Checkpoint(manifest.number, manifest.blocks, manifest.events)
            self._complete.units |= found.units
            self._complete.shufflers |= found.shufflers
        self._attempt = attempt - 1
        super()._start()
        #: A unit and a sink that have several senders, so that barriers come one after the other.
        self._target = next(name for name, node in self.units.items() if len(node._lanes) > 1)
        assert all(len(sink._lanes) > 1 for sink in self.sinks)

    def _live(self) -> None:
        while self._block < len(self._blocks):
            self._feed_next("before")
            self._deliver(self._chaos.randrange(6))
            if self._block % 3 == 0 and self._number < 4:
                self._at("driver", "before")
                self._begin_checkpoint()
                if self._block < len(self._blocks):
                    self._feed_next("during")
                self._at("driver", "during")
                self._deliver(10**9)
                assert self._pending is None, "a checkpoint never completes"
                if self._block < len(self._blocks):
                    self._feed_next("after")
        for shuffler in self.shufflers:
            shuffler.finish()
        self._deliver(10**9)
        last = result_table([self._query], [taker.take() for sink in self.sinks for taker in sink.takers])
        self._commit(self._made + 1, self._block, self._events, {}, last, finished=True)

    def _feed_next(self, moment: str) -> None:
        if moment != "before" or self._number == _STRUCK - 1:
            self._at("source", moment)
        self._feed()

    def _deliver(self, most: int) -> None:
        while self._on_their_way and most > 0:
            self._deliver_one()
            most -= 1

    def _at(self, role: str, moment: str) -> None:
        """Here is that point; this is where it ends, if it is the fault."""
        armed = self._number >= _STRUCK - 1
        if armed and not self.struck and self._fault == (role, moment):
            self.struck = True
            raise Death(f"{role} {moment}")

    # ------------------------------------------------------------- checkpoints

    def _begin_checkpoint(self) -> None:
        self._made = number = max(self._made, self._number) + 1
        self._pending = pending = Checkpoint(number, self._block, self._events)
        for place, (name, shuffler) in enumerate(zip(self.topology.shuffler_names, self.shufflers, strict=True)):
            if place:  # the first one has sent its barriers already
                self._at("shuffler", "before")
            pending.shufflers[name] = shuffler.barrier(number)
        self._at("shuffler", "after")
        self._maybe_complete()

    def _send(self, process: str, target: str, message: Message) -> None:
        super()._send(process, target, message)
        if message.barrier is not None and process == self.topology.shuffler_names[-1]:
            self._at("shuffler", "during")  # others that it sends to have no barrier yet

    def _deliver_one(self) -> None:
        place = self._chaos.randrange(len(self._on_their_way))
        target, message = self._on_their_way[place]
        role = "unit" if target == self._target else "sink" if target in self.topology.sink_names else None
        ours = message.barrier is not None and message.attempt == self._attempt and role is not None
        if ours:
            assert role is not None
            self._at(role, "before")
        self._on_their_way.pop(place)
        node: Any = self.units.get(target) or next(sink for sink in self.sinks if sink.name == target)
        node.receive(message)
        if ours and 0 < len(node._inbox._passed) < len(node._lanes):
            assert role is not None
            self._at(role, "during")  # some barriers are here, others are not

    def _unit_cut(self, name: str, number: int, state: bytes) -> None:
        pending = self._pending
        assert pending is not None and pending.number == number
        pending.stored[name] = self._store.write_state(number, name, state, self._attempt)
        pending.units[name] = state
        if name == self._target:
            self._at("unit", "after")
        self._maybe_complete()

    def _sink_cut(self, name: str, number: int, matches: tuple[pa.Table, ...]) -> None:
        assert self._pending is not None and self._pending.number == number
        self._pending.matches[name] = matches
        self._at("sink", "after")
        self._maybe_complete()

    def _maybe_complete(self) -> None:
        pending = self._pending
        assert pending is not None
        if len(pending.units) < len(self.topology.units) or len(pending.matches) < len(self.sinks):
            return
        states = dict(pending.stored)
        for number, feeders in enumerate(pending.shufflers.values()):
            payload, key = encode_shuffler(self.topology.routing, ShufflerState(number, feeders)), f"shuffler/{number}"
            states[key] = self._store.write_state(pending.number, key, payload, self._attempt)
        found = result_table([self._query], self.topology.by_part(pending.matches))
        self._pending = None
        self._commit(pending.number, pending.block, pending.events, states, found, finished=False)

    def _commit(
        self, number: int, block: int, events: int, states: dict[str, StoredState], found: pa.Table, *, finished: bool
    ) -> None:
        """In the order of `cluster.checkpoint.coordinator`."""
        self._at("coordinator", "before")
        part = self._out.stage(number, found)
        self._at("coordinator", "during")
        parts, plan = (*self._parts, *([part] if part else [])), self.topology.plan.to_json()
        total = self._total + found.num_rows
        self._store.commit(Manifest(number, self._attempt, plan, 2, events, block, states, parts, total, finished))
        self._at("coordinator", "after")
        self._out.publish(parts)
        self._parts, self._number, self._total = parts, number, total
        self._at("driver", "after")
