"""The cost of safety: the same run on Ray with and without checkpoints, in turn, in one session."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from actors.group import Limits
from cluster.checkpoint.output import PublishedMatches
from cluster.checkpoint.recovery import CheckpointedRuntime
from cluster.feeding import TraceBlocks
from cluster.options import Checkpoints, RayOptions
from cluster.ray_session import ray_session
from decopa.api import as_workload, make_plan
from decopa.runs.result import result_table
from scripts.benchmarks.ray_runtime import COMPARISONS, WINDOWS_S, on_ray, trace


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench_checkpoint", description=__doc__)
    parser.add_argument("--events", type=int, default=2_000_000, help="(default: %(default)s)")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between checkpoints (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--units", type=int, default=1, help="(default: %(default)s)")
    args = parser.parse_args()
    query = COMPARISONS.format(window=max(WINDOWS_S))
    queries, source, plan = as_workload(query), trace(args.events, types=2), make_plan(query, units=args.units)
    plain: list[float] = []
    safe: list[float] = []
    with ray_session(cpus=4, dashboard=False):
        on_ray(plan, source)  # compiles
        for _ in range(args.repeat):
            without = on_ray(plan, source)
            plain.append(without.seconds)
            with tempfile.TemporaryDirectory() as folder:
                runtime = CheckpointedRuntime(
                    plan,
                    TraceBlocks(source),
                    merge=lambda tables: result_table(queries, list(tables.values())),
                    output=PublishedMatches(Path(folder) / "out"),
                    checkpoints=Checkpoints(f"{folder}/checkpoints", every_s=args.every),
                    limits=Limits(),
                    options=RayOptions(),
                )
                run = runtime.run()
            assert run.run is not None
            assert run.published.matches == without.matches[0].num_rows, "matches differ"
            safe.append(run.run.seconds)
            took = statistics.median(run.checkpoint_s) if run.checkpoint_s else 0.0
            made = f"{len(run.checkpoint_s)} checkpoints of {took:.2f} s"
            print(f"without {plain[-1]:.2f} s, with {safe[-1]:.2f} s ({made})", flush=True)
    ratio = statistics.median(plain) / statistics.median(safe)
    verdict = "reached" if ratio >= 0.95 else "MISSED"
    print(f"\nthroughput with checkpoints every {args.every:g} s: {ratio:.3f} of that without (goal 0.95: {verdict})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
