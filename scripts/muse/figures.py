"""Figures 5 to 7: the transmission ratio as one property of network or workload is varied."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scripts.experiments.context import Context, Section, markdown_table
from scripts.muse.instances import LETTERS, Problem, Published, give_each_type_a_producer, problem
from scripts.muse.strategies import STRATEGIES, Outcome, outcomes

NAME = "figures"


@dataclass(frozen=True)
class Sweep:
    """One figure: its points, how a problem is made from point and seed, and what the paper's text says."""

    figure: str
    varied: str
    points: tuple[float, ...]
    make: Callable[[Published, float, int], Problem]
    paper: str


def with_ratio(inputs: Published, ratio: float, seed: int) -> Problem:
    return inputs.experiment("exp_1", ratio=ratio, seed=seed)


def with_nodes(inputs: Published, nodes: float, seed: int) -> Problem:
    return _redrawn(inputs, seed, nodes=int(nodes))


def with_skew(inputs: Published, skew: float, seed: int) -> Problem:
    return _redrawn(inputs, seed, skew=skew)


def with_least_selectivity(inputs: Published, least: float, seed: int) -> Problem:
    return _redrawn(inputs, seed, least=least)


def with_queries(inputs: Published, count: float, seed: int) -> Problem:
    return inputs.experiment("exp_1", ratio=0.5, seed=seed, queries=int(count))


def _redrawn(
    inputs: Published, seed: int, *, nodes: int = 20, skew: float | None = None, least: float | None = None
) -> Problem:
    """The queries of the first experiment in a network of our own, with rates or selectivities drawn anew."""
    published = inputs.experiment("exp_1")
    rs = np.random.RandomState(1_000 + seed)
    names = [name for name in LETTERS if name in published.network.event_types]
    rates = {name: published.network.rates[published.network.nodes[0]][name] for name in names}
    if skew is not None:
        rates = dict(zip(names, map(float, np.minimum(rs.zipf(skew, len(names)), 10**6)), strict=True))
    selectivities = inputs.selectivities("exp_1")
    if least is not None:
        selectivities = {pair: float(rs.uniform(least, 0.2)) for pair in itertools.combinations(names, 2)}
    has = rs.uniform(size=(nodes, len(names))) < 0.5
    give_each_type_a_producer(rs, has)
    return problem(published.queries, rates, has, selectivities)


SWEEPS = (
    Sweep("5a", "event node ratio", (0.2, 0.4, 0.6, 0.8, 1.0), with_ratio,
          "about 1 % at 0.2; at 1.0 about 10 % (aMuSE*), lower (aMuSE); oOP hardly below 100 %"),
    Sweep("5c", "nodes", (10, 20, 40), with_nodes, "rises with the network"),
    Sweep("6a", "event skew", (1.1, 1.3, 1.5, 2.0), with_skew, "at 1.1 up to 1000 times lower than oOP"),
    Sweep("7a", "least selectivity", (1e-2, 1e-4, 1e-6), with_least_selectivity, "down to 0.1 %"),
    Sweep("7c", "queries", (1, 2, 3, 4, 5), with_queries, "almost no effect"),
)  # fmt: skip


def run(context: Context) -> Section:
    inputs = Published(context.shared / "data" / "muse" / "inputs.json")
    parts, times = [], []
    for sweep in SWEEPS:
        points = sweep.points[:2] if context.quick else sweep.points
        rows = []
        for point in points:
            found = [outcomes(sweep.make(inputs, point, seed)) for seed in range(context.seeds)]
            rows.append((point, *(_median(found, strategy) for strategy in STRATEGIES)))
            times += found
        header = [sweep.varied, *STRATEGIES]
        link = context.write_csv(f"figure{sweep.figure}.csv", header, rows)
        shown = [(point, *(f"{100 * ratio:.3g} %" for ratio in ratios)) for point, *ratios in rows]
        parts.append(f"### Figure {sweep.figure}: {sweep.varied}\n\nPaper: {sweep.paper}.\n\n"
                     f"{markdown_table(header, shown)}\n{link}\n")  # fmt: skip
    parts.append(_times(times))
    about = (
        f"Transmission ratio (rows per window relative to centralized evaluation), medians of {context.seeds} random "
        "networks each, with the five queries and the rates and selectivities of the authors' `exp_1` where they are "
        "not varied. Skews are draws of a Zipf distribution, cut at a million.\n\n"
    )
    return Section(NAME, "Figures 5 to 7: networks and workloads", about + "\n".join(parts))


def _median(found: Sequence[dict[str, Outcome]], strategy: str) -> float:
    return statistics.median(one[strategy].ratio for one in found)


def _times(found: Sequence[dict[str, Outcome]]) -> str:
    rows = []
    for strategy in STRATEGIES:
        seconds = sorted(one[strategy].seconds for one in found)
        rows.append((strategy, statistics.median(seconds), seconds[-1]))
    table = markdown_table(["strategy", "median s", "longest s"], rows)
    return f"### Figure 7d: construction\n\nPaper: seconds (aMuSE*), dozens of seconds (aMuSE).\n\n{table}"
