"""Fuzzing: whatever comes from outside is taken or refused with a DecoPaError, quickly and in bounded memory.

Worker processes draw inputs (input i of a target follows from the seed alone), give them to the program, and write
down everything else that happens. The parent watches for workers that die or hang inside a library.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from decopa.errors import DecoPaError
from scripts.reliability.fuzz_targets import TARGETS, Target

#: CPU seconds for one input, and for every KiB of it: twice the text may take twice the time. (Time on the clock would
#: depend on what else the machine does.)
TIME_LIMIT_S = 2.0
TIME_PER_KIB_S = 0.05
#: A worker that computes this long on one input hangs in code that no signal reaches; one that does not even compute is
#: stuck after the second.
HANG_CPU_S = 60.0
STUCK_S = 900.0
#: Address space beyond what a worker has when it starts, and growth of its memory by one input that is a finding.
ADDRESS_SPACE = 3 << 30
GROWTH = 256 << 20
TELL_EVERY_S = 60.0
#: Characters that a person may have to read.
LONGEST_MESSAGE = 5_000
_SAVED_PER_KIND = 3


class TookTooLong(BaseException):
    """Not an Exception, so that nothing under test can take it for its own."""


@dataclass(frozen=True, slots=True)
class Finding:
    target: str
    index: int
    problem: str


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000, help="over all targets (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--target", help="only targets whose name contains this")
    parser.add_argument(
        "--part", type=_part, default=(0, 1), metavar="K/N", help="part K of N of the inputs, to run them in pieces"
    )
    parser.add_argument("--only", type=int, metavar="I", help="only input I of the target, in this process")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="where inputs that failed go")
    args = parser.parse_args(arguments)
    chosen = [kind for name, kind in TARGETS.items() if args.target is None or args.target in name]
    if args.only is not None:
        with tempfile.TemporaryDirectory(prefix="decopa-fuzz-") as folder:
            for target in (kind(Path(folder)) for kind in chosen):
                print(f"{target.name}, input {args.only}: {outcome(target, drawn(target, args.seed, args.only))}")
        return 0
    started = time.monotonic()
    counts = _shares(chosen, args.inputs)
    watched = [_Worker(number, args, counts) for number in range(args.processes)]
    findings = _watch(watched)
    _report(counts, watched, findings, args, time.monotonic() - started)
    return 1 if findings else 0


def _part(text: str) -> tuple[int, int]:
    """'2/10' as (1, 10): which of how many parts, counted from 0."""
    part, _, parts = text.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"'{text}' is no part; write 1/10 to 10/10")
    return int(part) - 1, int(parts)


def drawn(target: Target, seed: int, index: int) -> bytes:
    return target.draw(Random(f"{seed}/{target.name}/{index}"))


def outcome(target: Target, content: bytes) -> str:
    """`accepted`, `refused`, or what went wrong."""
    before = _memory()
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, TIME_LIMIT_S + TIME_PER_KIB_S * len(content) / 1024)
    try:
        target.accept(content)
        found = "accepted"
    except DecoPaError as err:
        good = str(err).isprintable() and 0 < len(str(err)) < LONGEST_MESSAGE
        found = "refused" if good else f"bad message of {type(err).__name__}: {str(err)[:200]!r}"
    except TookTooLong:
        found = f"hang: {_place(sys.exc_info()[2])}"
    except Exception as err:
        found = f"{type(err).__name__}: {_place(err.__traceback__)}: {str(err)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    grown = _memory() - before
    if grown > GROWTH:
        return f"memory: {found} after {grown >> 20} MiB more"
    return found


def _too_long(number: int, frame: FrameType | None) -> None:
    raise TookTooLong


def _place(trace: Any) -> str:
    """The innermost line of our own code."""
    root = str(Path(__file__).resolve().parents[2])
    frames = [
        one for one in traceback.extract_tb(trace) if one.filename.startswith(root) and ".venv" not in one.filename
    ]
    return f"{Path(frames[-1].filename).relative_to(root)}:{frames[-1].lineno}" if frames else "?"


def _memory() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _shares(chosen: Sequence[type[Target]], inputs: int) -> dict[str, int]:
    total = sum(target.weight for target in chosen)
    return {target.name: -(-inputs * target.weight // total) for target in chosen}


# ------------------------------------------------------------------ workers


class _Worker:
    """A process that works on every n-th input; started again behind an input that killed it."""

    def __init__(self, number: int, args: argparse.Namespace, counts: dict[str, int]) -> None:
        part, parts = args.part
        self._args, self._counts = args, counts
        #: This worker's inputs are those at `first`, `first + step`, and so on.
        self._first, self._step = part * args.processes + number, parts * args.processes
        spawning = multiprocessing.get_context("spawn")
        self._spawning = spawning
        #: Place in the list of targets, index of the input, accepted and refused per target, peak memory.
        self.state = spawning.Array("q", [0, self._first, *([0] * 2 * len(counts)), 0], lock=False)
        self.findings: Any = spawning.Queue()
        self._last, self._since, self._cpu = (-1, -1), time.monotonic(), 0.0
        self.start()

    def start(self) -> None:
        self.process = self._spawning.Process(
            target=_work,
            args=(self._first, self._step, self._args.seed, self._counts, self.state, self.findings),
            daemon=True,
        )
        self.process.start()

    @property
    def done(self) -> bool:
        return int(self.state[0]) >= len(self._counts)

    def check(self) -> Finding | None:
        """A finding if the process died or hangs; then it goes on behind that input."""
        here = (int(self.state[0]), int(self.state[1]))
        if here != self._last:
            self._last, self._since, self._cpu = here, time.monotonic(), _cpu_seconds(self.process.pid)
        computing, waiting = _cpu_seconds(self.process.pid) - self._cpu, time.monotonic() - self._since
        hangs = computing > HANG_CPU_S or waiting > STUCK_S
        if self.done or (self.process.is_alive() and not hangs):
            return None
        self.process.kill()
        self.process.join()
        names = list(self._counts)
        problem = "hang outside Python" if hangs else f"the process died, status {self.process.exitcode}"
        self.state[1] += self._step
        self.start()
        self._since, self._cpu = time.monotonic(), 0.0
        return Finding(names[here[0]], here[1], problem)


def _cpu_seconds(process: int | None) -> float:
    """What a process has computed so far; on a busy machine much less than the time that has passed."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it is gone
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _work(first: int, step: int, seed: int, counts: dict[str, int], state: Any, findings: Any) -> None:
    with tempfile.TemporaryDirectory(prefix="decopa-fuzz-") as folder:
        by_name = {name: TARGETS[name](Path(folder)) for name in counts}
        _work_on(by_name, first, step, seed, counts, state, findings)


