"""The arguments of the command line, with their help; `decopa.commands.cli` acts on them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from decopa import __version__
from decopa.choices import LANGUAGES, OBJECTIVES, READINGS, STRATEGIES
from decopa.commands import calibrate as calibrate_command
from decopa.commands import scale as scale_command
from decopa.commands.durable import add_checkpoint_arguments, add_resume_arguments
from decopa.commands.option_types import count, pair, positive
from decopa.commands.raw_traces import add_trace_commands
from decopa.commands.run_options import EXAMPLES, add_bad_row_arguments, add_runtime_arguments, add_stream_arguments
from decopa.commands.spark import add_spark_argument
from decopa.errors import DecoPaError

_QUERY_HELP = "a file with one or more queries, or the text of a query"
_LANGUAGE_HELP = "the language of the query (default: eql if it begins with SELECT, else text)"
_RUN_ABOUT = """\
Finds every match of a query (or of several) in a trace: measures the trace unless --stats is given,
makes a plan for --units processing units unless --plan is given, runs it, and shows what every
operator was expected to do and what it did. Without --out the first matches are shown."""


def make_parser() -> argparse.ArgumentParser:
    """Parsed arguments have the name of the command, such as 'trace synthetic', in `command`."""
    parser = _Parser(
        prog="decopa",
        description="Finds complex-event patterns in event streams, in parallel.",
        epilog="`decopa COMMAND --help` explains a command and shows an example.",
    )
    parser.add_argument("--version", action="version", version=f"decopa {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command", parser_class=_Parser)

    run = commands.add_parser(
        "run",
        help="find all matches of a query in a trace",
        description=_RUN_ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_run_arguments(run)

    resume = _command(
        commands.add_parser("resume", help="go on with a run that has checkpoints"),
        "Goes on with a run that was started with `decopa run --checkpoint`, from its last complete checkpoint, after "
        "its driver has died or given up.",
        "decopa resume checkpoints/ --units 12",
    )
    add_resume_arguments(resume)
    _add_quiet(resume)

    plan = _command(
        commands.add_parser("plan", help="make a plan for a query"),
        "Makes the plan by which `decopa run` would find the matches, as JSON for --plan, and shows it as a tree.",
        "decopa plan query.txt --stats stats.json --units 8 --out plan.json",
    )
    plan.add_argument("query", metavar="QUERY", help=_QUERY_HELP)
    plan.add_argument("--language", choices=LANGUAGES, help=_LANGUAGE_HELP)
    _add_planning_arguments(plan)
    _add_trace_arguments(plan, required=False)
    _add_quiet(plan)
    _add_output_arguments(plan, "where the plan goes (default: printed)")

    explain = _command(
        commands.add_parser("explain", help="show a plan as a tree"),
        "Shows the operators of plans, each above what it is fed by, with rule, units and how its matches travel; with "
        "--stats also what each unit has to do, and what limits the plan.",
        "decopa explain plan.json other.json --stats stats.json --html plans.html",
    )
    explain.add_argument(
        "plans", metavar="PLAN", type=Path, nargs="+", help="plan files, as `decopa plan` writes them; one query in all"
    )
    _add_cost_arguments(explain)
    explain.add_argument("--html", metavar="FILE", type=Path, help="write a page with the plans drawn side by side")
    explain.add_argument("--overwrite", action="store_true", help="replace the page if it exists")

    stats = _command(
        commands.add_parser("stats", help="measure rates and selectivities of a query"),
        "Counts events per window and samples pairs of events, for `decopa plan`.",
        "decopa stats query.txt --trace trace.parquet --out stats.json",
    )
    stats.add_argument("query", metavar="QUERY", help=_QUERY_HELP)
    stats.add_argument("--language", choices=LANGUAGES, help=_LANGUAGE_HELP)
    _add_trace_arguments(stats, required=True)
    add_spark_argument(stats, "measure the whole trace on Spark, with peaks and variation of rates")
    stats.add_argument("--seed", metavar="S", type=int, default=0, help="of the sample (default: %(default)s)")
    _add_output_arguments(stats, "where the statistics go (default: printed)")
    _add_quiet(stats)

    calibrate = _command(
        commands.add_parser("calibrate", help="measure what a processing unit can do"),
        calibrate_command.ABOUT,
        "decopa calibrate query.txt --trace trace.parquet --out capacity.json",
    )
    calibrate.add_argument("query", metavar="QUERY", help=_QUERY_HELP)
    calibrate.add_argument("--language", choices=LANGUAGES, help=_LANGUAGE_HELP)
    _add_trace_arguments(calibrate, required=False)
    calibrate_command.add_calibrate_arguments(calibrate)
    _add_quiet(calibrate)

    scale = commands.add_parser(
        "scale",
        help="measure throughput on several numbers of units",
        description=scale_command.ABOUT,
        epilog=scale_command.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    scale.add_argument("query", metavar="QUERY", help=_QUERY_HELP)
    scale.add_argument("--language", choices=LANGUAGES, help=_LANGUAGE_HELP)
    _add_trace_arguments(scale, required=True)
    scale_command.add_scale_arguments(scale)
    _add_cost_arguments(scale)
    _add_quiet(scale)

    trace = commands.add_parser("trace", help="make a trace", description="Makes a trace of events.")
    kinds = trace.add_subparsers(required=True, metavar="KIND", dest="kind", parser_class=_Parser)
    synthetic = _command(
        kinds.add_parser("synthetic", help="random events with chosen rates and selectivities"),
        "Makes a seeded random trace: Poisson arrivals, types A, B, ... with Zipf-skewed rates, attributes x, y "
        "(uniform), k (key), s (string), and a column for each --selectivity, with the condition to write printed.",
        "decopa trace synthetic --events 1000000 --types 3 --selectivity A,B=0.05 --out trace.parquet",
    )
    synthetic.set_defaults(command="trace synthetic")
    _add_synthetic_arguments(synthetic)
    rides = _command(
        kinds.add_parser("rides", help="bike rides like those of New York's Citi Bike"),
        "Makes a seeded random trace of bike rides: types ShortY, LongY, VLongY (Young subscribers), ShortO ... (Old) "
        "and ShortC ... (Customers), with duration, user, bike, start_station, lat, lon, end_station, end_lat and "
        "end_lon, and the rhythm of days and weeks. About 33,000 rides a day.",
        "decopa trace rides --days 14 --seed 7 --out rides.parquet",
    )
    rides.set_defaults(command="trace rides")
    _add_rides_arguments(rides)
    add_trace_commands(kinds)
    return parser


class _Parser(argparse.ArgumentParser):
    """Wrong arguments end like any other bad input, and flags are not guessed from their beginnings."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})  # type: ignore[arg-type]  # passed through

    def error(self, message: str) -> NoReturn:
        raise DecoPaError(f"{message}; see `{self.prog} --help`")


