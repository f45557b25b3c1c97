"""Queries, a network and statistics -> a network plan, by the strategy that was asked for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from costmodel.capacity import Capacity
from costmodel.formulas import ENGINE, PAPER, RateModel
from costmodel.networks.network import EventSourcedNetwork
from costmodel.networks.network_file import MeasuredNetwork
from costmodel.networks.transmission import ProjectionRates, central_cost, referenced_types
from costmodel.sampling.partners import PartnerShares
from costmodel.statistics import Statistics
from decopa.choices import NETWORK_STRATEGIES
from decopa.errors import PlanError, did_you_mean
from decopa.planning.network.graphs.graph import OUTSIDE, NetworkPlan
from decopa.planning.network.graphs.load import cheapest_sustained
from decopa.planning.network.graphs.price import PlanPrice, price
from decopa.planning.network.graphs.validate import check_network_plan, check_network_query
from decopa.planning.network.planners.baselines import gathered
from decopa.planning.network.planners.search import CoverSearch, Effort
from decopa.planning.network.planners.workload import WorkloadEffort, WorkloadPlan, jointly, one_by_one, planner_for
from decopa.planning.network.problem.build import network_plan
from decopa.planning.network.problem.instance import Instance, Weight
from decopa.planning.network.problem.subplan import Workspace
from decopa.query.query import Query

STRATEGIES = NETWORK_STRATEGIES


@dataclass(frozen=True)
class NetworkOptions:
    """How to plan: the strategy, the reading of rates, whether equalities that follow from others count, and what the
    search may use that the paper has not. `weight` gives a row its bytes; without it every row counts 1. `partners` are
    counted shares of events that have a partner. With `capacity`, what a unit can do, plans that some node cannot
    sustain are left out."""

    strategy: str = "search"
    model: RateModel = PAPER
    implied: bool = False
    reducers: bool = False
    boxes: bool = True
    weight: Callable[[Query], Weight] | None = None
    partners: PartnerShares = field(default_factory=dict)
    capacity: Capacity | None = None
    effort: WorkloadEffort = field(default_factory=WorkloadEffort)

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise PlanError(f"no strategy '{self.strategy}'{did_you_mean(self.strategy, STRATEGIES)}")


@dataclass(frozen=True)
class PlannedNetwork:
    """A plan, what it was made from, and what it is expected to cost."""

    plan: NetworkPlan
    network: EventSourcedNetwork
    rates: tuple[ProjectionRates, ...]
    price: PlanPrice
    central: float

    @property
    def ratio(self) -> float:
        """Transmission ratio: the cost in relation to that of centralized evaluation, both in rows."""
        return self.price.rows / self.central


def plan_network(
    queries: Sequence[Query],
    network: EventSourcedNetwork,
    statistics: Statistics | Sequence[Statistics],
    options: NetworkOptions | None = None,
) -> PlannedNetwork:
    """Plans all queries together; alternatives of OR become queries of their own."""
    options = options or NetworkOptions()
    known = [statistics] * len(queries) if isinstance(statistics, Statistics) else list(statistics)
    branches = [(branch, known[place]) for place, query in enumerate(queries) for branch in query.branches]
    for branch, _ in branches:
        check_network_query(branch)
    used = _with_outside(network) if options.strategy == "central" else network
    rates = tuple(
        ProjectionRates(branch, used, one, options.model, implied=options.implied, partners=options.partners)
        for branch, one in branches
    )
    instances = [Instance(one, weight=None if options.weight is None else options.weight(one.query)) for one in rates]
    workspace = _workspace(used)
    plan = network_plan(_planned(instances, workspace, options).numbered)
    if options.capacity is not None:
        plan = cheapest_sustained(
            itertools.chain([plan], _alternatives(instances, workspace, options)), rates, options.capacity
        )
    check_network_plan(plan)
    central = central_cost(network, referenced_types(query for query, _ in branches))
    return PlannedNetwork(plan, network, rates, price(plan, rates), central)


def _planned(instances: list[Instance], workspace: Workspace, options: NetworkOptions) -> WorkloadPlan:
    if options.strategy == "search":
        cover: Effort = replace(options.effort.cover, reducers=options.reducers)
        boxes = options.effort.boxes if options.boxes else 0
        return jointly(instances, workspace, replace(options.effort, cover=cover, boxes=boxes))
    if options.strategy == "central":
        outside = instances[0].nodes.index(OUTSIDE)
        return one_by_one(instances, workspace, lambda instance, _: (gathered(instance, workspace, outside),))
    return one_by_one(instances, workspace, planner_for(options.strategy, workspace))


def _alternatives(instances: list[Instance], workspace: Workspace, options: NetworkOptions) -> Iterator[NetworkPlan]:
    """Other plans that spread the work differently, cheapest first: every placement of a query's root, and gathering
    at each node."""
    found: list[WorkloadPlan] = []
    if options.strategy == "search" and len(instances) == 1 and len(instances[0].aliases) > 1:
        wide = replace(options.effort.cover, kept=64, nodes=len(instances[0].nodes), reducers=options.reducers)
        roots = CoverSearch(instances[0], workspace, effort=wide).run()
        found += [WorkloadPlan(((root,),), root.cost) for root in roots]
    for node in range(len(instances[0].nodes)):
        plans = tuple((gathered(instance, workspace, node),) for instance in instances)
        found.append(WorkloadPlan(plans, sum(plan.cost for (plan,) in plans)))
    for one in sorted(found, key=lambda plan: plan.cost):
        yield network_plan(one.numbered)


def priced_network(plan: NetworkPlan, measured: MeasuredNetwork) -> PlannedNetwork:
    """A plan that exists, priced with what was measured, as the engine would find it."""
    network = measured.network
    if OUTSIDE in plan.nodes:
        network = _with_outside(network)
    known = list(measured.statistics) or [Statistics(network.window_us, {}, default_selectivity=1.0)]
    rates = tuple(
        ProjectionRates(
            query, network, known[min(place, len(known) - 1)], ENGINE, implied=True, partners=measured.partners
        )
        for place, query in enumerate(plan.queries)
    )
    central = central_cost(measured.network, referenced_types(plan.queries))
    return PlannedNetwork(plan, measured.network, rates, price(plan, rates), central)


def _workspace(network: EventSourcedNetwork) -> Workspace:
    if network.even_links:
        return Workspace(len(network.nodes))
    costs = [[network.link(one, other).cost for other in network.nodes] for one in network.nodes]
    return Workspace(len(network.nodes), costs)


def _with_outside(network: EventSourcedNetwork) -> EventSourcedNetwork:
    return replace(network, rates={**network.rates, OUTSIDE: {}})
