"""A network plan on Ray: a source and level processes for each network node, checkpoints, and recovery.

Where the cluster has a resource `net-<node>`, the processes of that network node are put there. A checkpoint cuts the
stream between two blocks of events: every host writes what its vertices hold and hands over the matches before the cut.
If any process is lost, all begin anew from the last complete checkpoint, so that no match is lost or found twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import ray
from ray.exceptions import RayActorError, RayTaskError

from actors.columnar.jit import is_interpreted
from actors.group import Limits
from cluster.checkpoint.store import CheckpointStore, Manifest
from cluster.network.local import in_order
from cluster.network.origins import OriginColumn
from cluster.network.ray_actors import HostActor, ProcessSetup, SourceActor
from cluster.options import DEFAULT_WINDOW
from decopa.errors import DecoPaError, DeployError
from decopa.planning.network.graphs.graph import NetworkPlan
from decopa.planning.network.graphs.validate import check_network_plan
from decopa.query.binding import bind
from shuffler.exchange.codecs import needed_attributes
from shuffler.exchange.outbox import FlushPolicy
from shuffler.exchange.ray_links import PeerFailed
from shuffler.exchange.ray_shell import as_actor
from shuffler.routing.network import NetworkTopology
from shuffler.routing.traffic import Traffic
from shuffler.rows.columns import Place
from shuffler.rows.events import EventConverter
from shuffler.source.trace import TraceSource

#: Blocks on their way to one source.
_BLOCKS_AHEAD = 2


@dataclass(frozen=True)
class NetworkRayOptions:
    """Events in a block; messages on their way between two processes; where checkpoints are kept, and after how many
    blocks one is made; how often a run is taken up without getting further."""

    block_rows: int = 32_768
    window: int = DEFAULT_WINDOW
    policy: FlushPolicy = field(default_factory=FlushPolicy)
    checkpoints: CheckpointStore | None = None
    every_blocks: int = 4
    retries: int = 5


@dataclass(frozen=True)
class NetworkRayRun:
    """Matches of each query; what crossed in the attempt that reached the end; how often it was taken up."""

    matches: list[pa.Table]
    traffic: Traffic
    events: int
    seconds: float
    recoveries: int


#: Told after each block: how many blocks were fed, and the actors by name.
Watcher = Callable[[int, Mapping[str, Any]], None]


class RayNetwork:
    """Runs a network plan on the Ray that this program is connected to."""

    def __init__(
        self,
        plan: NetworkPlan,
        source: TraceSource,
        origin: str,
        *,
        buckets: int | None = None,
        limits: Limits | None = None,
        options: NetworkRayOptions | None = None,
    ) -> None:
        check_network_plan(plan)
        self.topology, self._plan, self._source = NetworkTopology(plan), plan, source
        self._options, self._limits = options or NetworkRayOptions(), limits or Limits()
        bounds = [bind(query, source.schema) for query in plan.queries]
        self._attributes = tuple(needed_attributes(bounds, source.schema))
        self._origins = OriginColumn(origin, plan.nodes, source, buckets=buckets)
        self._converter = EventConverter(source.format)
        self._done: list[dict[int, pa.Table]] = []
        self.actors: dict[str, Any] = {}

    def run(self, watcher: Watcher | None = None) -> NetworkRayRun:
        """Reads the trace to its end; a lost process is replaced if there are checkpoints."""
        started, recoveries, failures, reached = time.perf_counter(), 0, 0, 0
        while True:
            manifest = self._last()
            number = 0 if manifest is None else manifest.number
            failures, reached = (failures, reached) if number <= reached else (0, number)
            try:
                events, traffic = self._attempt(manifest, watcher)
                break
            except (RayActorError, PeerFailed, RayTaskError) as err:
                self._stop()
                cause = err.cause if isinstance(err, RayTaskError) else err
                lost = isinstance(cause, RayActorError | PeerFailed)
                if not lost and isinstance(cause, DecoPaError):
                    raise cause from None
                recoveries, failures = recoveries + 1, failures + 1
                if self._options.checkpoints is None or failures > self._options.retries:
                    raise DeployError(f"a process of the network died: {str(err).splitlines()[0]}") from err
            finally:
                self._stop()
        tables = [self._united(part) for part in range(len(self._plan.queries))]
        return NetworkRayRun(tables, traffic, events, time.perf_counter() - started, recoveries)

    def _attempt(self, manifest: Manifest | None, watcher: Watcher | None) -> tuple[int, Traffic]:
        store = self._options.checkpoints
        attempt = 0 if store is None else store.begin_attempt()
        skip = 0 if manifest is None else manifest.events
        self._done = self._done[: 0 if manifest is None else manifest.number]
        if store is not None:
            store.discard_after(0 if manifest is None else manifest.number)
        self._start(attempt, manifest)
        events, blocks, number = skip, 0, 0 if manifest is None else manifest.number
        ahead: list[list[Any]] = []
        for block in self._blocks(skip):
            ahead.append([
                self.actors[name].feed.remote(*block.of(node))
                for node, name in self.topology.sources.items() if name in self.actors
            ])  # fmt: skip
            if len(ahead) > _BLOCKS_AHEAD:
                ray.get(ahead.pop(0))
            events, blocks = events + block.rows, blocks + 1
            if watcher is not None:
                watcher(blocks, self.actors)
            if store is not None and blocks % self._options.every_blocks == 0:
                number += 1
                self._checkpoint(store, number, attempt, events)
        for calls in ahead:
            ray.get(calls)
        ray.get([actor.finish.remote() for name, actor in self.actors.items() if name in self._source_names])
        for host in self.topology.hosts:  # lower levels first: what they send on is then on its way
            ray.get(self.actors[host.name].settle.remote())
        self._done.append(_merged(ray.get([self.actors[host.name].take.remote() for host in self.topology.hosts])))
        edges = ray.get([actor.traffic.remote() for actor in self.actors.values()])
        return events, Traffic.united(edges)

    def _checkpoint(self, store: CheckpointStore, number: int, attempt: int, events: int) -> None:
        """Cuts the stream here and waits until every host has written what it holds."""
        ray.get([self.actors[name].barrier.remote(number) for name in self._source_names if name in self.actors])
        names = [host.name for host in self.topology.hosts]
        found = ray.get([self.actors[name].stored.remote(number) for name in names])
        states = {name: state for name, (state, _) in zip(names, found, strict=True)}
        store.commit(Manifest(number, attempt, self._plan.to_json(), len(self._source_names), events, number, states))
        self._done.append(_merged([matches for _, matches in found]))
        store.prune(2)

    @property
    def _source_names(self) -> set[str]:
        return set(self.topology.sources.values())

    def _last(self) -> Manifest | None:
        """The checkpoint to go on from; only one whose matches this driver has."""
        store = self._options.checkpoints
        complete = [] if store is None else [manifest for manifest in (store.latest(),) if manifest is not None]
        return complete[0] if complete and complete[0].number <= len(self._done) else None

    def _start(self, attempt: int, manifest: Manifest | None) -> None:
        """Receivers first, since senders are given their handles: higher levels, then lower ones, then sources."""
        store, available = self._options.checkpoints, ray.cluster_resources()  # type: ignore[no-untyped-call]

        def actor(kind: Any, name: str, node: str, state: bytes | None) -> Any:
            handles = {target: self.actors[target] for target in self.topology.outgoing(name)}
            setup = ProcessSetup(
                name,
                node,
                self.topology,
                self._source.format,
                self._attributes,
                handles,
                self._limits,
                self._options.policy,
                self._options.window,
                attempt,
                is_interpreted(),
                store,
                state,
            )
            place = f"net-{node}"
            pinned = {"resources": {place: 0.001}} if place in available else {}
            return as_actor(kind).options(num_cpus=0, **pinned).remote(setup)

        for host in sorted(self.topology.hosts, key=lambda one: -one.level):
            state = None if manifest is None or store is None else store.read_state(manifest, host.name)
            self.actors[host.name] = actor(HostActor, host.name, host.node, state)
        for node, name in self.topology.sources.items():
            if self.topology.outgoing(name):
                self.actors[name] = actor(SourceActor, name, node, None)
        ray.get([one.idle.remote() for one in self.actors.values()])

    def _stop(self) -> None:
        for one in self.actors.values():
            ray.kill(one, no_restart=True)
        self.actors = {}

    def _blocks(self, skip: int) -> Iterator[_Block]:
        """The events from a place in the stream on, divided among the nodes where they are born."""
        needed = sorted({*self._attributes, self._origins.attribute})
        first = 0
        for block in self._source.blocks(needed, self._options.block_rows):
            rows, place, begin = block.rows, block.place, first
            first += rows.num_rows
            if first <= skip:
                continue
            if begin < skip:
                rows, place, begin = rows.slice(skip - begin), place.after(skip - begin), skip
            events = self._converter.convert(rows, place, [self._origins.attribute], begin)
            parts = {node: np.flatnonzero(flags) for node, flags in self._origins.flags(events).items()}
            yield _Block(rows, place, begin, parts, int(events.ts[-1]))

    def _united(self, part: int) -> pa.Table:
        return in_order([table for one in self._done for table in [one[part]]])


@dataclass(frozen=True)
class _Block:
    content: pa.RecordBatch
    place: Place
    first_ordinal: int
    parts: Mapping[str, np.ndarray]
    last_us: int

    @property
    def rows(self) -> int:
        return int(self.content.num_rows)

    def of(self, node: str) -> tuple[pa.RecordBatch, np.ndarray, Place, int]:
        mine = self.parts[node]
        rows = pa.RecordBatch.from_arrays(
            [column.take(pa.array(mine)) for column in self.content.columns], schema=self.content.schema
        )
        return rows, mine.astype(np.int64) + self.first_ordinal, self.place, self.last_us


def _merged(parts: list[dict[int, pa.Table]]) -> dict[int, pa.Table]:
    """Matches of all hosts, by number of the query."""
    found: dict[int, list[pa.Table]] = {}
    for one in parts:
        for part, table in one.items():
            found.setdefault(part, []).append(table)
    return {part: in_order(tables) for part, tables in found.items()}
