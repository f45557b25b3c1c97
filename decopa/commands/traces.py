"""`decopa trace synthetic` and `decopa trace rides`: seeded random traces."""

from __future__ import annotations

import argparse

from decopa.commands.arguments.options import Parser, Subparsers, add_output_arguments, add_quiet_argument, described
from decopa.commands.arguments.types import count, pair, positive
from decopa.commands.raw_traces import register_raw_traces
from decopa.commands.terminal import tell


def register(commands: Subparsers) -> None:
    trace = commands.add_parser("trace", help="make a trace", description="Makes a trace of events.")
    kinds = trace.add_subparsers(required=True, metavar="KIND", dest="kind", parser_class=Parser)
    synthetic = described(
        kinds.add_parser("synthetic", help="random events with chosen rates and selectivities"),
        "Makes a seeded random trace: Poisson arrivals, types A, B, ... with Zipf-skewed rates, attributes x, y "
        "(uniform), k (key), s (string), and a column for each --selectivity, with the condition to write printed.",
        "decopa trace synthetic --events 1000000 --types 3 --selectivity A,B=0.05 --out trace.parquet",
    )
    _add_synthetic_arguments(synthetic)
    synthetic.set_defaults(action=synthetic_command)
    rides = described(
        kinds.add_parser("rides", help="bike rides like those of New York's Citi Bike"),
        "Makes a seeded random trace of bike rides: types ShortY, LongY, VLongY (Young subscribers), ShortO ... (Old) "
        "and ShortC ... (Customers), with duration, user, bike, start_station, lat, lon, end_station, end_lat and "
        "end_lon, and the rhythm of days and weeks. About 33,000 rides a day.",
        "decopa trace rides --days 14 --seed 7 --out rides.parquet",
    )
    _add_rides_arguments(rides)
    rides.set_defaults(action=rides_command)
    register_raw_traces(kinds)


def synthetic_command(args: argparse.Namespace) -> None:
    from decopa.files import write_batches
    from decopa.language.text.parser import parse
    from decopa.traces.synthetic import PairSelectivity, SyntheticSpec, example_query

    spec = SyntheticSpec(
        events=args.events,
        rate_per_s=args.rate,
        types=args.types,
        zipf=args.zipf,
        keys=args.keys,
        pairs=tuple(PairSelectivity(*one) for one in args.selectivity),
        seed=args.seed,
        timestamps=args.timestamps,
    )
    query = example_query(spec, args.window)
    window_s = parse(query).window_us / 1e6
    write_batches(spec.schema, spec.batches(), args.out, overwrite=args.overwrite)
    if args.quiet:
        return
    rates = list(zip(spec.type_names, spec.type_rates_per_s, strict=True))
    shown = ", ".join(f"{name} {rate * window_s:,.4g}" for name, rate in rates[:8]) + (", ..." if rates[8:] else "")
    tell("events", f"{spec.events:,} of {spec.types} types over about {spec.events / spec.rate_per_s:,.4g} s")
    tell("per window", f"{shown} ({args.window})")
    for one in spec.pairs:
        condition = one.predicate("a", "b")
        tell("selectivity", f"{one.selectivity:g} for {one.first} a, {one.second} b: {condition}")
    tell("output", str(args.out))
    tell("query to try", query)


def rides_command(args: argparse.Namespace) -> None:
    from decopa.files import write_batches
    from decopa.report.run_summary import count_text
    from decopa.traces.rides import EXAMPLE_QUERY, RIDES_PER_DAY, SCHEMA, RideSpec

    spec = RideSpec(args.days, args.busyness, args.seed)
    write_batches(SCHEMA, spec.batches(), args.out, overwrite=args.overwrite)
    if args.quiet:
        return
    tell("per day", ", ".join(f"{name} {count_text(rate * args.busyness)}" for name, rate in RIDES_PER_DAY.items()))
    tell("output", f"{args.out} ({args.days:,} days)")
    tell("query to try", EXAMPLE_QUERY)


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
    add_output_arguments(parser, "where the trace goes: .parquet, .csv or .jsonl", required=True)
    add_quiet_argument(parser)


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
    add_output_arguments(parser, "where the trace goes: .parquet, .csv or .jsonl", required=True)
    add_quiet_argument(parser)
