"""What tests on network plans need: the paper's worked examples and published inputs, drawn problems, small graphs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest

from costmodel.networks.network import EventSourcedNetwork
from costmodel.statistics import Statistics
from decopa.planning.network.graphs.graph import NetworkPlan, Vertex
from decopa.planning.subquery import SubQuery
from decopa.query.pattern import And, EventRef, Pattern, leaves
from decopa.query.query import Query
from scripts.muse.instances import WINDOW_US, Problem, Published
from tests.support.golden_form import pattern_of
from tests.support.shared import GOLDEN, SHARED

INPUTS = SHARED / "data" / "muse" / "inputs.json"
needs_inputs = pytest.mark.skipif(not INPUTS.is_file(), reason=f"no {INPUTS}: the published inputs are not here")


@cache
def published() -> Published:
    return Published(INPUTS)


@cache
def muse_entries(function: str | None = None) -> list[dict[str, Any]]:
    """The worked examples of the MuSE paper that a formula recomputes; all of them without one."""
    path = GOLDEN / "muse.json"
    entries: list[dict[str, Any]] = json.loads(path.read_text())["entries"] if path.is_file() else []
    return entries if function is None else [entry for entry in entries if entry.get("function") == function]


def problem_of(golden: Mapping[str, Any]) -> Problem:
    """Pattern, sources, rates and pair selectivities as golden entries give them; types are the aliases."""
    query = Query(pattern_of(golden["pattern"]), (), WINDOW_US)
    rates = {name: float(rate) for name, rate in golden["rates"].items()}
    selectivities = {tuple(pair.split(",")): value for pair, value in golden.get("sel", {}).items()}
    network = EventSourcedNetwork.of(WINDOW_US, golden["sources"], rates, golden.get("nodes", ()))
    return Problem((query,), network, Statistics.of(WINDOW_US, rates, selectivities))  # type: ignore[arg-type]


def graph_of(vertices: Mapping[str, Mapping[str, Any]], edges: Sequence[Sequence[str]]) -> NetworkPlan:
    """A graph as golden entries give it; only its structure counts, so the query is one AND."""
    types = sorted({event_type for vertex in vertices.values() for event_type in vertex["types"]})
    pattern: Pattern = And(tuple(EventRef(name, name) for name in types))
    producers: dict[str, list[str]] = {name: [] for name in types}
    found = []
    for name, vertex in vertices.items():
        inputs = tuple(source for source, target in edges if target == name)
        node = str(vertex["node"])
        if not inputs:
            producers[vertex["types"][0]].append(node)
        found.append(Vertex(name, 0, SubQuery(frozenset(vertex["types"])), node, inputs))
    nodes = tuple(sorted({vertex.node for vertex in found}))
    return NetworkPlan(
        (Query(pattern, (), WINDOW_US),), nodes, {name: tuple(nodes) for name, nodes in producers.items()}, tuple(found)
    )


def types_of(pattern: Pattern) -> list[str]:
    return sorted({leaf.type for leaf in leaves(pattern)})
