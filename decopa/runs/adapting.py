"""A prepared run whose plan follows its stream: who measures, who plans, and by which clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from actors.sinks.outlet import OutletSpec
from cluster.change.loop import Adaptable, AdaptLoop, Clock
from cluster.change.runtime import AdaptingRuntime
from cluster.local import Watching
from cluster.pipeline import TABLE
from costmodel.statistics import Statistics
from decopa.choices import COST_BASED, DEFAULT_BATCH_SIZE, WORKLOAD_STRATEGIES
from decopa.planning.change.candidates import candidate_plans
from decopa.planning.change.monitor import Monitor
from decopa.planning.change.options import Adapt
from decopa.planning.change.pricing import Pricing
from decopa.planning.history import history_us, uncertain_windows
from decopa.planning.plan import Plan
from decopa.runs.planning import DEFAULT_STRATEGY
from decopa.runs.prepare import Prepared


def adapting_runtime(
    prepared: Prepared,
    adapt: Adapt,
    *,
    outlet: OutletSpec = TABLE,
    watch: Watching | None = None,
    interleaving: random.Random | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> AdaptingRuntime:
    """The run in this process, with the loop that changes its plan."""
    spec = prepared.spec
    return AdaptingRuntime(
        prepared.plan,
        prepared.source,
        lambda run: adapt_loop(prepared, adapt, run, tell=tell),
        is_live=prepared.events.live,
        batch_size=spec.trace.batch_size or DEFAULT_BATCH_SIZE,
        limits=spec.limits,
        interleaving=interleaving,
        outlet=outlet,
        watch=watch,
        max_history_bytes=adapt.max_history_bytes,
    )


def adapt_loop(
    prepared: Prepared, adapt: Adapt, run: Adaptable, *, tell: Callable[[str], None] = lambda line: None
) -> AdaptLoop:
    """The loop for a run on any runtime: event time is its clock where a stored trace is read as fast as it can be."""
    planning, live = prepared.spec.planning, prepared.events.live
    by_events = not live and not prepared.spec.ray.replay.is_paced
    pricing = Pricing(planning.capacity, planning.reading)
    known = _per_branch(prepared)
    monitor = Monitor(
        run.plan,
        pricing,
        history_us=history_us,
        rules=adapt.rules,
        units=adapt.unit_range,
        measured=bool(known),
    )
    units = adapt.unit_range or planning.units or 1
    strategy = _strategy(prepared)
    whole = not live  # what takes the matches of a stored trace has seen them all

    def replan(running: Plan, statistics: Sequence[Statistics], speed: float) -> list[Plan]:
        plans = candidate_plans(running, statistics, pricing, units=units, strategy=strategy, speed=speed)
        return [plan for plan in plans if not (whole and _differs_where_uncertain(running, plan))]

    return AdaptLoop(run, monitor, replan, adapt, Clock(by_events), known=known, tell=tell)


def _per_branch(prepared: Prepared) -> list[Statistics]:
    """Statistics that the run was planned with, one for each OR-free query; none if one lacks them."""
    each = zip(prepared.queries, prepared.statistics, strict=True) if prepared.statistics else ()
    found = [one for query, one in each for _ in query.branches]
    return [one for one in found if one is not None] if found and None not in found else []


def _strategy(prepared: Prepared) -> str:
    """The strategy that made the plan, or what would have been chosen if there had been statistics."""
    if prepared.strategy in (*COST_BASED, *WORKLOAD_STRATEGIES):
        return prepared.strategy
    several = len(prepared.plan.reported) > 1 and not prepared.source.schema.intervals
    return WORKLOAD_STRATEGIES[0] if several else DEFAULT_STRATEGY


def _differs_where_uncertain(running: Plan, plan: Plan) -> bool:
    """Whether a query changes its plan of which plans report matches at different moments."""
    before = {running.parts[place].query: running.parts[place] for place in running.reported}
    return any(
        uncertain_windows(part.query) and replace(part, key=before[part.query].key) != before[part.query]
        for part in (plan.parts[place] for place in plan.reported)
    )
