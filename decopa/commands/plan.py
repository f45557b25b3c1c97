"""`decopa plan`: the plan by which `decopa run` would find the matches."""

from __future__ import annotations

import argparse
import sys

from decopa.commands.arguments.inputs import planning, priced_parts, read_queries, statistics_of
from decopa.commands.arguments.options import (
    Subparsers,
    add_output_arguments,
    add_planning_arguments,
    add_query_argument,
    add_quiet_argument,
    add_trace_arguments,
    described,
)
from decopa.commands.terminal import tell, width


def register(commands: Subparsers) -> None:
    parser = described(
        commands.add_parser("plan", help="make a plan for a query"),
        "Makes the plan by which `decopa run` would find the matches, as JSON for --plan, and shows it as a tree.",
        "decopa plan query.txt --stats stats.json --units 8 --out plan.json",
    )
    add_query_argument(parser)
    add_planning_arguments(parser, "processing units (default: 1)")
    add_trace_arguments(parser, required=False)
    add_quiet_argument(parser)
    add_output_arguments(parser, "where the plan goes (default: printed)")
    parser.set_defaults(action=plan_command)


def plan_command(args: argparse.Namespace) -> None:
    from decopa.files import check_writable, write_text

    queries = read_queries(args.query, args.language)
    if args.out is not None:
        check_writable(args.out, args.overwrite, suffixes=())
    from decopa.report.explain import explain
    from decopa.runs.preparation.planning import choose_plan, per_part

    informed = args.stats is not None or args.trace is not None
    notices: tuple[str, ...] = ()
    if args.strategy is None and not informed:
        notices = ("planned left-deep; give --stats FILE or --trace FILE for a better plan",)
    needed = informed or args.strategy not in (None, "left-deep")
    statistics, measured = statistics_of(args, queries) if needed else ([], ())
    chosen = choose_plan(planning(args), queries, statistics)
    if args.out is None:
        print(chosen.plan.to_json(), end="")
    else:
        write_text(chosen.plan.to_json(), args.out, overwrite=args.overwrite)
    if args.quiet:
        return
    for notice in (*notices, *measured, *chosen.notices):
        tell("note", notice)
    known = per_part(chosen.plan, queries, statistics)
    priced = priced_parts(args, chosen.plan, [one for one in known if one is not None]) if statistics else None
    print(explain(chosen.plan, priced, color=sys.stderr.isatty(), width=width()), end="", file=sys.stderr)
