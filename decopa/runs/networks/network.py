"""Runs inside a network, in one process or on Ray, and what crossed it beside what was expected to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from actors.group import Limits
from actors.latency import LatencySummary
from actors.reports import UnitReport
from cluster.network.heartbeats import Heartbeats
from cluster.network.local import DEFAULT_BATCH_SIZE, LocalNetwork
from cluster.network.options import NetworkRayOptions
from costmodel.networks.transmission import ProjectionRates
from decopa.planning.network.graphs.compile import provided
from decopa.planning.network.graphs.graph import NetworkPlan, Vertex
from decopa.planning.network.graphs.price import price
from decopa.planning.network.problem.instance import Weight
from decopa.planning.subquery import SubQuery
from decopa.query.binding import bind
from decopa.query.query import Query
from decopa.query.schema import Schema
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
    """One stream from one node to another: what it carries, what was expected of it in this run, and what it was."""

    stream: str
    what: str
    source: str
    target: str
    expected_rows: float
    row_bytes: float
    measured: EdgeTraffic

    @property
    def error(self) -> float | None:
        """How far the rows were from what was expected, as a share of that."""
        return (self.measured.rows - self.expected_rows) / self.expected_rows if self.expected_rows else None


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What the processes of a node did: rows that its units took in, comparisons that they made, partial matches that
    they hold, and the largest share of the run that one process was busy, where somebody measured it."""

    node: str
    ingested: int
    comparisons: int
    state_rows: int
    busy: float = 0.0


@dataclass(frozen=True)
class NetworkRun:
    """The matches of a run inside a network and what crossed it. `central_rows` is what centralized evaluation would
    have sent: every event of a referenced type. On Ray it also has latencies, and how often it was taken up."""

    matches: pa.Table
    matches_at: dict[str, int]
    events: int
    central_rows: int
    seconds: float
    edges: tuple[EdgeReport, ...]
    traffic: Traffic
    nodes: tuple[NodeReport, ...]
    latency: LatencySummary | None = None
    recoveries: int = 0

    @property
    def ratio(self) -> float:
        """Transmission ratio: rows that crossed, in relation to centralized evaluation."""
        return self.traffic.total.rows / self.central_rows if self.central_rows else 0.0


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


@dataclass(frozen=True)
class Origins:
    """Where events are born: a column of the trace, see `OriginColumn`, and after how long a node that is silent counts
    as idle, see `Heartbeats`; `tell` says which."""

    column: str
    buckets: int | None = None
    idle_after_us: int | None = None
    tell: Callable[[str], None] = lambda line: None


def run_network(
    queries: Sequence[Query],
    plan: NetworkPlan,
    source: TraceSource,
    origins: Origins | str,
    *,
    rates: Sequence[ProjectionRates] | None = None,
    batch_size: int = DEFAULT_BATCH_SIZE,
    limits: Limits | None = None,
    progress: Callable[[int], None] | None = None,
) -> NetworkRun:
    """Runs a plan with all nodes in this process; `rates` are what its transfers are expected from."""
    born = Origins(origins) if isinstance(origins, str) else origins
    runtime = LocalNetwork(
        plan,
        source,
        born.column,
        buckets=born.buckets,
        batch_size=batch_size,
        limits=limits,
        heartbeats=Heartbeats(plan.nodes, born.idle_after_us, born.tell),
    )
    started = time.perf_counter()
    runtime.run(progress)
    seconds = time.perf_counter() - started
    at: dict[str, int] = {}
    for part in range(len(plan.queries)):
        for node, table in runtime.matches_by_node(part).items():
            at[node] = at.get(node, 0) + table.num_rows
    hosts = [(host.node, host.reports()) for host in runtime.hosts.values()]
    done = [NodeReport(node, *_work(reports)) for node, reports in hosts]
    return NetworkRun(
        result_table(queries, runtime.matches()),
        at,
        runtime.events,
        runtime.central_rows,
        seconds,
        _edges(plan, source, runtime.traffic, rates),
        runtime.traffic,
        _by_node(plan, done),
    )


