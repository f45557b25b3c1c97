"""`scripts/bench_delivery`: what users get and when, as ratios of one run.

Every contender does its work in this process, on one core, in turn, warm; seconds are those of the processor, so that
what else the machine does shows less. A ratio is the median over rounds of the ratios within a round; its spread is the
least and the most.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from scripts.benchmarks.delivery.cases import CASES, Case, workload_of
from scripts.benchmarks.delivery.contenders import Work, contenders

#: (what it says, numerator, denominator, target of a case): speed of ours as a multiple of the peer's.
_RATIOS = (
    ("table against DuckDB rows", "DuckDB rows", "table"),
    ("folder against DuckDB COPY", "DuckDB COPY", "folder"),
    ("count against DuckDB count", "DuckDB count", "count"),
    ("table against Polars rows", "Polars rows", "table"),
    ("table time / engine time", "table", "engine"),
    ("batches of 1,000: share of speed", "table", "table, batches of 1,000"),
    ("batches of 100: share of speed", "table", "table, batches of 100"),
)


@dataclass(frozen=True)
class Ratio:
    title: str
    median: float
    least: float
    most: float


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", default=",".join(case.name for case in CASES), help="names, separated by commas")
    parser.add_argument("--no-peers", action="store_true", help="measure ours only")
    parser.add_argument("--out", type=Path, help="write all figures to this JSON file")
    args = parser.parse_args(arguments)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    document = []
    for case in CASES:
        if case.name not in args.cases.split(","):
            continue
        seconds, matches = measure(case, args.events, args.rounds, with_peers=not args.no_peers)
        ratios = ratios_of(seconds)
        print(report(case, args.events, matches, seconds, ratios), flush=True)
        figures = [asdict(ratio) for ratio in ratios]
        document.append({"case": case.name, "matches": matches, "seconds": seconds, "ratios": figures})
    if args.out is not None:
        args.out.write_text(json.dumps(document, indent=1) + "\n")


def measure(case: Case, events: int, rounds: int, *, with_peers: bool) -> tuple[dict[str, list[float]], int]:
    """Processor seconds of each contender in each round, and the number of matches, on which all must agree."""
    workload = workload_of(case, events)
    seconds: dict[str, list[float]] = {}
    counts: dict[str, int] = {}
    with contenders(workload, with_peers=with_peers) as works:
        for number in range(rounds + 1):  # the first is for warming up
            order = list(works.items())
            random.Random(number).shuffle(order)  # nobody always finds the caches that the same other one leaves
            for name, work in order:
                spent, counts[name] = timed(work)
                if number:
                    seconds.setdefault(name, []).append(spent)
    if len(set(counts.values())) > 1:
        sys.exit(f"{case.name}: contenders disagree: {counts}")
    return seconds, counts["table"]


def timed(work: Work) -> tuple[float, int]:
    gc.collect()
    began = time.process_time()
    matches = work()
    return time.process_time() - began, matches


def ratios_of(seconds: dict[str, list[float]]) -> list[Ratio]:
    found = []
    for title, over, under in _RATIOS:
        if over in seconds and under in seconds:
            each = [one / other for one, other in zip(seconds[over], seconds[under], strict=True)]
            found.append(Ratio(title, statistics.median(each), min(each), max(each)))
    return found


def report(case: Case, events: int, matches: int, seconds: dict[str, list[float]], ratios: list[Ratio]) -> str:
    lines = [f"\n## {case.title}: {events:,} events, {matches:,} matches, window {case.window_us:,} us", ""]
    lines += ["| | processor s, median | least | most |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {name} | {statistics.median(spent):.2f} | {min(spent):.2f} | {max(spent):.2f} |"
        for name, spent in seconds.items()
    ]
    lines += ["", "| ratio | median | least | most |", "| --- | --- | --- | --- |"]
    lines += [f"| {one.title} | {one.median:.2f} | {one.least:.2f} | {one.most:.2f} |" for one in ratios]
    targets = f"{case.table_target:g}, {case.folder_target:g}, {case.count_target:g}"
    return "\n".join([*lines, "", f"Targets for table, folder and count against DuckDB: {targets}."])


if __name__ == "__main__":
    main()
