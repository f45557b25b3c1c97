"""`decopa calibrate`: what can one processing unit do with this query, here or on every node of a cluster?"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from decopa.choices import DEFAULT_CALIBRATION_EVENTS, DEFAULT_CALIBRATION_REPEATS
from decopa.commands.arguments.inputs import open_stored, read_queries
from decopa.commands.arguments.options import (
    Subparsers,
    add_query_argument,
    add_quiet_argument,
    add_trace_arguments,
    described,
)
from decopa.commands.arguments.types import count
from decopa.commands.terminal import progress_line, tell

if TYPE_CHECKING:
    from costmodel.calibration import Calibration, NodeCalibration

ABOUT = (
    "Runs the query's operators on Ray, each as a processing unit would, under growing load, and finds what a unit can "
    "do in a second: events taken in (iota), comparisons with the query's own conditions (kappa), matches put out and "
    "shipped (epsilon). "
    "For --capacity of plan, run, explain and scale."
)


def register(commands: Subparsers) -> None:
    parser = described(
        commands.add_parser("calibrate", help="measure what a processing unit can do"),
        ABOUT,
        "decopa calibrate query.txt --trace trace.parquet --out capacity.json",
    )
    add_query_argument(parser)
    add_trace_arguments(parser, required=False)
    add_quiet_argument(parser)
    parser.set_defaults(action=calibrate_command)
    parser.add_argument("--out", metavar="FILE", type=Path, help="where the capacity goes (default: printed)")
    parser.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")
    parser.add_argument(
        "--events",
        metavar="N",
        type=count,
        default=DEFAULT_CALIBRATION_EVENTS,
        help="events to measure with (default: 200,000)",
    )
    parser.add_argument(
        "--repeats",
        metavar="N",
        type=count,
        default=DEFAULT_CALIBRATION_REPEATS,
        help="for the spread (default: %(default)s)",
    )
    parser.add_argument(
        "--address",
        metavar="ADDRESS",
        help="measure on every node of this Ray cluster (auto for the one on this machine); default: one is started",
    )


def calibrate_command(args: argparse.Namespace) -> None:
    from decopa.files import check_writable, write_text
    from decopa.runs.scaling.calibration import calibrated, largest_branch, made_up_events

    query = largest_branch(read_queries(args.query, args.language))
    if args.out is not None:
        check_writable(args.out, args.overwrite, suffixes=())
    progress = progress_line(quiet=args.quiet)
    try:
        progress.phase("opening the trace" if args.trace is not None else "making events up")
        source = open_stored(args) if args.trace is not None else made_up_events(query, args.events)
        progress.phase("measuring")
        found = calibrated(query, source, events=args.events, repeats=args.repeats, address=args.address)
    finally:
        progress.clear()
    if args.out is None:
        print(found.to_json(), end="")
    else:
        write_text(found.to_json(), args.out, overwrite=args.overwrite)
    if not args.quiet:
        for line in summary(found):
            tell(*line)
        if args.trace is None:
            tell("note", "measured with events that were made up; give --trace FILE for the query's own")
        if args.out is not None:
            tell("output", str(args.out))


def summary(found: Calibration) -> list[tuple[str, str]]:
    """Lines of (what, value): the mean, then every node."""
    capacity, spread = found.capacity, found.spread
    assert capacity.max_emission is not None
    rows = (
        ("iota", capacity.max_ingestion, "ingested", "events or matches taken in per second"),
        ("kappa", capacity.max_comparisons, "comparisons", "comparisons per second"),
        ("epsilon", capacity.max_emission, "emitted", "matches put out per second"),
    )
    lines = [(name, f"{_amount(value)} {what}, +- {100 * spread[key]:.0f} %") for name, value, key, what in rows]
    return lines + [("node", node_text(node)) for node in found.nodes]


def node_text(node: NodeCalibration) -> str:
    capacity = node.capacity
    assert capacity.max_emission is not None
    shown = ", ".join(
        f"{name} {_amount(value)}"
        for name, value in (
            ("iota", capacity.max_ingestion),
            ("kappa", capacity.max_comparisons),
            ("epsilon", capacity.max_emission),
        )
    )
    ramp = sorted(node.ramps, key=lambda one: one.queueing_rate)[len(node.ramps) // 2] if node.ramps else None
    queueing = "" if ramp is None else (
        f"; the busiest unit of the query: queues grow above {_amount(ramp.queueing_rate)} rows/s, "
        f"the model says {_amount(ramp.predicted_rate)}"
    )  # fmt: skip
    return f"{node.node}: {shown}; median error of the busy time {100 * node.median_error:.0f} %{queueing}"


def _amount(value: float) -> str:
    from costmodel.calibration import NO_LIMIT_PER_S

    return "no limit seen" if value >= NO_LIMIT_PER_S else f"{value:,.3g}"