def run_network_on_ray(
    queries: Sequence[Query],
    plan: NetworkPlan,
    source: TraceSource,
    origins: Origins | str,
    *,
    rates: Sequence[ProjectionRates] | None = None,
    limits: Limits | None = None,
    options: NetworkRayOptions | None = None,
    address: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> NetworkRun:
    """Runs a plan on Ray: on the cluster at `address`, or on one that is started here."""
    from cluster.network.ray_runtime import RayNetwork
    from cluster.ray_session import ray_session

    born = Origins(origins) if isinstance(origins, str) else origins
    chosen = replace(options or NetworkRayOptions(), idle_after_us=born.idle_after_us)
    with ray_session(address=address, dashboard=False):
        runtime = RayNetwork(
            plan, source, born.column, buckets=born.buckets, limits=limits, options=chosen, tell=born.tell
        )
        found = runtime.run(progress=progress or (lambda events: None))
    done = [
        NodeReport(host.node, host.ingested, host.comparisons, host.state_rows, host.busy_s / found.attempt.streaming_s)
        for host in found.attempt.hosts
    ]
    return NetworkRun(
        result_table(queries, found.matches),
        found.matches_at,
        found.attempt.events,
        found.central_rows,
        found.attempt.streaming_s,
        _edges(plan, source, found.traffic, rates),
        found.traffic,
        _by_node(plan, done),
        found.latency,
        found.recoveries,
    )


def _work(reports: Sequence[UnitReport]) -> tuple[int, int, int]:
    """Rows taken in, comparisons and partial matches of some units."""
    return (
        sum(one.ingested for one in reports),
        sum(one.comparisons for one in reports),
        sum(one.state_rows for one in reports),
    )


def _by_node(plan: NetworkPlan, processes: Sequence[NodeReport]) -> tuple[NodeReport, ...]:
    """The processes of each node as one, in the order of the network."""
    found = []
    for node in plan.nodes:
        mine = [one for one in processes if one.node == node]
        if mine:
            ingested, comparisons = sum(one.ingested for one in mine), sum(one.comparisons for one in mine)
            state_rows, busy = sum(one.state_rows for one in mine), max(one.busy for one in mine)
            found.append(NodeReport(node, ingested, comparisons, state_rows, busy))
    return tuple(found)


def _edges(
    plan: NetworkPlan, source: TraceSource, traffic: Traffic, rates: Sequence[ProjectionRates] | None
) -> tuple[EdgeReport, ...]:
    expected = expected_rows(plan, rates, source.span_us) if rates is not None else {}
    return edge_reports(NetworkTopology(plan), source.schema, traffic, expected)


def expected_rows(
    plan: NetworkPlan, rates: Sequence[ProjectionRates], span_us: int
) -> dict[tuple[str, str, str], float]:
    """Rows of each edge over a time, by stream, source and target. Queries that share a projection are planned as if
    its matches travelled once; they are evaluated for each of them, so both edges carry them."""
    windows = span_us / rates[0].network.window_us
    topology = NetworkTopology(plan)
    found = {}
    for one in price(plan, rates).transfers:
        for vertex in one.transfer.vertices:
            stream = topology.stream_of(plan.vertex(vertex))
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
        event_type = topology.streams[stream].event_type
        if event_type is not None:
            what, layout = event_type, codecs.carrier(stream, node).layout
        else:
            vertex = topology.plan.vertex(stream)
            what, layout = topology.plan.describe(vertex), _layout(codecs, vertex)
        edge = (stream, source, node)
        measured = traffic.edges.get(edge, EdgeTraffic())
        found.append(EdgeReport(stream, what, source, node, expected.get(edge, 0.0), row_bytes(layout), measured))
    return tuple(sorted(found, key=lambda one: (-one.measured.rows, one.stream, one.target)))


def _layout(codecs: StreamCodecs, vertex: Vertex) -> Layout:
    return layout_of(codecs.bounds[vertex.part], provided(vertex))
