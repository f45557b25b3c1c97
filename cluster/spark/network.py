"""Networks measured by Spark: events of each node and type over the whole trace."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.spark.failures import failing_as_trace_error
from cluster.spark.traces import CleanTrace, named
from costmodel.networks.network import EventSourcedNetwork
from costmodel.networks.transmission import referenced_types
from decopa.errors import StatisticsError, TraceError, did_you_mean
from decopa.query.query import Query


def network_of(
    trace: CleanTrace, queries: Sequence[Query], origin: str, *, buckets: int | None = None
) -> EventSourcedNetwork:
    """Rates per node and type of the queries, per window of the first query; `buckets` as for stored traces."""
    from pyspark.sql import functions as F

    if origin not in trace.frame.columns:
        raise TraceError(f"{trace.name} has no column '{origin}'{did_you_mean(origin, trace.frame.columns)}")
    first_us, last_us = trace.span_us
    if last_us == first_us:
        raise StatisticsError("all events share one timestamp; rates need a longer trace")
    column = named(origin)
    if buckets is not None:
        numeric = dict(trace.frame.dtypes)[origin] in ("tinyint", "smallint", "int", "bigint")
        column = F.pmod(column if numeric else F.crc32(column.cast("string")), F.lit(buckets))
    wanted = referenced_types(queries)
    with failing_as_trace_error(f"{trace.name} cannot be counted"):
        rows = (
            trace.frame.groupBy(column.cast("string").alias("node"), named(trace.columns.type).alias("type"))
            .count()
            .collect()
        )
    if any(row["node"] is None for row in rows):
        raise TraceError(f"{trace.name}: some events have no origin: column '{origin}' is empty there")
    rates: dict[str, dict[str, float]] = {} if buckets is None else {str(node): {} for node in range(buckets)}
    windows = (last_us - first_us) / queries[0].window_us
    for row in sorted(rows, key=lambda one: (one["node"], one["type"])):
        at = rates.setdefault(row["node"], {})
        if row["type"] in wanted:
            at[row["type"]] = row["count"] / windows
    return EventSourcedNetwork(queries[0].window_us, dict(sorted(rates.items())))
