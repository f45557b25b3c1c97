"""`decopa run`: statistics, plan, deployment, run, and what came of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from decopa.commands import run_options
from decopa.commands.durable import run_durably
from decopa.commands.inputs import (
    STANDARD_INPUT,
    capacity_of,
    open_stored,
    per_part,
    read_plan,
    read_queries,
    read_statistics,
    reading_of,
)
from decopa.commands.run_report import recorder_of, write_report
from decopa.commands.spark import run_through_spark
from decopa.commands.terminal import Progress, progress_line, tell, width
from decopa.errors import QueryError, StatisticsError, TraceError

if TYPE_CHECKING:
    from cluster.recorder import Recorder
    from costmodel.statistics import Statistics
    from decopa.planning.plan import Plan
    from decopa.query.query import Query
    from decopa.report.run_summary import PartSummary, Sustainable
    from decopa.runs.execute import RunResult
    from shuffler.source.trace import TraceSource

#: Matches shown when there is no --out.
PREVIEW_ROWS = 10
DEFAULT_STRATEGY = "decopa"


@dataclass(frozen=True)
class Prepared:
    """A plan, what it was made with, and what to tell about that."""

    plan: Plan
    statistics: tuple[Statistics, ...] = ()
    notices: tuple[str, ...] = ()


def run_command(args: argparse.Namespace) -> None:
    from decopa.files import check_writable, preview, write_matches

    run_options.check(args)
    queries = read_queries(args.query, args.language)
    given = None if args.plan is None else read_plan(args.plan)
    known = None if args.stats is None else read_statistics(args.stats)
    if args.checkpoint is not None:
        run_durably(args, queries, given, known)
        return
    if args.out is not None:
        check_writable(args.out, args.overwrite)
    recorder = recorder_of(args)
    progress = progress_line(quiet=args.quiet)
    try:
        if args.spark:
            result = run_through_spark(args, queries, given, known, progress)
        else:
            source = _opened(args, queries, progress)
            prepared = _prepared(args, queries, source, given, known, progress)
            with _session(args, prepared.plan, progress) as dashboard:
                result = _run(args, queries, source, prepared, progress, recorder)
            result = replace(result, notices=(*prepared.notices, *result.notices), dashboard=dashboard)
        if args.out is not None:
            progress.phase("writing the matches")
            write_matches(result.matches, args.out, overwrite=args.overwrite)
        if recorder is not None:
            write_report(
                args,
                result,
                _parts(args, queries, result),
                recorder,
                strategy=args.strategy or DEFAULT_STRATEGY,
                paced=_is_paced(args),
                sustainable=_sustainable(args, queries, result),
            )
    finally:
        progress.clear()
    if args.out is None and result.matches.num_rows:
        print(preview(result.matches, PREVIEW_ROWS), flush=True)
    if not args.quiet:
        _summarize(args, queries, result)


# ------------------------------------------------------------------ before the run


def _opened(args: argparse.Namespace, queries: Sequence[Query], progress: Progress) -> TraceSource:
    # Imported this late because it loads the compiler: an error in the arguments is told at once.
    from shuffler.source.trace import TraceColumns, open_trace

    if args.trace != STANDARD_INPUT:
        progress.phase("opening the trace")
        source = open_stored(args, run_options.bad_rows_of(args))
        _check_types(queries, source)
        _check_conditions(queries, source)
        return source
    from shuffler.source.json_lines import JsonLines

    progress.phase("waiting for the first events")
    columns = TraceColumns(args.id, args.ts, args.type, args.end)
    arriving = JsonLines(sys.stdin.fileno(), ts=columns.ts, kinds=args.schema or {})
    source = open_trace(
        arriving,
        columns=columns,
        nan_as_null=args.nan_as_null,
        lateness=run_options.lateness_of(args),
        bad_rows=run_options.bad_rows_of(args),
    )
    _check_first_lines(queries, source)
    _check_conditions(queries, source)
    return source


def _check_types(queries: Sequence[Query], source: TraceSource) -> None:
    """A type that never occurs is most likely a typing error, and the query would find nothing."""
    from decopa.query.binding import missing_types

    missing = dict.fromkeys(name for query in queries for name in missing_types(query, source.schema))
    if missing:
        types = sorted(source.schema.event_types or ())
        shown = ", ".join(types[:20]) + (f" and {len(types) - 20:,} more" if len(types) > 20 else "")
        named = ", ".join(f"'{name}'" for name in missing)
        raise QueryError(
            f"no event of type {named} in {source.name}; its types are {shown}; correct the query, or name another "
            "column with --type"
        )


def _check_conditions(queries: Sequence[Query], source: TraceSource) -> None:
    """Refuses conditions that do not fit the trace's columns, before anything is measured or started."""
    from decopa.query.binding import bind

    for query in queries:
        for branch in query.branches:
            bind(branch, source.schema)


