"""Operators of many parts on the units there are: each unit takes a run of one topological order of all operators.

Rows then lead from a host to itself or to a later one, never back, so hosts cannot wait for each other in a circle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import networkx as nx

from decopa.errors import PlanError
from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.roles import Rule

#: The load of one operator of a part, in any unit that is the same for all.
Load = Callable[[int, PlanOperator], float]
#: Bounds are found to this precision, relative to the whole load.
_PRECISION = 1e-4


def even(part: int, operator: PlanOperator) -> float:
    """Every operator counts the same: what is known without statistics."""
    return 1.0


def packed(plan: Plan, hosts: int, load: Load = even, rate: Load | None = None) -> Plan:
    """The plan on at most `hosts` hosts that all parts share; the most that a host has to do is as little as runs of
    the order allow.

    Each operator has one unit. With `rate`, which says how many rows an operator puts out, a join that has to do more
    than a host's share has several: its input of more rows is dealt out among them, the other is broadcast.
    """
    if hosts < 1:
        raise PlanError(f"a plan needs at least one unit, got {hosts}")
    if any(part.slices > 1 for part in plan.parts):
        raise PlanError("a plan with slices (strategy `rip`) shares no units with others; use another strategy")
    order = [(part, name) for part in part_order(plan) for name in _operator_order(plan.parts[part])]
    loads = [max(0.0, load(part, plan.parts[part].operator(name))) for part, name in order]
    dealt = {} if rate is None else _dealt_out(plan, dict(zip(order, loads, strict=True)), hosts, rate)
    shares = [(place, own / units) for place, own in zip(order, loads, strict=True)
              for units in [dealt[place][0] if place in dealt else 1] for _ in range(units)]  # fmt: skip
    hosts_of: dict[tuple[int, str], dict[int, None]] = {}
    for (place, _), host in zip(shares, runs([share for _, share in shares], hosts), strict=True):
        hosts_of.setdefault(place, {})[host] = None
    # An operator whose units would share a host has one unit less; with one unit nothing is dealt out.
    inputs = {(part, dealt[part, name][1]) for part, name in dealt if len(hosts_of[part, name]) > 1}
    parts = []
    for number, part in enumerate(plan.parts):
        operators = []
        for one in part.operators:
            mine = tuple(hosts_of.get((number, one.name), ()))
            flag = (number, one.name) in inputs
            operators.append(replace(one, units=max(1, len(mine)), partitioned=flag, hosts=mine))
        parts.append(replace(part, operators=tuple(operators)))
    return Plan(tuple(parts), hosts)


def _dealt_out(
    plan: Plan, loads: Mapping[tuple[int, str], float], hosts: int, rate: Load
) -> dict[tuple[int, str], tuple[int, str]]:
    """The units of each join that has more to do than a host's share, and the input that is dealt out among them."""
    share, found = sum(loads.values()) / hosts, {}
    for (place, name), own in loads.items():
        part = plan.parts[place]
        operator = part.operator(name)
        units = min(hosts, round(own / share)) if share else 1
        sources = [one for one in part.inputs(operator) if part.successors(one) == (operator,)]
        if units > 1 and part.rule(operator) is Rule.JOIN and sources:
            found[place, name] = units, max(sources, key=lambda one: rate(place, one)).name
    return found


def part_order(plan: Plan) -> list[int]:
    """The parts, each after those that it takes matches from, and these as late as they may be."""
    order: dict[int, None] = {}

    def add(place: int) -> None:
        if place not in order:
            for one in plan.parts[place].views:
                assert one.view is not None
                add(plan.place_of[one.view.part])
            order[place] = None

    for place in (*plan.reported, *range(len(plan.parts))):
        add(place)
    return list(order)


def _operator_order(part: QueryPlan) -> list[str]:
    return [name for name in nx.lexicographical_topological_sort(part.graph) if part.operator(name).inputs]


def runs(loads: Sequence[float], hosts: int) -> list[int]:
    """The host of each load, in order: consecutive loads on the same host, the largest sum as small as possible. No
    host stays empty if there are as many loads."""
    low, high = max(loads, default=0.0), sum(loads)
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        if len(_filled(loads, middle)) <= hosts:
            high = middle
        else:
            low = middle
    found = _filled(loads, high)
    while len(found) < min(hosts, len(loads)):
        place = max((place for place, run in enumerate(found) if len(run) > 1), key=lambda one: sum(found[one]))
        found[place : place + 1] = _halved(found[place])
    return [host for host, run in enumerate(found) for _ in run]


def _filled(loads: Sequence[float], bound: float) -> list[list[float]]:
    """Runs of loads that sum up to no more than the bound, each as long as possible."""
    found: list[list[float]] = []
    held = 0.0
    for load in loads:
        if not found or held + load > bound:
            found.append([])
            held = 0.0
        held += load
        found[-1].append(load)
    return found


def _halved(run: list[float]) -> tuple[list[float], list[float]]:
    """The run in two, cut where the halves are most alike."""
    total, before, cuts = sum(run), 0.0, []
    for place, load in enumerate(run[:-1], start=1):
        before += load
        cuts.append((abs(total - 2 * before), place))
    _, cut = min(cuts)
    return run[:cut], run[cut:]
