"""Networks and queries to plan for: the random ones of our checks, and the paper's published inputs."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.networks.network import EventSourcedNetwork
from costmodel.networks.transmission import ProjectionRates
from costmodel.statistics import Statistics
from decopa.language.text.parser import parse
from decopa.planning.network.problem.instance import Instance
from decopa.planning.network.problem.subplan import Workspace
from decopa.query.query import Query

#: Rates are per window, so its length means nothing.
WINDOW_US = 60_000_000
LETTERS = "ABCDEFGHIJKLMNOPQRST"


@dataclass(frozen=True)
class Problem:
    """Queries to plan in a network."""

    queries: tuple[Query, ...]
    network: EventSourcedNetwork
    statistics: Statistics

    def rates(self, *, implied: bool = False) -> list[ProjectionRates]:
        return [ProjectionRates(query, self.network, self.statistics, implied=implied) for query in self.queries]

    def instances(self, *, implied: bool = False) -> list[Instance]:
        return [Instance(one) for one in self.rates(implied=implied)]

    def workspace(self) -> Workspace:
        return Workspace(len(self.network.nodes))


def draw(
    seed: int,
    nodes: int,
    types: int,
    length: int,
    *,
    ratio: float = 0.5,
    skew: float = 1.5,
    lo: float = 0.01,
    hi: float = 0.2,
) -> Problem:
    """A random query of `length` types in a random network; NumPy keeps what RandomState draws frozen."""
    rs = np.random.RandomState(seed)
    names = LETTERS[:types]
    rates = rs.zipf(skew, types)
    has = rs.uniform(size=(nodes, types)) < ratio
    give_each_type_a_producer(rs, has)
    selectivities = {}
    for pair in itertools.combinations(names, 2):
        rs.uniform()  # says in the authors' tool whether a pair has a condition at all; kept for its place
        selectivities[pair] = rs.uniform(lo, hi)
    chosen = [f"{names[one]} {names[one].lower()}" for one in rs.permutation(types)[:length]]
    outer, inner = [("SEQ", "AND"), ("AND", "SEQ")][rs.randint(2)]
    size = rs.randint(2, length)
    at = rs.randint(0, length - size + 1)
    nested = f"{inner}({', '.join(chosen[at : at + size])})"
    pattern = f"{outer}({', '.join([*chosen[:at], nested, *chosen[at + size :]])})"
    query = parse(f"PATTERN {pattern} WITHIN 1 min")
    return problem((query,), dict(zip(names, map(float, rates), strict=True)), has, selectivities)


def give_each_type_a_producer(rs: np.random.RandomState, has: np.ndarray) -> None:
    for place in range(has.shape[1]):
        if not has[:, place].any():
            has[rs.randint(len(has)), place] = True


def problem(
    queries: tuple[Query, ...], rates: Mapping[str, float], has: np.ndarray, selectivities: Mapping[Any, float]
) -> Problem:
    """`has[n, j]` says whether node n produces the j-th type of `rates`."""
    sources = {
        name: [node for node in range(len(has)) if has[node, place]] for place, name in enumerate(rates) if rates[name]
    }
    known = {name: rate for name, rate in rates.items() if rate}
    network = EventSourcedNetwork.of(WINDOW_US, sources, known, range(len(has)))
    return Problem(queries, network, Statistics.of(WINDOW_US, known, dict(selectivities)))


class Published:
    """The authors' inputs, as `inputs.json` has them."""

    def __init__(self, path: Path) -> None:
        self._document = json.loads(path.read_text())

    def experiment(self, name: str, *, ratio: float = 1.0, seed: int = 0, queries: int | None = None) -> Problem:
        """The queries of an experiment in a network where a node produces a type with probability `ratio`."""
        given = self._document[name]
        rates = dict(zip(LETTERS, map(float, given["rates_per_window_and_producing_node"]), strict=False))
        has = np.ones((given["nodes"], len(rates)), dtype=bool)
        if ratio < 1:
            rs = np.random.RandomState(seed)
            has = rs.uniform(size=has.shape) < ratio
            give_each_type_a_producer(rs, has)
        texts = given["queries"][:queries]
        parsed = tuple(query_of(text, name=f"q{number}") for number, text in enumerate(texts))
        return problem(parsed, rates, has, self.selectivities(name))

    def case_study(self, *patterns: str, keyed: bool = False) -> Problem:
        """Queries in the network of the case study, where all 20 nodes produce all types.

        With `keyed`, neighbouring positions of a query have a condition that compares one key, as in Listing 1, and all
        of these are as selective as the listed ones.
        """
        given = self._document["exp_3_google_cluster"]
        rates = dict(zip(LETTERS, map(float, given["rates_per_window_and_producing_node"]), strict=False))
        has = np.ones((given["nodes"], len(rates)), dtype=bool)
        queries = tuple(query_of(text, name=f"q{number}", keyed=keyed) for number, text in enumerate(patterns))
        found = problem(queries, rates, has, self.selectivities("exp_3_google_cluster"))
        return replace(found, statistics=replace(found.statistics, default_selectivity=0.05)) if keyed else found

    def selectivities(self, name: str) -> dict[tuple[str, str], float]:
        return {(pair[0], pair[1]): value for pair, value in self._document[name]["pair_selectivities"].items()}

    def plan(self, name: str) -> list[dict[str, Any]]:
        """A published plan: projections with their inputs, nodes and partitioning inputs."""
        found: list[dict[str, Any]] = self._document["published_plans"]["plans"][name]
        return found


def query_of(text: str, *, name: str = "q", keyed: bool = False) -> Query:
    """A pattern of letters, as in SEQ(K, AND(I1, L, I2)); a letter that returns gets a further alias."""
    aliases: list[str] = []

    def written(match: re.Match[str]) -> str:
        alias = match[0].lower()
        while alias in aliases:
            alias += "_"
        aliases.append(alias)
        return f"{match[0][0]} {alias}"

    pattern = re.sub(r"\b[A-Z]\d?\b(?!\()", written, text)
    where = " AND ".join(f"{one}.key = {other}.key" for one, other in itertools.pairwise(aliases))
    return parse(f"QUERY {name} PATTERN {pattern} {'WHERE ' + where if keyed else ''} WITHIN 1 min")
