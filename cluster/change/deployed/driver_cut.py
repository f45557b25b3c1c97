"""DriverCut: cuts of a run without checkpoints; matches of earlier plans wait in the driver."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import ray

from actors.state.codec import ShufflerState, encode_shuffler
from cluster.change.cut import matches_at_cut, released, reported
from cluster.change.outcome import ChangeAbandoned
from cluster.checkpoint.coordinator import Side
from cluster.checkpoint.restoring import Snapshot
from cluster.deploy.deployment import Deployment
from cluster.matches import joined
from cluster.session import StreamPlace
from decopa.planning.plan import Plan


@dataclass
class _Cut:
    old: Deployment
    new: Side
    watermark_us: int
    #: Barriers and matches of both sides, by the call.
    calls: dict[Any, tuple[Deployment, str]]


@dataclass
class _Asked:
    """What the processes of the running plan hold is on its way."""

    side: Deployment
    place: StreamPlace
    #: Shufflers' parts of the cut, and matches before it, by the call; then what units hold, by name.
    calls: dict[Any, str]
    states: dict[str, Any]
    result: Future[Snapshot]


class DriverCut:
    """Matches are tables by the key of their part."""

    #: A cut waits for nothing but the one before.
    obstacle: str | None = None
    wanted = urgent = False

    def __init__(self, deployment: Deployment, *, same_queries: bool) -> None:
        """With `same_queries` a plan of other queries is refused: nobody would ask for their matches."""
        self._deployment, self._same_queries = deployment, same_queries
        self._number = 0
        self._pending: _Cut | None = None
        self._asked: _Asked | None = None
        #: Matches that were found under earlier plans and have not been handed out.
        self._earlier: dict[str, pa.Table] = {}

    def check(self, old: Plan, new: Plan) -> None:
        if self._same_queries and old.queries != new.queries:
            raise ChangeAbandoned("the plan was not changed: the new one is of other queries")

    @property
    def can_cut(self) -> bool:
        return self.is_settled

    def prepare_states(self, deployment: Deployment) -> None:
        """Tells units that somebody wants what they hold at the next barrier; returns when they know."""
        for call, name in [(unit.keep_next.remote(), name) for name, unit in deployment.units.items()]:
            deployment.result(call, name)

    def states(self, place: StreamPlace) -> Future[Snapshot]:
        self._number += 1
        side = self._deployment
        calls = {shuffler.barrier.remote(self._number): name for name, shuffler in side.shufflers.items()}
        calls |= {sink.matches_before.remote(self._number): name for name, sink in side.sinks.items()}
        states = {name: unit.stored.remote(self._number) for name, unit in side.units.items()}
        self._asked = _Asked(side, place, calls, states, Future())
        return self._asked.result

    def look(self) -> None:
        asked = self._asked
        if asked is None:
            return
        calls = [*asked.calls, *asked.states.values()]
        ready, _ = ray.wait(calls, num_returns=len(calls), timeout=0, fetch_local=False)
        if len(ready) == len(calls):
            self._take_states(asked)
            asked.result.set_result(self._snapshot(asked))

    def _take_states(self, asked: _Asked) -> None:
        """The matches before the barrier have left their sinks with it."""
        side = asked.side
        found = {name: side.result(call, name) for call, name in asked.calls.items() if name in side.sinks}
        self.add(side.topology.by_key(found))
        self._asked = None

    @staticmethod
    def _snapshot(asked: _Asked) -> Snapshot:
        side, topology = asked.side, asked.side.topology
        feeders = {name: side.result(call, name) for call, name in asked.calls.items() if name in side.shufflers}

        def read() -> dict[str, bytes]:
            names = zip(topology.shuffler_names, topology.shuffler_keys, strict=True)
            return {name: side.result(call, name) for name, call in asked.states.items()} | {
                key: encode_shuffler(topology.routing, ShufflerState(number, feeders[name]), topology.titles)
                for number, (name, key) in enumerate(names)
            }

        return Snapshot(topology, asked.place, read)

    def cut(self, place: StreamPlace, watermark_us: int, new: Side) -> list[Any]:
        self._number += 1
        old, self._deployment = self._deployment, new.deployment
        pending = _Cut(old, new, watermark_us, {})
        for side in (old, new.deployment):
            for name, shuffler in side.shufflers.items():
                pending.calls[shuffler.barrier.remote(self._number, watermark_us)] = side, name
        passing = []
        for side in (old, new.deployment):
            for name, sink in side.sinks.items():
                call = sink.matches_before.remote(self._number)
                pending.calls[call] = side, name
                if side is new.deployment:
                    passing.append(call)
        self._pending = pending
        return passing

    def is_done_with(self, deployment: Deployment) -> bool:
        pending = self._pending
        if pending is not None:
            calls = list(pending.calls)
            ready, _ = ray.wait(calls, num_returns=len(calls), timeout=0, fetch_local=False)
            if len(ready) == len(calls):
                self._take_up(pending)
        return self.is_settled and deployment is not self._deployment

    @property
    def is_settled(self) -> bool:
        return self._pending is None and self._asked is None

    def _take_up(self, pending: _Cut) -> None:
        sides = pending.old, pending.new.deployment
        results: dict[int, dict[str, Any]] = {id(side): {} for side in sides}
        for call, (side, name) in pending.calls.items():
            results[id(side)][name] = side.result(call, name)
        old, new = (side.topology.by_key(results[id(side)]) for side in sides)
        queries = reported(sides[0].topology.plan) | reported(sides[1].topology.plan)
        before, new = joined(self._earlier, old), joined(pending.new.found, new)
        self._earlier = matches_at_cut(before, new, queries, pending.watermark_us)
        self._pending = None

    def add(self, found: Mapping[str, pa.Table]) -> None:
        """Keeps matches that nobody may have yet."""
        self._earlier = joined(self._earlier, found)

    def released(self, found: Mapping[str, pa.Table], watermark_us: int) -> dict[str, pa.Table]:
        """Matches that can be handed out while the run continues: those of earlier plans and those that were `found`,
        but for those of which another plan would not be certain at this watermark yet."""
        queries = reported(self._deployment.topology.plan)
        out, self._earlier = released(joined(self._earlier, found), queries, watermark_us)
        return out