def _command(parser: argparse.ArgumentParser, about: str, example: str) -> argparse.ArgumentParser:
    parser.description, parser.epilog = about, f"example: {example}"
    return parser


def _add_run_arguments(run: argparse.ArgumentParser) -> None:
    run.add_argument("query", metavar="QUERY", help=_QUERY_HELP)
    run.add_argument("--language", choices=LANGUAGES, help=_LANGUAGE_HELP)
    _add_trace_arguments(run, required=True, live=True)
    _add_planning_arguments(run)
    _add_output_arguments(run, "where matches go: .parquet, .csv (lists joined by ';') or .jsonl")
    _add_quiet(run)
    add_runtime_arguments(run)
    add_spark_argument(run, "read, clean, sort and measure the trace on Spark, for traces of any size")
    add_stream_arguments(run)
    add_bad_row_arguments(run)
    add_checkpoint_arguments(run)


def _add_trace_arguments(parser: argparse.ArgumentParser, *, required: bool, live: bool = False) -> None:
    about = "events: Parquet (or a directory of it), CSV or JSON lines, with the columns id, ts and type"
    about += "; - reads JSON lines from standard input as a live stream" if live else ""
    parser.add_argument("--trace", metavar="FILE", required=required, type=Path, help=about)
    parser.add_argument("--id", metavar="COL", default="id", help="the column with event ids (default: %(default)s)")
    parser.add_argument("--ts", metavar="COL", default="ts", help="the column with times (default: %(default)s)")
    parser.add_argument("--end", metavar="COL", help="the column with the times at which events end, if they last")
    parser.add_argument("--type", metavar="COL", default="type", help="the column with types (default: %(default)s)")
    parser.add_argument("--assume-sorted", action="store_true", help="refuse unsorted events instead of sorting them")
    parser.add_argument("--nan-as-null", action="store_true", help="treat NaN as a missing value instead of an error")


