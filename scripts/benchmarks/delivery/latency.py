"""`scripts/bench_latency`: detection latency of a plan with two operators on Ray, at a share of its full load.

A run is replayed at a fixed rate. Latency is from the moment when the last event of a match was due to the moment when
the match is at the sink: three hops, from the shuffler over two units to the sink. Where it goes is told from the same
runs: how long processes work on one message (busy seconds / messages), and how long events wait for company at the
shuffler (half a flush interval on average); the rest is waiting in queues and on the wire.
"""

from __future__ import annotations

import argparse
import statistics

from cluster.options import RayOptions
from cluster.ray_runtime import RayRun
from cluster.ray_session import ray_session
from decopa.api import make_plan
from scripts.benchmarks.ray_runtime import on_ray, trace
from shuffler.source.pacing import Replay

#: Two joins that find few pairs: most of the time is that of the messages. About one event in forty completes a match.
QUERY = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 5 ms"
HOPS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="replays (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each replay (default: %(default)s)")
    parser.add_argument("--share", type=float, default=0.5, help="of the full load (default: %(default)s)")
    parser.add_argument("--rate", type=float, help="events/s, in place of a share of the full load")
    parser.add_argument("--events", type=int, default=1_000_000, help="to measure the full load with")
    args = parser.parse_args()
    plan = make_plan(QUERY, units=2)
    with ray_session(cpus=8, dashboard=False):
        rate = args.rate
        if rate is None:
            loads = [on_ray(plan, trace(args.events, types=3)) for _ in range(3)][1:]
            rate = args.share * statistics.median(run.events / run.seconds for run in loads)
        print(f"{rate:,.0f} events/s, {args.seconds:g} s a run", flush=True)
        print("| run | p50 a hop, ms | p99 | p99.9 | end to end p50 | p99 | p99.9 | matches |\n" + "| --- " * 8 + "|")
        found = []
        for number in range(1, args.runs + 1):
            run = on_ray(plan, trace(int(args.seconds * rate), types=3), RayOptions(replay=Replay(rate=rate)))
            found.append(run)
            late = run.latency
            quantiles = [1e3 * seconds for seconds in (late.p50_s, late.p99_s, late.p999_s)]
            cells = [f"{value / HOPS:.1f}" for value in quantiles] + [f"{value:.1f}" for value in quantiles]
            print(f"| {number} | {' | '.join(cells)} | {late.count:,} |", flush=True)
    p50s, p99s = ([1e3 * getattr(run.latency, name) / HOPS for run in found] for name in ("p50_s", "p99_s"))
    quick = sum(value < 20 for value in p99s)
    print(
        f"\np99 a hop below 20 ms in {quick} of {len(found)} runs (goal 9 of 10), median {statistics.median(p99s):.1f}"
    )
    print(f"p50 a hop: median {statistics.median(p50s):.1f} ms, most {max(p50s):.1f} (goal 5)")
    print(_where(found))


def _where(found: list[RayRun]) -> str:
    """Where the time of a match goes, on average over all runs."""
    messages = sum(run.shufflers[0].messages for run in found) / 2  # to two units
    shuffler = 1e3 * sum(run.shufflers[0].busy_s for run in found) / messages
    units = [1e3 * sum(run.processes[at].busy_s for run in found) / messages for at in range(len(found[0].processes))]
    waits = 1e3 * RayOptions().policy.interval_s / 2
    middle = 1e3 * statistics.median(run.latency.p50_s for run in found)
    rest = middle - shuffler - sum(units) - waits
    shown = " and ".join(f"{one:.2f}" for one in units)
    return (
        f"of a median of {middle:.1f} ms: waiting for company {waits:.2f}, work of the shuffler {shuffler:.2f}, of the "
        f"units {shown}, queues and wire {rest:.2f}"
    )


if __name__ == "__main__":
    main()
