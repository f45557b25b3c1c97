"""The arguments of `decopa run`, and the RunSpec that they mean together. Nothing heavy is imported for --help."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from decopa.choices import (
    BAD_ROW_POLICIES,
    DEFAULT_CHECKPOINT_S,
    DEFAULT_MAX_MATCHES,
    DEFAULT_MAX_SPILL_BYTES,
    DEFAULT_MAX_STATE_BYTES,
    LATE_POLICIES,
    PART_FORMATS,
    PLACEMENTS,
    RUNTIMES,
)
from decopa.commands.inputs import STANDARD_INPUT, check_emulation, planning, trace_options
from decopa.commands.option_types import count, duration, kinds, pin, positive
from decopa.errors import DecoPaError

if TYPE_CHECKING:
    from actors.group import Limits
    from decopa.runs.spec import RunSpec

EXAMPLES = """examples:
  decopa run 'PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10 s' --trace trace.parquet --units 4 --out matches.parquet
  decopa run query.txt --trace trace.parquet --plan plan.json --stats stats.json
  decopa run query.txt --trace trace.parquet --units 8 --address auto        on a running Ray cluster
  decopa run query.txt --trace trace.parquet --units 4 --speed 60            replay: a minute of the trace per second
  decopa run query.txt --trace trace.parquet --units 8 --emulate --iota 1e5 --kappa 1e6
  tail -f events.jsonl | decopa run query.txt --trace - --allowed-lateness '2 s' --late drop
  decopa run query.txt --trace trace.parquet                                 in this process, without Ray
