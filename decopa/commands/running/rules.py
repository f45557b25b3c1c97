"""`decopa run --rules` and `decopa rules`: rules that come and go while a run goes on."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from decopa.choices import RULE_SIGHTS
from decopa.commands.arguments.inputs import read_queries
from decopa.commands.arguments.options import Subparsers, add_query_argument
from decopa.commands.arguments.types import positive
from decopa.commands.running.live import Signals
from decopa.commands.terminal import progress_line, tell
from decopa.errors import DecoPaError

if TYPE_CHECKING:
    from cluster.change.rules.folder import RuleChange
    from decopa.query.query import Query
    from decopa.runs.spec import RunSpec
    from decopa.runs.streams.open_run import OpenRun
    from decopa.runs.streams.outlets import Outlet

#: How long a change waits for the run's answer (s), and how often it looks.
_PATIENCE_S = 30.0
_LOOK_EVERY_S = 0.05

EXAMPLES = """examples:
  tail -f events.jsonl | decopa run query.txt --trace - --rules rules/ --out matches.jsonl
  decopa rules add rules/ 'QUERY late PATTERN SEQ(A a, NOT(B b)) WITHIN 5 min'
  decopa rules replace rules/ late new.txt --at 2013-08-02T00:00:00
  decopa rules remove rules/ late
  decopa rules list rules/
