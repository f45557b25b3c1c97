"""What chaos did and what came of it: counted, checked and written down."""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from decopa.report.table import markdown_table

_NOTE = """\
Times are from the kill until events flow again. Process start is that of actors, with all that they import, and, where
the driver was killed, that of the driver. The coordinator lives in the driver: it is struck by killing the driver while
a checkpoint is being written. `torn` kills the driver and damages a file of the newest checkpoint; `disk` fills the
disk, every second time with a kill on top. A node's time holds the 3 s until Ray, as set here, takes it for dead."""


@dataclass(frozen=True)
class Strike:
    job: int
    role: str
    what: str
    at: float
    killed: bool


@dataclass(frozen=True)
class Recovered:
    """From the kill until events flowed again, and how much of it was the start of processes."""

    role: str
    seconds: float
    process_start_s: float


@dataclass
class Tally:
    strikes: list[Strike] = field(default_factory=list)
    recovered: list[Recovered] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    #: Errors with which drivers ended, other than by being killed.
    errors: list[str] = field(default_factory=list)
    jobs: int = 0
    matches: int = 0
    lost: int = 0
    duplicated: int = 0
    looks: int = 0
    #: Changes of plan that were made, and that were given up; how long the stream stood still for them.
    switched: int = 0
    abandoned: int = 0
    pauses_s: list[float] = field(default_factory=list)
    given_up: int = 0
    done: dict[str, int] = field(default_factory=dict)
    kills: int = 0
    delays: int = 0
    half_written: int = 0
    unpublished: int = 0
    seconds: float = 0.0
    _began: float | None = None

    def begin(self) -> None:
        self._began = self._began or time.monotonic()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - (self._began or time.monotonic())

    @property
    def passed(self) -> bool:
        return not self.problems and self.lost == self.duplicated == 0 and self.jobs > 0

    def check_reader(self, job: int, found: Counter[str], expected: Counter[str]) -> None:
        """At any moment a reader sees matches of the undisturbed run, each at most once."""
        self.looks += 1
        if odd := (found - expected).total():
            self.problems.append(f"run {job}: a reader sees {odd} rows too many in between")

    def check_result(self, job: int, found: Counter[str], expected: Counter[str]) -> None:
        self.jobs += 1
        self.matches += expected.total()
        self.lost += (expected - found).total()
        self.duplicated += (found - expected).total()
        if found != expected:
            self.problems.append(f"run {job}: what was published differs from the undisturbed run")

    def take_notes(self, notes: Sequence[dict[str, Any]]) -> None:
        """Drivers note when they have recovered: the first note after a kill is its recovery, unless another kill came
        before."""
        # Without the folder, which is another one each time.
        self.errors += [re.sub(r"\S*/job-\d+/", "", note["error"]) for note in notes if "error" in note]
        made = [note for note in notes if "switched" in note]
        self.switched, self.pauses_s = len(made), [note["pause_s"] for note in made]
        self.abandoned = sum("abandoned" in note for note in notes)
        kills = [strike for strike in self.strikes if strike.killed]
        for strike, following in zip(kills, [*kills[1:], None], strict=True):
            until = following.at if following is not None else float("inf")
            mine = [n for n in notes if "lost" in n and n["job"] == strike.job and strike.at < n["at"] < until]
            if mine:
                self.recovered.append(Recovered(strike.role, mine[0]["at"] - strike.at, mine[0]["process_start_s"]))


def report(tally: Tally, args: argparse.Namespace) -> str:
    command = f"scripts/chaos --rounds {args.rounds} --seed {args.seed}"
    command += (f" --first {args.first}" if args.first else "") + (" --changes" if tally.switched else "")
    verdict = (
        "identical to the undisturbed runs, row by row" if tally.passed else "**DIFFERENT from the undisturbed runs**"
    )
    lines = [
        "# Chaos",
        "",
        f"`{command}`: {tally.kills} kills in {tally.seconds / 60:.1f} minutes, {tally.jobs} runs, "
        f"{tally.matches:,} matches. **{tally.lost} lost, {tally.duplicated} duplicated**; {verdict}.",
        "",
        *_table(tally),
        "",
        *_NOTE.splitlines(),
        "",
        f"- Of the coordinator's deaths {tally.half_written} left a checkpoint half-written, and {tally.unpublished} a "
        "complete one whose matches were not shown yet.",
        f"- {tally.delays} times a process was stopped (SIGSTOP) for up to 0.6 s.",
        f"- {tally.looks} times what a reader would see was compared in between: never a match twice or one too many.",
        f"- {tally.given_up} checkpoints could not be written because the disk was full; the runs went on.",
        f"- Drivers that ended with an error message and were taken up again: {len(tally.errors)}.",
        *(f"  - {text} ({count} times)" for text, count in Counter(error[:160] for error in tally.errors).items()),
        *_changes(tally),
        *(f"- PROBLEM: {problem}" for problem in tally.problems),
        "",
    ]
    return "\n".join(lines)


def _changes(tally: Tally) -> list[str]:
    if not tally.switched + tally.abandoned:
        return []
    longest_ms = 1000 * max(tally.pauses_s, default=0.0)
    return [
        f"- {tally.switched} times the plan became another, and {tally.abandoned} times that was given up, since a "
        f"process had been killed or the run had ended. A cut held the stream up for {longest_ms:.1f} ms at most."
    ]


def _table(tally: Tally) -> list[str]:
    header = ("struck", "times", "recoveries timed", "median, whole", "process start", "besides", "longest")
    rows = []
    for role, times in [*tally.done.items(), ("all", sum(tally.done.values()))]:
        timed = [one for one in tally.recovered if role in (one.role, "all")]
        rows.append([role, str(times), str(len(timed)), *_times(timed)])
    return markdown_table(header, rows).split("\n")


def _times(timed: Sequence[Recovered]) -> list[str]:
    if not timed:
        return ["", "", "", ""]
    whole = [one.seconds for one in timed]
    starting = [one.process_start_s for one in timed]
    besides = [one.seconds - one.process_start_s for one in timed]
    medians = [f"{statistics.median(values):.1f} s" for values in (whole, starting, besides)]
    return [*medians, f"{max(whole):.1f} s"]
