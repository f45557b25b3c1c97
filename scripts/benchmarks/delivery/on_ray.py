"""`scripts/bench_delivery_ray`: a folder of matches, written by units on Ray, as ratios of one run.

Everything happens in one session, in turn, warm: the local run and DuckDB's COPY of the same matches (with as many
threads as the machine has cores) in this process, runs on Ray in the processes of a run before. Processor seconds are
those of all processes, Ray's own included, from the moment when all actors are up to the moment when all matches are
written. With `--fresh` every run on Ray has new processes, whose memory is touched for the first time.

With `--emulate` units pretend to be so slow that one of them takes that many seconds for all comparisons, and many of
them fit on two cores.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import decopa
from actors.sinks.outlet import OutletSpec
from actors.sinks.parts import FolderSpec
from cluster.deploy.kept_actors import keeping_actors
from cluster.deploy.recorder import Recorder
from cluster.feeding import TraceBlocks
from cluster.options import RayOptions
from cluster.ray_runtime import RayRuntime
from cluster.ray_session import ray_session
from costmodel.capacity import Capacity
from decopa.planning.plan import Plan
from decopa.runs.folder import published, publishing
from decopa.runs.spec import Planning
from scripts.benchmarks.delivery.cases import CASES, workload_of
from scripts.benchmarks.processes import processor_s, processor_times
from scripts.benchmarks.single_core.duckdb_peer import DuckDBPeer, match_query
from scripts.benchmarks.single_core.ours import UNLIMITED, plan_for
from scripts.benchmarks.single_core.workload import Workload
from shuffler.source.trace import open_trace


@dataclass(frozen=True)
class Spent:
    """What one delivery took: seconds on the clock, processor seconds of all processes, and by kind of process."""

    seconds: float
    processor_s: float
    matches: int
    by_process: dict[str, float] = field(default_factory=dict)


class _ProcessorTime(Recorder):
    """Looks at the processor time of all processes of this Ray when a run begins and when it has ended."""

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[int, tuple[str, float]] = {}
        self.spent: dict[str, float] = {}

    def look(self, deployment: Any, events: int, *, last: bool = False) -> None:
        if not self._before:
            self._before = processor_times()
        elif last:
            self.spent = processor_s(self._before, processor_times())


@contextmanager
def _empty_folder() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="decopa-delivery-"))
    try:
        yield place / "matches"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def on_ray(plan: Plan, workload: Workload, options: RayOptions) -> Spent:
    recorder = _ProcessorTime()
    with _empty_folder() as place, publishing(FolderSpec(place)) as publication:
        blocks = TraceBlocks(open_trace(workload.events))
        outlet = OutletSpec(folder=FolderSpec(place))
        run = RayRuntime(plan, blocks, limits=UNLIMITED, options=options, outlet=outlet).run(recorder=recorder)
        folder = published(publication, [part for parts in run.matches for part in parts])
        return Spent(run.seconds, sum(recorder.spent.values()), folder.rows, recorder.spent)


def on_this_core(workload: Workload) -> Spent:
    plan = plan_for(workload)
    with _empty_folder() as place:
        began, used = time.perf_counter(), time.process_time()
        result = decopa.run_detailed(
            workload.query_text,
            workload.events,
            runtime="local",
            limits=UNLIMITED,
            planning=Planning(plan=plan),
            out=place,
        )
        return Spent(time.perf_counter() - began, time.process_time() - used, result.match_count)


def by_duckdb(workload: Workload, peer: DuckDBPeer) -> Spent:
    sql = match_query(workload.family, workload.window_us)
    with _empty_folder() as place:
        began, used = time.perf_counter(), time.process_time()
        rows = peer.copied(sql, place.with_suffix(".parquet"))
        return Spent(time.perf_counter() - began, time.process_time() - used, rows)


def compare(workload: Workload, units: list[int], strategy: str, rounds: int, *, fresh: bool) -> dict[str, list[Spent]]:
    """What each contender took in each round, all after one round of warming up."""
    known = decopa.stats(workload.query_text, workload.events)
    plans = {n: decopa.plan(workload.query_text, known, units=n, strategy=strategy) for n in units}
    found: dict[str, list[Spent]] = {}
    with DuckDBPeer(workload, threads=os.cpu_count() or 1) as peer:
        for number in range(rounds + 1):
            each = {"local": on_this_core(workload), "DuckDB COPY": by_duckdb(workload, peer)}
            for n, plan in plans.items():
                if not fresh:
                    on_ray(plan, workload, RayOptions())  # its processes are there for the next
                each[f"Ray, {n} units"] = on_ray(plan, workload, RayOptions())
            shown = ", ".join(f"{name} {one.seconds:.2f} / {one.processor_s:.2f}" for name, one in each.items())
            print(f"round {number}, s / processor s: {shown}", file=sys.stderr, flush=True)
            if len({one.matches for one in each.values()}) > 1:
                sys.exit(f"contenders disagree: { {name: one.matches for name, one in each.items()} }")
            for name, one in each.items() if number else ():
                found.setdefault(name, []).append(one)
    return found


def emulated(workload: Workload, units: list[int], strategy: str, seconds: float) -> dict[int, Spent]:
    """The same folder by units with a declared capacity, of which one would take `seconds` for all comparisons."""
    known = decopa.stats(workload.query_text, workload.events)
    here = decopa.run_detailed(
        workload.query_text, workload.events, planning=Planning(plan=plan_for(workload)), count=True
    )
    slow = RayOptions(emulate={"": Capacity.per_second(1e9, here.comparisons / seconds)})
    return {
        n: on_ray(decopa.plan(workload.query_text, known, units=n, strategy=strategy), workload, slow) for n in units
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", default=",".join(case.name for case in CASES), help="names, separated by commas")
    parser.add_argument("--units", default="1,2,4", help="numbers of units, separated by commas")
    parser.add_argument("--strategy", default="decopa", help="of the plans (default: %(default)s)")
    parser.add_argument("--fresh", action="store_true", help="new processes for every run on Ray")
    parser.add_argument("--emulate", type=float, metavar="SECONDS", help="units of a declared capacity, no peers")
    args = parser.parse_args(arguments)
    units = [int(one) for one in args.units.split(",")]
    keeping = nullcontext() if args.fresh else keeping_actors()
    with ray_session(cpus=max(units) + 2, dashboard=False), keeping:
        for case in CASES:
            if case.name in args.cases.split(","):
                workload = workload_of(case, args.events)
                if args.emulate is not None:
                    print(_emulated_report(emulated(workload, units, args.strategy, args.emulate)), flush=True)
                else:
                    found = compare(workload, units, args.strategy, args.rounds, fresh=args.fresh)
                    print(f"\n## {case.title}: {args.events:,} events\n\n{_report(found)}", flush=True)


def _report(found: dict[str, list[Spent]]) -> str:
    lines = ["| | s | processor s | processor s / local | COPY's s / s |", "| --- | --- | --- | --- | --- |"]
    local, copied = found["local"], found["DuckDB COPY"]
    for name, each in found.items():
        work = [one.processor_s / other.processor_s for one, other in zip(each, local, strict=True)]
        speed = [other.seconds / one.seconds for one, other in zip(each, copied, strict=True)]
        seconds, used = [one.seconds for one in each], [one.processor_s for one in each]
        lines.append(f"| {name} | {_spread(seconds)} | {_spread(used)} | {_spread(work)} | {_spread(speed)} |")
    for name, each in found.items():
        if each[0].by_process:
            kinds = ", ".join(f"{kind} {seconds:.2f}" for kind, seconds in sorted(each[-1].by_process.items()))
            lines.append(f"\n{name}, processor s by process: {kinds}")
    return "\n".join(lines)


def _emulated_report(found: dict[int, Spent]) -> str:
    least = found[min(found)].seconds
    lines = [f"{n} emulated units: {one.seconds:.2f} s, {least / one.seconds:.2f}x" for n, one in found.items()]
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main()
