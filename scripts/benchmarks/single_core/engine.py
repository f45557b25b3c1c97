"""Single-core benchmark of the engine: events and comparisons per second, next to a bare Numba loop and DuckDB.

Every figure of a run is measured in that run, in one process pinned to one core, and is the best of N repeats or more
after a warm-up that compiles. The bare loop's seconds are splitting plus looping: the engine too starts from the table.
"""

import argparse
import io
import json
import os
import platform
import sys
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa

from scripts.benchmarks.single_core import bare_loops
from scripts.benchmarks.single_core.measurement import Measurement, measure
from scripts.benchmarks.single_core.report import print_bare_details, print_peers, print_scaling
from scripts.benchmarks.single_core.self_check import self_check
from scripts.benchmarks.single_core.workload import CATALOGUE, build_scaling_workloads, build_workload


def pin_to_one_core() -> int:
    """Pins the process to the last core it may use, and Arrow to one thread; returns the core."""
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    pa.set_cpu_count(1)
    return core


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_engine", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=1_000_000, help="events per workload (default: 1000000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the traces (default: 1)")
    parser.add_argument("--only", default=",".join([*CATALOGUE, "scaling"]), help="workloads (default: %(default)s)")
    parser.add_argument(
        "--repeat", type=int, default=5, help="least number of runs of each peer, best one counts (default: 5)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements there too")
    parser.add_argument("--report", type=Path, metavar="FILE.md", help="write the tables there as Markdown")
    parser.add_argument("--self-check", action="store_true", help="compare all peers with brute force, measure nothing")
    parser.add_argument("--skip-ours", action="store_true", help="measure the peers without the engine")
    options = parser.parse_args(arguments)
    options.only = options.only.split(",")
    unknown = [name for name in options.only if name not in CATALOGUE and name != "scaling"]
    if unknown:
        parser.error(f"--only: no workload {', '.join(unknown)}; choose from {', '.join(CATALOGUE)}, scaling")
    if options.events < 1 or options.repeat < 1:
        parser.error("--events and --repeat must be at least 1")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0, or 1 if the peers disagree on the matches; a missed target only shows in the table."""
    options = parse_arguments(arguments)
    core = pin_to_one_core()
    if options.self_check:
        problems = self_check(skip_ours=options.skip_ours)
        print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
        return 1 if problems else 0

    print(f"{options.events} events, seed {options.seed}, core {core}, best of {options.repeat} or more", flush=True)
    shape = {"events": options.events, "seed": options.seed, "count_matches": bare_loops.count_matches}
    peers, scaling = [], []
    for name in (name for name in CATALOGUE if name in options.only):
        workload = build_workload(name, **shape)
        print(f"  {name}: {workload.query_text}", flush=True)
        peers.append(measure(workload, repeat=options.repeat, skip_ours=options.skip_ours))
    if "scaling" in options.only:
        for workload in build_scaling_workloads(**shape):
            print(f"  {workload.name}: {workload.query_text}", flush=True)
            scaling.append(measure(workload, repeat=options.repeat, skip_ours=options.skip_ours, with_duckdb=False))
    tables = io.StringIO()
    with redirect_stdout(tables):
        if peers:
            print_peers(peers)
            print_bare_details(peers)
        if scaling:
            print_scaling(scaling)
    print(tables.getvalue(), end="")
    if options.report:
        write_report(options.report, tables.getvalue(), peers + scaling, options)
    if options.json:
        sections = {"peers": peers, "scaling": scaling}
        record = {key: [each.to_json() for each in found] for key, found in sections.items()}
        options.json.write_text(json.dumps(record, indent=2) + "\n")
    disagreements = [each.disagreement for each in peers + scaling if each.disagreement]
    for line in disagreements:
        print(f"DISAGREEMENT: {line}", file=sys.stderr)
    return 1 if disagreements else 0


def write_report(path: Path, tables: str, found: list[Measurement], options: argparse.Namespace) -> None:
    """The tables with what is needed to read them: machine, versions, command and queries."""
    flags = f"--events {options.events} --seed {options.seed} --repeat {options.repeat}"
    versions = ", ".join(f"{name} {version(name)}" for name in ("numba", "numpy", "pyarrow", "duckdb"))
    lines = [
        "# The engine on one core",
        "",
        f"`scripts/bench_engine {flags} --only {','.join(options.only)}`",
        "",
        f"{cpu_name()}, {os.cpu_count()} cores of which one is used; Python {platform.python_version()}, {versions}.",
        "`ours s` is what the peers do too: from the Arrow table, checks and split by type included, to all matches as",
        "columns in memory; `as table s` is a whole `decopa.run`, in canonical order. Ratios are speeds:",
        "`ours/bare` 0.5 means half as fast as the bare loop. The plan joins rare types first. The allocator keeps",
        "freed memory for the next run, for all engines alike (see `scripts/bench_engine`): without that, page faults",
        "decide the rows with many matches.",
        "",
        "```",
        tables.strip("\n"),
        "```",
        "",
        *(f"- {each.name}: `{each.query_text}`" for each in found),
    ]
    path.write_text("\n".join(lines) + "\n")


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    sys.exit(main())