"""


def add_runtime_arguments(run: argparse.ArgumentParser) -> None:
    """Where and how the plan runs."""
    run.add_argument(
        "--runtime",
        choices=RUNTIMES,
        help="ray: each processing unit is an actor, on this machine or a cluster; local: all in this process "
        "(default: ray if --units, --address, --spark or --checkpoint is given, else local)",
    )
    run.add_argument("--plan", metavar="FILE", type=Path, help="run this plan (see `decopa plan`) instead of a new one")
    run.add_argument("--batch-size", metavar="N", type=count, help="events that are processed together")
    run.add_argument("--max-matches", metavar="N", type=count, help="stop above this many (default: 10 million)")
    run.add_argument(
        "--max-state-mb",
        metavar="N",
        type=count,
        help="stop if a unit stores more than this, or go on with --spill (default: 4096)",
    )
    run.add_argument(
        "--spill",
        metavar="DIR",
        type=Path,
        help="a folder, on every node, for what a unit stores beyond --max-state-mb",
    )
    run.add_argument(
        "--max-spill-mb", metavar="N", type=count, help="stop if a unit spills more than this (default: 65536)"
    )
    run.add_argument("--report", metavar="FILE", type=Path, help="write a page (.html) about the run")
    ray = run.add_argument_group("on Ray")
    ray.add_argument(
        "--address",
        metavar="ADDRESS",
        help="a running Ray cluster: its address, or auto for the one on this machine (default: RAY_ADDRESS if set, "
        "else a Ray is started for the run)",
    )
    ray.add_argument("--shufflers", metavar="N", type=count, help="processes that deal out events (default: 1)")
    ray.add_argument(
        "--placement",
        metavar="HOW",
        type=str.upper,
        choices=PLACEMENTS,
        help=f"of units on nodes, Ray's strategies: {', '.join(PLACEMENTS)} (default: {PLACEMENTS[0]})",
    )
    ray.add_argument(
        "--pin",
        metavar="NAME=NODE",
        type=pin,
        action="append",
        default=[],
        help="put a unit (q/o5/0), an operator (o5) or a shuffler (shuffler/0) on the node with this address; may be "
        "repeated",
    )
    pace = ray.add_mutually_exclusive_group()
    pace.add_argument(
        "--speed", metavar="X", type=positive, help="replay the trace in event time, X times faster than it happened"
    )
    pace.add_argument("--rate", metavar="R", type=positive, help="replay the trace at R events per second")
    ray.add_argument(
        "--emulate",
        action="store_true",
        help="units take as long as ones of the capacity --iota and --kappa would; the result is labelled emulated",
    )


def add_bad_row_arguments(run: argparse.ArgumentParser) -> None:
    bad = run.add_argument_group("rows that cannot be used: missing ids, times out of range, NaN, repeated ids")
    policy = bad.add_mutually_exclusive_group()
    policy.add_argument(
        "--bad-rows",
        choices=BAD_ROW_POLICIES,
        default=BAD_ROW_POLICIES[0],
        help="fail: stop at the first one; divert: leave them out and count them (default: %(default)s)",
    )
    policy.add_argument("--strict", action="store_true", help="the same as --bad-rows fail")
    bad.add_argument(
        "--dead-letters",
        metavar="FILE",
        type=Path,
        help="where diverted rows go, each with the reason, as JSON lines; a file that is there is replaced",
    )


def add_stream_arguments(run: argparse.ArgumentParser) -> None:
    live = run.add_argument_group("live streams (--trace -)")
    live.add_argument(
        "--allowed-lateness",
        metavar="TIME",
        type=duration,
        help="how far events may be out of order, such as '500 ms' (default: not at all)",
    )
    live.add_argument(
        "--late", choices=LATE_POLICIES, help="what to do with events that come later still (default: fail)"
    )
    live.add_argument(
        "--part-rows", metavar="N", type=count, help="matches in a part, if --out is a folder (default: 100,000)"
    )
    live.add_argument(
        "--part-every",
        metavar="TIME",
        type=duration,
        help="the longest that a match waits for its part, if --out is a folder (default: 10 s)",
    )
    live.add_argument(
        "--schema",
        metavar="NAME=KIND,...",
        type=kinds,
        help="what columns hold (int, float, string, bool, time), where the first lines do not show it",
    )


def add_checkpoint_arguments(run: argparse.ArgumentParser) -> None:
    safe = run.add_argument_group("checkpoints (on Ray)")
    safe.add_argument(
        "--checkpoint",
        metavar="DIR",
        type=Path,
        help="keep checkpoints here, and continue from the last one: any process may die. --out is then a folder, in "
        "which matches appear part by part, each once",
    )
    safe.add_argument(
        "--checkpoint-every",
        metavar="TIME",
        type=duration,
        help=f"how often (default: {DEFAULT_CHECKPOINT_S:g} s)",
    )
    safe.add_argument("--out-format", choices=PART_FORMATS, help=f"of the parts (default: {PART_FORMATS[0]})")


# ------------------------------------------------------------------ what they mean


def check(args: argparse.Namespace) -> None:
    """Refuses arguments that only mean something beside others; the rest is refused by `decopa.runs.support`."""
    check_emulation(args)
    for given, needed, message in (
        (args.max_spill_mb, args.spill, "--max-spill-mb limits what is spilled; name a folder for it with --spill DIR"),
        (args.dead_letters, args.bad_rows == "divert", "--dead-letters takes diverted rows; add --bad-rows divert"),
        (args.checkpoint_every, args.checkpoint, "--checkpoint-every needs checkpoints; add --checkpoint DIR"),
        (args.out_format, args.checkpoint, "--out-format is that of parts; add --checkpoint DIR, or leave it out"),
    ):
        if given is not None and not needed:
            raise DecoPaError(message)
    if args.checkpoint is not None and (args.out is None or args.out.suffix):
        raise DecoPaError("a run with --checkpoint needs --out DIR, a folder for the parts of its result")
    if args.trace != STANDARD_INPUT:
        for flag, value in (("--part-rows", args.part_rows), ("--part-every", args.part_every)):
            if value is not None:
                raise DecoPaError(f"{flag} is about live streams; leave it out, or read one with --trace -")
    elif args.report is not None:
        raise DecoPaError("--report is about stored traces; watch a live run on Ray's dashboard (docs/profiling.md)")
    if args.checkpoint is not None and args.trace == STANDARD_INPUT:
        raise DecoPaError("a live stream cannot be read again, so it cannot have checkpoints; leave out --checkpoint")


def spec_of(args: argparse.Namespace) -> RunSpec:
    """The run that the arguments ask for."""
    from dataclasses import replace

    from cluster.options import Checkpoints, Placement, RayOptions
    from decopa.runs.spec import Output, RunSpec
    from shuffler.source.dead_letters import BadRows
    from shuffler.source.lateness import Lateness
    from shuffler.source.pacing import Replay

    chosen = planning(args)
    trace = replace(
        trace_options(args),
        lateness=Lateness(args.allowed_lateness or 0, args.late or LATE_POLICIES[0]),
        bad_rows=BadRows(args.bad_rows, args.dead_letters),
        kinds=args.schema or {},
        require_types=True,
        batch_size=args.batch_size,
    )
    ray = RayOptions(
        address=args.address,
        shufflers=args.shufflers or 1,
        placement=Placement(args.placement or PLACEMENTS[0], dict(args.pin) or None),
        replay=Replay(args.speed, args.rate),
        emulate={"": chosen.capacity} if args.emulate else {},
    )
    every_s = DEFAULT_CHECKPOINT_S if args.checkpoint_every is None else args.checkpoint_every / 1e6
    return RunSpec(
        trace,
        chosen,
        _limits(args),
        ray,
        args.runtime,
        None if args.out is None else Output(str(args.out), args.out_format or PART_FORMATS[0], args.overwrite),
        None if args.checkpoint is None else Checkpoints(str(args.checkpoint), every_s),
    )


def _limits(args: argparse.Namespace) -> Limits:
    from actors.columnar.memory import Spill
    from actors.group import Limits

    spill_mb = args.max_spill_mb or DEFAULT_MAX_SPILL_BYTES // 2**20
    return Limits(
        args.max_matches or DEFAULT_MAX_MATCHES,
        (args.max_state_mb or DEFAULT_MAX_STATE_BYTES // 2**20) * 2**20,
        None if args.spill is None else Spill(args.spill.resolve(), spill_mb * 2**20),
    )
