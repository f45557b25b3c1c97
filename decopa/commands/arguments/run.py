"""The arguments of `decopa run`, and the RunSpec that they mean together. Nothing heavy is imported for --help."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from decopa.choices import (
    BAD_ROW_POLICIES,
    COMPRESSIONS,
    DEFAULT_CHECKPOINT_S,
    DEFAULT_MAX_FOLDER_BYTES,
    DEFAULT_MAX_GROUPS,
    DEFAULT_MAX_MATCHES,
    DEFAULT_MAX_SPILL_BYTES,
    DEFAULT_MAX_STATE_BYTES,
    LATE_POLICIES,
    LIMIT_POLICIES,
    ORDERS,
    PART_FORMATS,
    PLACEMENTS,
    RUNTIMES,
)
from decopa.commands.arguments.changes import adapt_of, check_changes, counts_only, rules_of
from decopa.commands.arguments.inputs import check_emulation, node_speeds_of, planning, trace_options
from decopa.commands.arguments.source import STANDARD_INPUT, check_source, is_live
from decopa.commands.arguments.types import count, duration, kinds, pin, positive, trace
from decopa.commands.running.dry_run import add_dry_run_argument
from decopa.errors import DecoPaError

if TYPE_CHECKING:
    from actors.group import Limits
    from decopa.runs.spec import Output, RunSpec

EXAMPLES = """examples:
  decopa run 'PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10 s' --trace trace.parquet --units 4 --out matches.parquet
  decopa run query.txt --trace trace.parquet --plan plan.json --stats stats.json
  decopa run query.txt --trace trace.parquet --units 8 --address auto        on a running Ray cluster
  decopa run query.txt --trace trace.parquet --units 4 --speed 60            replay: a minute of the trace per second
  decopa run query.txt --trace trace.parquet --units 8 --emulate --iota 1e5 --kappa 1e6
  decopa run query.txt --trace kafka://localhost:9092/events --checkpoint checkpoints/ --out matches/
  decopa run query.txt --follow incoming/ --checkpoint checkpoints/ --out kafka://localhost:9092/matches
  tail -f events.jsonl | decopa run query.txt --trace - --allowed-lateness '2 s' --late drop
  tail -f events.jsonl | decopa run query.txt --trace - --adapt             a plan that follows the stream
  decopa run query.txt --trace trace.parquet                                 in this process, without Ray
  decopa run query.txt --trace trace.parquet --units 4 --out matches/        files, written where matches are found
  decopa run query.txt --trace trace.parquet --out none                      how many matches there are
