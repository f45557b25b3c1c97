"""The arguments of `decopa run` and what they mean together; nothing heavy is imported for --help."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from decopa.choices import BAD_ROW_POLICIES, LATE_POLICIES, PLACEMENTS, RUNTIMES
from decopa.commands.option_types import count, duration, kinds, pin, positive
from decopa.errors import DecoPaError

if TYPE_CHECKING:
    from actors.group import Limits
    from cluster.options import RayOptions
    from costmodel.capacity import Capacity
    from shuffler.source.dead_letters import BadRows
    from shuffler.source.lateness import Lateness

EXAMPLES = """examples:
  decopa run 'PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10 s' --trace trace.parquet --units 4 --out matches.parquet
  decopa run query.txt --trace trace.parquet --plan plan.json --stats stats.json
  decopa run query.txt --trace trace.parquet --units 8 --address auto        on a running Ray cluster
  decopa run query.txt --trace trace.parquet --units 4 --speed 60            replay: a minute of the trace per second
  decopa run query.txt --trace trace.parquet --units 8 --emulate --iota 1e5 --kappa 1e6
  tail -f events.jsonl | decopa run query.txt --trace - --allowed-lateness '2 s' --late drop
  decopa run query.txt --trace trace.parquet --runtime local                 in this process, without Ray
"""


def add_runtime_arguments(run: argparse.ArgumentParser) -> None:
    """Where and how the plan runs."""
    run.add_argument(
        "--runtime",
        choices=RUNTIMES,
        default="ray",
        help="ray: each processing unit is an actor, on this machine or a cluster; local: all in this process "
        "(default: %(default)s)",
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
    bad.add_argument(
        "--bad-rows",
        choices=BAD_ROW_POLICIES,
        default=BAD_ROW_POLICIES[0],
        help="fail: stop at the first one; divert: leave them out and count them (default: %(default)s)",
    )
    bad.add_argument(
        "--strict", dest="bad_rows", action="store_const", const="fail", help="the same as --bad-rows fail"
    )
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
        "--schema",
        metavar="NAME=KIND,...",
        type=kinds,
        help="what columns hold (int, float, string, bool, time), where the first lines do not show it",
    )


# ------------------------------------------------------------------ what they mean


def check(args: argparse.Namespace) -> None:
    """Refuses what does not fit together, before anything is read."""
    if args.runtime != "ray":
        given = ("address", "shufflers", "placement", "pin", "speed", "rate", "emulate")
        for name in given:
            if getattr(args, name):
                raise DecoPaError(f"--{name} is about Ray; leave it out, or use --runtime ray")
    if args.emulate and not (args.iota or args.kappa or args.capacity):
        raise DecoPaError(
            "--emulate needs to know the capacity of a unit; give --iota and --kappa, per second, or --capacity FILE"
        )
    if args.max_spill_mb is not None and args.spill is None:
        raise DecoPaError("--max-spill-mb is about what is spilled; name a folder for it with --spill DIR")
    if args.dead_letters is not None and args.bad_rows != "divert":
        raise DecoPaError("--dead-letters is about rows that are diverted; add --bad-rows divert")
    if str(args.trace) != "-":
        for name in ("allowed_lateness", "late", "schema"):
            if getattr(args, name) is not None:
                flag = name.replace("_", "-")
                raise DecoPaError(f"--{flag} is about live streams; leave it out, or read one with --trace -")


def ray_options(args: argparse.Namespace, capacity: Capacity) -> RayOptions:
    from cluster.options import Placement, RayOptions
    from shuffler.source.pacing import Replay

    return RayOptions(
        address=args.address,
        shufflers=args.shufflers or 1,
        placement=Placement(args.placement or PLACEMENTS[0], dict(args.pin)),
        replay=Replay(args.speed, args.rate),
        emulate={"": capacity} if args.emulate else {},
    )


def limits_of(args: argparse.Namespace) -> Limits:
    from dataclasses import replace

    from actors.columnar.memory import Spill
    from decopa.runs.execute import DEFAULT_LIMITS

    limits = DEFAULT_LIMITS
    if args.max_matches is not None:
        limits = replace(limits, max_matches=args.max_matches)
    if args.max_state_mb is not None:
        limits = replace(limits, max_state_bytes=args.max_state_mb * 2**20)
    if args.spill is not None:
        spill = Spill(args.spill.resolve())
        if args.max_spill_mb is not None:
            spill = replace(spill, max_bytes=args.max_spill_mb * 2**20)
        limits = replace(limits, spill=spill)
    return limits


def bad_rows_of(args: argparse.Namespace) -> BadRows:
    from shuffler.source.dead_letters import BadRows

    return BadRows(args.bad_rows, args.dead_letters)


def lateness_of(args: argparse.Namespace) -> Lateness:
    from shuffler.source.lateness import Lateness

    return Lateness(args.allowed_lateness or 0, "drop" if args.late == "drop" else "fail")
