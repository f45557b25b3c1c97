"""`decopa explain`: plans as trees, with loads and limits if there are statistics."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from decopa.commands.arguments.inputs import priced_parts, read_plan, read_statistics
from decopa.commands.arguments.options import Subparsers, add_cost_arguments, described
from decopa.commands.terminal import tell, width
from decopa.errors import StatisticsError


def register(commands: Subparsers) -> None:
    parser = described(
        commands.add_parser("explain", help="show a plan as a tree"),
        "Shows the operators of plans, each above what it is fed by, with rule, units and how its matches travel; with "
        "--stats also what each unit has to do, and what limits the plan.",
        "decopa explain plan.json other.json --stats stats.json --html plans.html",
    )
    parser.add_argument(
        "plans",
        metavar="PLAN",
        type=Path,
        nargs="+",
        help="files written by `decopa plan`, all for the same query",
    )
    add_cost_arguments(parser)
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a page with the plans drawn side by side")
    parser.add_argument("--overwrite", action="store_true", help="replace the page if it exists")
    parser.set_defaults(action=explain_command)


def explain_command(args: argparse.Namespace) -> None:
    from decopa.files import check_writable, write_text
    from decopa.planning.workload.statistics import part_statistics
    from decopa.report.explain import explain

    if args.html is not None:
        check_writable(args.html, args.overwrite, suffixes=(".html",))
        if args.stats is None:
            raise StatisticsError("--html draws rates and loads, which need --stats FILE; make it with `decopa stats`")
    drawn = []
    for path in args.plans:
        plan = read_plan(path)
        priced = None
        if args.stats is not None:
            statistics = read_statistics(args.stats)
            for query in plan.queries:
                statistics.check_fits(query)
            known = part_statistics(plan, [statistics] * len(plan.reported))
            priced = priced_parts(args, plan, [one for one in known if one is not None])
        if len(args.plans) > 1:
            print(f"{path}:")
        print(explain(plan, priced, color=sys.stdout.isatty(), width=width()), end="")
        drawn += [(path.stem, one) for one in priced or ()]
    if args.html is not None:
        from decopa.report.plan_page import NamedPlan, plan_page

        write_text(plan_page([NamedPlan(*one) for one in drawn]), args.html, overwrite=args.overwrite)
        tell("page", str(args.html))
