"""The Ray runtime against the local one and against what Ray itself can do, all in one run.

Parts: `edge` (the bare limit: calls from one actor to another), `units` (one and two units against the local runtime on
a comparison-bound query), `shuffler` (events/s through one shuffler), `latency` (detection latency per hop at half
load), `spark` (a Spark data frame into the shuffler), `memory` (a slow unit: driver and object store stay flat).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import decopa
from actors.group import Limits
from cluster.feeding import BlockSource, TraceBlocks
from cluster.options import RayOptions
from cluster.ray_runtime import RayRun, RayRuntime
from cluster.ray_session import ray_session
from costmodel.capacity import Capacity
from decopa.api import make_plan
from decopa.planning.plan import Plan
from decopa.report.table import markdown_table
from decopa.traces.synthetic import SyntheticSpec
from scripts.benchmarks.memory import resident_mib
from shuffler.source.pacing import Replay
from shuffler.source.trace import TraceSource, open_trace

#: 500 candidates for each B and second of the window, and few matches: comparing is what takes the time.
COMPARISONS = "PATTERN SEQ(A a, B b) WHERE a.x < b.x * 0.001 AND a.y < b.y * 0.1 WITHIN {window} s"
#: What each unit does besides comparing weighs the more, the smaller the window; so two of them.
WINDOWS_S = (10, 30)
#: Every event is read, projected and sent; the unit has almost nothing to compare.
ROUTING = "PATTERN SEQ(A a, B b) WHERE a.x < b.x * 0.01 WITHIN 2 ms"
#: Java compiles what it runs often: loads of a new Spark until it is as fast as it gets.
_COLD_LOADS = 3
PARTS = ("edge", "units", "shuffler", "latency", "spark", "memory")


@dataclass(frozen=True)
class Goal:
    text: str
    value: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def verdict(self) -> str:
        if self.at_least is not None:
            return f"goal at least {self.at_least:g}: {'reached' if self.value >= self.at_least else 'MISSED'}"
        if self.at_most is not None:
            return f"goal at most {self.at_most:g}: {'reached' if self.value <= self.at_most else 'MISSED'}"
        return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench_ray", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="which parts")
    parser.add_argument("--events", type=int, default=1_000_000, help="events of each run (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each kind, the median counts")
    parser.add_argument("--slow-events", type=int, default=10_000_000, help="events of the memory part")
    args = parser.parse_args()
    goals: list[Goal] = []
    with ray_session(cpus=8, dashboard=False):
        for part in args.only:
            print(f"\n== {part}", flush=True)
            goals += _PARTS[part](args)
    rows = [(goal.text, f"{goal.value:,.3g}", goal.verdict) for goal in goals]
    print("\n" + markdown_table(("what", "value", "goal"), rows, words=(0, 1, 2)))
    return 0


def bench_units(args: argparse.Namespace) -> list[Goal]:
    source = trace(args.events, types=2)
    goals = [goal for window in WINDOWS_S for goal in bench_window(args, source, window)]
    ceiling = machine_ceiling(args.events)
    return [*goals, Goal("the machine: two local runs side by side / one, throughput", ceiling)]


def bench_window(args: argparse.Namespace, source: TraceSource, window_s: int) -> list[Goal]:
    query = COMPARISONS.format(window=window_s)
    plans = {units: make_plan(query, units=units) for units in (1, 2)}
    seconds: dict[str, list[float]] = {"local": [], "ray 1": [], "ray 2": []}
    decopa.run_detailed(query, source)  # compiles
    matches = set()
    for _ in range(args.repeat):  # in turn, so that a busy moment hits all alike
        here = decopa.run_detailed(query, source)
        seconds["local"].append(here.seconds)
        matches.add(here.matches.num_rows)
        for units, plan in plans.items():
            run = on_ray(plan, source)
            seconds[f"ray {units}"].append(run.seconds)
            shuffler = run.shufflers[0]
            print(
                f"  {units}: units busy {[round(one.busy_s, 2) for one in run.processes]} s, shuffler busy "
                f"{shuffler.busy_s:.2f} s, waited {shuffler.waited_s:.2f} s, {shuffler.messages} messages",
                flush=True,
            )
            matches.add(run.matches[0].num_rows)
        print({name: round(times[-1], 3) for name, times in seconds.items()}, flush=True)
    assert len(matches) == 1, f"match counts differ: {matches}"
    local, one, two = (statistics.median(times) for times in seconds.values())
    print(f"window {window_s} s: {here.comparisons / args.events:,.0f} comparisons an event, {matches.pop():,} matches")
    return [
        Goal(f"window {window_s} s: ray with one unit / local, throughput", local / one, at_least=0.7),
        Goal(f"window {window_s} s: ray with two units / one unit, throughput", one / two, at_least=1.6),
    ]


def machine_ceiling(events: int) -> float:
    """How much more two processes get done than one, if they have nothing to do with each other."""
    import ray

    query = COMPARISONS.format(window=max(WINDOWS_S))

    class Alone:
        def __init__(self) -> None:
            self._source = trace(events, types=2)
            decopa.run_detailed(query, self._source)  # compiles

        def run(self) -> float:
            return decopa.run_detailed(query, self._source).seconds

    two = [ray.remote(Alone).remote() for _ in range(2)]
    ray.get([one.run.remote() for one in two])
    single = ray.get(two[0].run.remote())
    both = max(ray.get([one.run.remote() for one in two]))
    for one in two:
        ray.kill(one)
    print(f"one local run {single:.2f} s, two side by side {both:.2f} s")
    return float(2 * single / both)


def bench_shuffler(args: argparse.Namespace) -> list[Goal]:
    source, plan = trace(args.events, types=2), make_plan(ROUTING)
    runs = [on_ray(plan, source) for _ in range(args.repeat + 1)][1:]
    for run in runs:
        print(f"{run.events / run.seconds:,.0f} events/s, shuffler busy {run.shufflers[0].busy_s:.2f} s", flush=True)
    through = statistics.median(run.events / run.seconds for run in runs)
    alone = statistics.median(run.events / run.shufflers[0].busy_s for run in runs)
    return [
        Goal("events/s through one shuffler and one unit", through),
        Goal("events per second of shuffler work", alone, at_least=2e6),
    ]


def bench_latency(args: argparse.Namespace) -> list[Goal]:
    source, plan = trace(args.events, types=2), make_plan(ROUTING)
    on_ray(plan, source)
    full = on_ray(plan, source)
    hops = 2  # shuffler to unit, unit to sink
    goals = []
    for name, rate, goal in (
        ("100,000 events/s", 1e5, None),
        ("half load", full.events / full.seconds / 2, 20.0),
    ):
        part = trace(int(10 * rate), types=2)
        run = on_ray(plan, part, RayOptions(replay=Replay(rate=rate)))
        print(f"at {rate:,.0f} events/s: {run.latency} over {hops} hops; took {run.seconds:.2f} s", flush=True)
        goals += [
            Goal(f"latency per hop at {name}, p50, ms", run.latency.p50_s / hops * 1e3),
            Goal(f"latency per hop at {name}, p99, ms", run.latency.p99_s / hops * 1e3, at_most=goal),
        ]
    return goals


def bench_edge(args: argparse.Namespace) -> list[Goal]:
    """What Ray can carry from one actor to another if nobody does anything with it."""
    import ray

    class Receiver:
        def take(self, payload: pa.Buffer) -> None:
            pass

    class Sender:
        def send(self, receiver: object, rows: int, calls: int) -> float:
            payload = pa.py_buffer(np.zeros(rows * 4).tobytes())
            started = time.perf_counter()
            waiting: list[object] = []
            for _ in range(calls):
                waiting.append(receiver.take.remote(payload))  # type: ignore[attr-defined]
                if len(waiting) >= 4:
                    ray.get(waiting.pop(0))
            ray.get(waiting)
            return time.perf_counter() - started

    receiver, sender = ray.remote(Receiver).remote(), ray.remote(Sender).remote()
    goals = []
    for rows, calls in ((1, 2000), (3_000, 2000), (32_768, 200)):
        ray.get(sender.send.remote(receiver, rows, 50))
        seconds = ray.get(sender.send.remote(receiver, rows, calls))
        print(f"{rows:>7,} rows a call: {calls / seconds:,.0f} calls/s, {rows * calls / seconds:,.0f} rows/s")
        goals.append(Goal(f"bare edge, {rows:,} rows of 32 bytes a call, rows/s", rows * calls / seconds))
    ray.kill(receiver)
    ray.kill(sender)
    return goals


def bench_spark(args: argparse.Namespace) -> list[Goal]:
    from cluster.spark.feeding import SparkBlocks
    from cluster.spark.session import spark_on_ray
    from cluster.spark.traces import load_trace

    rows = 2 * args.events
    with tempfile.TemporaryDirectory() as folder, spark_on_ray(app_name="bench") as spark:
        path = Path(folder) / "events.parquet"
        decopa_trace(rows, path)
        frame = spark.read.parquet(path.as_uri()).cache()
        frame.count()
        plan, speeds = make_plan(ROUTING), []
        for _ in range(_COLD_LOADS + args.repeat):
            started = time.perf_counter()
            loaded = load_trace(frame)
            handed = time.perf_counter() - started
            source = loaded.source()
            run = on_ray(plan, SparkBlocks(loaded.blocks, source.format, source.name))
            loaded.release()
            speeds.append((rows / handed, rows / (handed + run.seconds)))
            print(f"into Ray {speeds[-1][0]:,.0f} events/s, into Ray and through {speeds[-1][1]:,.0f}", flush=True)
        frame.unpersist()
    into, through = zip(*speeds[_COLD_LOADS:], strict=True)
    return [
        Goal("Spark data frame into Ray's object store, first of a new Spark, events/s", speeds[0][0]),
        Goal("Spark data frame into Ray's object store, events/s", statistics.median(into), at_least=1e6),
        Goal("Spark data frame into Ray and through a plan, events/s", statistics.median(through)),
    ]


def bench_memory(args: argparse.Namespace) -> list[Goal]:
    """Many events through a unit that is slower than everyone else: the source has to wait."""
    spec = SyntheticSpec(events=args.slow_events, rate_per_s=1e5, types=2, zipf=0.0, seed=1)
    plan = make_plan(ROUTING)
    (unit,) = [f"q/{operator.name}/0" for operator in plan.parts[0].operators if operator.inputs]
    slow = RayOptions(emulate={unit: Capacity.per_second(400_000, 1e12)})
    seen: list[tuple[int, float, float]] = []

    def note(events: int, matches: int) -> None:
        if not seen or events - seen[-1][0] >= args.slow_events // 20:
            seen.append((events, resident_mib(), object_store_mib()))
            print(
                f"{events:>12,} events fed, driver {seen[-1][1]:,.0f} MiB, object store {seen[-1][2]:,.0f} MiB",
                flush=True,
            )

    run = on_ray(plan, open_trace(spec.batches()), slow, note)
    half = seen[len(seen) // 2 :]
    assert run.operators[0].ingested == args.slow_events
    return [
        Goal("driver memory, second half of the run, growth in MiB", half[-1][1] - half[0][1], at_most=64),
        Goal("object store in use, most, MiB", max(row[2] for row in seen), at_most=512),
    ]


def object_store_mib() -> float:
    """What all objects take, over all nodes."""
    import ray

    total, free = ray.cluster_resources(), ray.available_resources()  # type: ignore[no-untyped-call]
    name = "object_store_memory"
    return float(total.get(name, 0) - free.get(name, 0)) / 2**20


def on_ray(
    plan: Plan,
    source: TraceSource | BlockSource,
    options: RayOptions | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RayRun:
    blocks = TraceBlocks(source) if isinstance(source, TraceSource) else source
    return RayRuntime(plan, blocks, limits=Limits(), options=options or RayOptions()).run(progress)


def trace(events: int, *, types: int) -> TraceSource:
    spec = SyntheticSpec(events=events, rate_per_s=500.0 * types, types=types, zipf=0.0, seed=1)
    return open_trace(pa.Table.from_batches(list(spec.batches())))


def decopa_trace(events: int, path: Path) -> None:
    from decopa.files import write_batches

    spec = SyntheticSpec(events=events, rate_per_s=1000.0, types=2, zipf=0.0, seed=1)
    write_batches(spec.schema, spec.batches(), path, overwrite=True)


_PARTS = {
    "edge": bench_edge,
    "units": bench_units,
    "shuffler": bench_shuffler,
    "latency": bench_latency,
    "spark": bench_spark,
    "memory": bench_memory,
}

if __name__ == "__main__":
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}")
    sys.exit(main())
