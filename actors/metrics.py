"""What units and sinks show in Ray's dashboard and to Prometheus, see `shuffler.exchange.ray_metrics`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from shuffler.exchange.ray_metrics import (
    PROCESS_METRICS,
    SHUFFLER_METRICS,
    TAGS,
    Board,
    BusyMeter,
    MetricSpec,
    process_tags,
    show_process,
)

if TYPE_CHECKING:
    from actors.node import SinkNode
    from actors.ray_unit import UnitStatus
    from shuffler.exchange.ray_links import RayLinks

_LAG = "Event time between the newest input and the watermark; nothing that ends before the watermark can still change"
UNIT_METRICS = (
    *PROCESS_METRICS,
    MetricSpec("decopa_ingested_rows", "counter", "Events and partial matches that a unit has received"),
    MetricSpec("decopa_comparisons", "counter", "Candidate pairs that a unit has examined"),
    MetricSpec("decopa_matches", "counter", "Matches of its sub-query that a unit has found"),
    MetricSpec("decopa_state_rows", "gauge", "Rows that a unit keeps"),
    MetricSpec("decopa_state_bytes", "gauge", "Memory of the rows that a unit keeps"),
    MetricSpec("decopa_watermark_lag_seconds", "gauge", _LAG),
)
#: Upper ends of the buckets of latency, in seconds.
LATENCY_BOUNDS_S = (
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
    20.0,
    30.0,
    60.0,
    120.0,
    300.0,
)
SINK_METRICS = (
    MetricSpec("decopa_query_matches", "counter", "Matches of a query that have reached its sink"),
    MetricSpec("decopa_watermark_lag_seconds", "gauge", _LAG),
    # A histogram of Ray's is replayed value by value in the agent of the node, which a million matches would choke.
    MetricSpec(
        "decopa_detection_latency_seconds_bucket",
        "counter",
        "Matches that came at most `le` seconds after the arrival of their last event, for histogram_quantile",
        (*TAGS, "le"),
    ),
    MetricSpec("decopa_detection_latency_p50_seconds", "gauge", "Median of that latency since the start"),
    MetricSpec("decopa_detection_latency_p99_seconds", "gauge", "99th percentile of that latency since the start"),
)
#: Every metric by the name that Prometheus knows.
CATALOGUE = {spec.exported: spec for spec in (*UNIT_METRICS, *SINK_METRICS, *SHUFFLER_METRICS)}


class UnitMetrics:
    """Shows what the units of one process have done."""

    def __init__(self, name: str, links: RayLinks, status: Callable[[], UnitStatus]) -> None:
        self._board, self._tags = Board(UNIT_METRICS), process_tags(name)
        self._links, self._status, self._busy = links, status, BusyMeter()

    def show(self) -> None:
        status, board = self._status(), self._board
        queues = self._links.unfinished()
        show_process(board, self._tags, self._busy, busy_s=status.busy_s, waited_s=status.waited_s, queues=queues)
        for report in status.units:
            tags = {**self._tags, "operator": report.operator, "unit": str(report.unit)}
            board.total("decopa_ingested_rows", report.ingested, tags)
            board.total("decopa_comparisons", report.comparisons, tags)
            board.total("decopa_matches", report.emitted, tags)
            board.level("decopa_state_rows", report.state_rows, tags)
            board.level("decopa_state_bytes", report.state_bytes, tags)
        if status.lag_us is not None:
            board.level("decopa_watermark_lag_seconds", status.lag_us / 1e6, self._tags)


class SinkMetrics:
    """Shows what has reached a sink."""

    def __init__(self, node: SinkNode) -> None:
        self._board, self._tags, self._node = Board(SINK_METRICS), process_tags(node.name), node

    def show(self) -> None:
        board, tags, node = self._board, self._tags, self._node
        board.total("decopa_query_matches", node.received, tags)
        if (lag_us := node.lag_us) is not None:
            board.level("decopa_watermark_lag_seconds", lag_us / 1e6, tags)
        histogram = node.latency.histogram
        summary, bounds = histogram.summary(), (*LATENCY_BOUNDS_S, math.inf)
        if not summary.count:
            return
        for bound, matches in zip(bounds, histogram.up_to(bounds), strict=True):
            board.total("decopa_detection_latency_seconds_bucket", matches, {**tags, "le": _label(bound)})
        board.level("decopa_detection_latency_p50_seconds", summary.p50_s, tags)
        board.level("decopa_detection_latency_p99_seconds", summary.p99_s, tags)


def _label(bound: float) -> str:
    return "+Inf" if math.isinf(bound) else f"{bound:g}"
