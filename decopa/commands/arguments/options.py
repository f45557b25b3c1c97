"""Arguments that several commands share, with their help. Nothing heavy is imported for --help."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NoReturn

from decopa.choices import (
    DEFAULT_COMPARED_PER_S,
    DEFAULT_ID,
    DEFAULT_INGESTED_PER_S,
    DEFAULT_TS,
    DEFAULT_TYPE,
    LANGUAGES,
    OBJECTIVES,
    READINGS,
    STRATEGIES,
    TIME_UNITS,
)
from decopa.commands.arguments.types import count, positive, trace
from decopa.commands.arguments.types import units as unit_numbers
from decopa.errors import DecoPaError

#: What `add_subparsers` returns; argparse does not export its class.
Subparsers = Any

QUERY_HELP = "a file with one or more queries, or the text of a query"


class Parser(argparse.ArgumentParser):
    """Wrong arguments end like any other bad input, and flags are not guessed from their beginnings."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})  # type: ignore[arg-type]  # passed through

    def error(self, message: str) -> NoReturn:
        raise DecoPaError(f"{message}; see `{self.prog} --help`")


def described(parser: argparse.ArgumentParser, about: str, example: str) -> argparse.ArgumentParser:
    parser.description, parser.epilog = about, f"example: {example}"
    return parser


def add_query_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", metavar="QUERY", help=QUERY_HELP)
    parser.add_argument(
        "--language", choices=LANGUAGES, help="of the query (default: eql if it begins with SELECT, else text)"
    )


def add_trace_arguments(parser: argparse.ArgumentParser, *, required: bool, live: bool = False) -> None:
    about = "events: Parquet (or a directory of it), CSV or JSON lines, with the columns id, ts and type"
    about += ", or a pattern such as 'data/*.csv'"
    if live:
        about += "; a live stream: - (JSON lines on standard input), kafka://HOST:PORT/TOPIC, "
        about += "nats://HOST:PORT/STREAM, tcp://HOST:PORT"
    parser.add_argument("--trace", metavar="FILE", required=required, type=trace if live else Path, help=about)
    for name, default, what in (
        ("--id", DEFAULT_ID, "event ids"),
        ("--ts", DEFAULT_TS, "times"),
        ("--type", DEFAULT_TYPE, "types"),
    ):
        parser.add_argument(name, metavar="COL", default=default, help=f"the column with {what} (default: %(default)s)")
    parser.add_argument(
        "--ts-unit",
        choices=tuple(TIME_UNITS),
        help="of times that are numbers (default: us, or what makes them dates of our time, with a note; fractions: s)",
    )
    parser.add_argument("--end", metavar="COL", help="the column with the times at which events end, if they last")
    parser.add_argument("--assume-sorted", action="store_true", help="refuse unsorted events instead of sorting them")
    parser.add_argument("--nan-as-null", action="store_true", help="treat NaN as a missing value instead of an error")


def add_planning_arguments(parser: argparse.ArgumentParser, units: str, *, ranges: bool = False) -> None:
    """`ranges` says that --units may be a range, as in 2:8."""
    kind = unit_numbers if ranges else count
    parser.add_argument("--units", metavar="N[:MOST]" if ranges else "N", type=kind, help=units)
    parser.add_argument(
        "--strategy",
        metavar="NAME",
        choices=STRATEGIES,
        help=f"how to plan: {', '.join(STRATEGIES)}; all but left-deep use statistics: --stats, or measured from "
        "--trace (default: decopa, or left-deep where there are no statistics)",
    )
    parser.add_argument(
        "--planning-time",
        metavar="S",
        type=positive,
        help="seconds that a search for what queries share may take; the best plan so far counts (default: until "
        "there is no better one)",
    )
    add_cost_arguments(parser)


def add_cost_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stats", metavar="FILE", type=Path, help="rates and selectivities, see `decopa stats`")
    add_capacity_arguments(parser)
    parser.add_argument(
        "--reading",
        choices=READINGS,
        default=READINGS[0],
        help="of c: costs grow linearly with it, or all rates do (default: %(default)s)",
    )


def add_capacity_arguments(parser: argparse.ArgumentParser) -> None:
    """What a unit can do, see `inputs.capacity_of`."""
    parser.add_argument(
        "--iota",
        metavar="N",
        type=positive,
        help=f"events a unit ingests per second (default: {DEFAULT_INGESTED_PER_S / 1e6:.0f} million)",
    )
    parser.add_argument(
        "--kappa",
        metavar="N",
        type=positive,
        help=f"comparisons a unit makes per second (default: {DEFAULT_COMPARED_PER_S / 1e6:.0f} million)",
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


def add_output_arguments(
    parser: argparse.ArgumentParser, about: str, *, required: bool = False, topics: bool = False
) -> None:
    parser.add_argument("--out", metavar="FILE", type=trace if topics else Path, required=required, help=about)
    parser.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")


def add_quiet_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="no summary, no progress")


def add_spark_argument(parser: argparse.ArgumentParser, about: str) -> None:
    parser.add_argument("--spark", action="store_true", help=about)
