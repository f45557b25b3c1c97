"""Bytes between the processes of a plan over a run, as statistics predict them; for placement, and to be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from costmodel.statistics import Statistics
from decopa.choices import EDGES
from decopa.planning.plan import Plan
from decopa.query.binding import bind
from decopa.query.query import Query
from decopa.query.schema import Schema
from decopa.runs.prediction import predict
from shuffler.routing.topology import Topology

if TYPE_CHECKING:
    from cluster.options import RayOptions


def predicted_flows(
    plan: Plan, statistics: Sequence[Statistics], schema: Schema, span_us: int, *, shufflers: int
) -> dict[tuple[str, str], float]:
    """Bytes of rows by (sending process, receiving process); statistics are those of each part of the plan."""
    from cluster.edges import flows_between

    emitted = [
        {name: one.emitted.value for name, one in predict(part, known, span_us).items()}
        for part, known in zip(plan.parts, statistics, strict=True)
    ]
    return flows_between(Topology(plan, shufflers), [bind(part.query, schema) for part in plan.parts], emitted)


def with_flows(
    options: RayOptions,
    plan: Plan,
    queries: Sequence[Query],
    statistics: Sequence[Statistics],
    schema: Schema,
    span: int,
) -> RayOptions:
    """The options with predicted flows, if their placement goes by them and statistics of the queries are known."""
    if options.placement.strategy != EDGES or options.placement.flows is not None or not statistics:
        return options
    known = [one for query, one in zip(queries, statistics, strict=True) for _ in query.branches]
    flows = predicted_flows(plan, known, schema, span, shufflers=options.shufflers)
    return replace(options, placement=replace(options.placement, flows=flows))
