"""Several queries in one network: planned one after the other, or jointly until nothing changes (MuSE 6.2, M21).

What an earlier query already sends somewhere costs nothing: events of a type, and matches of projections that are the
same in both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from decopa.planning.network.planners.amuse import amuse
from decopa.planning.network.planners.baselines import gathered, greedy_placement, naive, operator_placement, where_born
from decopa.planning.network.planners.boxes import MAX_SINGLE, BoxSearch
from decopa.planning.network.planners.exhaustive import cheapest_uniform
from decopa.planning.network.planners.search import CoverSearch, Effort
from decopa.planning.network.problem.instance import Instance
from decopa.planning.network.problem.subplan import Flows, SubPlan, Workspace

#: One query's plans (one, or one for each box), given the transfers of the others.
QueryPlanner = Callable[[Instance, Flows], tuple[SubPlan, ...]]
_CLOSE = 1e-9
#: Up to these sizes a problem is small.
_SMALL_NODES, _SMALL_TYPES = 6, 5


@dataclass(frozen=True)
class WorkloadPlan:
    """For each query its plans, and what all transfers together cost."""

    plans: tuple[tuple[SubPlan, ...], ...]
    cost: float

    @property
    def numbered(self) -> list[tuple[int, SubPlan]]:
        return [(part, plan) for part, plans in enumerate(self.plans) for plan in plans]


@dataclass(frozen=True, slots=True)
class WorkloadEffort:
    """How hard the joint search tries: that of one query, plannings spent on boxes, rounds over all queries."""

    cover: Effort = field(default_factory=Effort)
    boxes: int = 250
    rounds: int = 3


def one_by_one(instances: Sequence[Instance], workspace: Workspace, planner: QueryPlanner) -> WorkloadPlan:
    """Plans the queries in their order, each given the ones before."""
    flows: Flows = {}
    found = []
    for instance in instances:
        plans = planner(instance, flows)
        found.append(plans)
        for plan in plans:
            flows, _ = workspace.added(flows, plan.flows)
    return _united(found, workspace)


def planner_for(name: str, workspace: Workspace) -> QueryPlanner:
    """The planners of the paper by their names on the command line."""
    planners: dict[str, Callable[[Instance, Flows], SubPlan]] = {
        "amuse": lambda instance, paid: amuse(instance, workspace, existing=paid),
        "amuse-star": lambda instance, paid: amuse(instance, workspace, star=True, existing=paid),
        "oop": lambda instance, paid: operator_placement(instance, workspace, paid),
        "greedy": lambda instance, paid: greedy_placement(instance, workspace, paid),
        "naive": lambda instance, paid: naive(instance, workspace, paid),
        "exhaustive": lambda instance, paid: cheapest_uniform(instance, workspace).plan,
    }
    planner = planners[name]

    def planned(instance: Instance, paid: Flows) -> tuple[SubPlan, ...]:
        alone = len(instance.aliases) == 1
        return (where_born(instance, workspace) if alone else planner(instance, paid),)

    return planned


def jointly(instances: Sequence[Instance], workspace: Workspace, effort: WorkloadEffort | None = None) -> WorkloadPlan:
    """Our planner for a workload: several orders, then each query again given all others.

    Never worse than gathering everything at one node, than optimal operator placement and than aMuSE*.
    """
    effort = effort or WorkloadEffort()
    planner = _searching(workspace, effort)
    best = _settled(one_by_one(instances, workspace, planner), instances, workspace, planner, effort.rounds)
    if len(instances) > 1:
        order = sorted(range(len(instances)), key=lambda part: -instances[part].total(instances[part].full))
        backwards = one_by_one([instances[part] for part in order], workspace, planner)
        plans = [backwards.plans[order.index(part)] for part in range(len(instances))]
        again = _settled(_united(plans, workspace), instances, workspace, planner, effort.rounds)
        best = min(best, again, key=lambda found: found.cost)
    return min((best, *_known(instances, workspace)), key=lambda found: found.cost)


def _known(instances: Sequence[Instance], workspace: Workspace) -> list[WorkloadPlan]:
    """Plans that are quickly made and that ours must not be worse than."""
    nodes = range(len(instances[0].nodes))
    found = [_united([(gathered(instance, workspace, node),) for instance in instances], workspace) for node in nodes]
    for name in ("oop", "amuse-star"):
        found.append(one_by_one(instances, workspace, planner_for(name, workspace)))
    return found


def _searching(workspace: Workspace, effort: WorkloadEffort) -> QueryPlanner:
    def plans(instance: Instance, paid: Flows, cover: Effort = effort.cover) -> list[SubPlan]:
        return CoverSearch(instance, workspace, effort=cover, existing=paid).run()

    def planned(instance: Instance, paid: Flows) -> tuple[SubPlan, ...]:
        if len(instance.aliases) == 1:
            return (where_born(instance, workspace),)
        whole = plans(instance, paid, _widened(effort.cover, instance))[0]
        if effort.boxes and 1 < instance.bindings(instance.full) <= MAX_SINGLE:
            return BoxSearch(workspace, plans, paid, max_planned=effort.boxes).run(whole).plans
        return (whole,)

    return planned


def _widened(effort: Effort, instance: Instance) -> Effort:
    """Small problems are searched wider, since that takes little time there."""
    if len(instance.nodes) > _SMALL_NODES or len(instance.primitives) > _SMALL_TYPES:
        return effort
    return replace(effort, plans=4, kept=48, partial=12, tried=12, nodes=_SMALL_NODES)


def _settled(
    found: WorkloadPlan, instances: Sequence[Instance], workspace: Workspace, planner: QueryPlanner, rounds: int
) -> WorkloadPlan:
    """Each query planned again given all others, until nothing changes."""
    for _ in range(rounds if len(instances) > 1 else 0):
        before = found.cost
        for part, instance in enumerate(instances):
            others: Flows = {}
            for place, plans in enumerate(found.plans):
                for plan in plans if place != part else ():
                    others, _ = workspace.added(others, plan.flows)
            changed = [*found.plans[:part], planner(instance, others), *found.plans[part + 1 :]]
            candidate = _united(changed, workspace)
            if candidate.cost < found.cost - _CLOSE:
                found = candidate
        if found.cost >= before - _CLOSE:
            break
    return found


def _united(plans: Sequence[tuple[SubPlan, ...]], workspace: Workspace) -> WorkloadPlan:
    flows: Flows = {}
    cost = 0.0
    for one in plans:
        for plan in one:
            flows, extra = workspace.added(flows, plan.flows)
            cost += extra
    return WorkloadPlan(tuple(plans), cost)
