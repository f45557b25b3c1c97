"""The command line: `decopa run`, `plan`, `explain`, `trace`.

Results go to stdout or to files, everything else to stderr. Status 0 is success, 2 bad input (one line that says what,
where and how to fix it, and nothing written), 130 an interrupt. Commands import what is slow to import themselves.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from decopa.commands.calibrate import calibrate_command
from decopa.commands.durable import resume_command
from decopa.commands.inputs import (
    capacity_of,
    per_part,
    priced_parts,
    read_plan,
    read_queries,
    read_statistics,
    reading_of,
    statistics_of,
)
from decopa.commands.options import make_parser
from decopa.commands.raw_traces import trace_citibike, trace_google
from decopa.commands.run import run_command
from decopa.commands.scale import scale_command
from decopa.commands.spark import statistics_on_spark
from decopa.commands.terminal import tell, width
from decopa.errors import DecoPaError, QueryError, StatisticsError

if TYPE_CHECKING:
    from costmodel.statistics import Statistics

_EXIT_BAD_INPUT, _EXIT_INTERRUPTED, _EXIT_BROKEN_PIPE = 2, 130, 141

#: Types that meet more or less often than at even rates by this share are told.
_SHOWN_UNEVEN = 0.1


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit status."""
    try:
        args = make_parser().parse_args(argv)
        _COMMANDS[args.command](args)
        sys.stdout.flush()
    except DecoPaError as err:
        print(f"decopa: error: {' '.join(str(err).split())}", file=sys.stderr)
        return _EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print("decopa: interrupted", file=sys.stderr)
        return _EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; let the interpreter's last flush go nowhere instead of failing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_BROKEN_PIPE
    return 0


# ------------------------------------------------------------------ commands


def _plan(args: argparse.Namespace) -> None:
    from decopa.files import check_writable, write_text

    queries = read_queries(args.query, args.language)
    if args.out is not None:
        check_writable(args.out, args.overwrite, suffixes=())
    from decopa.planning.planner import plan_workload
    from decopa.report.explain import explain
    from decopa.runs.execute import make_plan

    statistics: list[Statistics] = []
    notices: tuple[str, ...] = ()
    informed = args.stats is not None or args.trace is not None
    if args.strategy is None:
        args.strategy = "decopa" if informed else "left-deep"
        notices = () if informed else ("planned left-deep; give --stats FILE or --trace FILE for a better plan",)
    if informed or args.strategy != "left-deep":
        statistics, notices = statistics_of(args, queries)
    if args.strategy == "left-deep":
        plan = make_plan(queries, units=args.units)
    else:
        planned = plan_workload(
            queries, statistics, capacity_of(args), units=args.units, strategy=args.strategy, reading=reading_of(args)
        )
        plan, notices = planned.plan, (*notices, *planned.notices)
    if args.out is None:
        print(plan.to_json(), end="")
    else:
        write_text(plan.to_json(), args.out, overwrite=args.overwrite)
    if not args.quiet:
        for notice in notices:
            tell("note", notice)
        priced = priced_parts(args, plan, per_part(queries, statistics)) if statistics else None
        print(explain(plan, priced, color=sys.stderr.isatty(), width=width()), end="", file=sys.stderr)


def _explain(args: argparse.Namespace) -> None:
    from decopa.files import check_writable, write_text
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
            for part in plan.parts:
                statistics.check_fits(part.query)
            priced = priced_parts(args, plan, [statistics] * len(plan.parts))
        if len(args.plans) > 1:
            print(f"{path}:")
        print(explain(plan, priced, color=sys.stdout.isatty(), width=width()), end="")
        drawn += [(path.stem, one) for one in priced or ()]
    if args.html is not None:
        from decopa.report.plan_page import NamedPlan, plan_page

        write_text(plan_page([NamedPlan(*one) for one in drawn]), args.html, overwrite=args.overwrite)
        tell("page", str(args.html))


def _stats(args: argparse.Namespace) -> None:
    from costmodel.stats_file import to_json
    from decopa.files import check_writable, write_text

    queries = read_queries(args.query, args.language)
    if len(queries) != 1:
        raise QueryError(f"{len(queries)} queries; statistics are those of one query: measure each on its own")
    if args.out is not None:
        check_writable(args.out, args.overwrite, suffixes=())
    args.stats = None
    measured = statistics_on_spark if args.spark else statistics_of
    (statistics,), notices = measured(args, queries)
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


def _trace_synthetic(args: argparse.Namespace) -> None:
    from decopa.files import write_batches
    from decopa.language.text.parser import parse
    from decopa.traces.synthetic import PairSelectivity, SyntheticSpec, example_query

    spec = SyntheticSpec(
        events=args.events,
        rate_per_s=args.rate,
        types=args.types,
        zipf=args.zipf,
        keys=args.keys,
        pairs=tuple(PairSelectivity(*pair) for pair in args.selectivity),
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
    for pair in spec.pairs:
        condition = pair.predicate("a", "b")
        tell("selectivity", f"{pair.selectivity:g} for {pair.first} a, {pair.second} b: {condition}")
    tell("output", str(args.out))
    tell("query to try", query)


def _trace_rides(args: argparse.Namespace) -> None:
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


_COMMANDS = {
    "run": run_command,
    "resume": resume_command,
    "plan": _plan,
    "explain": _explain,
    "stats": _stats,
    "calibrate": calibrate_command,
    "scale": scale_command,
    "trace synthetic": _trace_synthetic,
    "trace rides": _trace_rides,
}
_COMMANDS |= {"trace google": trace_google, "trace citibike": trace_citibike}
