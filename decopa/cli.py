"""The command line: `decopa run`, `plan`, `explain`, `trace`.

Results go to stdout or to files, everything else to stderr. Status 0 is success, 2 bad input (one line that says what,
where and how to fix it, and nothing written), 130 an interrupt. Commands import what is slow to import themselves.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from decopa.arguments import make_parser
from decopa.errors import DecoPaError, PlanError, QueryError

if TYPE_CHECKING:
    from cluster.local import Limits
    from decopa.api import RunResult
    from decopa.planning.plan import Plan, PlanOperator, QueryPlan
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

    text = make_plan(queries, units=args.units, strategy=args.strategy).to_json()
    if args.out is None:
        print(text, end="")
    else:
        write_text(text, args.out, overwrite=args.overwrite)


def _explain(args: argparse.Namespace) -> None:
    for part in _read_plan(args.plan).parts:
        print(part.query)
        print("\n".join(_tree(part, part.root, 1, set())))


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


_COMMANDS = {"run": _run, "plan": _plan, "explain": _explain, "trace synthetic": _trace_synthetic}


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


def _tell(what: str, value: str) -> None:
    print(f"{what:<13}{value}", file=sys.stderr)


def _tree(part: QueryPlan, operator: PlanOperator, depth: int, seen: set[str]) -> list[str]:
    """The operator and what it is fed by, indented; one that feeds several is shown in full once."""
    dealt = "partitioned" if operator.partitioned else "broadcast"
    units = f"{operator.units} unit{'s' if operator.units > 1 else ''}"
    line = f"{'  ' * depth}{part.text(operator)}  {part.rule(operator).value}, {units}, {dealt}"
    if operator.name in seen:
        return [f"{line} (see above)"]
    seen.add(operator.name)
    return [line, *(line for source in part.inputs(operator) for line in _tree(part, source, depth + 1, seen))]
