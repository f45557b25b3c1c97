"""Rules come and go in runs with checkpoints on Ray while processes are killed; every version is compared row by row.

Runs follow each other on a Ray of two nodes, each as a user has it: `decopa run --rules DIR --checkpoint DIR`, changes
through the folder of rules, and `decopa resume` whenever the driver is gone. Struck are units, shufflers, sinks, the
driver (also while a checkpoint is being written), a node with all that runs there, and a file of the newest checkpoint.
In the end every version must have published the matches of its query, alone on the whole trace, that end in its life,
each once, and lives must be those that the run has answered with.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import pyarrow.parquet as pq

from cluster.change.rules.folder import RuleChange, RuleFolder
from decopa.language.front import read_queries
from scripts.reliability.chaos import HANG_S, start_cluster
from scripts.reliability.jobs import Job, write_trace
from scripts.reliability.rule_rows import expected_rows, kept_rules, published_rows
from scripts.reliability.victims import Chaos

#: Patterns of rules, without names: joins, a NOT that holds matches back, a closure, a NEXT, an OR.
PATTERNS = (
    "PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.x < c.x * 0.2 WITHIN 150 ms",
    "PATTERN SEQ(A a, B b, NOT(D d)) WHERE a.k = b.k AND a.k = d.k WITHIN 200 ms",
    "PATTERN SEQ(NOT(B b), C c, D d) WHERE b.k = c.k AND c.k = d.k WITHIN 300 ms",
    "PATTERN SEQ(A a, KL(B b), C c) WHERE a.k = b.k AND b.k = c.k WITHIN 60 ms",
    "PATTERN NEXT(A a, D d) WHERE FILTER(d.k = a.k) WITHIN 2 s",
    "PATTERN OR(SEQ(A a, C c), SEQ(C c, A a)) WHERE a.k = c.k WITHIN 40 ms",
)
ROLES = "unit,shuffler,sink,coordinator,driver,node,torn"
EVERY_S = 0.4
_LOOK_S = 0.05


@dataclass
class Tally:
    """What was done and what came of it."""

    changes: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    answered_s: list[float] = field(default_factory=list)
    versions: int = 0
    rows: int = 0
    lost: int = 0
    twice: int = 0
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.lost and not self.twice and not self.problems and self.rows > 0

    def lines(self) -> list[str]:
        changes, kills = (
            ", ".join(f"{count} {what}" for what, count in sorted(each.items())) for each in (self.changes, self.kills)
        )
        waits = np.quantile(self.answered_s, (0.5, 0.95, 1.0)) if self.answered_s else (0.0, 0.0, 0.0)
        return [
            f"{self.changes.total()} changes of rules ({changes}), {self.kills.total()} kills ({kills}), "
            f"{self.seconds / 60:.1f} minutes",
            f"{self.versions} versions, {self.rows:,} matches expected: {self.lost:,} lost, {self.twice:,} twice",
            "from the request to its answer: p50 {:.1f} s, p95 {:.1f} s, longest {:.1f} s".format(*waits),
            *(f"PROBLEM: {problem}" for problem in self.problems),
        ]


class Driver:
    """`decopa run`, and `decopa resume` after every death of it."""

    def __init__(self, job: Job, rules: RuleFolder, address: str, log: Path) -> None:
        self._job, self._rules, self._address, self._log = job, rules, address, log
        self._begun = False
        self.process = self._start()

    def keep_going(self) -> bool:
        """Starts it again if it has died; False once the stream has ended."""
        status = self.process.poll()
        if status == 0:
            return False
        if status is not None:
            self.process = self._start()
        return True

    def _start(self) -> subprocess.Popen[bytes]:
        job, command = self._job, [sys.executable, "-W", "ignore", "-m", "decopa"]
        if (job.checkpoints / "run.json").exists():
            command += ["resume", str(job.checkpoints)]
        else:
            opening = ";\n".join(f"QUERY first{at} {PATTERNS[at]}" for at in range(3))
            command += ["run", opening, "--trace", str(job.trace), "--rate", str(job.rate), "--units", str(job.units)]
            command += ["--checkpoint", str(job.checkpoints), "--checkpoint-every", f"{round(1000 * EVERY_S)} ms"]
            command += ["--out", str(job.out), "--rules", str(self._rules.path), "--shufflers", str(job.shufflers)]
        environment = {**os.environ, "RAY_ADDRESS": self._address}
        with self._log.open("ab") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


@dataclass
class Run:
    """One stream from its beginning to its end."""

    args: argparse.Namespace
    job: Job
    chaos: Chaos
    tally: Tally
    draw: Random
    driver: Driver
    rules: RuleFolder
    names: int = 0

    def play(self) -> None:
        args, tally = self.args, self.tally
        self._await(lambda: len(self.job.manifests()) > 1, "the first checkpoint")
        strikes = sorted(self.draw.sample(range(args.changes), args.kills))
        for number in range(args.changes):
            asked_s = time.monotonic()
            change = self._drawn()
            place = self.rules.ask(change)
            if number in strikes:
                time.sleep(self.draw.uniform(0.0, 4.0))
                self._strike()
            self._await(lambda place=place: place in self.rules.answers(), f"an answer to {change}")  # type: ignore[misc]
            if place not in self.rules.answers():
                tally.problems.append(f"run {self.job.number} ended before change {place} was made; take more --events")
                return
            tally.answered_s.append(time.monotonic() - asked_s)
            refused = "refused" in self.rules.answers()[place]
            tally.changes["refused" if refused else change.do] += 1
            if (most := max(published_rows(self.job.out).values(), default=1)) > 1:
                tally.problems.append(f"run {self.job.number}: a reader sees a match {most} times in between")
        while self.driver.keep_going():
            time.sleep(_LOOK_S)
        self._check()

    def _drawn(self) -> RuleChange:
        draw, sees = self.draw, self.draw.choice(("window", "window", "new"))
        current = self._current()
        do = draw.choice(("add", "add", "remove", "replace")) if len(current) > 2 else "add"
        if do == "remove":
            return RuleChange("remove", draw.choice(current))
        pattern = draw.choice(PATTERNS)
        if do == "replace":
            return RuleChange("replace", draw.choice(current), pattern, sees)
        self.names += 1
        return RuleChange("add", query=f"QUERY new{self.names} {pattern}", sees=sees)

    def _current(self) -> list[str]:
        """The rules that are there, as answers say."""
        asked = [RuleChange.from_line(line, "the folder") for _, line in self.rules.asked()]
        names = [f"first{at}" for at in range(3)]
        for number, answer in sorted(self.rules.answers().items()):
            if "rule" in answer:
                do, name = asked[number - 1].do, answer["rule"]
                names = [one for one in names if one != name] + ([] if do == "remove" else [name])
        return names

    def _strike(self) -> None:
        role = self.chaos.next_role()
        hit = self.chaos.strike(role, self.job, self.driver.process)
        if hit is not None:
            self.tally.kills[role] += 1
            print(f"run {self.job.number}: {hit[0]}", flush=True)

    def _await(self, happened: object, what: str) -> None:
        until = time.monotonic() + 2 * HANG_S
        while not happened():  # type: ignore[operator]
            if not self.driver.keep_going():
                return
            if time.monotonic() > until:
                raise SystemExit(f"run {self.job.number}: no {what} within {2 * HANG_S:.0f} s; see driver.log")
            time.sleep(_LOOK_S)

    def _check(self) -> None:
        tally, book = self.tally, kept_rules(self.job.checkpoints).book
        expected, found = expected_rows(book.versions, pq.read_table(self.job.trace)), published_rows(self.job.out)
        tally.versions += len(book.versions)
        tally.rows += expected.total()
        tally.lost += (expected - found).total()
        tally.twice += (found - expected).total()
        lives = {(one.name, one.number): {one.from_us, one.until_us} for one in book.versions}
        for number, answer in self.rules.answers().items():
            if "rule" in answer and answer["at_us"] not in lives.get((answer["rule"], answer["version"]), ()):
                tally.problems.append(f"run {self.job.number}: change {number} is not what was answered: {answer}")
        print(f"run {self.job.number}: {len(book.versions)} versions, {expected.total():,} matches", flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/rule_chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--changes", type=int, default=10, help="in each run (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=4, help="in each run (default: %(default)s)")
    parser.add_argument("--events", type=int, default=60_000, help="of each run (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=500, help="events per second (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", metavar="DIR", type=Path, help="leave checkpoints, output and logs here")
    args = parser.parse_args(arguments)
    if not 0 <= args.kills <= args.changes:
        parser.error("a kill comes with a change, so there are at most as many")
    for pattern in PATTERNS:
        read_queries(pattern)
    import ray

    folder = (args.keep or Path(tempfile.mkdtemp(prefix="decopa-rules-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    tally, began = Tally(), time.monotonic()
    cluster = start_cluster()
    try:
        chaos = Chaos(args.seed, cluster, only=ROLES)
        chaos.add_node()
        for number in range(args.runs):
            mine = folder / f"run-{number}"
            mine.mkdir()
            write_trace(mine / "trace.parquet", events=args.events, rate=args.rate, seed=args.seed * 1_000 + number)
            job, rules = Job(number, mine, mine / "trace.parquet", args.rate), RuleFolder(mine / "rules")
            rules.path.mkdir()
            driver = Driver(job, rules, cluster.address, folder / "driver.log")
            try:
                Run(args, job, chaos, tally, Random(args.seed * 1_000 + number), driver, rules).play()
            finally:
                driver.process.kill()
                driver.process.wait()
            if not tally.passed:
                break
    finally:
        ray.shutdown()
        cluster.shutdown()
        if args.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    tally.seconds = time.monotonic() - began
    print("\n".join(tally.lines()))
    return 0 if tally.passed else 1


if __name__ == "__main__":
    sys.exit(main())
