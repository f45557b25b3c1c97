"""A network plan on Ray: a source and level processes for each network node, checkpoints, and recovery.

Where the cluster has a resource `net-<node>`, the processes of that network node are put there. A checkpoint cuts the
stream between two blocks of events: every host writes what its vertices hold and hands over the matches before the cut.
If any process is lost, all begin anew from the last complete checkpoint, so that no match is lost or found twice.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import ray
from ray.exceptions import RayActorError, RayTaskError

from actors.group import Limits
from actors.latency import LatencyHistogram, LatencySummary
from cluster.checkpoint.recovery import failures_told_once
from cluster.checkpoint.store import CheckpointStore, Manifest
from cluster.network.blocks import OriginBlock, OriginBlocks
from cluster.network.heartbeats import Heartbeats
from cluster.network.local import in_order
from cluster.network.options import NetworkRayOptions
from cluster.network.ray_actors import HostReport
from cluster.network.ray_processes import NetworkProcesses
from costmodel.networks.transmission import referenced_types
from decopa.errors import DecoPaError, DeployError
from decopa.planning.network.graphs.graph import NetworkPlan
from decopa.planning.network.graphs.validate import check_network_plan
from decopa.query.binding import bind
from shuffler.exchange.codecs import needed_attributes
from shuffler.exchange.ray_links import PeerFailed
from shuffler.exchange.wall_clock import machine_time_s
from shuffler.routing.network import NetworkTopology
from shuffler.routing.traffic import Traffic
from shuffler.source.trace import TraceSource

#: Blocks on their way to one source.
_BLOCKS_AHEAD = 2


@dataclass(frozen=True)
class Attempt:
    """An attempt that reached the end of the trace: the place in it that it reached, what crossed the network in it,
    what its hosts did, and the seconds from the first event that it fed to the last match."""

    events: int
    traffic: Traffic
    hosts: tuple[HostReport, ...]
    streaming_s: float


@dataclass(frozen=True)
class NetworkRayRun:
    """Matches of each query and how many each node found; the attempt that reached the end; how often the run was taken
    up. `central_rows` is explained at `LocalNetwork`, `seconds` count from the start of the first process."""

    matches: list[pa.Table]
    matches_at: dict[str, int]
    attempt: Attempt
    central_rows: int
    seconds: float
    recoveries: int

    @property
    def traffic(self) -> Traffic:
        return self.attempt.traffic

    @property
    def latency(self) -> LatencySummary:
        """From the arrival of a match's last event to the moment a sink has the match."""
        counts = [host.latency_counts for host in self.attempt.hosts]
        return LatencyHistogram.between(None, np.sum(counts, axis=0)).summary() if counts else LatencySummary()


