"""How near the planners come to the best plan there is, on queries small enough to look at all plans."""

from __future__ import annotations

import math

import numpy as np

from decopa.choices import Reading
from scripts.experiments import plots
from scripts.experiments.context import Context, Section, markdown_table
from scripts.experiments.model import bounded_exp
from scripts.experiments.synthetic import small_case

NAME = "optimum"
QUERIES, QUICK_QUERIES = 500, 50
STRATEGIES = ("decopa", "decopa-paper")
_QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5)


def compare(seed: int) -> list[tuple[object, ...]]:
    """c of each strategy as a share of the best c, for one query under both readings."""
    case, units = small_case(seed)
    found: list[tuple[object, ...]] = []
    for reading in Reading:
        best = case.log_scaling("exhaustive", units, reading)
        shares = [bounded_exp(case.log_scaling(one, units, reading) - best) for one in STRATEGIES]
        found.append((seed, str(case.query.pattern), units, reading.value, best / math.log(10), *shares))
    return found


def run(context: Context) -> Section:
    count = QUICK_QUERIES if context.quick else QUERIES
    rows = [row for rows in context.map(compare, range(count)) for row in rows]
    header = ["seed", "pattern", "units", "reading", "log10_c_optimum", "decopa_share", "decopa_paper_share"]
    link = context.write_csv("optimum.csv", header, rows)
    table, series = [], {}
    for reading in Reading:
        for place, strategy in enumerate(STRATEGIES):
            shares = np.array([row[5 + place] for row in rows if row[3] == reading.value], dtype=float)
            series[f"{strategy}, {reading.value}"] = shares
            quantiles = [float(np.quantile(shares, one)) for one in _QUANTILES]
            table.append([f"`{strategy}`", reading.value, *quantiles, f"{np.mean(shares > 1 - 1e-6):.1%}"])
    plots.shares_histogram(context.out / "optimum.png", series)
    header = ["strategy", "reading", "worst", "1 % quantile", "5 % quantile", "quartile", "median", "optimal"]
    default = [row for row in table if row[0] == "`decopa`"]
    reached = all(float(row[6]) >= 0.99 and float(row[2]) >= 0.9 for row in default)
    body = (
        f"Command: {context.command(NAME)}. {count} random queries (seeds 0 to {count - 1}): 3 to 5 types in SEQ, AND "
        "or SEQ with AND inside, every sixth with KL; 3 to 12 units, kappa 60k or 600k, iota 6500. Shares are c / c of "
        "`exhaustive`, whose search over all binary splits and allocations is finished for every query, none is cut "
        f"short or left out. Every query: {link}.\n\n"
        + markdown_table(header, table)
        + "\nGoal for the default: median at least 99 %, worst at least 90 % of `exhaustive`: "
        f"{'reached' if reached else 'NOT reached'}.\n\n![Shares of the optimum](optimum.png)\n"
    )
    return Section(NAME, "Against the optimum", body)
