"""Plans of several queries, by any of the strategies that decide what they share.

`shared` weighs sharing and reordering together; the others are what the literature compares: `trivial` does neither,
`reordering-only` and `sharing-only` do one of them, `mcep` and `mcep-prefix` search as MCEP does, for its cost, and
`decopa-paper` adds query after query as DecoPa does (6.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from costmodel.capacity import Capacity
from costmodel.formulas import RateModel
from costmodel.statistics import Statistics
from decopa.choices import Reading
from decopa.planning.plan import Plan, QueryPlan
from decopa.planning.price import PricedPlan, price_plan, workload_log_scaling
from decopa.planning.strategies.left_deep import left_deep
from decopa.planning.workload.build import Viewing, plan_alone, plan_of
from decopa.planning.workload.next_prefixes import with_shared_beginnings
from decopa.planning.workload.packing import packed
from decopa.planning.workload.printed import UnorderedProblem, shared_as_printed
from decopa.planning.workload.statistics import part_statistics
from decopa.planning.workload.templates import Pricing, templates
from decopa.planning.workload.trees.instance_problem import QueryInstances
from decopa.planning.workload.trees.multitree import MultiTree
from decopa.planning.workload.trees.problem import MAX_SHARED_POSITIONS, QueryProblem
from decopa.planning.workload.trees.response import Budget, Responder, best_responses
from decopa.planning.workload.trees.search import LocalSearch
from decopa.query.canonical import shareable_aliases
from decopa.query.query import Query

#: Up to so many queries `shared` also tries what these strategies do.
_FEW_QUERIES, _OTHER_WAYS = 16, ("decopa-paper", "reordering-only")


@dataclass(frozen=True)
class WorkloadPlanning:
    """What planners of workloads go by; `alone` plans one query on its own, for one unit per operator."""

    statistics: Mapping[Query, Statistics]
    capacity: Capacity
    alone: Callable[[Query], QueryPlan]
    reading: Reading = Reading.LINEAR
    model: RateModel | None = None
    seed: int = 1
    seconds: float | None = None


def plan_shared(branches: Sequence[Query], planning: WorkloadPlanning, *, units: int, strategy: str) -> Plan:
    """A plan of OR-free queries on `units` units that all of them share.

    What is least work in all need not be what the busiest of several units bears best: where queries are few, `shared`
    takes the plan that sustains most of three strategies, its own first.
    """
    several = strategy == "shared" and units > 1 and len(branches) <= _FEW_QUERIES
    ways = (strategy, *_OTHER_WAYS) if several else (strategy,)
    plans = [_packed(_unpacked(branches, planning, way), branches, planning, units) for way in ways]
    return plans[0] if len(plans) == 1 else max(plans, key=lambda one: _log_scaling(one, branches, planning))


def _packed(plan: Plan, branches: Sequence[Query], planning: WorkloadPlanning, units: int) -> Plan:
    figures = [
        {} if part is None else {one.operator.name: (one.busy_share, one.output_rate) for one in part.operators}
        for part in _priced(plan, branches, planning)
    ]
    unknown = 0.0, 0.0
    return packed(
        plan,
        units,
        lambda part, operator: figures[part].get(operator.name, unknown)[0],
        lambda part, operator: figures[part].get(operator.name, unknown)[1],
    )


def _log_scaling(plan: Plan, branches: Sequence[Query], planning: WorkloadPlanning) -> float:
    """The logarithm of what all parts together sustain, as far as statistics are known; to nine digits, as plans that
    differ in less are equally good."""
    priced = [one for one in _priced(plan, branches, planning) if one is not None]
    return round(workload_log_scaling(priced, plan.hosts), 9) if priced else 0.0


def _priced(plan: Plan, branches: Sequence[Query], planning: WorkloadPlanning) -> list[PricedPlan | None]:
    """The price of each part; None without statistics."""
    known = part_statistics(plan, [planning.statistics[branch] for branch in branches])
    return [
        None
        if one is None
        else price_plan(part, one, planning.capacity, reading=planning.reading, model=planning.model)
        for part, one in zip(plan.parts, known, strict=True)
    ]


def _unpacked(branches: Sequence[Query], planning: WorkloadPlanning, strategy: str) -> Plan:
    if strategy == "trivial":
        return Plan(tuple(left_deep(branch) for branch in branches))
    shareable = [place for place, one in enumerate(branches) if _may_share(one)]
    kind = {"mcep": QueryInstances, "mcep-prefix": QueryInstances, "decopa-paper": UnorderedProblem}.get(
        strategy, QueryProblem
    )
    pricing = Pricing(planning.statistics, planning.capacity, planning.model)
    found = templates(branches, shareable, pricing) if strategy == "shared" else []
    in_template = {place: (template, names) for template in found for place, names in template.names.items()}
    shareable = [place for place in shareable if place not in in_template]
    statistics = {**planning.statistics, **{template.query: template.statistics for template in found}}
    planned = [*(branches[place] for place in shareable), *(template.query for template in found)]
    problem = kind(planned, statistics, planning.capacity, planning.model)
    if strategy == "reordering-only":
        return _reordered(branches, planning, problem, shareable)
    if strategy == "sharing-only":
        trees = _merged_orders(problem)
    elif strategy == "decopa-paper":
        trees = shared_as_printed(problem)
    elif strategy.startswith("mcep"):
        responder = Responder(problem, left_deep=strategy == "mcep-prefix")
        search = LocalSearch(problem, seed=planning.seed, responder=responder)
        trees = search.anneal(Budget(planning.seconds))
    else:
        trees = best_responses(problem, Budget(planning.seconds))
    pattern_of = {place: pattern for pattern, place in enumerate(shareable)}
    parts: list[QueryPlan | Viewing | int] = []
    for place, branch in enumerate(branches):
        if place in in_template:
            template, names = in_template[place]
            parts.append(Viewing(branch, planned.index(template.query), names))
            continue
        pattern = pattern_of.get(place)
        # A query with KL or NOT that shares nothing is better off with groups and NOTs where they cost least.
        if pattern is not None and (_is_plain(branch) or _shares(trees, pattern) or strategy == "sharing-only"):
            parts.append(pattern)
            continue
        if pattern is not None:
            trees.remove(pattern)
        parts.append(planning.alone(branch))
    return with_shared_beginnings(plan_of(problem, trees, parts))


def _reordered(
    branches: Sequence[Query], planning: WorkloadPlanning, problem: QueryProblem, shareable: Sequence[int]
) -> Plan:
    """Every query with its own best tree."""
    responder = Responder(problem)
    parts: list[QueryPlan] = [left_deep(one) for one in branches]
    for place, one in enumerate(branches):
        if place in shareable and _is_plain(one):
            pattern, trees = shareable.index(place), MultiTree()
            trees.add(pattern, responder.best(pattern))
            parts[place] = plan_alone(problem, trees, pattern)
        else:
            parts[place] = planning.alone(one)
    return Plan(tuple(parts))


def _merged_orders(problem: QueryProblem) -> MultiTree:
    """Every query joined in the order in which it is written, equal beginnings once."""
    responder, trees = Responder(problem), MultiTree()
    for pattern in range(problem.patterns):
        full = problem.full(pattern)
        prefixes = {full >> shift for shift in range(full.bit_length())}
        trees.add(pattern, responder.constrained(pattern, trees, fits=prefixes.__contains__))
    return trees


def _may_share(query: Query) -> bool:
    return 2 <= len(shareable_aliases(query)) <= MAX_SHARED_POSITIONS and query.summary is None


def _is_plain(query: Query) -> bool:
    return len(shareable_aliases(query)) == len(query.aliases)


def _shares(trees: MultiTree, pattern: int) -> bool:
    """Whether a pattern's tree has a join in common with others."""
    waiting = [trees.chosen[pattern].root]
    while waiting:
        key = waiting.pop()
        if trees.nodes[key].inputs and len(trees.users(key)) > 1:
            return True
        waiting += trees.nodes[key].inputs
    return False
