"""A prepared run whose plan follows its stream: who measures, who plans, and by which clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from actors.sinks.outlet import OutletSpec
from cluster.change.loop import Adaptable, AdaptLoop, Clock, InBackground, at_once
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
from decopa.query.query import Query
from decopa.runs.preparation.planning import DEFAULT_STRATEGY
from decopa.runs.preparation.prepare import Prepared
from decopa.runs.spec import Planning
from decopa.runs.support import Way

if TYPE_CHECKING:
    from cluster.change.deployed.adapting import AdaptingChanges

#: While a plan changes on Ray, two run, and the places of one before them may not be free yet.
_PLANS_AT_A_TIME = 3


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


def adapting_changes(
    prepared: Prepared, adapt: Adapt, *, tell: Callable[[str], None] = lambda line: None
) -> AdaptingChanges:
    """Who changes the plan of a run on Ray, with the loop that decides."""
    from cluster.change.deployed.adapting import AdaptingChanges

    unpaced = _is_unpaced(prepared)
    return AdaptingChanges(
        prepared.plan,
        prepared.source.format,
        lambda run, in_background: adapt_loop(prepared, adapt, run, tell=tell, in_background=in_background),
        timed=not unpaced,
        waits=unpaced,
        max_history_bytes=adapt.max_history_bytes,
        most_units=0 if adapt.units is None else adapt.units[1],
    )


def places_to_adapt(prepared: Prepared, places: int, *, others: bool = False) -> int:
    """CPUs of a Ray that is started for a run whose plan takes `places`. If it adapts, or `others` change its plan,
    there is room for another one beside it."""
    adapt = prepared.spec.adapt
    if adapt is None and not others:
        return places
    most = 0 if adapt is None or adapt.units is None else adapt.units[1] + prepared.spec.ray.shufflers
    return _PLANS_AT_A_TIME * max(places, most)


def _is_unpaced(prepared: Prepared) -> bool:
    """Whether a stored trace is read as fast as it can be: nobody waits for its matches."""
    return not prepared.events.live and not prepared.spec.ray.replay.is_paced


def adapt_loop(
    prepared: Prepared,
    adapt: Adapt,
    run: Adaptable,
    *,
    tell: Callable[[str], None] = lambda line: None,
    in_background: InBackground = at_once,
) -> AdaptLoop:
    """The loop for a prepared run on any runtime."""
    planned = Planned(
        prepared.spec.planning,
        prepared.queries,
        prepared.plan,
        prepared.strategy,
        prepared.statistics,
        lasting=prepared.source.schema.intervals,
        published=prepared.way in (Way.LOCAL, Way.CHECKPOINTS, Way.LIVE_CHECKPOINTS),
        unpaced=_is_unpaced(prepared),
    )
    return loop_for(planned, adapt, run, tell=tell, in_background=in_background)


@dataclass(frozen=True)
class Planned:
    """How a run was planned, and what that means for the plans after the first.

    `strategy` made the plan, from `statistics`: one for each query, or none. Events may be `lasting`. Where matches are
    `published` some are out already: of a stored trace in one process, with checkpoints, and of micro-batches. An
    `unpaced` stored trace is read as fast as it can be.
    """

    planning: Planning
    queries: tuple[Query, ...]
    plan: Plan
    strategy: str
    statistics: tuple[Statistics | None, ...] = ()
    lasting: bool = False
    published: bool = False
    unpaced: bool = False

    @property
    def per_branch(self) -> list[Statistics]:
        """Statistics that the run was planned with, one for each OR-free query; none if one lacks them."""
        each = zip(self.queries, self.statistics, strict=True) if self.statistics else ()
        found = [one for query, one in each for _ in query.branches]
        return [one for one in found if one is not None] if found and None not in found else []

    @property
    def cost_based(self) -> str:
        """The strategy that made the plan, or what would have been chosen if there had been statistics."""
        if self.strategy in (*COST_BASED, *WORKLOAD_STRATEGIES):
            return self.strategy
        several = len(self.plan.reported) > 1 and not self.lasting
        return WORKLOAD_STRATEGIES[0] if several else DEFAULT_STRATEGY


def loop_for(
    planned: Planned,
    adapt: Adapt,
    run: Adaptable,
    *,
    tell: Callable[[str], None] = lambda line: None,
    in_background: InBackground = at_once,
) -> AdaptLoop:
    """The loop that follows a run: event time is its clock where a stored trace is read as fast as it can be."""
    planning = planned.planning
    pricing = Pricing(planning.capacity, planning.reading)
    known = planned.per_branch
    monitor = Monitor(
        run.plan,
        pricing,
        history_us=history_us,
        rules=adapt.rules,
        units=adapt.unit_range,
        measured=bool(known),
    )
    units = adapt.unit_range or planning.units or 1
    strategy = planned.cost_based

    def replan(running: Plan, statistics: Sequence[Statistics], speed: float) -> list[Plan]:
        plans = candidate_plans(running, statistics, pricing, units=units, strategy=strategy, speed=speed)
        return [plan for plan in plans if not (planned.published and _differs_where_uncertain(running, plan))]

    clock = Clock(by_events=planned.unpaced)
    return AdaptLoop(run, monitor, replan, adapt, clock, known=known, in_background=in_background, tell=tell)


def _differs_where_uncertain(running: Plan, plan: Plan) -> bool:
    """Whether a query changes its plan of which plans report matches at different moments."""
    before = {running.parts[place].query: running.parts[place] for place in running.reported}
    return any(
        uncertain_windows(part.query) and replace(part, key=before[part.query].key) != before[part.query]
        for part in (plan.parts[place] for place in plan.reported)
    )
