"""A long run at a set rate with checkpoints: the memory of every process and the latency of matches, over time.

The events come from a stored trace, or with --source from a Kafka topic, a NATS stream or a folder that they are sent
to while it runs; then driver and broker are killed, too, and the run is stopped in order and started again.

Writes memory.csv, latency.csv and soak.png. The verdict: no process grows in the second half of the run, and what was
published are the matches of an undisturbed run.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray

import decopa
from actors.latency import LatencyHistogram, LatencySummary
from scripts.benchmarks.single_core.ours import UNLIMITED
from scripts.reliability.chaos import start_cluster
from scripts.reliability.jobs import Job, write_trace
from scripts.reliability.stream_run import KINDS, ROLES, StreamRun
from scripts.reliability.victims import Chaos, role_of

#: Events per second of event time: windows hold as many whatever the rate of the replay.
DENSITY = 300.0
#: Growth over the second half of the run, as the line through all samples tells it, that is no leak yet.
MOST_GROWTH = 0.05
LEAST_GROWTH_MIB = 10.0


@dataclass
class Curves:
    """`memory` has a curve for each process, by name: an actor that was started again goes on with its curve."""

    memory: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    latency: list[tuple[float, LatencySummary]] = field(default_factory=list)
    kills: list[float] = field(default_factory=list)
    _counts: dict[str, Any] = field(default_factory=dict)

    def sample(self, seconds: float, processes: dict[str, int], sinks: dict[str, Any]) -> None:
        for name, pid in processes.items():
            if mib := memory_mib(pid):  # one that has just ended holds nothing
                self.memory.setdefault(name, []).append((seconds, mib))
        for name, counts in sinks.items():
            before = self._counts.get(name)
            if before is not None and (counts < before).any():
                before = None  # begun anew
            self._counts[name] = counts
            self.latency.append((seconds, LatencyHistogram.between(before, counts).summary()))

    def growth(self, name: str) -> tuple[float, float]:
        """MiB over the second half of the run, and what that is of the mean."""
        curve = np.array(self.memory[name])
        later = curve[curve[:, 0] >= curve[-1, 0] / 2]
        if len(later) < 3:
            return 0.0, 0.0
        slope = np.polyfit(later[:, 0], later[:, 1], 1)[0]
        grown = float(slope * (later[-1, 0] - later[0, 0]))
        return grown, grown / float(later[:, 1].mean())

    def leaks(self) -> list[str]:
        """Processes of ours that grow; the broker and what feeds it are not."""
        return [name for name in self.memory if name not in ("broker", "feed") and self._grows(*self.growth(name))]

    def _grows(self, mib: float, share: float) -> bool:
        return mib > LEAST_GROWTH_MIB and share > MOST_GROWTH

    def write(self, folder: Path) -> None:
        with (folder / "memory.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(("seconds", "process", "mib"))
            for name, curve in self.memory.items():
                rows.writerows((f"{at:.1f}", name, f"{mib:.1f}") for at, mib in curve)
        with (folder / "latency.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(("seconds", "matches", "p50_ms", "p99_ms"))
            rows.writerows(
                (f"{at:.1f}", one.count, f"{one.p50_s * 1e3:.2f}", f"{one.p99_s * 1e3:.2f}") for at, one in self.latency
            )


def memory_mib(pid: int) -> float | None:
    """What a process holds alone: what it shares with others, such as Ray's object store, would count for each."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        resident, shared = map(int, Path(f"/proc/{pid}/statm").read_text().split()[1:3])
        return (resident - shared) * os.sysconf("SC_PAGE_SIZE") / 2**20
    return None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=5_000, help="events per second (default: %(default)s)")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between checkpoints (default: %(default)s)")
    parser.add_argument("--kill-every", type=float, metavar="S", help="kill a process every S seconds")
    parser.add_argument("--source", choices=("trace", *KINDS), default="trace", help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/soak"), help="(default: %(default)s)")
    args = parser.parse_args(arguments)
    shutil.rmtree(args.out / "job", ignore_errors=True)
    args.out.mkdir(parents=True, exist_ok=True)
    trace = (args.out / "trace.parquet").resolve()
    (args.out / "notes.jsonl").unlink(missing_ok=True)
    write_trace(trace, events=int(args.minutes * 60 * args.rate), rate=DENSITY, seed=args.seed)
    job = Job(0, (args.out / "job").resolve(), trace, args.rate)
    cluster = start_cluster()
    try:
        curves, status = (soak if args.source == "trace" else soak_stream)(args, job, cluster)
    finally:
        ray.shutdown()
        cluster.shutdown()
    curves.write(args.out)
    draw(curves, args.out / "soak.png")
    return tell(args, job, curves, status)


def soak(args: argparse.Namespace, job: Job, cluster: Any) -> tuple[Curves, int]:
    curves, started = Curves(), time.monotonic()
    chaos = Chaos(args.seed, cluster)
    every_s = max(1.0, args.minutes * 60 / 1_000)
    next_kill = args.kill_every
    with (args.out / "driver.log").open("wb") as log:
        command = [sys.executable, "-W", "ignore", "-m", "scripts.reliability.chaos_driver", str(job.number)]
        command += [str(job.folder), str(job.trace), str(job.rate), str(args.every), str(time.time())]
        environment = {**os.environ, "RAY_ADDRESS": cluster.address}
        driver = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            while driver.poll() is None:
                time.sleep(every_s)
                seconds = time.monotonic() - started
                processes, sinks = look()
                curves.sample(seconds, {"driver": driver.pid, **processes}, sinks)
                print(f"\r{seconds:6.0f} s, {len(curves.kills)} kills ", end="", file=sys.stderr, flush=True)
                if next_kill is not None and seconds >= next_kill and seconds < args.minutes * 60:
                    next_kill += args.kill_every
                    role = ("unit", "shuffler", "sink")[len(curves.kills) % 3]
                    if chaos.strike(role, job, driver) is not None:
                        curves.kills.append(seconds)
        finally:
            driver.kill()
            driver.wait()
    return curves, driver.returncode


def soak_stream(args: argparse.Namespace, job: Job, cluster: Any) -> tuple[Curves, int]:
    curves, chaos, started = Curves(), Chaos(args.seed, cluster), time.monotonic()
    every_s = min(5.0, max(1.0, args.minutes * 60 / 1_000))
    next_kill, roles = args.kill_every, ROLES[args.source]
    with StreamRun(args.source, job, cluster.address, args.every) as run:
        while not run.sent:
            time.sleep(every_s)
            run.keep_going()
            seconds = time.monotonic() - started
            processes, sinks = look()
            curves.sample(seconds, {**run.processes(), **processes}, sinks)
            print(f"\r{seconds:6.0f} s, {len(curves.kills)} kills ", end="", file=sys.stderr, flush=True)
            if next_kill is not None and seconds >= next_kill:
                next_kill += args.kill_every
                if run.strike(roles[len(curves.kills) % len(roles)], chaos):
                    curves.kills.append(seconds)
        run.finish()
    return curves, 0


def look() -> tuple[dict[str, int], dict[str, Any]]:
    """Processes of actors by name, and what sinks have counted of latency; actors that are gone are passed over."""
    processes: dict[str, int] = {}
    sinks: dict[str, Any] = {}
    for one in ray.util.list_named_actors(all_namespaces=True):
        try:
            actor = ray.get_actor(one["name"], namespace=one["namespace"])
            processes[one["name"]] = ray.get(actor.pid.remote(), timeout=2)
            if role_of(one["name"]) == "sink":
                sinks[one["name"]] = ray.get(actor.latency_counts.remote(), timeout=2)
        except (ray.exceptions.RayError, ValueError):
            continue
    return processes, sinks


def tell(args: argparse.Namespace, job: Job, curves: Curves, status: int) -> int:
    print(f"\n{'process':16} {'MiB at the end':>15} {'growth over the second half':>30}")
    for name, curve in sorted(curves.memory.items()):
        mib, share = curves.growth(name)
        print(f"{name:16} {curve[-1][1]:15.0f} {mib:+20.1f} MiB {share:+7.1%}")
    latencies = [one for _, one in curves.latency if one.count]
    if latencies:
        p99 = np.array([one.p99_s for one in latencies]) * 1e3
        half = len(p99) // 2
        print(
            f"latency p50 {np.median([one.p50_s for one in latencies]) * 1e3:.1f} ms; p99 of each sample: median "
            f"{np.median(p99):.1f} ms, {np.median(p99[:half]):.1f} in the first half, "
            f"{np.median(p99[half:]):.1f} in the second, highest {p99.max():.0f} ms"
        )
    same, matches = status == 0 and identical(job), sum(one.count for one in latencies)
    print(f"{matches:,} matches seen while it ran, {len(curves.kills)} kills, driver status {status}")
    print("published matches identical to an undisturbed run" if same else "DIFFERENT from an undisturbed run")
    leaks = curves.leaks()
    print(f"memory grows: {', '.join(leaks)}" if leaks else "memory is flat")
    print(f"curves in {args.out}/memory.csv, latency.csv and soak.png")
    return 0 if same and not leaks else 1


def identical(job: Job) -> bool:
    """As columns: there may be millions of rows."""
    keys = ["a", "b", "c"]
    parts = [pq.read_table(path, columns=keys) for path in sorted(job.out.glob("part-*.parquet"))]
    order = [(key, "ascending") for key in keys]
    found = pa.concat_tables(parts).sort_by(order).combine_chunks()
    expected = decopa.run(job.query, job.trace, limits=UNLIMITED)
    return bool(found.equals(expected.select(keys).sort_by(order).combine_chunks()))


def draw(curves: Curves, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (above, below) = plt.subplots(2, 1, figsize=(9, 7), sharex=True, layout="constrained")
    for name, curve in sorted(curves.memory.items()):
        above.plot(*zip(*curve, strict=True), label=name, linewidth=1.2)
    above.set_ylabel("memory of its own, MiB")
    above.set_ylim(bottom=0)
    above.legend(fontsize=8, ncols=3)
    shown = [(at, one) for at, one in curves.latency if one.count]
    at = [seconds for seconds, _ in shown]
    below.plot(at, [one.p50_s * 1e3 for _, one in shown], label="p50")
    below.plot(at, [one.p99_s * 1e3 for _, one in shown], label="p99", linewidth=1)
    below.set(yscale="log", ylabel="latency of matches, ms", xlabel="seconds")
    below.legend()
    for axes in (above, below):
        axes.grid(alpha=0.3)
        for kill in curves.kills:
            axes.axvline(kill, color="tab:red", alpha=0.4, linewidth=0.8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
