"""How long a change of rules holds up a run with checkpoints on Ray in which many rules run.

Rules are added and replaced one after the other while a paced stream goes on, then some are removed. Feed pause is how
long nothing is fed, beyond pacing; an answer comes when the change is in a checkpoint. Latency is from an event to its
match, of all rules: in the calm before changes, and from a request until 2.5 s after its answer. In the end every
version is compared, row by row, with its query alone on the whole trace.

Example: scripts/bench_rules --rules 100 --changes 20 --rate 1000
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import ray

import decopa
from cluster.change.rules.changes import RuleChanges
from cluster.deploy.deployment import Deployment
from cluster.options import Checkpoints, RayOptions
from decopa.report.table import markdown_table
from decopa.traces.synthetic import SyntheticSpec
from scripts.benchmarks.changing.watching import Latencies, summed
from scripts.reliability.rule_rows import expected_rows, kept_rules, published_rows
from shuffler.source.pacing import Replay

#: How long the wake of a change is looked at, how long the calm before the next one, and when the first one comes.
_WAKE_S, _CALM_S, _FIRST_S = 2.5, 3.0, 15.0
#: How long a change may take on average, for the length of the stream.
_LONGEST_S = 8.0
PATTERNS = (
    "SEQ(A a, B b) WHERE a.k = b.k AND a.x < b.x * 0.{} WITHIN 2 s",
    "SEQ(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k AND a.x < c.x * 0.{} WITHIN 1 s",
    "SEQ(A a, NOT(B b), C c) WHERE a.k = c.k AND b.k = a.k AND a.x < c.x * 0.{} WITHIN 1 s",
)


def rule(name: str, number: int) -> str:
    return f"QUERY {name} PATTERN {PATTERNS[number % len(PATTERNS)].format(100 + number)}"


@dataclass
class Observed:
    """What is seen of changes while they are made."""

    changes: RuleChanges
    latencies: Latencies = field(default_factory=Latencies)
    at_cut: list[Any] = field(default_factory=list)

    def told(self, phase: str, deployment: Deployment) -> None:
        """`deployment` is that of the plan before, which hands over."""
        if phase == "cutting":
            self.at_cut = [sink.latency_counts.remote() for sink in self.running.sinks.values()]
        elif phase == "retiring":
            self.latencies.retired(deployment)

    @property
    def running(self) -> Deployment:
        return self.changes._session.deployment


def measured(run: decopa.DurableRun, args: argparse.Namespace) -> tuple[list[float], list[float], Observed]:
    """How long it took until changes were answered: those that add or replace, and those that remove."""
    changes = run._rules.changes
    seen = Observed(changes)
    changes._told = seen.told
    time.sleep(_FIRST_S)
    answered, removed = [], []
    for number in range(args.changes):
        seen.latencies.calm(seen.running)
        time.sleep(_CALM_S)
        seen.latencies.asked(seen.running)
        asked_s = time.monotonic()
        if number % 2:
            run.replace(f"r{number}", rule(f"r{number}", number + args.rules))
        else:
            run.add(rule(f"new{number}", number + args.rules))
        answered.append(time.monotonic() - asked_s)
        time.sleep(_WAKE_S)
        seen.latencies.settled(seen.running, summed(ray.get(seen.at_cut)))
        print(f"change {number + 1}: {answered[-1]:.2f} s", file=sys.stderr, flush=True)
    for number in range(0, args.changes, 4):
        asked_s = time.monotonic()
        run.remove(f"new{number}")
        removed.append(time.monotonic() - asked_s)
    return answered, removed, seen


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench_rules", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rules", type=int, default=100, help="that run from the beginning (default: %(default)s)")
    parser.add_argument("--changes", type=int, default=20, help="(default: %(default)s)")
    parser.add_argument("--rate", type=float, default=1_000, help="events per second (default: %(default)s)")
    parser.add_argument("--units", type=int, default=2, help="processes that share the rules (default: %(default)s)")
    args = parser.parse_args(arguments)
    seconds = 60 + _FIRST_S + args.changes * (_LONGEST_S + _WAKE_S + _CALM_S)
    with TemporaryDirectory() as name:
        folder = Path(name)
        spec = SyntheticSpec(int(args.rate * seconds), args.rate, types=4, keys=int(args.rate), zipf=0.3, seed=1)
        pq.write_table(spec.table(), folder / "trace.parquet")
        with decopa.open_durable_run(
            ";\n".join(rule(f"r{number}", number) for number in range(args.rules)),
            folder / "trace.parquet",
            checkpoint=Checkpoints(str(folder / "checkpoints"), every_s=1.0),
            out=folder / "out",
            units=args.units,
            ray=RayOptions(replay=Replay(rate=args.rate), metrics=False),
        ) as run:
            answered, removed, seen = measured(run, args)
            session = seen.changes._session
            session.replay_from_here(session.last_ts, Replay())  # nobody waits for the rest of the stream
            outcome = run.wait()
        versions = kept_rules(folder / "checkpoints").book.versions
        expected = expected_rows(versions, pq.read_table(folder / "trace.parquet"))
        same = published_rows(folder / "out") == expected
    pauses_ms = 1000 * np.quantile([one.pause_s for one in seen.changes.made], (0.5, 0.95, 1.0))
    before_s, during_s = seen.latencies.p99_s
    row = [
        str(args.rules),
        str(len(answered)),
        "{:.1f} / {:.1f} / {:.1f} ms".format(*pauses_ms),
        "{:.1f} / {:.1f} s".format(*np.quantile(answered, (0.5, 0.95))),
        "{:.2f} / {:.2f} s".format(*np.quantile(removed, (0.5, 0.95))),
        f"{1000 * before_s:.0f} ms",
        f"{1000 * during_s:.0f} ms",
        f"{during_s / before_s:.2f}" if before_s else "-",
        f"{expected.total():,}, {'the same' if same else 'NOT the same'}",
    ]
    header = (
        "rules", "changes", "feed pause p50 / p95 / most", "answered p50 / p95", "removal p50 / p95",
        "latency p99 before", "during", "ratio", "matches",
    )  # fmt: skip
    print(markdown_table(header, [row]))
    return 0 if same and not outcome.recoveries else 1


if __name__ == "__main__":
    sys.exit(main())