def _add_planning_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--units", metavar="N", type=count, default=1, help="processing units (default: %(default)s)")
    parser.add_argument(
        "--strategy",
        metavar="NAME",
        choices=STRATEGIES,
        help=f"how to plan: {', '.join(STRATEGIES)}; all but left-deep use statistics: --stats, or measured from "
        "--trace (default: decopa, or left-deep where there are no statistics)",
    )
    _add_cost_arguments(parser)


def _add_cost_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stats", metavar="FILE", type=Path, help="rates and selectivities, see `decopa stats`")
    parser.add_argument(
        "--iota", metavar="N", type=positive, help="events a unit ingests per second (default: 2 million)"
    )
    parser.add_argument(
        "--kappa", metavar="N", type=positive, help="comparisons a unit makes per second (default: 100 million)"
    )
    parser.add_argument(
        "--capacity", metavar="FILE", type=Path, help="what a unit can do, see `decopa calibrate`; instead of the above"
    )
    parser.add_argument(
        "--objective",
        choices=OBJECTIVES,
        default=OBJECTIVES[0],
        help="limits: no unit exceeds iota or kappa, as in the paper; busy: the shares of both (and of matches put "
        "out) together do not exceed its time (default: %(default)s)",
    )
    parser.add_argument(
        "--reading",
        choices=READINGS,
        default=READINGS[0],
        help="of c: costs grow linearly with it, or all rates do (default: %(default)s)",
    )


def _add_output_arguments(parser: argparse.ArgumentParser, about: str, *, required: bool = False) -> None:
    parser.add_argument("--out", metavar="FILE", type=Path, required=required, help=about)
    parser.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")


def _add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="no summary, no progress")


def _add_synthetic_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--events", metavar="N", type=count, required=True, help="number of events")
    parser.add_argument(
        "--rate", metavar="R", type=float, default=1000.0, help="events per second, all types (default: %(default)g)"
    )
    parser.add_argument("--types", metavar="N", type=count, default=5, help="event types (default: %(default)s)")
    parser.add_argument(
        "--zipf", metavar="Z", type=float, default=1.2, help="skew of the rates; 0 is none (default: %(default)s)"
    )
    parser.add_argument("--keys", metavar="N", type=count, default=100, help="values of k (default: %(default)s)")
    parser.add_argument(
        "--selectivity",
        metavar="A,B=P",
        type=pair,
        action="append",
        default=[],
        help="a column a_b on which a printed condition holds for a share P of (A, B) pairs; may be repeated",
    )
    parser.add_argument(
        "--window", metavar="TIME", default="10 s", help="window of the printed example query (default: %(default)s)"
    )
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="same seed, same trace (default: %(default)s)")
    parser.add_argument("--timestamps", action="store_true", help="ts as timestamps instead of microseconds")
    _add_output_arguments(parser, "where the trace goes: .parquet, .csv or .jsonl", required=True)
    _add_quiet(parser)


def _add_rides_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--days", metavar="N", type=count, default=14, help="days (default: %(default)s)")
    parser.add_argument(
        "--busyness",
        metavar="X",
        type=positive,
        default=1.0,
        help="multiplies the rides per day (default: %(default)g)",
    )
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="same seed, same trace (default: %(default)s)")
    _add_output_arguments(parser, "where the trace goes: .parquet, .csv or .jsonl", required=True)
    _add_quiet(parser)
