"""The arguments of `decopa run` about what changes while a run goes on: its plan, and its queries."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from decopa.choices import DEFAULT_ADAPT_EVERY_S, DEFAULT_ADAPT_GAIN, DEFAULT_HISTORY_BYTES, NO_OUTPUT
from decopa.commands.arguments.types import count, duration, positive
from decopa.errors import DecoPaError

if TYPE_CHECKING:
    from decopa.planning.change.options import Adapt
    from decopa.runs.spec import Rules


def add_adapt_arguments(run: argparse.ArgumentParser) -> None:
    adapt = run.add_argument_group("plans that follow the stream")
    adapt.add_argument(
        "--adapt",
        action="store_true",
        help="watch rates and selectivities, and change to a better plan while the run goes on; no match is lost",
    )
    adapt.add_argument(
        "--adapt-gain",
        metavar="X",
        type=positive,
        help=f"another plan must sustain this many times as much (default: {DEFAULT_ADAPT_GAIN:g})",
    )
    adapt.add_argument(
        "--adapt-every",
        metavar="TIME",
        type=duration,
        help=f"how often to look; of stored traces, event time (default: {DEFAULT_ADAPT_EVERY_S:g} s)",
    )
    adapt.add_argument(
        "--adapt-history-mb",
        metavar="N",
        type=count,
        help=f"events of a live stream that are kept to build a plan from (default: {DEFAULT_HISTORY_BYTES // 2**20})",
    )
    adapt.add_argument(
        "--adapt-log", metavar="FILE", type=Path, help="append a line of JSON for every change, such as changes.jsonl"
    )


def add_rule_arguments(run: argparse.ArgumentParser) -> None:
    rules = run.add_argument_group("rules that come and go")
    rules.add_argument(
        "--rules",
        metavar="DIR",
        type=Path,
        help="a folder for changes of the queries while the run goes on, see `decopa rules`; in this process, or with "
        "--checkpoint on Ray",
    )
    rules.add_argument(
        "--keep-history",
        metavar="TIME",
        type=duration,
        help="events of a live stream that are kept for rules to come (default: what the present rules look back to)",
    )


def adapt_of(args: argparse.Namespace) -> Adapt | None:
    """How the plan follows the stream, if it does."""
    if not args.adapt:
        return None
    from decopa.planning.change.options import Adapt

    return Adapt(
        gain=args.adapt_gain or DEFAULT_ADAPT_GAIN,
        every_s=DEFAULT_ADAPT_EVERY_S if args.adapt_every is None else args.adapt_every / 1e6,
        units=args.units if isinstance(args.units, tuple) else None,
        max_history_bytes=(args.adapt_history_mb or DEFAULT_HISTORY_BYTES // 2**20) * 2**20,
        log=None if args.adapt_log is None else str(args.adapt_log),
    )


def rules_of(args: argparse.Namespace) -> Rules | None:
    """The rules of a run with checkpoints, if they come and go; without checkpoints another kind of run has them."""
    if args.rules is None or args.checkpoint is None:
        return None
    from decopa.runs.spec import Rules

    return Rules(str(args.rules), args.keep_history or 0)


def check_changes(args: argparse.Namespace) -> None:
    """Refuses arguments that only mean something beside others."""
    for name in ("adapt_gain", "adapt_every", "adapt_history_mb", "adapt_log"):
        if getattr(args, name) is not None and not args.adapt:
            raise DecoPaError(f"--{name.replace('_', '-')} is about plans that change; add --adapt")
    if isinstance(args.units, tuple) and not args.adapt:
        raise DecoPaError(
            "--units FEWEST:MOST lets a run take more or fewer units while it goes on; add --adapt, or name one number"
        )
    if args.keep_history is not None and args.rules is None:
        raise DecoPaError("--keep-history is about rules that come and go; add --rules DIR")
    _check_rules(args)


def _check_rules(args: argparse.Namespace) -> None:
    """Refuses what does not go with rules that come and go."""
    if args.rules is None:
        return
    for given, flag in (
        (args.adapt or None, "--adapt"),
        (args.spark or None, "--spark"),
        (args.report, "--report"),
        (args.order, "--order"),
        (args.spill, "--spill"),
    ):
        if given is not None:
            raise DecoPaError(f"{flag} does not go with --rules: rules come and go, and report matches as they happen")
    if counts_only(args):
        raise DecoPaError("--out none does not go with --rules: rules report matches as they happen")


def counts_only(args: argparse.Namespace) -> bool:
    """Whether matches are counted and not made."""
    return args.out is not None and str(args.out).lower() == NO_OUTPUT