def _work_on(
    by_name: dict[str, Target],
    first: int,
    step: int,
    seed: int,
    counts: dict[str, int],
    state: Any,
    findings: Any,
) -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ADDRESS_SPACE, size + ADDRESS_SPACE))
    for place, (name, count) in enumerate(counts.items()):
        if place < state[0]:
            continue
        while state[1] < count:
            found = outcome(by_name[name], drawn(by_name[name], seed, state[1]))
            if found in ("accepted", "refused"):
                state[2 + 2 * place + (found == "refused")] += 1
            else:
                findings.put(Finding(name, int(state[1]), found))
            state[1] += step
        state[1], state[0] = first, place + 1
        state[len(state) - 1] = _memory()


def _watch(workers: Sequence[_Worker]) -> list[Finding]:
    findings: list[Finding] = []
    told = time.monotonic()
    while True:
        if time.monotonic() - told > TELL_EVERY_S:
            told = time.monotonic()
            done = sum(sum(worker.state[2:-1]) for worker in workers)
            print(f"{done:,} inputs, {len(findings)} findings so far", file=sys.stderr, flush=True)
        running = [worker for worker in workers if not worker.done or worker.process.is_alive()]
        for worker in workers:
            died = worker.check()
            findings += [died] if died is not None else []
            while not worker.findings.empty():
                findings.append(worker.findings.get())
        if not running:
            return findings
        time.sleep(0.2)


# ------------------------------------------------------------------ report


def _report(
    counts: dict[str, int],
    workers: Sequence[_Worker],
    findings: list[Finding],
    args: argparse.Namespace,
    seconds: float,
) -> None:
    print(f"{'target':18} {'inputs':>8} {'accepted':>9} {'refused':>9} {'findings':>9}")
    rows = []
    for place, (name, count) in enumerate(counts.items()):
        accepted, refused = (sum(int(one.state[2 + 2 * place + k]) for one in workers) for k in (0, 1))
        part, parts = args.part
        mine = sum(index // args.processes % parts == part for index in range(count))
        rows.append((name, mine, accepted, refused, sum(finding.target == name for finding in findings)))
    total = ("total", *(sum(int(row[column]) for row in rows) for column in range(1, 5)))
    for row in [*rows, total]:
        print(f"{row[0]:18} {row[1]:8,} {row[2]:9,} {row[3]:9,} {row[4]:9,}")
    peak = max(int(worker.state[len(worker.state) - 1]) for worker in workers)
    print(f"seed {args.seed}, {args.processes} processes, {seconds:.0f} s, at most {peak >> 20} MiB per process")
    _save(findings, args)


def _save(findings: Sequence[Finding], args: argparse.Namespace) -> None:
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        kinds.setdefault((finding.target, finding.problem[:60]), []).append(finding)
    for (name, _), same in kinds.items():
        print(f"\n{name}: {same[0].problem} ({len(same)} times)")
        args.out.mkdir(parents=True, exist_ok=True)
        for finding in same[:_SAVED_PER_KIND]:
            path = args.out / f"{name.replace(' ', '-')}-{args.seed}-{finding.index}"
            with tempfile.TemporaryDirectory(prefix="decopa-fuzz-") as folder:
                path.write_bytes(drawn(TARGETS[name](Path(folder)), args.seed, finding.index))
            print(f"  {path}; again with --target '{name}' --seed {args.seed} --only {finding.index}")


if __name__ == "__main__":
    sys.exit(main())
