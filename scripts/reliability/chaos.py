"""Random kills against runs with checkpoints, until enough have hit; what they published is compared row by row.

Runs follow each other on a Ray of two nodes, each in a driver process of its own: other queries, numbers of units and
formats. Struck are units, shufflers and sinks (SIGKILL), the driver (taken up again as `decopa resume` does), the
coordinator (it lives in the driver, which is killed while a checkpoint is being written), the raylet of the second node
with all that runs there, files of the newest checkpoint, and the disk, which is filled to the last byte. Processes are
stopped for a moment now and then. After every strike what a reader would see is compared, too. With `--changes` the
plan of a run becomes another again and again; every second strike waits for a change, the others may hit one under way.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.java import prepare_java
from scripts.reliability.chaos_report import Strike, Tally, report
from scripts.reliability.jobs import Job, write_trace
from scripts.reliability.victims import Chaos, Disk

EVERY_S = 0.4
#: A strike comes after the next complete checkpoint, or, one in so many, at any moment: while the run recovers.
ANY_MOMENT = 0.15
#: A run that takes longer than this to go on hangs.
HANG_S = 120.0
#: Events of a run, and of one whose plan changes, which takes longer than a recovery.
EVENTS, CHANGING_EVENTS = 12_000, 60_000


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="kills (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=int, help=f"of each run (default: {EVENTS}, with --changes {CHANGING_EVENTS})")
    parser.add_argument("--rate", type=float, default=1_000, help="events per second (default: %(default)s)")
    first = "of the first run, which says its query, units and format: 3 is a NEXT by key (default: %(default)s)"
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER", help=first)
    parser.add_argument("--roles", help="only these, separated by commas")
    parser.add_argument("--changes", action="store_true", help="the plans of the runs change all the time")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the report there, too")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="leave checkpoints, output and logs here")
    args = parser.parse_args(arguments)
    args.events = args.events or (CHANGING_EVENTS if args.changes else EVENTS)
    folder = args.keep or Path(tempfile.mkdtemp(prefix="decopa-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    disk = Disk(folder / "disk")
    try:
        tally = Rounds(args, folder, disk).run()
    finally:
        disk.unmount()
        if args.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    text = report(tally, args)
    print(text)
    if args.markdown is not None:
        args.markdown.write_text(text)
    return 0 if tally.passed else 1


@dataclass
class Rounds:
    args: argparse.Namespace
    folder: Path
    disk: Disk
    tally: Tally = field(default_factory=Tally)

    def run(self) -> Tally:
        import ray

        cluster = start_cluster()
        started = time.monotonic()
        try:
            self._chaos = chaos = Chaos(self.args.seed, cluster, self.disk, self.args.roles)
            chaos.add_node()
            self._address = cluster.address
            number = self.args.first
            while chaos.kills < self.args.rounds and not self.tally.problems:
                self._run_job(number)
                number += 1
        finally:
            ray.shutdown()
            cluster.shutdown()
        tally = self.tally
        tally.seconds = time.monotonic() - started
        tally.done, tally.kills, tally.delays = chaos.done, chaos.kills, chaos.delays
        tally.half_written, tally.unpublished = chaos.half_written, chaos.unpublished
        tally.given_up = (self.folder / "driver.log").read_text(errors="replace").count("the run goes on without it")
        tally.take_notes(self._noted())
        return tally

    def _noted(self) -> list[dict[str, Any]]:
        lines = self._notes.read_text().splitlines() if self._notes.exists() else []
        return [json.loads(line) for line in lines]

    def _changes_made(self) -> int:
        return sum("switched" in note for note in self._noted())

    @property
    def _notes(self) -> Path:
        return self.folder / "notes.jsonl"

    def _run_job(self, number: int) -> None:
        """One run from its beginning to its end, whatever happens to it in between."""
        trace = self.folder / "trace.parquet"
        write_trace(trace, events=self.args.events, rate=self.args.rate, seed=self.args.seed * 1_000 + number)
        job = Job(number, self.disk.folder / f"job-{number}", trace, self.args.rate)
        expected = job.expected()
        self._say(f"run {number}: {job.units} units, {job.shufflers} shufflers, {expected.total():,} matches expected")
        driver = self._start_driver(job)
        try:
            while driver.returncode != 0 and not self.tally.problems:
                driver = self._await_progress(job, driver)
                if driver.returncode == 0 or self._chaos.kills >= self.args.rounds:
                    continue
                if self.args.changes and self._chaos.chance(0.5):
                    self._await_change(driver)
                time.sleep(self._chaos.pause_s(2 * EVERY_S))
                if self._chaos.chance(0.2):
                    self._chaos.delay()
                self._strike(job, driver)
                self.tally.check_reader(job.number, job.published(), expected)
        finally:
            driver.kill()
            driver.wait()
        self.tally.check_result(job.number, job.published(), expected)
        shutil.rmtree(job.folder, ignore_errors=True)

    def _strike(self, job: Job, driver: subprocess.Popen[bytes]) -> None:
        role = self._chaos.next_role()
        kills = self._chaos.kills
        hit = self._chaos.strike(role, job, driver)
        if hit is None:
            return
        killed = self._chaos.kills > kills
        self.tally.strikes.append(Strike(job.number, role, *hit, killed))
        self._say(f"kill {self._chaos.kills:>3}: {hit[0]}" if killed else hit[0])

    def _await_change(self, driver: subprocess.Popen[bytes]) -> None:
        """Returns when a plan has changed, or the run has ended."""
        before, until = self._changes_made(), time.monotonic() + HANG_S
        while driver.poll() is None and self._changes_made() == before and time.monotonic() < until:
            time.sleep(0.05)

    def _await_progress(self, job: Job, driver: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """Returns after a further checkpoint, or now and then at once; a driver that has died is started again."""
        before, since = job.manifests(), time.monotonic()
        impatient = self._chaos.chance(ANY_MOMENT) and self._chaos.kills < self.args.rounds
        until = since + (self._chaos.pause_s(4.0) if impatient else HANG_S)
        while time.monotonic() < until:
            status = driver.poll()
            if status == 0:
                return driver
            if status is not None:
                if status not in (-9, 2):
                    self.tally.problems.append(f"run {job.number}: the driver ended with status {status}")
                    return driver
                driver = self._start_driver(job)
            elif job.manifests()[-1:] > before[-1:]:
                return driver
            time.sleep(0.02)
        if not impatient:
            self.tally.problems.append(f"run {job.number}: nothing happened for {HANG_S:.0f} s")
        return driver

    def _start_driver(self, job: Job) -> subprocess.Popen[bytes]:
        """The run in a process of its own, connected to the cluster."""
        command = [sys.executable, "-W", "ignore", "-m", "scripts.reliability.chaos_driver", str(job.number)]
        command += [str(job.folder), str(job.trace), str(job.rate), str(EVERY_S), str(time.time())]
        command += ["--changes"] if self.args.changes else []
        environment = {**os.environ, "RAY_ADDRESS": self._address}
        with (self.folder / "driver.log").open("ab") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def _say(self, text: str) -> None:
        self.tally.begin()
        print(f"{self.tally.elapsed_s:7.1f} s  {text}", flush=True)


def start_cluster() -> Any:
    """A Ray with one node, to which more can be added; connected to it."""
    # On a busy machine a node may take longer to come up than Ray waits by default.
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")
    import ray
    from ray.cluster_utils import Cluster

    prepare_java()
    # Ray takes 15 s to declare a silent node dead; here three.
    health = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 600, "health_check_failure_threshold": 5}
    settings = {"num_cpus": 8, "include_dashboard": False, "object_store_memory": 256 << 20, "_system_config": health}
    cluster = Cluster(initialize_head=True, head_node_args=settings)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    return cluster


if __name__ == "__main__":
    sys.exit(main())
