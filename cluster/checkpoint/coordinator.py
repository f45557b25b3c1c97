"""Coordinator: makes checkpoints of a run, and publishes its matches with them.

A checkpoint begins with a barrier at every shuffler and is complete when every unit has written what it held at the
cut, every shuffler has told where it was, and every sink has handed over the matches before the cut. Then, in this
order: matches are staged, the manifest is written (from here on the checkpoint counts), matches are published. Events
flow all the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import ray

from actors.state import ShufflerState, encode_shuffler
from cluster.checkpoint.output import PublishedMatches
from cluster.checkpoint.store import CheckpointStore, Manifest, StoredState
from cluster.deployment import Deployment

#: Makes one table of the matches of all parts of a plan.
Merge = Callable[[Sequence[pa.Table]], pa.Table]


@dataclass(frozen=True)
class Published:
    """What has been published up to a checkpoint."""

    number: int = 0
    parts: tuple[str, ...] = ()
    matches: int = 0


@dataclass
class _Pending:
    number: int
    events: int
    blocks: int
    calls: dict[Any, str]


class Coordinator:
    def __init__(
        self,
        deployment: Deployment,
        store: CheckpointStore,
        output: PublishedMatches,
        *,
        merge: Merge,
        plan: str,
        attempt: int,
        published: Published,
        every_s: float,
        keep: int,
    ) -> None:
        self._deployment, self._store, self._output, self._merge = deployment, store, output, merge
        self._plan, self._attempt, self._every_s, self._keep = plan, attempt, every_s, keep
        self.published = published
        self._next = published.number + 1
        self._begun_at = time.monotonic()
        self._pending: _Pending | None = None
        #: How long each checkpoint took, from its barriers to its publication.
        self.durations_s: list[float] = []

    def step(self, events: int, blocks: int) -> None:
        """Called now and then with the place in the stream: begins a checkpoint that is due, ends one that is done."""
        if self._pending is not None:
            waiting = list(self._pending.calls)
            ready, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0, fetch_local=False)
            if len(ready) == len(waiting):
                self._complete()
        elif time.monotonic() - self._begun_at >= self._every_s:
            self._begin(events, blocks)

    def _begin(self, events: int, blocks: int) -> None:
        self._begun_at = time.monotonic()
        number, deployment = self._next, self._deployment
        self._next += 1
        calls = {shuffler.barrier.remote(number): name for name, shuffler in deployment.shufflers.items()}
        calls |= {unit.stored.remote(number): name for name, unit in deployment.units.items()}
        calls |= {sink.matches_before.remote(number): name for name, sink in deployment.sinks.items()}
        self._pending = _Pending(number, events, blocks, calls)

    def wait_for_pending(self) -> None:
        """Ends the checkpoint that is under way, if there is one."""
        if self._pending is not None:
            for call in list(self._pending.calls):
                while not self._deployment.wait_for(call, 0.5):
                    pass
            self._complete()

    def _complete(self) -> None:
        assert self._pending is not None
        pending, self._pending = self._pending, None
        results = {name: self._deployment.result(call, name) for call, name in pending.calls.items()}
        topology = self._deployment.topology
        states: dict[str, StoredState] = {name: results[name] for name in self._deployment.units}
        for number, name in enumerate(topology.shuffler_names):
            payload = encode_shuffler(topology.routing, ShufflerState(number, results[name]))
            states[name] = self._store.write_state(pending.number, name, payload)
        tables = [results[name] for name in topology.sink_names]
        self._publish(pending.number, pending.events, pending.blocks, states, tables, finished=False)
        self.durations_s.append(time.monotonic() - self._begun_at)

    def finish(self, events: int, blocks: int, tables: Sequence[pa.Table]) -> None:
        """The last matches, at the end of the stream."""
        self._publish(self._next, events, blocks, {}, tables, finished=True)
        self._output.finish()

    def _publish(
        self,
        number: int,
        events: int,
        blocks: int,
        states: Mapping[str, StoredState],
        tables: Sequence[pa.Table],
        *,
        finished: bool,
    ) -> None:
        matches = self._merge(tables)
        part = self._output.stage(number, matches)
        parts = self.published.parts if part is None else (*self.published.parts, part)
        total = self.published.matches + matches.num_rows
        manifest = Manifest(
            number,
            self._attempt,
            self._plan,
            self._deployment.topology.shufflers,
            events,
            blocks,
            states,
            parts,
            total,
            finished,
        )
        self._store.commit(manifest)
        if part is not None:
            self._output.publish([part])
        self.published = Published(number, parts, total)
        self._store.prune(self._keep)
