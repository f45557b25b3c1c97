"""Figures 5 to 7: the transmission ratio as one property of network or workload is varied."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from scripts.experiments.context import Context, Section, markdown_table
from scripts.muse.instances import LETTERS, Problem, Published, give_each_type_a_producer, problem
from scripts.muse.strategies import STRATEGIES, Outcome, outcomes

#: Of the file that keeps what is known of each network.
_COLUMNS = ("point", "seed", "strategy", "rows per window", "ratio", "seconds")


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
    Sweep("6a", "event skew", (1.1, 1.3, 1.5, 2.0), with_skew,
          "at 1.1 up to 1000 times lower than oOP; skews are draws of a Zipf distribution, here cut at a million"),
    Sweep("7a", "least selectivity", (1e-2, 1e-4, 1e-6), with_least_selectivity, "down to 0.1 %"),
    Sweep("7c", "queries", (1, 2, 3, 4, 5), with_queries, "almost no effect"),
)  # fmt: skip


def run(figure: str, context: Context) -> Section:
    """One figure: the medians of every strategy at every point, and how long plans took."""
    sweep = next(one for one in SWEEPS if one.figure == figure)
    points = sweep.points[:2] if context.quick else sweep.points
    path = context.shared / "data" / "muse" / "inputs.json"
    tasks = [Task(path, figure, point, seed) for point in points for seed in range(context.seeds)]
    kept = context.out / f"figure{figure}_networks.csv"
    if not kept.is_file():
        kept.write_text(f"{','.join(_COLUMNS)}\n")
    known = read_outcomes(kept)
    context.map(partial(solve, kept=kept), [task for task in tasks if task.key not in known])
    known = read_outcomes(kept)
    solved = {task: known[task.key] for task in tasks}
    rows = []
    for point in points:
        found = [outcome for task, outcome in solved.items() if task.point == point]
        rows.append((point, *(statistics.median(one[strategy].ratio for one in found) for strategy in STRATEGIES)))
    header = [sweep.varied, *STRATEGIES]
    link = f"{context.write_csv(f'figure{figure}.csv', header, rows)}, [each network]({kept.name})"
    shown = [(point, *(f"{100 * ratio:.3g} %" for ratio in ratios)) for point, *ratios in rows]
    about = (
        f"Paper: {sweep.paper}.\n\nTransmission ratio: rows per window relative to centralized evaluation. Medians of "
        f"{context.seeds} random networks, with the five queries, the rates and the selectivities of the authors' "
        "`exp_1` where they are not varied.\n\n"
    )
    body = f"{about}{markdown_table(header, shown)}\n{link}\n\n{_times(list(solved.values()))}"
    return Section(f"figure{figure}", f"Figure {figure}: {sweep.varied}", body)


@dataclass(frozen=True)
class Task:
    """A random network of one point of a figure."""

    inputs: Path
    figure: str
    point: float
    seed: int

    @property
    def key(self) -> tuple[str, int]:
        return f"{self.point:g}", self.seed


def solve(task: Task, *, kept: Path) -> None:
    """Plans for a network by every strategy and adds the outcomes to a file: a run that was stopped goes on from it."""
    sweep = next(one for one in SWEEPS if one.figure == task.figure)
    found = outcomes(sweep.make(Published(task.inputs), task.point, task.seed))
    lines = [
        f"{task.point:g},{task.seed},{name},{one.cost!r},{one.ratio!r},{one.seconds:.3f}\n"
        for name, one in found.items()
    ]
    with kept.open("a") as file:  # one write: lines of two processes do not mix
        file.write("".join(lines))


def read_outcomes(kept: Path) -> dict[tuple[str, int], dict[str, Outcome]]:
    """What is known of the networks of a figure, by point and seed."""
    found: dict[tuple[str, int], dict[str, Outcome]] = {}
    for line in kept.read_text().splitlines()[1:]:
        point, seed, strategy, cost, ratio, seconds = line.split(",")
        found.setdefault((point, int(seed)), {})[strategy] = Outcome(float(cost), float(ratio), float(seconds))
    return found


def _times(found: Sequence[dict[str, Outcome]]) -> str:
    """Figure 7d for these networks."""
    rows = []
    for strategy in STRATEGIES:
        seconds = [one[strategy].seconds for one in found]
        rows.append((strategy, f"{statistics.median(seconds):.2f}", f"{max(seconds):.2f}"))
    table = markdown_table(["strategy", "median s", "longest s"], rows)
    return f"Construction (Figure 7d; paper: seconds for aMuSE*, dozens of seconds for aMuSE):\n\n{table}"
