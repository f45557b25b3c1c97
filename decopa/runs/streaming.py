"""`decopa.stream`: a query on a stream of Spark's Structured Streaming."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costmodel.capacity import Capacity
from decopa.errors import StatisticsError
from decopa.planning.plan import Plan
from decopa.planning.planner import plan_workload
from decopa.runs.execute import (
    DEFAULT_CAPACITY,
    DEFAULT_COLUMNS,
    DEFAULT_LIMITS,
    QueryLike,
    StatisticsLike,
    as_workload,
    fitting_plan,
    make_plan,
)
from decopa.runs.result import result_table
from shuffler.source.trace import DEFAULT_LATENESS, Lateness, TraceColumns

if TYPE_CHECKING:
    from actors.group import Limits
    from cluster.options import RayOptions
    from cluster.spark.streaming import MatchStream


def stream(
    frame: Any,
    query: QueryLike,
    *,
    out: str | Path,
    checkpoint: str | Path,
    units: int = 1,
    strategy: str = "left-deep",
    plan: Plan | None = None,
    statistics: StatisticsLike | None = None,
    capacity: Capacity = DEFAULT_CAPACITY,
    columns: TraceColumns = DEFAULT_COLUMNS,
    lateness: Lateness = DEFAULT_LATENESS,
    limits: Limits = DEFAULT_LIMITS,
    ray: RayOptions | None = None,
    trigger: Mapping[str, Any] | None = None,
) -> MatchStream:
    """Finds the matches of a query in a streaming data frame of a Spark on Ray, until it is stopped.

    The matches of every micro-batch go to the folder `out` as one Parquet file. Matches may span micro-batches, and
    each is reported once. Events may be late by `lateness.allowed_us`; a match is reported when its last event is that
    old. Called again with the same `checkpoint`, it goes on where it was, with any number of units. `trigger` is that
    of Spark's writer, as in {"processingTime": "5 seconds"}.
    """
    from cluster.options import RayOptions
    from cluster.spark.streaming import start_stream

    queries = as_workload(query)
    if plan is not None:
        plan = fitting_plan(plan, queries)
    elif strategy == "left-deep":
        plan = make_plan(queries, units=units)
    elif statistics is None:
        raise StatisticsError("a stream cannot be measured before it runs; give statistics or a plan")
    else:
        plan = plan_workload(queries, statistics, capacity, units=units, strategy=strategy).plan
    return start_stream(
        frame,
        plan,
        merge=lambda tables: result_table(queries, tables),
        out=Path(out),
        checkpoint=Path(checkpoint),
        columns=columns,
        lateness=lateness,
        limits=limits,
        options=ray or RayOptions(),
        trigger=None if trigger is None else dict(trigger),
    )
