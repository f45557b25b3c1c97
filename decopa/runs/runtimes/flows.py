"""Bytes between the processes of a plan over a run, as statistics predict them; for placement, and to be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cluster.deploy.edges import flows_between
from cluster.options import RayOptions
from costmodel.statistics import Statistics
from decopa.choices import EDGES
from decopa.errors import DeployError
from decopa.planning.plan import Plan
from decopa.planning.predict import predict
from decopa.query.binding import bind
from decopa.query.schema import Schema
from decopa.runs.model_check import predicted_busy_s
from decopa.runs.preparation.planning import per_part
from decopa.runs.preparation.prepare import Prepared
from shuffler.routing.topology import Topology


def plan_flows(
    plan: Plan, statistics: Sequence[Statistics], span_us: float, schema: Schema, shufflers: int
) -> dict[tuple[str, str], float]:
    """Bytes of rows by (sending process, receiving process) over `span_us` of event time; statistics are by part."""
    emitted = [
        {name: one.emitted.value for name, one in predict(part, known, round(span_us)).items()}
        for part, known in zip(plan.parts, statistics, strict=True)
    ]
    bounds = [bind(part.query, schema) for part in plan.parts]
    return flows_between(Topology(plan, shufflers), bounds, emitted)


def predicted_flows(prepared: Prepared) -> dict[tuple[str, str], float]:
    """Bytes of rows by (sending process, receiving process); needs statistics of every query."""
    source = prepared.source
    return plan_flows(prepared.plan, _known(prepared), source.span_us, source.schema, prepared.spec.ray.shufflers)


def with_flows(prepared: Prepared) -> RayOptions:
    """The run's options, with predicted flows and loads if its placement goes by them."""
    options = prepared.spec.ray
    if options.placement.strategy != EDGES or options.placement.flows is not None:
        return options
    flows = predicted_flows(prepared)
    loads = predicted_busy_s(prepared.plan, _known(prepared), prepared.source.span_us, prepared.spec.planning.capacity)
    return replace(options, placement=replace(options.placement, flows=flows, loads=loads))


def _known(prepared: Prepared) -> list[Statistics]:
    known = [one for one in per_part(prepared.plan, prepared.queries, prepared.statistics) if one is not None]
    if len(known) != len(prepared.plan.parts):
        raise DeployError("placement EDGES goes by rates; give statistics (--stats, or a trace that can be measured)")
    return known
