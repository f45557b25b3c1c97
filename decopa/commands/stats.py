"""`decopa stats`: rates and selectivities of a query, measured here or on Spark."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from decopa.commands.arguments.inputs import read_queries, statistics_of, trace_options
from decopa.commands.arguments.options import (
    Subparsers,
    add_output_arguments,
    add_query_argument,
    add_quiet_argument,
    add_spark_argument,
    add_trace_arguments,
    described,
)
from decopa.commands.arguments.source import STANDARD_INPUT
from decopa.commands.terminal import tell
from decopa.errors import DecoPaError, QueryError

if TYPE_CHECKING:
    from costmodel.statistics import Statistics
    from decopa.query.query import Query

#: Types that meet more or less often than at even rates by this share are told.
_SHOWN_UNEVEN = 0.1


def register(commands: Subparsers) -> None:
    parser = described(
        commands.add_parser("stats", help="measure rates and selectivities of a query"),
        "Counts events per window and samples pairs of events, for `decopa plan`.",
        "decopa stats query.txt --trace trace.parquet --out stats.json",
    )
    add_query_argument(parser)
    add_trace_arguments(parser, required=True)
    add_spark_argument(parser, "measure the whole trace on Spark, with peaks and variation of rates")
    parser.add_argument("--address", metavar="ADDRESS", help="with --spark: a running Ray cluster (default: none)")
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="of the sample (default: %(default)s)")
    add_output_arguments(parser, "where the statistics go (default: printed)")
    add_quiet_argument(parser)
    parser.set_defaults(action=stats_command, stats=None)


def stats_command(args: argparse.Namespace) -> None:
    from costmodel.stats_file import to_json
    from decopa.files import check_writable, write_text

    queries = read_queries(args.query, args.language)
    if len(queries) != 1:
        raise QueryError(f"{len(queries)} queries; statistics are those of one query: measure each on its own")
    if args.address is not None and not args.spark:
        raise DecoPaError("--address names the Ray that Spark runs on; add --spark, or leave it out")
    if args.out is not None:
        check_writable(args.out, args.overwrite, suffixes=())
    (statistics,), notices = (statistics_on_spark if args.spark else statistics_of)(args, queries)
    if args.out is None:
        print(to_json(statistics), end="")
    else:
        write_text(to_json(statistics), args.out, overwrite=args.overwrite)
    if args.quiet:
        return
    for notice in notices:
        tell("note", notice)
    shown = sorted(statistics.rates.items(), key=lambda item: -item[1])
    tell("per window", ", ".join(f"{name} {rate:,.4g}" for name, rate in shown))
    for pair in (*statistics.type_pairs, *statistics.alias_pairs):
        error = f" +- {pair.standard_error:.2g}" if pair.standard_error else ""
        tell("selectivity", f"({pair.first}, {pair.second}) {pair.selectivity:.4g}{error}")
    for types, times in statistics.meetings.items():
        if abs(times - 1) >= _SHOWN_UNEVEN:
            tell("meet", f"{types[1]} follows {types[0]} {times:.3g} times as often as it would at even rates")
    if args.out is not None:
        tell("output", str(args.out))


def statistics_on_spark(args: argparse.Namespace, queries: Sequence[Query]) -> tuple[list[Statistics], tuple[str, ...]]:
    """Statistics of each query over the whole trace, with notices."""
    if args.trace == STANDARD_INPUT:
        raise DecoPaError("--spark reads stored traces; for a stream use decopa.stream, or leave out --spark")
    from cluster.options import RayOptions
    from cluster.spark.stats import measure_on_spark
    from cluster.spark.traces import clean
    from decopa.runs.preparation.opening import spark_frame
    from decopa.runs.spec import RunSpec

    spec = RunSpec(trace=trace_options(args), ray=RayOptions(address=args.address))
    with spark_frame(spec) as frame:
        trace = clean(frame, spec.trace.columns, name=str(args.trace))
        found = measure_on_spark(queries, trace, spec.trace.columns, seed=args.seed, nan_as_null=spec.trace.nan_as_null)
    return [one.statistics for one in found], tuple(line for one in found for line in one.notices)