@dataclass(frozen=True)
class _Found:
    """What came between two cuts: a table of matches for each query, how many each node found, and events of a type
    that some query names."""

    tables: Mapping[int, pa.Table]
    at: Mapping[str, int]
    central_rows: int


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
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        check_network_plan(plan)
        self.topology, self._plan, self._source = NetworkTopology(plan), plan, source
        self._options = options or NetworkRayOptions()
        bounds = [bind(query, source.schema) for query in plan.queries]
        self._attributes = tuple(needed_attributes(bounds, source.schema))
        self._origin, self._buckets = origin, buckets
        self._tell, self._types = tell, referenced_types(plan.queries)
        self._done: list[_Found] = []
        self._processes = NetworkProcesses(
            self.topology, source.format, self._attributes, limits or Limits(), self._options
        )

    def run(
        self, watcher: Watcher | None = None, progress: Callable[[int], None] = lambda events: None
    ) -> NetworkRayRun:
        """Reads the trace to its end; a lost process is replaced if there are checkpoints. `progress(events)` is called
        after every block."""
        started, recoveries, failures, reached = time.perf_counter(), 0, 0, 0
        with failures_told_once(), contextlib.closing(self._processes):
            while True:
                manifest = self._last()
                number = 0 if manifest is None else manifest.number
                failures, reached = (failures, reached) if number <= reached else (0, number)
                try:
                    attempt = self._attempt(manifest, watcher, progress)
                    break
                except (RayActorError, PeerFailed, RayTaskError) as err:
                    self._check_lost(err, failures)
                    recoveries, failures = recoveries + 1, failures + 1
        tables = [in_order([one.tables[part] for one in self._done]) for part in range(len(self._plan.queries))]
        at: Counter[str] = Counter()
        for one in self._done:
            at.update(one.at)
        central_rows = sum(one.central_rows for one in self._done)
        seconds = time.perf_counter() - started
        return NetworkRayRun(tables, dict(at), attempt, central_rows, seconds, recoveries)

    def _check_lost(self, err: Exception, failures: int) -> None:
        """Raises what ends the run: a failure that is no loss of a process, or one loss too many."""
        cause = err.cause if isinstance(err, RayTaskError) else err
        if isinstance(cause, DecoPaError) and not isinstance(cause, PeerFailed):
            raise cause from None
        if self._options.checkpoints is None or failures >= self._options.retries:
            raise DeployError(f"a process of the network died: {str(err).splitlines()[0]}") from err

    def _attempt(self, manifest: Manifest | None, watcher: Watcher | None, progress: Callable[[int], None]) -> Attempt:
        store = self._options.checkpoints
        attempt = 0 if store is None else store.begin_attempt()
        skip = 0 if manifest is None else manifest.events
        self._done = self._done[: 0 if manifest is None else manifest.number]
        if store is not None:
            store.discard_after(0 if manifest is None else manifest.number)
        stream = self._blocks()
        self._processes.start(attempt, manifest)
        events, blocks, number = skip, 0, 0 if manifest is None else manifest.number
        ahead: list[list[Any]] = []
        self._central_rows, began_s = 0, machine_time_s()
        for block in stream.after(skip):
            ahead.append(self._feed(block, began_s))
            if len(ahead) > _BLOCKS_AHEAD:
                ray.get(ahead.pop(0))
            events, blocks = events + len(block), blocks + 1
            self._central_rows += block.of_types(self._types)
            progress(events)
            if watcher is not None:
                watcher(blocks, self._processes.actors)
            if store is not None and blocks % self._options.every_blocks == 0:
                number += 1
                self._checkpoint(store, number, attempt, events)
        for calls in ahead:
            ray.get(calls)
        ray.get([source.finish.remote() for source in self._processes.sources.values()])
        hosts = self._processes.hosts
        for host in hosts:  # lower levels first: what they send on is then on its way
            ray.get(host.settle.remote())
        streaming_s = machine_time_s() - began_s
        self._done.append(self._merged(ray.get([host.take.remote() for host in hosts])))
        edges = ray.get([actor.traffic.remote() for actor in self._processes.actors.values()])
        reports = ray.get([host.report.remote() for host in hosts])
        return Attempt(events, Traffic.united(edges), tuple(reports), streaming_s)

    def _feed(self, block: OriginBlock, began_s: float) -> list[Any]:
        """Feeds every source its part of a block, when it is due; sinks learn when the events arrived."""
        arrival_s = np.full(len(block), machine_time_s())
        if block.due_s is not None:
            arrival_s = began_s + block.due_s
            time.sleep(max(0.0, float(arrival_s[-1]) - machine_time_s()))
        kept = slice(None) if block.due_s is not None else slice(-1, None)  # one time for all: one mark
        for sink in self._processes.sinks:
            sink.mark.remote(block.events.ts[kept], arrival_s[kept])
        return [source.feed.remote(*block.of(node)) for node, source in self._processes.sources.items()]

    def _checkpoint(self, store: CheckpointStore, number: int, attempt: int, events: int) -> None:
        """Cuts the stream here and waits until every host has written what it holds."""
        sources = self._processes.sources.values()
        ray.get([source.barrier.remote(number) for source in sources])
        found = ray.get([host.stored.remote(number) for host in self._processes.hosts])
        states = {host.name: state for host, (state, _) in zip(self.topology.hosts, found, strict=True)}
        store.commit(Manifest(number, attempt, self._plan.to_json(), len(sources), events, number, states))
        self._done.append(self._merged([matches for _, matches in found]))
        store.prune(2)

    def _last(self) -> Manifest | None:
        """The checkpoint to go on from; only one whose matches this driver has."""
        store = self._options.checkpoints
        complete = [] if store is None else [manifest for manifest in (store.latest(),) if manifest is not None]
        return complete[0] if complete and complete[0].number <= len(self._done) else None

    def _blocks(self) -> OriginBlocks:
        options = self._options
        return OriginBlocks(
            self._source,
            self._origin,
            self._plan.nodes,
            attributes=self._attributes,
            block_rows=options.block_rows,
            buckets=self._buckets,
            heartbeats=Heartbeats(self._plan.nodes, options.idle_after_us, self._tell),
            replay=options.replay,
            together_s=options.together_s,
        )

    def _merged(self, parts: list[dict[int, pa.Table]]) -> _Found:
        """Matches of all hosts."""
        tables: dict[int, list[pa.Table]] = {}
        at: Counter[str] = Counter()
        for host, found in zip(self.topology.hosts, parts, strict=True):
            for part, table in found.items():
                tables.setdefault(part, []).append(table)
                at[host.node] += table.num_rows
        central_rows, self._central_rows = self._central_rows, 0
        return _Found({part: in_order(found) for part, found in tables.items()}, at, central_rows)
