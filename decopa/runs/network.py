"""Evaluation inside a network: measure it from a trace, run a plan in it, and compare what crossed with what should."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from actors.group import Limits
from cluster.network.local import DEFAULT_BATCH_SIZE, LocalNetwork
from cluster.network.origins import OriginColumn
from costmodel.network import EventSourcedNetwork
from costmodel.network_file import MeasuredNetwork
from costmodel.partners import partner_shares
from costmodel.transmission import ProjectionRates, referenced_types
from decopa.errors import StatisticsError
from decopa.planning.network.graphs.compile import provided
from decopa.planning.network.graphs.graph import NetworkPlan, Vertex
from decopa.planning.network.graphs.price import price
from decopa.planning.network.problem.instance import Weight
from decopa.planning.subquery import SubQuery
from decopa.query.binding import bind
from decopa.query.predicate import attributes
from decopa.query.query import Query
from decopa.query.schema import Schema
from decopa.runs.measure import event_columns, measure
from decopa.runs.result import result_table
from shuffler.exchange.stream_codecs import StreamCodecs
from shuffler.routing.network import NetworkTopology
from shuffler.routing.traffic import EdgeTraffic, Traffic
from shuffler.rows.layout import Layout, layout_of
from shuffler.rows.strings import StringPool
from shuffler.source.trace import TraceSource

_NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True)
class EdgeReport:
    """One stream from one node to another: what was expected of it in this run, and what it was."""

    stream: str
    source: str
    target: str
    expected_rows: float
    row_bytes: float
    measured: EdgeTraffic

    @property
    def error(self) -> float | None:
        """How far the rows were from what was expected, as a share of that."""
        return (self.measured.rows - self.expected_rows) / self.expected_rows if self.expected_rows else None


@dataclass(frozen=True)
class NetworkRun:
    """The matches of a run inside a network and what crossed it. `central_rows` is what centralized evaluation would
    have sent: every event of a referenced type."""

    matches: pa.Table
    matches_at: dict[str, int]
    events: int
    central_rows: int
    seconds: float
    edges: tuple[EdgeReport, ...]
    traffic: Traffic

    @property
    def ratio(self) -> float:
        """Transmission ratio: rows that crossed, in relation to centralized evaluation."""
        return self.traffic.total.rows / self.central_rows if self.central_rows else 0.0


def measured_network(
    queries: Sequence[Query], source: TraceSource, origin: str, *, buckets: int | None = None
) -> tuple[MeasuredNetwork, tuple[str, ...]]:
    """The network behind a trace: rates per node and type of the queries, per window of the first query; statistics
    of each query; shares of events that have a partner. Also lines that the user should see."""
    estimates = measure(queries, source)
    column = OriginColumn(origin, (), source, buckets=buckets)
    counts: dict[str, dict[str, int]] = {} if buckets is None else {str(node): {} for node in range(buckets)}
    wanted = referenced_types(queries)
    first_us = last_us = None
    for events in source.batches([origin], DEFAULT_BATCH_SIZE):
        places, names = column.names(events)
        first_us = int(events.ts[0]) if first_us is None else first_us
        last_us = int(events.ts[-1])
        for code, event_type in enumerate(events.type_names):
            born = np.bincount(places[events.type_codes == code], minlength=len(names))
            for name, count in zip(names, born.tolist(), strict=True):
                at = counts.setdefault(name, {})
                if count and event_type in wanted:
                    at[event_type] = at.get(event_type, 0) + count
    assert first_us is not None and last_us is not None, "measuring refuses a trace without events"
    if last_us == first_us:
        raise StatisticsError("all events share one timestamp; rates need a longer trace")
    windows = (last_us - first_us) / queries[0].window_us
    rates = {
        node: {name: count / windows for name, count in sorted(at.items())}
        for node, at in sorted(counts.items(), key=_natural)
    }
    network = EventSourcedNetwork(queries[0].window_us, rates)
    partners: dict[tuple[str, str], float] = {}
    for query in queries:
        needed = {attr.name for predicate in query.where for attr in attributes(predicate)} - {"ts"}
        columns = event_columns(source, sorted(needed))
        for branch in query.branches:
            for pair, share in partner_shares(branch, columns).items():
                partners[pair] = max(share, partners.get(pair, 0.0))
    notices = tuple(dict.fromkeys(notice for one in estimates for notice in one.notices))
    return MeasuredNetwork(network, tuple(one.statistics for one in estimates), partners), notices


def _natural(item: tuple[str, object]) -> tuple[int, str]:
    """Numbers by value, before names."""
    return (int(item[0]), "") if item[0].isdigit() else (2**62, item[0])


def row_weight(schema: Schema) -> Callable[[Query], Weight]:
    """What a row of a projection of a query weighs on the network, in bytes."""

    def of(query: Query) -> Weight:
        bound = bind(query, schema)

        def weight(aliases: frozenset[str]) -> float:
            closed = aliases & query.kleene_aliases if len(aliases) > 1 else frozenset[str]()
            return float(row_bytes(layout_of(bound, SubQuery(aliases, closed))))

        return weight

    return of


def row_bytes(layout: Layout) -> int:
    """Bytes of a row without strings and members of groups, which differ from row to row."""
    return _NUMBER_BYTES * len(layout.columns)


def run_network(
    queries: Sequence[Query],
    plan: NetworkPlan,
    source: TraceSource,
    origin: str,
    *,
    rates: Sequence[ProjectionRates] | None = None,
    buckets: int | None = None,
    batch_size: int = DEFAULT_BATCH_SIZE,
    limits: Limits | None = None,
    progress: Callable[[int], None] | None = None,
) -> NetworkRun:
    """Runs a plan with all nodes in this process; `rates` are what its transfers are expected from."""
    runtime = LocalNetwork(plan, source, origin, buckets=buckets, batch_size=batch_size, limits=limits)
    started = time.perf_counter()
    runtime.run(progress)
    seconds = time.perf_counter() - started
    at: dict[str, int] = {}
    for part in range(len(plan.queries)):
        for node, table in runtime.matches_by_node(part).items():
            at[node] = at.get(node, 0) + table.num_rows
    traffic = runtime.traffic
    expected = expected_rows(plan, rates, source.span_us) if rates is not None else {}
    edges = edge_reports(runtime.topology, source.schema, traffic, expected)
    matches = result_table(queries, runtime.matches())
    return NetworkRun(matches, at, runtime.events, runtime.central_rows, seconds, edges, traffic)


def expected_rows(
    plan: NetworkPlan, rates: Sequence[ProjectionRates], span_us: int
) -> dict[tuple[str, str, str], float]:
    """Rows of each edge over a time, by stream, source and target."""
    windows = span_us / rates[0].network.window_us
    topology = NetworkTopology(plan)
    found = {}
    for one in price(plan, rates).transfers:
        stream = topology.stream_of(plan.vertex(one.transfer.vertices[0]))
        found[stream, one.transfer.source, one.transfer.target] = one.rows * windows
    return found


def edge_reports(
    topology: NetworkTopology, schema: Schema, traffic: Traffic, expected: dict[tuple[str, str, str], float]
) -> tuple[EdgeReport, ...]:
    """Every edge of the plan, those that carried most first."""
    codecs = StreamCodecs(topology, schema, StringPool())
    found = []
    for stream, node in topology.readers:
        source = topology.streams[stream].node
        if source == node:
            continue
        if topology.streams[stream].event_type is not None:
            layout = codecs.carrier(stream, node).layout
        else:
            layout = _layout(codecs, topology.plan.vertex(stream))
        edge = (stream, source, node)
        measured = traffic.edges.get(edge, EdgeTraffic())
        found.append(EdgeReport(*edge, expected.get(edge, 0.0), row_bytes(layout), measured))
    return tuple(sorted(found, key=lambda one: (-one.measured.rows, one.stream, one.target)))


def _layout(codecs: StreamCodecs, vertex: Vertex) -> Layout:
    return layout_of(codecs.bounds[vertex.part], provided(vertex))