def _check_first_lines(queries: Sequence[Query], source: TraceSource) -> None:
    from decopa.query.predicate import attributes

    conditions = [
        *(one for query in queries for one in query.conditions),
        *(one for query in queries for one in query.returns),
    ]
    for name in dict.fromkeys(attr.name for condition in conditions for attr in attributes(condition)):
        if name not in source.schema.attributes:
            have = ", ".join(source.schema.attributes)
            raise TraceError(
                f"the first events of the stream have no '{name}', which the query needs (they have {have}); if it "
                f"comes later say what it holds, as in --schema {name}=float"
            )


def _prepared(
    args: argparse.Namespace,
    queries: Sequence[Query],
    source: TraceSource,
    given: Plan | None,
    known: Statistics | None,
    progress: Progress,
) -> Prepared:
    """The plan to run: the one given, or a new one by the strategy asked for, or by default by what can be known."""
    from decopa.planning.planner import plan_workload
    from decopa.runs.execute import make_plan

    statistics, notices = _statistics(args, queries, source, given, known, progress)
    strategy = args.strategy or (DEFAULT_STRATEGY if statistics else "left-deep")
    progress.phase("planning")
    if given is not None:
        for query, one in zip(queries, statistics):
            notices += one.check_fits(query)
        return Prepared(given, statistics, notices)
    if strategy == "left-deep":
        return Prepared(make_plan(queries, units=args.units), statistics, notices)
    planned = plan_workload(
        queries,
        statistics,
        capacity_of(args),
        units=args.units,
        strategy=strategy,
        reading=reading_of(args),
    )
    return Prepared(planned.plan, statistics, (*notices, *planned.notices))


def _statistics(
    args: argparse.Namespace,
    queries: Sequence[Query],
    source: TraceSource,
    given: Plan | None,
    known: Statistics | None,
    progress: Progress,
) -> tuple[tuple[Statistics, ...], tuple[str, ...]]:
    """Those of each query, given or measured; none where they cannot be had and are not needed, which is told."""
    if known is not None:
        return (known,) * len(queries), ()
    if args.strategy == "left-deep":
        return (), ()
    needed = args.strategy is not None and given is None
    if source.row_count is None and not needed:
        told = "planned left-deep: a live stream cannot be measured beforehand; give --stats FILE for a better plan"
        return (), () if given is not None else (told,)
    from decopa.runs.measure import measure

    progress.phase("measuring rates and selectivities")
    try:
        found = measure(queries, source)
    except StatisticsError as err:
        if needed:
            raise
        return (), (f"no predictions: {err}",) if given is not None else (f"planned left-deep: {err}",)
    return tuple(one.statistics for one in found), tuple(line for one in found for line in one.notices)


# ------------------------------------------------------------------ the run


@contextmanager
def _session(args: argparse.Namespace, plan: Plan, progress: Progress) -> Iterator[str | None]:
    """A Ray for the run, if it runs on Ray, and the address of its dashboard."""
    if args.runtime != "ray":
        yield None
        return
    from cluster.placement import places_needed
    from cluster.ray_session import ray_session
    from shuffler.routing.topology import Topology

    progress.phase("connecting to Ray" if args.address else "starting Ray")
    places = places_needed(Topology(plan, args.shufflers or 1))
    with ray_session(address=args.address, cpus=places) as dashboard:
        if dashboard is not None and not args.quiet:
            progress.clear()
            tell("dashboard", f"{dashboard} (while this runs)")
        yield dashboard


