"""The model parts of Figures 9, 11, 12, 14, 15 and 17 on synthetic workloads: medians and quartiles over the seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from decopa.choices import Reading
from decopa.planning.plan import QueryPlan
from decopa.planning.planner import plan_workload
from decopa.planning.price import PricedPlan, price_plan, workload_log_scaling
from decopa.planning.workload.statistics import part_statistics
from scripts.experiments import plots
from scripts.experiments.context import Context, Section, markdown_table
from scripts.experiments.figure_text import FIGURES, Figure
from scripts.experiments.synthetic import Setting, workload

NAME = "figures"
ALL = ("decopa", "decopa-paper", "hybrid", "state", "rip")
MAIN = ("decopa", "decopa-paper", "hybrid")
#: Of several queries.
OF_WORKLOADS = ("shared", *MAIN)
WORKLOAD_UNITS = 20
_LOG_10 = math.log(10)


@dataclass(frozen=True)
class Point:
    """One random instance to measure, or (`queries` > 0) one random workload."""

    setting: Setting
    queries: int = 0


@dataclass(frozen=True)
class Measured:
    """Logarithms of c by strategy, and of the events that units exchange per window at the c of `hybrid`."""

    log_scaling: dict[str, float]
    log_exchanged: dict[str, float]


@dataclass(frozen=True)
class Sweep:
    """One panel: what is varied, over which values, and how a value changes the default setting."""

    title: str
    axis: str
    values: tuple[Any, ...]
    setting: Callable[[int, Any], Point]


def _sweep(title: str, axis: str, field: str, values: tuple[Any, ...], **fixed: Any) -> Sweep:
    return Sweep(title, axis, values, lambda seed, value: Point(Setting(seed, **{field: value, **fixed})))


UNITS, LENGTHS = (5, 10, 15, 20), (4, 5, 6, 7)
BY_UNITS = _sweep("processing units (6 types)", "processing units", "units", UNITS)
BY_LENGTH = _sweep("query length (15 units)", "event types in the query", "length", LENGTHS)
BY_WINDOW = _sweep("time window (6 types, 15 units)", "time window (minutes)", "window_min", (1, 10, 20, 30))
BY_KLEENE = _sweep(
    "Kleene (4 types, 15 units)", "rate of the KL type / mean rate of the others", "kleene", (1, 10, 100), length=4
)
BY_QUERIES = Sweep(
    "3 or 4 types per query, 20 units", "queries in the workload", (1, 3, 5, 7), lambda seed, n: Point(Setting(seed), n)
)
SENSITIVITY = (BY_UNITS, BY_LENGTH, BY_WINDOW, BY_KLEENE)
SWEEPS: dict[str, tuple[Sweep, ...]] = {
    "9": (BY_UNITS, BY_LENGTH),
    "11": SENSITIVITY,
    "12": tuple(
        _sweep(f"kappa {kappa // 1000}k, {order} rates", "processing units", "units", UNITS, kappa=kappa, order=order)
        for kappa in (60_000, 600_000)
        for order in ("random", "increasing", "decreasing")
    ),
    "14": SENSITIVITY,
    "15": (BY_QUERIES,),
    "17": (
        _sweep(
            "ingestion-bound (kappa 500k, iota 2k)",
            "event types in the query",
            "length",
            LENGTHS,
            kappa=500_000,
            iota=2_000,
        ),
        _sweep(
            "comparison-bound (kappa 60k, iota 15k)",
            "event types in the query",
            "length",
            LENGTHS,
            kappa=60_000,
            iota=15_000,
        ),
    ),
}


def measure(point: Point) -> Measured:
    if point.queries:
        return _measure_workload(point)
    setting = point.setting
    case = setting.case()
    plain = setting == Setting(setting.seed, length=setting.length, units=setting.units)  # Figure 9 shows all
    names = ("centralized", *(ALL if plain else MAIN))
    priced = {one: case.priced(case.plan(one, setting.units)) for one in names}
    at = priced["hybrid"].scaling.log_scaling
    return Measured(
        {name: one.scaling.log_scaling for name, one in priced.items()},
        {name: math.log(max(1e-300, exchanged(priced[name]))) + at for name in MAIN},
    )


def exchanged(priced: PricedPlan) -> float:
    """Matches of sub-queries that units send each other per window at c = 1 (linear costs): once to each unit of an
    operator, or to one of them where they are dealt out. Primitive events come from the sources and are not counted.
    """
    plan: QueryPlan = priced.plan
    rates = {figure.operator.name: figure.output_rate for figure in priced.operators}
    return sum(
        rates[operator.name] * (1 if operator.partitioned else target.units)
        for operator in plan.operators
        if operator.inputs
        for target in plan.successors(operator)
    )


def _measure_workload(point: Point) -> Measured:
    queries, statistics, capacity = workload(point.setting.seed, point.queries, WORKLOAD_UNITS)
    found = {}
    for strategy in OF_WORKLOADS:
        plan = plan_workload(queries, statistics, capacity, units=WORKLOAD_UNITS, strategy=strategy).plan
        known = part_statistics(plan, [statistics] * len(plan.reported))
        priced = [
            price_plan(part, one, capacity, reading=Reading.LINEAR)
            for part, one in zip(plan.parts, known, strict=True)
            if one is not None
        ]
        found[strategy] = workload_log_scaling(priced, plan.hosts)
    # Centralized evaluates all queries on one unit; each alone would sustain c_i, so all together 1 / sum 1/c_i.
    alone = [
        part
        for query in queries
        for part in plan_workload([query], statistics, capacity, units=1, strategy="centralized").plan.parts
    ]
    logs = [price_plan(part, statistics, capacity).scaling.log_scaling for part in alone]
    found["centralized"] = -(max(-one for one in logs) + math.log(sum(math.exp(min(logs) - one) for one in logs)))
    return Measured(found, {})


def run(context: Context) -> Section:
    sweeps = list(dict.fromkeys(sweep for group in SWEEPS.values() for sweep in group))
    points = list(
        dict.fromkeys(
            sweep.setting(seed, value) for sweep in sweeps for value in sweep.values for seed in range(context.seeds)
        )
    )
    points.sort(key=lambda one: -one.setting.length)  # long ones first, so that no process is left with them
    measured = dict(zip(points, context.map(measure, points), strict=True))
    body = [
        f"Command: {context.command(NAME, seeds=True)}. {context.seeds} seeds per point; linear reading of c. If not "
        "stated otherwise: 6 types with Zipf rates (skew 1.2, per minute; vectors with a rate above 50,000 drawn "
        "again), each pair with a selectivity of its own from 1 to 10 %, SEQ, AND, or SEQ with an AND at its end in "
        "equal parts, types in random order, window 1 minute, iota 6500, kappa 60,000, 15 units. The paper leaves open "
        "the unit of the Zipf rates, the mix of patterns, the default length and the default number of units; 6 and 15 "
        "are what its figures and the authors' scripts use. The tables show medians, the figures also quartiles as "
        "bars, the CSV files all three.\n"
    ]
    for number, figure in FIGURES.items():
        body.append(_figure(context, number, figure, measured))
    return Section(NAME, "Figures on synthetic workloads", "".join(body))


def _figure(context: Context, number: str, figure: Figure, measured: dict[Point, Measured]) -> str:
    drawn: list[plots.Panel] = []
    rows: list[list[Any]] = []
    for sweep in SWEEPS[number]:
        series: dict[str, list[tuple[float, float, float]]] = {}
        for value in sweep.values:
            found = [measured[sweep.setting(seed, value)] for seed in range(context.seeds)]
            for name, values in _values(figure, found).items():
                low, middle, high = (float(np.quantile(values, share)) for share in (0.25, 0.5, 0.75))
                series.setdefault(name, []).append((low, middle, high))
                rows.append([sweep.title, value, name, *map(_number, (low, middle, high)), len(values)])
        drawn.append((sweep.title, sweep.axis, sweep.values, series))
    image = f"figure{number}.png"
    plots.panels(context.out / image, drawn, title=f"Figure {number}: {figure.title}", y_label=figure.axis)
    header = ["panel", "value", "series", "lower_quartile", "median", "upper_quartile", "instances"]
    link = context.write_csv(f"figure{number}.csv", header, rows)
    return (
        f"\n### Figure {number}: {figure.title}\n\n{figure.varies}\n\n- Paper: {figure.paper}\n"
        f"- Ours: {figure.differs} All numbers: {link}.\n\n" + _medians(rows) + f"\n![Figure {number}]({image})\n"
    )


def _values(figure: Figure, found: Sequence[Measured]) -> dict[str, list[float]]:
    """What the figure shows, as logarithms to the base 10: Kleene makes numbers that no float holds."""
    if figure.measure == "exchanged":
        return {name: [one.log_exchanged[name] / _LOG_10 for one in found] for name in MAIN}
    base = "hybrid" if figure.measure == "over hybrid" else "centralized"
    names = [name for name in ("shared", *ALL) if name != base and all(name in one.log_scaling for one in found)]
    if base == "hybrid":
        names = ["decopa", "decopa-paper"]
    elif figure.measure == "main":
        names = [name for name in names if name in OF_WORKLOADS]
    return {name: [(one.log_scaling[name] - one.log_scaling[base]) / _LOG_10 for one in found] for name in names}


def _number(log_10: float) -> str:
    """10 to the given power, also where that is too large for a float."""
    return f"{10**log_10:.4g}" if abs(log_10) < 15 else f"1e{log_10:.0f}"


def _medians(rows: list[list[Any]]) -> str:
    names = list(dict.fromkeys(row[2] for row in rows))
    places = dict.fromkeys((row[0], row[1]) for row in rows)
    known = {(row[0], row[1], row[2]): row[4] for row in rows}
    table = [[*place, *(known.get((*place, name), "") for name in names)] for place in places]
    return markdown_table(["panel", "value", *(f"`{name}`" for name in names)], table)
