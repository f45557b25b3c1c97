"""decopa against FlinkCEP, DuckDB, Polars and Spark SQL on one core: the same traces, queries and numbers of matches.

Figures are kept in --store, so that cases may be measured in several runs; the report has all that are in it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from scripts.benchmarks.peers import flink_job, plot, report, results
from scripts.benchmarks.peers.cases import Absent, Case, catalogue
from scripts.benchmarks.peers.contenders import CONTENDERS, PEERS, ROOT, Contender, ContenderFailed, measure
from scripts.benchmarks.peers.decopa_worker import rare_first, run_local
from scripts.benchmarks.peers.job import Job, Outcome
from scripts.benchmarks.peers.machine import describe
from scripts.benchmarks.peers.results import CaseResult

TOOLS = ("decopa", "flink", "duckdb", "polars", "spark")
GROWTH = {
    "window": ("Growth over the window, three inequalities", "window in ms at 1,000 events/s"),
    "rate": ("Growth over the rate, equal keys", "events/s of the stream"),
}


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench_peers", description=__doc__)
    parser.add_argument("--only", metavar="CASES", help="names or groups of cases, separated by commas")
    parser.add_argument("--skip", default="", metavar="TOOLS", help=f"contenders to leave out, of {', '.join(TOOLS)}")
    parser.add_argument("--events", type=int, default=1_000_000, help="of generated traces (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=15.0, help="seconds a run may take (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="least number of runs (default: %(default)s)")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the real traces")
    parser.add_argument("--store", type=Path, default=ROOT / "out" / "peers.json", help="figures of earlier runs")
    parser.add_argument("--report", type=Path, metavar="FILE.md", help="write it there, with CSV and PNG beside it")
    parser.add_argument("--report-only", action="store_true", help="measure nothing")
    options = parser.parse_args(arguments)
    options.skip = options.skip.split(",") if options.skip else []
    if unknown := [tool for tool in options.skip if tool not in TOOLS]:
        parser.error(f"--skip: no contender {', '.join(unknown)}; choose from {', '.join(TOOLS)}")
    if "decopa" in options.skip:
        parser.error("--skip: decopa cannot be left out, the others are compared with it")
    cases = catalogue(options.data)
    wanted = options.only.split(",") if options.only else list(cases)
    if unknown := [
        name for name in wanted if name not in {each for case in cases.values() for each in (case.name, case.group)}
    ]:
        parser.error(f"--only: no case {', '.join(unknown)}; choose from {', '.join(cases)}")
    options.cases = [case for case in cases.values() if case.name in wanted or case.group in wanted]
    return options


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0; 1 if a contender disagrees on the matches or gives no answer; 2 if something is not installed."""
    options = parse_arguments(arguments)
    command = " ".join(["scripts/bench_peers", *shown_flags(options)])
    kept = {result.name: result for result in results.load(options.store)}
    problems: list[str] = []
    if not options.report_only:
        with tempfile.TemporaryDirectory(prefix="bench_peers") as name:
            folder = Path(name)
            if "flink" not in options.skip and not _compile_flink(folder):
                return 2
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # processes started from here inherit it
            pa.set_cpu_count(1)
            for case in options.cases:
                try:
                    result, wrong = run_case(case, options, folder, command)
                except Absent as reason:
                    print(f"{case.name}: skipped: {reason}", flush=True)
                    continue
                problems += wrong
                if not wrong:
                    kept[case.name] = result
                    results.save(kept.values(), describe(Path(__file__).parent / "constraints.txt"), options.store)
    if options.report:
        write_report(options, list(kept.values()))
    for line in problems:
        print(f"PROBLEM: {line}", file=sys.stderr)
    return 1 if problems else 0


def shown_flags(options: argparse.Namespace) -> list[str]:
    """The flags that decide the figures."""
    flags = [f"--only {options.only}"] if options.only else []
    flags += [f"--skip {','.join(options.skip)}"] if options.skip else []
    return [*flags, f"--events {options.events}", f"--limit {options.limit:g}", f"--repeat {options.repeat}"]


def run_case(case: Case, options: argparse.Namespace, folder: Path, command: str) -> tuple[CaseResult, list[str]]:
    """All contenders on one case, and what is wrong with their answers."""
    trace = case.load(options.events)
    path = folder / "trace.parquet"
    pq.write_table(trace, path)
    print(f"\n{case.name}: {case.query.text}", flush=True)
    plan = rare_first(case.query, trace)

    @cache
    def matches_within(events: int) -> int:
        return run_local(plan, trace.slice(0, events)).matches

    job = Job(str(path), case.query, "", options.limit, options.repeat)
    outcomes: dict[str, Outcome] = {}
    failures: dict[str, str] = {}
    problems = []
    for contender in CONTENDERS:
        if contender.tool in options.skip:
            continue
        if reason := contender.reason_against(case.query):
            print(f"  {contender.name:36}left out: {reason}", flush=True)
            continue
        try:
            outcome = measure(contender, job, folder)
        except ContenderFailed as err:
            failures[contender.name] = str(err)
            problems.append(f"{case.name}: {contender.name}: {err}")
            continue
        outcomes[contender.name] = outcome
        told = disagreement(case, contender, outcome, matches_within)
        problems += [told] if told else []
        print(
            f"  {contender.name:36}{outcome.events:>10,} events {outcome.seconds:>8.3f} s "
            f"{outcome.events_per_s:>12,.0f} events/s {outcome.matches:>12,} matches{'  DIFFERS' if told else ''}",
            flush=True,
        )
    rows, matches = trace.num_rows, matches_within(trace.num_rows)
    query = case.query.text
    found = CaseResult(case.name, case.group, case.title, query, case.axis, rows, matches, outcomes, failures, command)
    return found, problems


def disagreement(
    case: Case, contender: Contender, outcome: Outcome, matches_within: Callable[[int], int]
) -> str | None:
    expected = matches_within(outcome.events)
    if outcome.matches == expected:
        return None
    return (
        f"{case.name}: {contender.name} found {outcome.matches:,} matches in the first {outcome.events:,} events, "
        f"decopa local {expected:,}"
    )


def _compile_flink(folder: Path) -> bool:
    compiler = flink_job.find_compiler()
    if compiler is None:
        print(flink_job.NO_COMPILER, file=sys.stderr)
        return False
    try:
        flink_job.compile_job(compiler, PEERS, folder / "classes")
    except subprocess.CalledProcessError as err:
        print(f"bench_peers: the FlinkCEP job does not compile:\n{err.stderr}", file=sys.stderr)
        return False
    return True


def write_report(options: argparse.Namespace, found: list[CaseResult]) -> None:
    order = list(catalogue(options.data))
    found = sorted(found, key=lambda result: order.index(result.name))
    plots = {}
    for group, (title, label) in GROWTH.items():
        if len(members := [result for result in found if result.group == group]) > 1:
            file = options.report.with_name(f"{options.report.stem}_{group}.png")
            plot.growth(members, label, file)
            plots[title] = file.name
    results.write_csv(found, options.report.with_suffix(".csv"))
    missing = {name: "its figures are not in the store" for name in order if name not in {each.name for each in found}}
    text = report.markdown(
        found,
        describe(Path(__file__).parent / "constraints.txt"),
        commands=list(dict.fromkeys(result.command for result in found)),
        limit_s=options.limit,
        skipped=missing,
        plots=plots,
    )
    options.report.write_text(text)
    print(f"\n{options.report}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
