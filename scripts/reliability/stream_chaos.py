"""Random kills and restarts of runs on live streams; what they published is compared row by row with a whole run.

Every run plays a new trace to a Kafka topic, a NATS stream or a folder. Struck are units, shufflers, sinks, the driver,
the broker, and the run as a whole, which is stopped in order and started again. At the end of each run the folder
of matches must hold exactly the matches of an undisturbed run over the whole trace.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from scripts.reliability.chaos import start_cluster
from scripts.reliability.jobs import Job, write_trace
from scripts.reliability.stream_run import KINDS, ROLES, StreamRun
from scripts.reliability.victims import Chaos

EVERY_S = 0.4


@dataclass
class Tally:
    """What was done and what came of it."""

    runs: Counter[str] = field(default_factory=Counter)
    strikes: Counter[str] = field(default_factory=Counter)
    matches: int = 0
    lost: int = 0
    twice: int = 0
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.lost and not self.twice and self.matches > 0

    def lines(self) -> list[str]:
        runs = ", ".join(f"{count} on {kind}" for kind, count in self.runs.items())
        strikes = ", ".join(f"{count} {role}" for role, count in sorted(self.strikes.items()))
        return [
            f"{self.runs.total()} runs ({runs}), {self.strikes.total()} strikes ({strikes}), {self.seconds:.0f} s",
            f"{self.matches:,} matches expected: {self.lost:,} lost, {self.twice:,} twice",
        ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/stream_chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--sources", default=",".join(KINDS), help="in turn (default: %(default)s)")
    parser.add_argument("--strikes", type=int, default=3, help="in each run (default: %(default)s)")
    parser.add_argument("--events", type=int, default=8_000, help="of each run (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=500, help="events per second (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", metavar="DIR", type=Path, help="leave checkpoints, output and logs here")
    args = parser.parse_args(arguments)
    folder = args.keep or Path(tempfile.mkdtemp(prefix="decopa-streams-"))
    folder.mkdir(parents=True, exist_ok=True)
    import ray

    tally, began = Tally(), time.monotonic()
    cluster = start_cluster()
    try:
        chaos = Chaos(args.seed, cluster)
        kinds = args.sources.split(",")
        for number in range(args.runs):
            one_run(kinds[number % len(kinds)], number, folder.resolve(), cluster.address, chaos, args, tally)
            if tally.lost or tally.twice:
                break
    finally:
        ray.shutdown()
        cluster.shutdown()
        if args.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    tally.seconds = time.monotonic() - began
    print("\n".join(tally.lines()))
    return 0 if tally.passed else 1


def one_run(
    kind: str, number: int, folder: Path, address: str, chaos: Chaos, args: argparse.Namespace, tally: Tally
) -> None:
    """One stream from its beginning to its end; strikes come at random moments while events are sent."""
    trace = folder / f"run-{number}" / "trace.parquet"
    trace.parent.mkdir()
    write_trace(trace, events=args.events, rate=args.rate, seed=args.seed * 1_000 + number)
    job = Job(number, trace.parent / "job", trace, args.rate)
    expected = job.expected()
    length_s = args.events / args.rate
    with StreamRun(kind, job, address, EVERY_S) as run:
        for _ in range(args.strikes):
            pause_s = chaos.pause_s(2 * length_s / args.strikes)
            until = time.monotonic() + pause_s
            while time.monotonic() < until and not run.sent:
                time.sleep(0.05)
                run.keep_going()
            role = chaos.one_of(ROLES[kind])
            if run.strike(role, chaos):
                tally.strikes[role] += 1
            run.keep_going()
        run.finish()
    found = job.published()
    lost, twice = expected - found, found - expected
    tally.runs[kind] += 1
    tally.matches += expected.total()
    tally.lost += lost.total()
    tally.twice += twice.total()
    verdict = "identical" if not lost and not twice else f"{lost.total()} LOST, {twice.total()} TWICE"
    print(f"run {number} on {kind}: {run.driver_starts} drivers, {expected.total():,} matches, {verdict}", flush=True)
    if args.keep is None:
        shutil.rmtree(trace.parent, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
