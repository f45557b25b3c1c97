"""`decopa scale`: what throughput does a query reach on 1, 2, 4, 8 units, by which strategy?"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decopa.choices import COST_BASED, PLACEMENTS, SCALED_STRATEGIES
from decopa.commands.arguments.inputs import check_emulation, node_speeds_of, open_stored, planning, read_queries
from decopa.commands.arguments.options import (
    Subparsers,
    add_cost_arguments,
    add_query_argument,
    add_quiet_argument,
    add_trace_arguments,
)
from decopa.commands.arguments.run import add_placement_arguments, add_wait_argument
from decopa.commands.arguments.types import count, positive
from decopa.commands.terminal import progress_line, tell
from decopa.errors import DecoPaError, PlanError, did_you_mean

if TYPE_CHECKING:
    from decopa.query.query import Query
    from decopa.runs.scaling.scale_points import Point, PointKey

DEFAULT_STRATEGIES = ",".join(SCALED_STRATEGIES)
ABOUT = """\
For each number of units and each strategy: plans, deploys on Ray, and searches the largest rate of
events that is sustained, which is one at which no backlog grows during the window of observation.
Points that a folder holds already are not measured again."""
EXAMPLES = """examples:
  decopa scale query.txt --trace trace.parquet --units 1,2,4,8 --out scaling
  decopa scale query.txt --trace trace.parquet --units 5,10,20 --emulate --iota 1e4 --kappa 1e6 --target-rate 2000
"""


def register(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "scale",
        help="measure throughput on several numbers of units",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_query_argument(parser)
    add_trace_arguments(parser, required=True)
    _add_scale_arguments(parser)
    add_cost_arguments(parser)
    add_quiet_argument(parser)
    parser.set_defaults(action=scale_command)


def _add_scale_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--units", metavar="N,N,...", type=counts, required=True, help="numbers of processing units")
    parser.add_argument(
        "--strategies", metavar="NAME,...", default=DEFAULT_STRATEGIES, help="what to compare (default: %(default)s)"
    )
    parser.add_argument("--out", metavar="DIR", type=Path, help="keeps points, table, JSON and plots here")
    parser.add_argument(
        "--seconds", metavar="S", type=positive, default=10.0, help="window of observation (default: %(default)g)"
    )
    parser.add_argument(
        "--precision", metavar="P", type=positive, default=0.05, help="of the rate searched for (default: %(default)g)"
    )
    parser.add_argument("--trials", metavar="N", type=count, default=8, help="rates offered at most (default: 8)")
    parser.add_argument("--shufflers", metavar="N", type=count, default=1, help="processes that deal out events")
    parser.add_argument("--address", metavar="ADDRESS", help="a running Ray cluster (default: one is started)")
    add_placement_arguments(parser)
    add_wait_argument(parser)
    parser.add_argument(
        "--emulate",
        action="store_true",
        help="units take as long as ones of the capacity --iota and --kappa, or --capacity, would",
    )
    parser.add_argument(
        "--target-rate",
        metavar="R",
        type=positive,
        help="with --emulate: let the units' clocks run so fast that about R events/s really pass",
    )


def counts(text: str) -> list[int]:
    """`1,2,4` -> [1, 2, 4]"""
    return [count(item.strip()) for item in text.split(",")]


def scale_command(args: argparse.Namespace) -> None:
    strategies = [name.strip() for name in args.strategies.split(",") if name.strip()]
    for name in strategies:
        if name not in COST_BASED:
            raise PlanError(f"unknown strategy '{name}'{did_you_mean(name, COST_BASED)}")
    check_emulation(args)
    if args.target_rate and not args.emulate:
        raise DecoPaError("--target-rate sets the clock of emulated units; add --emulate, or leave it out")
    queries = read_queries(args.query, args.language)
    if args.out is not None and args.out.is_file():
        raise DecoPaError(f"'{args.out}' is a file; name a folder for the results")
    points = _measured(args, queries, strategies)
    _show(args, queries, points)


def _measured(args: argparse.Namespace, queries: Sequence[Query], strategies: Sequence[str]) -> list[Point]:
    import tempfile

    from cluster.ray_session import ray_session
    from decopa.runs.preparation.measure import measure
    from decopa.runs.scaling.scale_points import PointStore, measure_points, point_keys
    from decopa.runs.scaling.scale_test import ScaleSettings, ScaleTest

    progress = progress_line(quiet=args.quiet)
    chosen = planning(args)
    settings = ScaleSettings(
        chosen.capacity,
        emulate=args.emulate,
        reading=chosen.reading,
        seconds=args.seconds,
        precision=args.precision,
        most_trials=args.trials,
        shufflers=args.shufflers,
        target_rate=args.target_rate,
        address=args.address,
        placement=args.placement or PLACEMENTS[0],
        pins=tuple(args.pin),
        wait_for_nodes_s=None if args.wait_for_nodes is None else args.wait_for_nodes / 1e6,
        speeds=node_speeds_of(args),
    )
    try:
        progress.phase("measuring rates and selectivities")
        source = open_stored(args)
        known = chosen.known_statistics(len(queries))
        statistics = known or [one.statistics for one in measure(queries, source)]
        test = ScaleTest(queries, statistics, source, settings, progress.phase)
        keys = point_keys(strategies, args.units)

        def told(key: PointKey, point: Point, known: bool) -> None:
            if not args.quiet:
                progress.clear()
                label = "emulated, " if point.emulated else ""
                how = "kept" if known else f"measured in {point.seconds:.0f} s"
                rate = f"{point.measured:,.6g} events/s ({label}{how})"
                tell("point", f"{key.strategy} on {key.units}: {rate}")

        with tempfile.TemporaryDirectory() as scratch:
            store = PointStore(args.out or Path(scratch), _identity(args, queries, settings.document()))
            missing = [key.units for key in keys if store.load(key) is None]
            if not missing:
                return measure_points(keys, store, test.measure, told)
            progress.phase("starting Ray")
            # A place for each unit, and one for each shuffler; rip has a copy of the plan for each unit.
            places = max(missing) * max(1, len(queries)) + args.shufflers + 1
            with ray_session(address=args.address, cpus=places):
                return measure_points(keys, store, test.measure, told)
    finally:
        progress.clear()


def _identity(args: argparse.Namespace, queries: Sequence[Query], settings: dict[str, Any]) -> dict[str, Any]:
    """What a stored point must agree with to be used again."""
    stat = args.trace.stat()
    trace = {"name": args.trace.name, "bytes": stat.st_size}
    return {"queries": [str(query) for query in queries], "trace": trace, "settings": settings}


def _show(args: argparse.Namespace, queries: Sequence[Query], points: list[Point]) -> None:
    from decopa.report.scale_report import markdown_table, results_document, text_table, write_plots

    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        document = results_document(points, {"queries": [str(query) for query in queries], "command": sys.argv[1:]})
        (args.out / "results.json").write_text(document, encoding="utf-8")
        (args.out / "table.md").write_text(markdown_table(points), encoding="utf-8")
        try:
            write_plots(points, args.out, queries[0].name)
        except DecoPaError as err:
            tell("note", str(err))
        if not args.quiet:
            tell("output", str(args.out))
    print(text_table(points), end="")
