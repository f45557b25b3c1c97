"""The command line: finds the command, runs it, and turns what goes wrong into one line and a status.

Results go to stdout or to files, everything else to stderr. Status 0 is success, 2 bad input (one line that says what,
where and how to fix it, and nothing written), 130 an interrupt, 143 a request to terminate; `cluster` and `submit` have
others of their own. Commands import what is slow to import themselves.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from decopa import __version__
from decopa.commands import calibrate, cluster, explain, network, plan, scale, stats, submit, traces, why
from decopa.commands.arguments.inputs import located
from decopa.commands.arguments.options import Parser
from decopa.commands.running import resume, rules, run
from decopa.errors import DecoPaError, QueryError

_EXIT_BAD_INPUT, _EXIT_INTERRUPTED, _EXIT_BROKEN_PIPE = 2, 130, 141
#: In the order of --help.
_COMMANDS = (run, resume, rules, plan, explain, stats, why, calibrate, scale, network, traces, cluster, submit)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit status."""
    try:
        args = make_parser().parse_args(argv)
        status = _carried_out(args)
        sys.stdout.flush()
    except DecoPaError as err:
        print(f"decopa: error: {' '.join(str(err).split())}", file=sys.stderr)
        return _EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print("decopa: interrupted", file=sys.stderr)
        return _EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; let the interpreter's last flush go nowhere instead of failing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_BROKEN_PIPE
    return status or 0


def _carried_out(args: argparse.Namespace) -> int | None:
    try:
        status: int | None = args.action(args)
    except QueryError as err:
        given = getattr(args, "query", None)
        raise (located(err, given) if isinstance(given, str) else err) from err
    return status


def make_parser() -> argparse.ArgumentParser:
    """Parsed arguments have the function that carries the command out in `action`."""
    parser = Parser(
        prog="decopa",
        description="Finds complex-event patterns in event streams, in parallel.",
        epilog="`decopa COMMAND --help` explains a command and shows an example.",
    )
    parser.add_argument("--version", action="version", version=f"decopa {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command", parser_class=Parser)
    for module in _COMMANDS:
        module.register(commands)
    return parser