"""


def add_runtime_arguments(run: argparse.ArgumentParser) -> None:
    """Where and how the plan runs."""
    run.add_argument(
        "--runtime",
        choices=RUNTIMES,
        help="ray: each processing unit is an actor, on this machine or a cluster; local: all in this process "
        "(default: ray if --units, --spark, --checkpoint or an option of Ray is given, else local)",
    )
    run.add_argument(
        "--timed-out", action="store_true", help="report partial matches that nothing continued in time, too"
    )
    run.add_argument("--plan", metavar="FILE", type=Path, help="run this plan (see `decopa plan`) instead of a new one")
    run.add_argument(
        "--probe",
        metavar="S",
        type=positive,
        help="try the best candidate plans on the beginning of a stored trace, for this many seconds in all, and run "
        "the one that measures best (default: off)",
    )
    run.add_argument("--batch-size", metavar="N", type=count, help="events that are processed together")
    run.add_argument("--max-matches", metavar="N", type=count, help="stop above this many (default: 10 million)")
    run.add_argument(
        "--max-groups",
        metavar="N",
        type=count,
        help="stop if a unit forms more KL groups than this out of one batch (default: 50 million)",
    )
    run.add_argument(
        "--on-limit",
        choices=LIMIT_POLICIES,
        default=LIMIT_POLICIES[0],
        help="what happens when a query exceeds one of these limits or --max-state-mb: the run ends, or it goes on "
        "without this query, with --runtime local (default: %(default)s)",
    )
    run.add_argument("--max-comparisons", metavar="N", type=count, help="stop after this many, of all units together")
    run.add_argument("--max-seconds", metavar="S", type=positive, help="stop after this many seconds")
    run.add_argument(
        "--force", action="store_true", help="run a plan even if it is predicted to exceed limits or to take hours"
    )
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
    run.add_argument(
        "--max-out-mb",
        metavar="N",
        type=count,
        help=f"stop if one process writes more to the folder --out (default: {DEFAULT_MAX_FOLDER_BYTES // 2**20})",
    )
    run.add_argument(
        "--order",
        choices=ORDERS,
        help="of matches: by end, start and ids (canonical), by end only, or as they are found "
        f"(default: {ORDERS[0]}; of a folder, {ORDERS[1]} in each file)",
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
    ray.add_argument("--sinks", metavar="N", type=count, help="processes that collect matches (default: 1)")
    ray.add_argument(
        "--compress",
        choices=COMPRESSIONS,
        help="messages between processes, for networks slower than about 1 Gbit/s: zstd makes them smaller, lz4 takes "
        "less time (default: not at all)",
    )
    add_placement_arguments(ray)
    add_wait_argument(ray)
    add_dry_run_argument(ray)
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


def add_placement_arguments(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--placement",
        metavar="HOW",
        type=str.upper,
        choices=PLACEMENTS,
        help=f"of units on nodes: {', '.join(PLACEMENTS)}; EDGES keeps processes that exchange much on one node, the "
        f"others are Ray's (default: {PLACEMENTS[0]})",
    )
    parser.add_argument(
        "--pin",
        metavar="NAME=NODE",
        type=pin,
        action="append",
        default=[],
        help="put a unit (q/o5/0), an operator (o5) or a shuffler (shuffler/0) on the node with this address; may be "
        "repeated",
    )


def add_wait_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--wait-for-nodes",
        metavar="TIME",
        type=duration,
        help="how long to wait for nodes that are still to join (default: 10 min if an autoscaler can start enough of "
        "them, else not at all)",
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
    live = run.add_argument_group("live streams")
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
        "--late-file",
        metavar="FILE",
        type=trace,
        help="where --late divert writes them, as JSON lines; or kafka://HOST:PORT/TOPIC, nats://HOST:PORT/SUBJECT",
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
        help="what columns of JSON and CSV hold (int, float, string, bool, time), where the first lines do not show it",
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
    safe.add_argument(
        "--out-format",
        choices=PART_FORMATS,
        help=f"of the parts (default: {PART_FORMATS[0]}, with --rules {PART_FORMATS[1]})",
    )


# ------------------------------------------------------------------ what they mean


def check(args: argparse.Namespace) -> None:
    """Refuses arguments that only mean something beside others; the rest is refused by `decopa.runs.support`."""
    check_emulation(args)
    check_changes(args)
    for given, needed, message in (
        (args.max_spill_mb, args.spill, "--max-spill-mb limits what is spilled; name a folder for it with --spill DIR"),
        (args.dead_letters, args.bad_rows == "divert", "--dead-letters takes diverted rows; add --bad-rows divert"),
        (args.checkpoint_every, args.checkpoint, "--checkpoint-every needs checkpoints; add --checkpoint DIR"),
        (args.out_format, args.checkpoint, "--out-format is that of parts; add --checkpoint DIR, or leave it out"),
    ):
        if given is not None and not needed:
            raise DecoPaError(message)
    folder = args.out is not None and not (isinstance(args.out, Path) and args.out.suffix) and not counts_only(args)
    if args.checkpoint is not None and not folder:
        raise DecoPaError("a run with --checkpoint needs --out DIR, a folder for the parts of its result, or a topic")
    if args.checkpoint is None and isinstance(args.out, str):
        raise DecoPaError(
            f"matches go to {args.out} with checkpoints only, since they leave with them; add --checkpoint DIR"
        )
    check_source(args)
    if args.spark and (args.ts_unit not in (None, "us") or is_live(args)):
        raise DecoPaError("--spark reads stored traces whose times are timestamps or microseconds; leave out --spark")
    if (args.late == "divert") != (args.late_file is not None):
        raise DecoPaError("late events are written to a file with --late divert and --late-file FILE, both together")
    if not is_live(args):
        about_parts = () if args.rules is not None else ("part_rows", "part_every")
        for name in ("allowed_lateness", "late", "late_file", *about_parts):
            if getattr(args, name) is not None:
                flag = f"--{name.replace('_', '-')}"
                raise DecoPaError(f"{flag} is about live streams; leave it out, or read one with --trace -")
    elif args.report is not None:
        raise DecoPaError("--report is about stored traces; watch a live run on Ray's dashboard (docs/profiling.md)")
    if args.checkpoint is not None and args.trace == STANDARD_INPUT:
        raise DecoPaError("a live stream cannot be read again, so it cannot have checkpoints; leave out --checkpoint")


def spec_of(args: argparse.Namespace) -> RunSpec:
    """The run that the arguments ask for."""
    from dataclasses import replace

    from cluster.options import Checkpoints, Placement, RayOptions
    from decopa.runs.spec import RunSpec
    from shuffler.exchange.outbox import FlushPolicy
    from shuffler.source.dead_letters import BadRows
    from shuffler.source.lateness import Lateness
    from shuffler.source.pacing import Replay

    chosen = replace(planning(args), probe_s=args.probe or 0.0, force=args.force)
    reading = replace(
        trace_options(args),
        lateness=Lateness(args.allowed_lateness or 0, args.late or LATE_POLICIES[0], args.late_file),
        bad_rows=BadRows(args.bad_rows, args.dead_letters),
        require_types=True,
        batch_size=args.batch_size,
    )
    ray = RayOptions(
        address=args.address,
        policy=FlushPolicy(compression=args.compress),
        shufflers=args.shufflers or 1,
        sinks=args.sinks or 1,
        placement=Placement(args.placement or PLACEMENTS[0], dict(args.pin) or None, speeds=node_speeds_of(args)),
        replay=Replay(args.speed, args.rate),
        emulate={"": chosen.capacity} if args.emulate else {},
        wait_for_nodes_s=None if args.wait_for_nodes is None else args.wait_for_nodes / 1e6,
    )
    every_s = DEFAULT_CHECKPOINT_S if args.checkpoint_every is None else args.checkpoint_every / 1e6
    return RunSpec(
        reading,
        chosen,
        _limits(args),
        ray,
        args.runtime,
        _output(args),
        None if args.checkpoint is None else Checkpoints(str(args.checkpoint), every_s),
        args.order,
        counts_only(args),
        adapt_of(args),
        rules_of(args),
    )


def _output(args: argparse.Namespace) -> Output | None:
    from decopa.runs.spec import Output

    if args.out is None or counts_only(args):
        return None
    most = DEFAULT_MAX_FOLDER_BYTES if args.max_out_mb is None else args.max_out_mb * 2**20
    # Which columns a part has depends on the rules that report at that moment, if they come and go.
    usual = PART_FORMATS[0] if args.rules is None else PART_FORMATS[1]
    return Output(str(args.out), args.out_format or usual, args.overwrite, most)


def _limits(args: argparse.Namespace) -> Limits:
    from actors.columnar.memory import Spill
    from actors.group import Limits

    spill_mb = args.max_spill_mb or DEFAULT_MAX_SPILL_BYTES // 2**20
    return Limits(
        args.max_matches or DEFAULT_MAX_MATCHES,
        (args.max_state_mb or DEFAULT_MAX_STATE_BYTES // 2**20) * 2**20,
        None if args.spill is None else Spill(args.spill.resolve(), spill_mb * 2**20),
        args.max_groups or DEFAULT_MAX_GROUPS,
        args.max_comparisons,
        args.max_seconds,
        args.on_limit,
    )
