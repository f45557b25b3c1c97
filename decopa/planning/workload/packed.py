"""Parts of a plan on a number of processes, each part whole on one of them."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx

from decopa.planning.plan import Plan, QueryPlan


def packed(parts: tuple[QueryPlan, ...], hosts: int) -> Plan:
    """The parts on `hosts` processes: each on one of them, together with those that it takes matches from."""
    plan = Plan(parts).with_keys
    together = nx.Graph()
    together.add_nodes_from(plan.keys)
    for key, part in zip(plan.keys, plan.parts, strict=True):
        together.add_edges_from((key, one.view.part) for one in part.views if one.view is not None)
    home = {key: number % hosts for number, group in enumerate(nx.connected_components(together)) for key in group}

    def at(host: int, part: QueryPlan) -> QueryPlan:
        operators = (
            replace(one, units=1, hosts=(host,) if one.inputs else (), partitioned=False) for one in part.operators
        )
        return replace(part, operators=tuple(operators), slices=1)

    placed = tuple(at(home[key], part) for key, part in zip(plan.keys, plan.parts, strict=True))
    return Plan(placed, hosts)
