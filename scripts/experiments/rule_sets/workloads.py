"""Strategies for rule sets beside each other, predicted and run: the comparisons of MCEP's Figures 10 to 12.

MCEP reports no numbers for its figures. Its text says: 21 to 72.7 times the throughput of the trivial plan on stock
data and up to 50.7 on traffic data, EDGE best of the neighbourhoods, prefixes alone up to 5 times less; best everywhere
of the strategies that only share or only reorder, up to 3 times the second. The data sets are not public; `families`
draws rule sets like them.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from dataclasses import dataclass

from actors.group import Limits
from actors.sinks.outlet import OutletSpec
from cluster.local import LocalRuntime
from costmodel.capacity import Capacity
from decopa.choices import DEFAULT_COMPARED_PER_S, DEFAULT_INGESTED_PER_S, WORKLOAD_STRATEGIES
from decopa.planning.plan import Plan
from decopa.planning.planner import plan_workload
from decopa.planning.predict import predict
from decopa.planning.workload.statistics import part_statistics
from decopa.traces.rule_sets import RuleSet, cores_at_density, families
from scripts.experiments.figures import OF_WORKLOADS, Point
from scripts.experiments.figures import measure as measure_point
from scripts.experiments.synthetic import Setting
from shuffler.source.trace import open_trace

CAPACITY = Capacity.per_second(DEFAULT_INGESTED_PER_S, DEFAULT_COMPARED_PER_S)


@dataclass(frozen=True, slots=True)
class Row:
    """One strategy on one rule set; `predicted` and `comparisons` are comparisons over the whole trace."""

    strategy: str
    planning_s: float
    fragments: int
    predicted: float
    comparisons: int
    seconds: float
    processor_s: float
    matches: int


def measure(rules: RuleSet, strategy: str, events: int, seconds: float) -> Row:
    """Plans and runs a rule set in this process, on one unit; matches are counted, not made."""
    started = time.perf_counter()
    plan = plan_workload(rules.queries, rules.statistics, CAPACITY, units=1, strategy=strategy, seconds=seconds).plan
    planned = time.perf_counter() - started
    trace = rules.trace(events)
    span_us = int(trace.column("ts")[-1].as_py() - trace.column("ts")[0].as_py())
    runtime = LocalRuntime(plan, open_trace(trace), limits=Limits(max_matches=10**9), outlet=OutletSpec(count=True))
    runtime.warm_up()  # compiling is not measured
    started, worked = time.perf_counter(), time.process_time()
    runtime.run()
    took, work = time.perf_counter() - started, time.process_time() - worked
    compared = sum(report.comparisons for report in runtime.reports())
    fragments = sum(part.fragment for part in plan.parts)
    return Row(
        strategy,
        planned,
        fragments,
        predicted_comparisons(rules, plan, span_us),
        compared,
        took,
        work,
        runtime.matches,
    )


def predicted_comparisons(rules: RuleSet, plan: Plan, span_us: int) -> float:
    known = part_statistics(plan, [rules.statistics] * len(plan.reported))
    return sum(
        total.comparisons.value
        for part, one in zip(plan.parts, known, strict=True)
        if one is not None
        for total in predict(part, one, span_us).values()
    )


#: What the paper's text says of each figure; its values are not printed.
FIGURES = {
    "queries": ("10: workload size", "gain over the trivial plan from 21 to 72.7 (stock), up to 50.7 (traffic)"),
    "core-size": ("11: pattern size", "gain up to two orders of magnitude for long patterns"),
    "density": ("14: density of the multi-pattern graph", "always above the better of sharing and reordering alone"),
}


def gains(args: argparse.Namespace) -> None:
    """Prints, for each value of what is varied, how much less than the trivial plan each strategy has to do."""
    title, claim = FIGURES[args.vary]
    print(f"MCEP, Figure {title}. The paper: {claim}.\n")
    print(f"| {args.vary} | strategy | gain, comparisons predicted | counted | processor time |")
    print("| --- | --- | --- | --- | --- |")
    for value in args.values.split(","):
        queries = int(value) if args.vary == "queries" else args.queries
        core_size = int(value) if args.vary == "core-size" else args.core_size
        cores = cores_at_density(queries, float(value)) if args.vary == "density" else args.cores
        found: dict[str, list[Row]] = {}
        for seed in range(args.seeds):
            rules = families(queries, args.types, cores, core_size, args.own, seed=seed)
            for strategy in dict.fromkeys(("trivial", *args.strategies.split(","))):
                row = measure(rules, strategy, args.events, args.planning_time)
                found.setdefault(strategy, []).append(row)
        for strategy, rows in found.items():
            against = list(zip(found["trivial"], rows, strict=True))
            predicted, counted, took = (
                statistics.median(getattr(one, what) / max(getattr(other, what), 1e-9) for one, other in against)
                for what in ("predicted", "comparisons", "processor_s")
            )
            print(f"| {value} | {strategy} | {predicted:.1f} | {counted:.1f} | {took:.1f} |", flush=True)


def scaling(seeds: int) -> None:
    """Prints how much more than one unit 20 units sustain, as predicted: DecoPa's Figure 15, which has no numbers."""
    print('DecoPa, Figure 15. The paper: gains "scale proportionally", those of Hybrid fall.\n')
    print(f"| queries | {' | '.join(OF_WORKLOADS)} |\n| --- |{' --- |' * len(OF_WORKLOADS)}")
    for queries in (1, 3, 5, 7):
        found = [measure_point(Point(Setting(seed), queries)).log_scaling for seed in range(seeds)]
        over = [statistics.median(one[name] - one["centralized"] for one in found) for name in OF_WORKLOADS]
        print(f"| {queries} | {' | '.join(f'{math.exp(one):.1f}' for one in over)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--types", type=int, default=30)
    parser.add_argument("--cores", type=int, default=10)
    parser.add_argument("--core-size", type=int, default=4)
    parser.add_argument("--own", type=int, default=1)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--planning-time", type=float, default=10.0, help="seconds that a search may take")
    parser.add_argument("--strategies", default=",".join((*WORKLOAD_STRATEGIES, "decopa-paper")))
    parser.add_argument("--vary", choices=tuple(FIGURES), help="print the gains of a figure of MCEP instead")
    parser.add_argument("--values", default="20,60,100", help="what --vary takes (default: %(default)s)")
    parser.add_argument("--figure-15", action="store_true", help="print DecoPa's Figure 15 for --seeds seeds instead")
    args = parser.parse_args()
    if args.figure_15:
        scaling(args.seeds)
        return
    if args.vary:
        gains(args)
        return
    print(
        "| seed | strategy | planned in s | fragments | comparisons predicted | counted | s | processor s | matches |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for seed in range(args.seeds):
        rules = families(args.queries, args.types, args.cores, args.core_size, args.own, seed=seed)
        for strategy in args.strategies.split(","):
            row = measure(rules, strategy, args.events, args.planning_time)
            print(
                f"| {seed} | {row.strategy} | {row.planning_s:.1f} | {row.fragments} | {row.predicted:.3g} "
                f"| {row.comparisons:,} | {row.seconds:.2f} | {row.processor_s:.2f} | {row.matches:,} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
