"""All nodes of a network in one process: the same source and host nodes as on Ray, with a network of queues.

Messages of one channel arrive in order. Normally the oldest message is delivered first; with `interleaving` the next
channel is drawn at random instead, to show that the order between senders changes nothing.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import pyarrow as pa

from actors.group import Limits
from actors.network.node import NetworkHost, NetworkSource
from cluster.network.heartbeats import Heartbeats
from cluster.network.origins import OriginColumn
from costmodel.networks.transmission import referenced_types
from decopa.planning.network.graphs.graph import NetworkPlan
from decopa.planning.network.graphs.validate import check_network_plan
from decopa.query.binding import bind
from shuffler.exchange.channel import Message
from shuffler.exchange.codecs import needed_attributes
from shuffler.exchange.outbox import FlushPolicy
from shuffler.routing.network import NetworkTopology
from shuffler.routing.table import END_OF_STREAM
from shuffler.routing.traffic import Traffic
from shuffler.rows.events import EventBatch
from shuffler.source.trace import TraceSource

DEFAULT_BATCH_SIZE = 65_536
#: Everything is sent at once: there is nothing to wait for.
_AT_ONCE = FlushPolicy(max_rows=1, interval_s=0.0)


class LocalNetwork:
    """Runs a network plan over one pass of a trace whose column `origin` says where each event is born.

    `buckets` is explained at `OriginColumn`, `heartbeats` at `Heartbeats`. With `states`, of a `cut` of the same plan,
    it goes on from there.
    """

    def __init__(
        self,
        plan: NetworkPlan,
        source: TraceSource,
        origin: str,
        *,
        buckets: int | None = None,
        batch_size: int = DEFAULT_BATCH_SIZE,
        limits: Limits | None = None,
        states: Mapping[str, bytes] | None = None,
        interleaving: random.Random | None = None,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        check_network_plan(plan)
        self.plan, self.topology = plan, NetworkTopology(plan)
        self._source, self._batch_size, self._chaos = source, batch_size, interleaving
        bounds = [bind(query, source.schema) for query in plan.queries]
        self._origins = OriginColumn(origin, plan.nodes, source, buckets=buckets)
        self._heartbeats = heartbeats or Heartbeats(plan.nodes)
        self._begin_us: int | None = None
        self._attributes = sorted({*needed_attributes(bounds, source.schema), self._origins.attribute})
        self._queues: dict[tuple[str, str], deque[Message]] = {}
        self._order: deque[tuple[str, str]] = deque()
        limits = limits or Limits()
        strings = source.strings
        self.sources = {
            node: NetworkSource(
                node, self.topology, source.format, strings, send=partial(self._send, name), policy=_AT_ONCE, clock=_now
            )
            for node, name in self.topology.sources.items()
        }
        self.hosts = {
            host.name: NetworkHost(
                host.name,
                self.topology,
                source.format,
                strings,
                send=partial(self._send, host.name),
                limits=limits,
                policy=_AT_ONCE,
                clock=_now,
                cut=partial(self._keep, host.name),
                state=None if states is None else states[host.name],
            )
            for host in self.topology.hosts
        }
        self._sent: dict[tuple[str, str], int] = {}
        self._types = referenced_types(plan.queries)
        self.events = 0
        self._kept: dict[str, bytes] = {}
        self._found: dict[int, list[pa.Table]] = {}
        #: Events of a type that some query names: what centralized evaluation would send.
        self.central_rows = 0

    def run(self, progress: Callable[[int], None] | None = None) -> None:
        """Reads the trace to its end; `progress(events)` is called after every batch."""
        for events in self.batches():
            self.feed(events)
            if progress is not None:
                progress(self.events)
        self.finish()

    def batches(self) -> Iterator[EventBatch]:
        """The events of the trace, for `feed`."""
        return self._source.batches(self._attributes, self._batch_size)

    def feed(self, events: EventBatch) -> None:
        """Gives events to the nodes where they are born, and works until nothing is on its way."""
        for start, stop in self._heartbeats.pieces(events.ts):
            self._feed(events.slice(start, stop))

    def _feed(self, events: EventBatch) -> None:
        flags = self._origins.flags(events)
        if self._begin_us is None:
            self._begin_us = int(events.ts[0])
        own = {node: int(events.ts[np.flatnonzero(mine)[-1]]) for node, mine in flags.items() if mine.any()}
        watermarks = self._heartbeats.after(self._begin_us, int(events.ts[-1]), own)
        for node, source in self.sources.items():
            source.feed(events, flags[node], watermarks[node])
            self._deliver_some()
        self.events += len(events)
        referenced = [code for code, name in enumerate(events.type_names) if name in self._types]
        self.central_rows += int(np.isin(events.type_codes, referenced).sum())
        self._deliver_all()

    def cut(self, number: int) -> tuple[dict[str, bytes], dict[int, list[pa.Table]]]:
        """Cuts the stream here: what every host holds, and the matches that were found since the last cut."""
        self._kept, self._found = {}, {}
        for source in self.sources.values():
            source.barrier(number)
            self._deliver_some()
        self._deliver_all()
        return self._kept, self._found

    def _keep(self, host: str, number: int, state: bytes, matches: dict[int, pa.Table]) -> None:
        self._kept[host] = state
        for part, table in matches.items():
            self._found.setdefault(part, []).append(table)

    def finish(self) -> None:
        """The end of the stream."""
        for source in self.sources.values():
            source.advance(END_OF_STREAM, urgent=True)
        self._deliver_all()
        assert all(host.watermark_us == END_OF_STREAM for host in self.hosts.values())

    def matches(self) -> list[pa.Table]:
        """The matches of each query, from all its sinks, in canonical order."""
        found = []
        for part in range(len(self.plan.queries)):
            tables = [host.sinks[part].table() for host in self.hosts.values() if part in host.sinks]
            found.append(in_order(tables))
        return found

    def matches_by_node(self, part: int) -> dict[str, pa.Table]:
        """The matches of a query by the node whose sink found them."""
        found: dict[str, list[pa.Table]] = {}
        for host in self.hosts.values():
            if part in host.sinks:
                found.setdefault(host.node, []).append(host.sinks[part].table())
        return {node: in_order(tables) for node, tables in found.items()}

    @property
    def traffic(self) -> Traffic:
        """What crossed the network."""
        outboxes = [source.outbox for source in self.sources.values()] + [host.outbox for host in self.hosts.values()]
        return Traffic.united(outbox.traffic.edges for outbox in outboxes)

    def _send(self, process: str, target: str, message: Message) -> None:
        channel = (process, target)
        sequence = self._sent.get(channel, 0)
        self._sent[channel] = sequence + 1
        stamped = Message(process, 0, sequence, message.rows, message.watermarks, message.urgent, message.barrier)
        self._queues.setdefault(channel, deque()).append(stamped)
        self._order.append(channel)

    def _deliver_some(self) -> None:
        """With random order, a few messages are delivered while others are still being sent."""
        if self._chaos is not None:
            for _ in range(self._chaos.randrange(4)):
                self._deliver_one()

    def _deliver_all(self) -> None:
        while self._order:
            self._deliver_one()

    def _deliver_one(self) -> None:
        if not self._order:
            return
        if self._chaos is None:
            channel = self._order.popleft()
        else:
            place = self._chaos.randrange(len(self._order))
            channel = self._order[place]
            del self._order[place]
        self.hosts[channel[1]].receive(self._queues[channel].popleft())


def in_order(tables: list[pa.Table]) -> pa.Table:
    """Matches of several sinks as one table, in canonical order."""
    together = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    plain = [name for name in together.column_names[3:] if not pa.types.is_nested(together.schema.field(name).type)]
    return together.sort_by([(name, "ascending") for name in ("end_ts", "start_ts", *plain)])


def _now() -> float:
    return 0.0
