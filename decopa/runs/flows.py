"""Bytes between the processes of a plan over a run, as statistics predict them; for placement, and to be shown."""

from __future__ import annotations

from dataclasses import replace

from cluster.edges import flows_between
from cluster.options import RayOptions
from decopa.choices import EDGES
from decopa.errors import DeployError
from decopa.planning.predict import predict
from decopa.query.binding import bind
from decopa.runs.planning import per_part
from decopa.runs.prepare import Prepared
from shuffler.routing.topology import Topology


def predicted_flows(prepared: Prepared) -> dict[tuple[str, str], float]:
    """Bytes of rows by (sending process, receiving process); needs statistics of every query."""
    source, plan = prepared.source, prepared.plan
    known = [one for one in per_part(plan, prepared.queries, prepared.statistics) if one is not None]
    if len(known) != len(plan.parts):
        raise DeployError("placement EDGES goes by rates; give statistics (--stats, or a trace that can be measured)")
    emitted = [
        {name: one.emitted.value for name, one in predict(part, statistics, source.span_us).items()}
        for part, statistics in zip(plan.parts, known, strict=True)
    ]
    bounds = [bind(part.query, source.schema) for part in plan.parts]
    return flows_between(Topology(plan, prepared.spec.ray.shufflers), bounds, emitted)


def with_flows(prepared: Prepared) -> RayOptions:
    """The run's options, with predicted flows if its placement goes by them."""
    options = prepared.spec.ray
    if options.placement.strategy != EDGES or options.placement.flows is not None:
        return options
    return replace(options, placement=replace(options.placement, flows=predicted_flows(prepared)))
