"""`decopa run --checkpoint` and `decopa resume`: runs that survive the loss of any process."""

from __future__ import annotations

import argparse
import signal
import statistics as numbers
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from decopa.commands.arguments.options import Subparsers, add_quiet_argument, described
from decopa.commands.arguments.source import add_resume_source_arguments, positioned
from decopa.commands.arguments.types import count
from decopa.commands.terminal import Progress, progress_line, tell
from decopa.lean import load_lean

if TYPE_CHECKING:
    from cluster.checkpoint.recovery import CheckpointedRun, Recovery
    from cluster.deploy.recorder import Recorder
    from decopa.query.query import Query
    from decopa.runs.result import RunResult
    from decopa.runs.runtimes.checkpointed import FinishedRun
    from decopa.runs.spec import RunSpec
    from decopa.runs.watch import Watch

_Outcome = TypeVar("_Outcome")


def register(commands: Subparsers) -> None:
    parser = described(
        commands.add_parser("resume", help="continue a run that has checkpoints"),
        "Continues a run that was started with `decopa run --checkpoint`, from its last complete checkpoint, after its "
        "driver has died or given up. The run keeps what it was started with.",
        "decopa resume checkpoints/ --units 12",
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT_DIR", type=Path, help="the folder that --checkpoint named")
    parser.add_argument("--units", metavar="N", type=count, help="continue on this many units (default: as before)")
    parser.add_argument("--address", metavar="ADDRESS", help="a running Ray cluster (default: as for `decopa run`)")
    add_resume_source_arguments(parser)
    add_quiet_argument(parser)
    parser.set_defaults(action=resume_command)


def run_durably(
    args: argparse.Namespace, spec: RunSpec, queries: Sequence[Query], progress: Progress, recorder: Recorder | None
) -> RunResult | None:
    """The result of a run with checkpoints; None if it had ended before, or its queries came and went."""
    from decopa.runs.runtimes.checkpointed import run_checkpointed

    assert spec.checkpoints is not None
    location = spec.checkpoints.location
    with _stopping_at_signals() as stop:
        watch = _watch(progress, recorder, stop, quiet=args.quiet)
        finished = _interruptible(location, lambda: run_checkpointed(spec, queries, watch=watch, predictions=True))
    progress.clear()
    if not args.quiet:
        _summarize(finished.outcome)
    if finished.rules and not args.quiet:
        _tell_rules(finished)
    return None if finished.rules else finished.result()


def resume_command(args: argparse.Namespace) -> None:
    load_lean()
    from decopa.runs.runtimes.checkpointed import resume_checkpointed

    progress = progress_line(quiet=args.quiet)
    location = str(args.checkpoint)
    try:
        with _stopping_at_signals() as stop:
            watch = _watch(progress, None, stop, quiet=args.quiet)
            finished = _interruptible(
                location,
                lambda: resume_checkpointed(
                    args.checkpoint,
                    units=args.units,
                    address=args.address,
                    watch=watch,
                    source=lambda address: positioned(address, args),
                ),
            )
    finally:
        progress.clear()
    if args.quiet:
        return
    _summarize(finished.outcome)
    if finished.rules:
        _tell_rules(finished)
    elif (result := finished.result()) is not None:
        tell("events", f"{result.events:,}, the last of them in {result.seconds:.2f} s")
        tell("matches", f"{finished.outcome.published.matches:,} in {len(finished.outcome.published.parts):,} parts")


def _tell_rules(finished: FinishedRun) -> None:
    run, published = finished.outcome.run, finished.outcome.published
    if run is not None:
        tell("events", f"{run.events:,}, the last of them in {run.seconds:.2f} s")
        tell("matches", f"{published.matches:,} in {len(published.parts):,} parts")
    for rule in finished.rules:
        tell("rule", f"{rule.name} version {rule.version}: {rule.matches:,} matches")


def _watch(progress: Progress, recorder: Recorder | None, stop: threading.Event, *, quiet: bool) -> Watch:
    from decopa.runs.watch import Watch

    def show_recovery(recovery: Recovery) -> None:
        progress.clear()
        noticed = f", {recovery.notice_s:.1f} s of them until it was noticed" if recovery.notice_s >= 0.05 else ""
        back = f"back at checkpoint {recovery.checkpoint} in {recovery.seconds:.1f} s{noticed}"
        tell("recovered", f"{recovery.lost} was lost; {back}")

    def show_change(line: str) -> None:
        progress.clear()
        tell("change", line)

    watch = Watch(progress, progress.phase, recorder=recorder, stop=stop)
    return watch if quiet else replace(watch, recovered=show_recovery, changed=show_change)


@contextmanager
def _stopping_at_signals() -> Iterator[threading.Event]:
    """Set by Ctrl-C and SIGTERM: the run ends with a checkpoint. A second signal does what it did before."""
    stop = threading.Event()
    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[number])

    for number in before:
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interruptible(location: str, run: Callable[[], _Outcome]) -> _Outcome:
    """An interrupt names the command that continues the run."""
    try:
        return run()
    except KeyboardInterrupt:
        tell("resume", f"what checkpoints hold is safe; continue with `decopa resume {location}`")
        raise


def _summarize(outcome: CheckpointedRun) -> None:
    if outcome.stopped:
        tell("stopped", f"at checkpoint {outcome.published.number}; continue with `decopa resume`")
    elif outcome.run is None:
        tell("note", "the run had ended already; nothing was left to do")
        tell("matches", f"{outcome.published.matches:,} in {len(outcome.published.parts):,} parts")
    if outcome.checkpoint_s:
        median = numbers.median(outcome.checkpoint_s)
        tell("checkpoints", f"{len(outcome.checkpoint_s):,}, median {median * 1e3:,.0f} ms from barrier to publication")
    if outcome.given_up:
        tell("note", f"{len(outcome.given_up):,} checkpoints could not be written, the last: {outcome.given_up[-1]}")
    if outcome.recoveries:
        tell("recoveries", f"{len(outcome.recoveries):,}")
