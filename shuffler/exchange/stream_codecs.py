"""The codecs of a process of a network: one for each stream, as the nodes that read it need its rows."""

from __future__ import annotations

from functools import cache

from decopa.errors import TraceError
from decopa.planning.network.graphs.compile import provided
from decopa.query.binding import BoundQuery, bind
from decopa.query.schema import Schema
from shuffler.exchange.wire import BatchCodec
from shuffler.routing.carrier import EventCarrier
from shuffler.routing.network import NetworkTopology
from shuffler.rows.layout import layout_of
from shuffler.rows.strings import StringPool


class StreamCodecs:
    def __init__(self, topology: NetworkTopology, schema: Schema, strings: StringPool) -> None:
        if schema.intervals:
            raise TraceError("nodes of a network exchange events that are moments; leave out --end")
        self._topology, self._strings = topology, strings
        self.bounds: tuple[BoundQuery, ...] = tuple(bind(query, schema) for query in topology.plan.queries)
        self.codec = cache(self._codec)
        self.carrier = cache(self._carrier)

    def _carrier(self, stream: str, node: str) -> EventCarrier:
        """What packs the events of a stream for a node."""
        plan = self._topology.plan
        event_type = self._topology.streams[stream].event_type
        assert event_type is not None
        leaves = [plan.vertex(name) for name in self._topology.served(stream, node)]
        names = [(leaf.part, min(leaf.sub_query.aliases)) for leaf in leaves]
        return EventCarrier(event_type, names, self.bounds, self._strings)

    def _codec(self, stream: str, node: str) -> BatchCodec:
        if self._topology.streams[stream].event_type is not None:
            carrier = self.carrier(stream, node)
            return BatchCodec(carrier.bound, carrier.layout, self._strings)
        vertex = self._topology.plan.vertex(stream)
        bound = self.bounds[vertex.part]
        return BatchCodec(bound, layout_of(bound, provided(vertex)), self._strings)