def _run(
    args: argparse.Namespace,
    queries: Sequence[Query],
    source: TraceSource,
    prepared: Prepared,
    progress: Progress,
    recorder: Recorder | None,
) -> RunResult:
    from decopa.runs.execute import run_detailed

    progress.phase("starting the units" if args.runtime == "ray" else "running")
    return run_detailed(
        queries,
        source,
        plan=prepared.plan,
        statistics=prepared.statistics or None,
        runtime=args.runtime,
        batch_size=args.batch_size,
        limits=run_options.limits_of(args),
        ray=run_options.ray_options(args, capacity_of(args)) if args.runtime == "ray" else None,
        progress=progress,
        recorder=recorder,
    )


# ------------------------------------------------------------------ after the run


def _is_paced(args: argparse.Namespace) -> bool:
    return bool(args.speed or args.rate or args.trace == STANDARD_INPUT)


def _summarize(args: argparse.Namespace, queries: Sequence[Query], result: RunResult) -> None:
    from decopa.report.run_summary import figures, load_tree, matches_text

    for notice in dict.fromkeys(result.notices):
        tell("note", notice)
    for part in _parts(args, queries, result):
        print(f"\n{load_tree(part, color=sys.stderr.isatty(), width=width())}", file=sys.stderr)
    print(file=sys.stderr)
    emulated = str(capacity_of(args)) if args.emulate else None
    sustainable = _sustainable(args, queries, result)
    for line in figures(result, paced=_is_paced(args), emulated=emulated, sustainable=sustainable):
        tell(*line)
    hidden = result.matches.num_rows - PREVIEW_ROWS
    shown = f"; {PREVIEW_ROWS} shown, write all with --out FILE" if args.out is None and hidden > 0 else ""
    tell("matches", f"{matches_text(result)}{shown}")
    if args.out is not None:
        tell("output", str(args.out))
    if args.report is not None:
        tell("report", str(args.report))


def _knows_capacity(args: argparse.Namespace, result: RunResult) -> bool:
    """Whether busy times can be predicted: somebody said what a unit can do, and units have processes of their own."""
    told = args.capacity is not None or (args.iota and args.kappa)
    return bool(told and args.runtime == "ray" and result.statistics and result.seconds > 0)


def _sustainable(args: argparse.Namespace, queries: Sequence[Query], result: RunResult) -> Sustainable | None:
    from decopa.report.run_summary import Sustainable
    from decopa.runs.model_check import predicted_rate

    if not _knows_capacity(args, result):
        return None
    known = per_part(queries, result.statistics)
    rate, process = predicted_rate(result.plan, known, result.span_us, result.events, capacity_of(args))
    return None if process is None else Sustainable(rate, process)


def _parts(args: argparse.Namespace, queries: Sequence[Query], result: RunResult) -> Iterator[PartSummary]:
    from decopa.planning.price import price_plan
    from decopa.report.run_summary import PartSummary, reports_of
    from decopa.runs.model_check import predicted_shares
    from decopa.runs.prediction import predict

    statistics: Sequence[Statistics | None] = [None] * len(result.plan.parts)
    if result.statistics:
        statistics = per_part(queries, result.statistics)
    reports = reports_of(result.plan, result.operators)
    busy: list[dict[str, float]] = [{} for _ in result.plan.parts]
    if _knows_capacity(args, result):
        known_of = per_part(queries, result.statistics)
        busy = predicted_shares(result.plan, known_of, result.span_us, result.seconds, capacity_of(args))
    for part, mine, known, shares in zip(result.plan.parts, reports, statistics, busy, strict=True):
        if known is None:
            yield PartSummary(part, mine)
        else:
            price = price_plan(part, known, capacity_of(args), reading=reading_of(args))
            yield PartSummary(part, mine, predict(part, known, result.span_us), price, shares)
