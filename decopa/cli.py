"""The command line: `decopa run`, `plan`, `explain`, `trace`.

Results go to stdout or to files, everything else to stderr. Status 0 is success, 2 bad input (one line that says what,
where and how to fix it, and nothing written), 130 an interrupt. Commands import what is slow to import themselves.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from decopa.arguments import make_parser
from decopa.errors import DecoPaError, PlanError, QueryError, StatisticsError

if TYPE_CHECKING:
    from actors.group import Limits
    from costmodel.capacity import Capacity
    from costmodel.statistics import Statistics
    from costmodel.throughput import Reading
    from decopa.api import RunResult
    from decopa.planning.plan import Plan
    from decopa.planning.price import PricedPlan
    from decopa.query.query import Query

#: Matches shown when there is no --out.
PREVIEW_ROWS = 10
_EXIT_BAD_INPUT, _EXIT_INTERRUPTED, _EXIT_BROKEN_PIPE = 2, 130, 141


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


def _run(args: argparse.Namespace) -> None:
    from decopa.output import check_writable, preview, write_matches

    queries = _read_queries(args.query)
    plan = None if args.plan is None else _read_plan(args.plan)
    if args.out is not None:
        check_writable(args.out, args.overwrite)
    # Imported this late because it loads the compiler: an error above is told at once.
    from decopa.api import run_detailed
    from shuffler.source import TraceColumns

    progress = Progress() if sys.stderr.isatty() and not args.quiet else None
    if progress is not None:
        progress.preparing()
    try:
        result = run_detailed(
            queries[0] if len(queries) == 1 else queries,
            args.trace,
            units=args.units,
            strategy=args.strategy,
            runtime=args.runtime,
            plan=plan,
            statistics=None if args.stats is None else _read_statistics(args.stats),
            capacity=_capacity(args),
            batch_size=args.batch_size,
            limits=_limits(args),
            columns=TraceColumns(args.id, args.ts, args.type),
            assume_sorted=args.assume_sorted,
            nan_as_null=args.nan_as_null,
            require_types=True,
            progress=progress,
        )
    finally:
        if progress is not None:
            progress.clear()
    if args.out is not None:
        write_matches(result.matches, args.out, overwrite=args.overwrite)
    elif result.matches.num_rows:
        print(preview(result.matches, PREVIEW_ROWS))
    if not args.quiet:
        _summarize(queries, result, args.out)


def _plan(args: argparse.Namespace) -> None:
    from decopa.output import check_writable, write_text

    queries = _read_queries(args.query)
    if args.out is not None:
        check_writable(args.out, args.overwrite, suffixes=())
    from decopa.api import make_plan
    from decopa.planning.explain import explain

    statistics: list[Statistics] = []
    notices: tuple[str, ...] = ()
    if args.strategy == "left-deep" and args.stats is None:
        plan = make_plan(queries, units=args.units)
    else:
        from decopa.planning.planner import plan_workload

        statistics, notices = _statistics(args, queries)
        if args.strategy == "left-deep":
            plan = make_plan(queries, units=args.units)
        else:
            planned = plan_workload(
                queries, statistics, _capacity(args), units=args.units, strategy=args.strategy, reading=_reading(args)
            )
            plan, notices = planned.plan, (*notices, *planned.notices)
    if args.out is None:
        print(plan.to_json(), end="")
    else:
        write_text(plan.to_json(), args.out, overwrite=args.overwrite)
    if not args.quiet:
        for notice in notices:
            _tell("note", notice)
        priced = _priced(args, plan, _per_part(queries, statistics)) if statistics else None
        print(explain(plan, priced, color=sys.stderr.isatty(), width=_width()), end="", file=sys.stderr)


def _explain(args: argparse.Namespace) -> None:
    from decopa.output import check_writable, write_text
    from decopa.planning.explain import explain

    if args.html is not None:
        check_writable(args.html, args.overwrite, suffixes=(".html",))
        if args.stats is None:
            raise StatisticsError("--html draws rates and loads, which need --stats FILE; make it with `decopa stats`")
    drawn = []
    for path in args.plans:
        plan = _read_plan(path)
        priced = None
        if args.stats is not None:
            statistics = _read_statistics(args.stats)
            for part in plan.parts:
                statistics.check_fits(part.query)
            priced = _priced(args, plan, [statistics] * len(plan.parts))
        if len(args.plans) > 1:
            print(f"{path}:")
        print(explain(plan, priced, color=sys.stdout.isatty(), width=_width()), end="")
        drawn += [(path.stem, one) for one in priced or ()]
    if args.html is not None:
        from decopa.planning.plan_page import NamedPlan, plan_page

        write_text(plan_page([NamedPlan(*one) for one in drawn]), args.html, overwrite=args.overwrite)
        _tell("page", str(args.html))


def _stats(args: argparse.Namespace) -> None:
    from costmodel.stats_file import to_json
    from decopa.output import check_writable, write_text

    queries = _read_queries(args.query)
    if len(queries) != 1:
        raise QueryError(f"{len(queries)} queries; statistics are those of one query: measure each on its own")
    if args.out is not None:
        check_writable(args.out, args.overwrite, suffixes=())
    args.stats = None
    (statistics,), notices = _statistics(args, queries)
    if args.out is None:
        print(to_json(statistics), end="")
    else:
        write_text(to_json(statistics), args.out, overwrite=args.overwrite)
    if args.quiet:
        return
    for notice in notices:
        _tell("note", notice)
    shown = sorted(statistics.rates.items(), key=lambda item: -item[1])
    _tell("per window", ", ".join(f"{name} {rate:,.4g}" for name, rate in shown))
    for pair in (*statistics.type_pairs, *statistics.alias_pairs):
        error = f" +- {pair.standard_error:.2g}" if pair.standard_error else ""
        _tell("selectivity", f"({pair.first}, {pair.second}) {pair.selectivity:.4g}{error}")
    if args.out is not None:
        _tell("output", str(args.out))


def _trace_synthetic(args: argparse.Namespace) -> None:
    from decopa.output import write_batches
    from decopa.query.parser import parse
    from decopa.synthetic import PairSelectivity, SyntheticSpec, example_query

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
    _tell("events", f"{spec.events:,} of {spec.types} types over about {spec.events / spec.rate_per_s:,.4g} s")
    _tell("per window", f"{shown} ({args.window})")
    for pair in spec.pairs:
        condition = pair.predicate("a", "b")
        _tell("selectivity", f"{pair.selectivity:g} for {pair.first} a, {pair.second} b: {condition}")
    _tell("output", str(args.out))
    _tell("query to try", query)


_COMMANDS = {"run": _run, "plan": _plan, "explain": _explain, "stats": _stats, "trace synthetic": _trace_synthetic}


# ------------------------------------------------------------------ what the user gave


def _read_queries(given: str) -> tuple[Query, ...]:
    """The queries in a file, or in the argument itself if it is no file and looks like a query."""
    from decopa.query.parser import parse_workload

    try:
        is_file = Path(given).is_file()
    except (OSError, ValueError):  # too long or too strange for a path
        is_file = False
    if not is_file:
        if "pattern" in given.lower() or len(given.split()) > 1:
            return parse_workload(given)
        raise QueryError(f"no query file '{given}'; name one, or write the query itself: 'PATTERN SEQ(A a, B b) ...'")
    try:
        return parse_workload(_read_text(Path(given), QueryError))
    except QueryError as err:
        raise QueryError(f"{given}: {err}") from err


def _read_plan(path: Path) -> Plan:
    from decopa.planning.plan import Plan

    return Plan.from_json(_read_text(path, PlanError))


def _read_statistics(path: Path) -> Statistics:
    from costmodel.stats_file import from_json

    return from_json(_read_text(path, StatisticsError), str(path))


def _statistics(args: argparse.Namespace, queries: Sequence[Query]) -> tuple[list[Statistics], tuple[str, ...]]:
    """Statistics of each query, from --stats or measured from --trace, with notices."""
    if args.stats is not None:
        return [_read_statistics(args.stats)] * len(queries), ()
    if args.trace is None:
        raise StatisticsError(
            f"strategy '{args.strategy}' needs to know rates and selectivities; give --stats FILE (see `decopa stats`) "
            "or --trace FILE to measure them"
        )
    from decopa.measure import measure
    from shuffler.source import TraceColumns, open_trace

    columns = TraceColumns(args.id, args.ts, args.type)
    source = open_trace(args.trace, columns=columns, assume_sorted=args.assume_sorted, nan_as_null=args.nan_as_null)
    found = measure(queries, source, seed=getattr(args, "seed", 0))
    return [one.statistics for one in found], tuple(line for one in found for line in one.notices)


def _capacity(args: argparse.Namespace) -> Capacity:
    from costmodel.capacity import Capacity
    from decopa.api import DEFAULT_CAPACITY

    return Capacity.per_second(
        args.iota or DEFAULT_CAPACITY.max_ingestion, args.kappa or DEFAULT_CAPACITY.max_comparisons
    )


def _reading(args: argparse.Namespace) -> Reading:
    from costmodel.throughput import Reading

    return Reading(args.reading)


def _priced(args: argparse.Namespace, plan: Plan, statistics: Sequence[Statistics]) -> list[PricedPlan]:
    from decopa.planning.price import price_plan

    capacity, reading = _capacity(args), _reading(args)
    return [
        price_plan(part, known, capacity, reading=reading) for part, known in zip(plan.parts, statistics, strict=True)
    ]


def _per_part(queries: Sequence[Query], statistics: Sequence[Statistics]) -> list[Statistics]:
    return [known for query, known in zip(queries, statistics, strict=True) for _ in query.branches]


def _read_text(path: Path, error: type[DecoPaError]) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as err:
        raise error(f"cannot read '{path}': {err.strerror}; check the path") from err
    except UnicodeDecodeError as err:
        raise error(f"'{path}' is not UTF-8 text: {err.reason} at byte {err.start}") from err


def _limits(args: argparse.Namespace) -> Limits:
    from decopa.api import DEFAULT_LIMITS

    limits = DEFAULT_LIMITS
    if args.max_matches is not None:
        limits = replace(limits, max_matches=args.max_matches)
    if args.max_state_mb is not None:
        limits = replace(limits, max_state_bytes=args.max_state_mb * 2**20)
    return limits


# ------------------------------------------------------------------ what the user sees


class Progress:
    """One line on the terminal that is rewritten now and then."""

    INTERVAL_S = 0.2

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._start = clock, clock()
        self._next = self._start + self.INTERVAL_S

    def preparing(self) -> None:
        """What to say while nothing can be counted yet."""
        self._write("preparing (a query of a new shape compiles for some seconds, once)")

    def __call__(self, events: int, matches: int) -> None:
        now = self._clock()
        if now >= self._next:
            self._next = now + self.INTERVAL_S
            rate = events / (now - self._start)
            line = f"{events:,} events, {rate:,.0f} events/s, {matches:,} matches"
            self._write(line)

    def clear(self) -> None:
        self._write("")

    def _write(self, line: str) -> None:
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def _summarize(queries: Sequence[Query], result: RunResult, out: Path | None) -> None:
    for notice in result.notices:
        _tell("note", notice)
    for query in queries:
        _tell("query", f"{query.name}: {query.pattern}")
    rate = f" ({result.events / result.seconds:,.0f} events/s)" if result.seconds > 0 else ""
    _tell("events", f"{result.events:,}")
    _tell("comparisons", f"{result.comparisons:,}")
    _tell("time", f"{result.seconds:.2f} s{rate}")
    hidden = result.matches.num_rows - PREVIEW_ROWS
    shown = f"; {PREVIEW_ROWS} shown, write all with --out FILE" if out is None and hidden > 0 else ""
    _tell("matches", f"{result.matches.num_rows:,}{shown}")
    if out is not None:
        _tell("output", str(out))


def _width() -> int:
    return max(60, shutil.get_terminal_size((100, 24)).columns)


def _tell(what: str, value: str) -> None:
    print(f"{what:<13}{value}", file=sys.stderr)
