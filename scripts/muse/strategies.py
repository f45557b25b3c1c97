"""Strategies on a problem: cost, share of centralized evaluation, planning time."""

from __future__ import annotations

import time
from dataclasses import dataclass

from costmodel.networks.transmission import central_cost, referenced_types
from decopa.planning.network.planners.search import Effort
from decopa.planning.network.planners.workload import WorkloadEffort, WorkloadPlan, jointly, one_by_one, planner_for
from scripts.muse.instances import Problem

STRATEGIES = ("search", "search+reducers", "amuse", "amuse-star", "oop")


@dataclass(frozen=True)
class Outcome:
    """Rows per window, their share of centralized evaluation, and seconds of processor time to find the plan."""

    cost: float
    ratio: float
    seconds: float


def planned(problem: Problem, strategy: str, *, implied: bool = False) -> tuple[WorkloadPlan, Outcome]:
    """Plans all queries of a problem, sharing what travels."""
    instances, workspace = problem.instances(implied=implied), problem.workspace()
    started = time.process_time()
    if strategy.startswith("search"):
        cover = Effort(reducers=strategy.endswith("reducers"))
        plan = jointly(instances, workspace, WorkloadEffort(cover=cover))
    else:
        plan = one_by_one(instances, workspace, planner_for(strategy, workspace))
    seconds = time.process_time() - started
    central = central_cost(problem.network, referenced_types(problem.queries))
    return plan, Outcome(plan.cost, plan.cost / central, seconds)


def outcomes(problem: Problem, strategies: tuple[str, ...] = STRATEGIES) -> dict[str, Outcome]:
    return {strategy: planned(problem, strategy)[1] for strategy in strategies}
