"""`decopa run --checkpoint` and `decopa resume`: runs that survive the loss of any process."""

from __future__ import annotations

import argparse
import statistics as numbers
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from decopa.choices import PART_FORMATS
from decopa.commands import run_options
from decopa.commands.inputs import STANDARD_INPUT, capacity_of
from decopa.commands.option_types import count, duration
from decopa.commands.terminal import progress_line, tell
from decopa.errors import DecoPaError

if TYPE_CHECKING:
    from cluster.checkpoint.recovery import CheckpointedRun, Recovery
    from costmodel.statistics import Statistics
    from decopa.planning.plan import Plan
    from decopa.query.query import Query


def add_checkpoint_arguments(run: argparse.ArgumentParser) -> None:
    safe = run.add_argument_group("checkpoints (on Ray)")
    safe.add_argument(
        "--checkpoint",
        metavar="DIR",
        type=Path,
        help="keep checkpoints here, and go on from the last one: any process may die. --out is then a folder, in "
        "which matches appear part by part, each once",
    )
    safe.add_argument(
        "--checkpoint-every", metavar="TIME", type=duration, default=1_000_000, help="how often (default: 1 s)"
    )
    safe.add_argument(
        "--out-format", choices=PART_FORMATS, default=PART_FORMATS[0], help="of the parts (default: %(default)s)"
    )


def add_resume_arguments(resume: argparse.ArgumentParser) -> None:
    resume.add_argument("checkpoint", metavar="CHECKPOINT_DIR", type=Path, help="the folder that --checkpoint named")
    resume.add_argument("--units", metavar="N", type=count, help="go on with this many units (default: as before)")
    resume.add_argument("--address", metavar="ADDRESS", help="a running Ray cluster (default: as for `decopa run`)")


def run_durably(
    args: argparse.Namespace, queries: Sequence[Query], given: Plan | None, known: Statistics | None
) -> None:
    if args.out is None or args.out.suffix:
        raise DecoPaError("a run with --checkpoint needs --out DIR, a folder for the parts of its result")
    if args.runtime != "ray" or args.trace == STANDARD_INPUT:
        raise DecoPaError("checkpoints are for stored traces on Ray; leave out --checkpoint")
    from cluster.checkpoint.recovery import Checkpoints
    from decopa.runs.checkpointed import run_with_checkpoints
    from shuffler.source.trace import TraceColumns

    progress = progress_line(quiet=args.quiet)
    progress.phase("starting")
    try:
        result = run_with_checkpoints(
            queries,
            args.trace,
            out=args.out,
            checkpoint=Checkpoints(str(args.checkpoint), every_s=args.checkpoint_every / 1e6),
            out_format=args.out_format,
            units=args.units,
            strategy=args.strategy or "decopa",
            plan=given,
            statistics=known,
            capacity=capacity_of(args),
            limits=run_options.limits_of(args),
            columns=TraceColumns(args.id, args.ts, args.type, args.end),
            assume_sorted=args.assume_sorted,
            nan_as_null=args.nan_as_null,
            ray=run_options.ray_options(args, capacity_of(args)),
            progress=progress,
            recovered=None if args.quiet else _tell_recovery,
        )
    finally:
        progress.clear()
    if not args.quiet:
        _summarize(result, str(args.out))


def resume_command(args: argparse.Namespace) -> None:
    from cluster.options import RayOptions
    from decopa.runs.checkpointed import resume

    progress = progress_line(quiet=args.quiet)
    progress.phase("going on")
    try:
        result = resume(
            args.checkpoint,
            units=args.units,
            ray=RayOptions(address=args.address),
            progress=progress,
            recovered=None if args.quiet else _tell_recovery,
        )
    finally:
        progress.clear()
    if not args.quiet:
        _summarize(result, None)


def _tell_recovery(recovery: Recovery) -> None:
    tell("recovered", f"{recovery.lost} was lost; back at checkpoint {recovery.checkpoint} in {recovery.seconds:.1f} s")


def _summarize(result: CheckpointedRun, out: str | None) -> None:
    if result.run is None:
        tell("note", "the run had ended already; nothing was left to do")
    else:
        tell("events", f"{result.run.events:,}, the last of them in {result.run.seconds:.2f} s")
    if result.checkpoint_s:
        median = numbers.median(result.checkpoint_s)
        tell("checkpoints", f"{len(result.checkpoint_s):,}, median {median * 1e3:,.0f} ms from barrier to publication")
    if result.given_up:
        tell("note", f"{len(result.given_up):,} checkpoints could not be written, the last: {result.given_up[-1]}")
    if result.recoveries:
        tell("recoveries", f"{len(result.recoveries):,}")
    tell("matches", f"{result.published.matches:,} in {len(result.published.parts):,} parts")
    if out is not None:
        tell("output", out)