"""


def register(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "rules",
        help="add, remove or replace queries of a run that is going on",
        description="Changes the queries of a run that was started with `decopa run --rules DIR`, without stopping it. "
        "A change takes effect at a time of the stream. One that cannot be made is refused, and the run continues.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doing = parser.add_subparsers(required=True, metavar="add|remove|replace|list", dest="doing")
    for name, about, action in (
        ("add", "a query more", _add),
        ("remove", "end a rule; matches that end before are still reported", _remove),
        ("replace", "end a rule and begin its next version at the same moment", _replace),
        ("list", "the rules as they are now", _list),
    ):
        one = doing.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        one.add_argument("folder", metavar="DIR", type=Path, help="the folder that --rules named")
        if name in ("remove", "replace"):
            one.add_argument("name", metavar="NAME", help="of the rule")
        if name in ("add", "replace"):
            add_query_argument(one)
            one.add_argument(
                "--sees",
                choices=RULE_SIGHTS,
                default=RULE_SIGHTS[0],
                help="window: first matches may begin before the rule does; new: it looks at events from then on only "
                "(default: %(default)s)",
            )
        if name != "list":
            one.add_argument(
                "--at", metavar="TIME", help="event time, microseconds or ISO 8601 (default: after the last event)"
            )
            one.add_argument(
                "--wait",
                metavar="S",
                type=positive,
                default=_PATIENCE_S,
                help="seconds to wait for the run's answer (default: %(default)g)",
            )
        one.set_defaults(action=action)


def _add(args: argparse.Namespace) -> None:
    from cluster.change.rules.folder import RuleChange

    _ask(args, RuleChange("add", "", _text(args), args.sees, args.at))


def _remove(args: argparse.Namespace) -> None:
    from cluster.change.rules.folder import RuleChange

    _ask(args, RuleChange("remove", args.name, at=args.at))


def _replace(args: argparse.Namespace) -> None:
    from cluster.change.rules.folder import RuleChange

    _ask(args, RuleChange("replace", args.name, _text(args), args.sees, args.at))


def _text(args: argparse.Namespace) -> str:
    """The one query that was given, which must be one that can be read."""
    found = read_queries(args.query, args.language)
    if len(found) != 1:
        raise DecoPaError(f"a rule is one query, and the text has {len(found)}; add them one by one")
    return str(found[0])


def _ask(args: argparse.Namespace, change: RuleChange) -> None:
    """Asks for a change and shows what became of it."""
    from cluster.change.rules.folder import RuleFolder

    folder = RuleFolder(args.folder)
    number = folder.ask(change)
    before = [one for one, _ in folder.asked() if one < number and one not in folder.answers()]
    if before and folder.is_watched:
        tell("queued", f"change {number} waits for {len(before)} before it")
    ends_s = time.monotonic() + args.wait
    while True:
        answer = folder.answers().get(number)
        if answer is not None:
            break
        if not folder.is_watched:
            tell("waiting", f"change {number} waits for a run that watches '{args.folder}'")
            return
        if time.monotonic() >= ends_s:
            tell("waiting", f"change {number} has no answer after {args.wait:g} s; see `decopa rules list`")
            return
        time.sleep(_LOOK_EVERY_S)
    if "refused" in answer:
        raise DecoPaError(answer["refused"])
    when = "from the beginning of the stream" if answer["at_us"] is None else f"at {answer['at_us']:,} us"
    done = {"add": "begins", "remove": "ends", "replace": "begins"}[change.do]
    tell("changed", f"version {answer['version']} of rule '{answer['rule']}' {done} {when}")


def _list(args: argparse.Namespace) -> None:
    from cluster.change.rules.folder import RuleFolder
    from decopa.report.table import text_table

    folder = RuleFolder(args.folder)
    state, answers = folder.shown(), folder.answers()
    rows = [
        [
            str(rule["name"]),
            str(rule["version"]),
            "beginning" if rule["from_us"] is None else str(rule["from_us"]),
            "-" if rule["until_us"] is None else str(rule["until_us"]),
            str(rule["sees"]),
            f"{rule['matches']:,}",
        ]
        for rule in state["rules"]
    ]
    print(text_table(["rule", "version", "from us", "until us", "sees", "matches"], rows))
    waiting = [number for number, _ in folder.asked() if number not in answers]
    tell("run", "goes on" if folder.is_watched else "none watches this folder now")
    if waiting:
        tell("waiting", f"{len(waiting)} changes")
    for number, answer in answers.items():
        if "refused" in answer:
            tell("refused", f"change {number}: {answer['refused']}")


# ------------------------------------------------------------------ the run


def run_with_rules(args: argparse.Namespace, spec: RunSpec, queries: Sequence[Query]) -> int:
    """Runs until the stream ends or a signal stops it; changes of the folder are made in between."""
    from cluster.change.rules.folder import RuleFolder
    from decopa.runs.preparation.prepare import prepare
    from decopa.runs.streams.open_run import OpenRun
    from decopa.runs.streams.outlets import LineStream, outlet_for
    from decopa.runs.streams.rule_watch import RuleWatch
    from decopa.runs.support import asks_for_ray
    from shuffler.source.json_lines import JsonLines
    from shuffler.source.stopping import Stop, StreamStopped

    if spec.runtime == "ray" or asks_for_ray(spec):
        raise DecoPaError(
            "--rules on Ray needs --checkpoint DIR and --out DIR, so that no process that dies takes a rule with it; "
            "add them, or leave out --units and options of Ray"
        )
    spec = replace(spec, runtime="local")
    outlet: Outlet = LineStream(sys.stdout)
    if args.out is not None:
        if args.out.suffix.lower() not in ("", ".jsonl"):
            raise DecoPaError("rules have columns of their own, so --rules goes with --out FILE.jsonl or a folder")
        every_s = None if args.part_every is None else args.part_every / 1e6
        outlet = outlet_for(args.out, overwrite=args.overwrite, part_rows=args.part_rows, part_s=every_s)
    progress = progress_line(quiet=args.quiet)

    def changed(line: str) -> None:
        if not args.quiet:
            progress.clear()
            tell("rules", line)

    run: OpenRun | None = None
    with Stop() as stop, Signals(stop) as signals:
        try:
            progress.phase("waiting for the first events")
            arriving = None
            if spec.trace.path is None:
                arriving = JsonLines(sys.stdin.fileno(), ts=spec.trace.columns.ts, kinds=spec.trace.kinds, stop=stop)
            prepared = prepare(spec, queries, arriving, phase=progress.phase, stop=stop)
            run = OpenRun(prepared, keep_history_us=args.keep_history or 0)
            with RuleWatch(run, RuleFolder(args.rules), changed).open(), run:
                matches = 0
                for table in run:
                    outlet.write(table)
                    matches += table.num_rows
                    progress(run.events, matches)
                    if stop.is_set():
                        break
        except StreamStopped:
            pass  # before there was anything to run on
        finally:
            progress.clear()
            outlet.close()
    if not args.quiet and run is not None:
        tell("events", f"{run.events:,}")
        for rule in run.queries():
            tell("rule", f"{rule.name} version {rule.version}: {rule.matches:,} matches")
    return signals.status
