"""`decopa run`: every match of a query in a trace, and what every operator did to find them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from decopa.commands.arguments import run as run_options
from decopa.commands.arguments.changes import add_adapt_arguments, add_rule_arguments
from decopa.commands.arguments.options import (
    Subparsers,
    add_output_arguments,
    add_planning_arguments,
    add_query_argument,
    add_quiet_argument,
    add_spark_argument,
    add_trace_arguments,
)
from decopa.commands.arguments.source import add_source_arguments, is_live
from decopa.commands.running.good_queries import queries_of
from decopa.commands.running.resume import run_durably
from decopa.commands.terminal import Progress, progress_line, tell, width
from decopa.lean import load_lean

if TYPE_CHECKING:
    from cluster.deploy.recorder import Recorder
    from decopa.query.query import Query
    from decopa.runs.result import RunResult
    from decopa.runs.spec import RunSpec

#: Matches shown when there is no --out.
PREVIEW_ROWS = 10
_ABOUT = """\
Finds every match of a query (or of several) in a trace: measures the trace unless --stats is given,
makes a plan for --units processing units unless --plan is given, runs it, and shows what every
operator was expected to do and what it did. Without --out the first matches are shown. Matches of a
live stream (--trace -) come as they happen, as JSON lines without --out."""


def register(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "run",
        help="find all matches of a query in a trace",
        description=_ABOUT,
        epilog=run_options.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_query_argument(parser)
    add_trace_arguments(parser, required=False, live=True)
    add_planning_arguments(
        parser,
        "processing units: that many actors on Ray (default: one unit, in this process); see --runtime. With --adapt "
        "also a range, as in 2:8",
        ranges=True,
    )
    add_output_arguments(
        parser,
        "where matches go: .parquet, .csv (lists joined by ';') or .jsonl, or a new or empty folder, to which the "
        "processes that find matches write Parquet files (of a live stream: parts); 'none' counts matches without "
        "making them; with --checkpoint a folder, kafka://HOST:PORT/TOPIC or nats://HOST:PORT/SUBJECT",
        topics=True,
    )
    add_quiet_argument(parser)
    parser.add_argument(
        "--skip-bad-queries",
        action="store_true",
        help="run the queries that can be read and fit the trace, and tell of the others",
    )
    run_options.add_runtime_arguments(parser)
    add_spark_argument(parser, "read, clean, sort and measure the trace on Spark, for traces of any size")
    add_source_arguments(parser)
    run_options.add_stream_arguments(parser)
    add_adapt_arguments(parser)
    add_rule_arguments(parser)
    run_options.add_bad_row_arguments(parser)
    run_options.add_checkpoint_arguments(parser)
    parser.set_defaults(action=run_command)


def run_command(args: argparse.Namespace) -> int:
    run_options.check(args)
    queries = queries_of(args, live=is_live(args))
    if not (is_live(args) or args.spark):  # else while the first events arrive; Spark works with pandas
        load_lean()
    if args.timed_out:
        from decopa.query.rewrite.timeouts import timed_out

        queries = tuple(one for query in queries for one in (query, *timed_out(query)))
    spec = run_options.spec_of(args)
    if args.dry_run:
        _show_placement(args, spec, queries)
        return 0
    if args.rules is not None and spec.checkpoints is None:
        from decopa.commands.running.rules import run_with_rules

        return run_with_rules(args, spec, queries)
    if is_live(args) and spec.checkpoints is None and not args.spark:
        from decopa.commands.running.live import run_live

        return run_live(args, spec, queries)
    recorder = _recorder(args)
    progress = progress_line(quiet=args.quiet)
    try:
        if spec.checkpoints is not None:
            result = run_durably(args, spec, queries, progress, recorder)
        else:
            result = _run(args, spec, queries, progress, recorder)
        if recorder is not None and result is not None:
            _write_report(args, spec, queries, result, recorder)
    finally:
        progress.clear()
    if result is not None and spec.checkpoints is None and spec.output is None and result.matches.num_rows:
        from decopa.report.table import preview

        print(preview(result.matches, PREVIEW_ROWS), flush=True)
    if result is not None and not args.quiet:
        _summarize(args, spec, queries, result)
    return 0


def _show_placement(args: argparse.Namespace, spec: RunSpec, queries: Sequence[Query]) -> None:
    from decopa.commands.running.dry_run import show_placement
    from decopa.runs.preparation.prepare import prepare

    progress = progress_line(quiet=args.quiet)
    try:
        prepared = prepare(spec, queries, predictions=True, phase=progress.phase)
    finally:
        progress.clear()
    show_placement(prepared)


def _run(
    args: argparse.Namespace, spec: RunSpec, queries: Sequence[Query], progress: Progress, recorder: Recorder | None
) -> RunResult:
    from decopa.files import check_writable, write_matches

    writes_file = spec.output is not None and not spec.output.is_folder
    if writes_file:
        check_writable(args.out, args.overwrite)
    # Imported this late because it loads the compiler: an error in the arguments is told at once.
    from decopa.runs.execute import run_spec
    from decopa.runs.watch import Watch

    def show_dashboard(address: str) -> None:
        if not args.quiet:
            progress.clear()
            tell("dashboard", f"{address} (while this runs)")

    def warn(line: str) -> None:
        progress.clear()
        tell("warning", line)

    def changed(line: str) -> None:
        if not args.quiet:
            progress.clear()
            tell("change", line)

    watch = Watch(progress, progress.phase, show_dashboard, recorder, warn=warn, changed=changed)
    result = run_spec(spec, queries, watch=watch, predictions=True)
    if writes_file:
        progress.phase("writing the matches")
        write_matches(result.matches, args.out, overwrite=args.overwrite)
    return result


def _recorder(args: argparse.Namespace) -> Recorder | None:
    """A recorder if there is to be a report; whether that can be written is checked before anything runs."""
    if args.report is None:
        return None
    from cluster.deploy.recorder import Recorder
    from decopa.files import check_writable

    check_writable(args.report, args.overwrite, suffixes=(".html",))
    return Recorder()


# ------------------------------------------------------------------ after the run


def _is_paced(spec: RunSpec) -> bool:
    return spec.ray.replay.is_paced


def _knows_capacity(args: argparse.Namespace, result: RunResult) -> bool:
    """Whether busy times can be predicted: a unit's capacity is given, and units have processes of their own."""
    told = args.capacity is not None or (args.iota and args.kappa)
    return bool(told and any(report.busiest for report in result.operators) and result.seconds > 0)


def _emulated(spec: RunSpec) -> str | None:
    return str(spec.planning.capacity) if spec.ray.emulate else None


def _write_report(
    args: argparse.Namespace, spec: RunSpec, queries: Sequence[Query], result: RunResult, recorder: Recorder
) -> None:
    from decopa.files import write_text
    from decopa.report.run_page import RunReport, report_page
    from decopa.report.run_parts import part_summaries, sustainable_rate

    known = _knows_capacity(args, result)
    report = RunReport(
        result,
        tuple(part_summaries(queries, result, spec.planning, busy=known)),
        tuple(recorder.samples),
        "the plan given" if args.plan is not None else result.strategy,
        _is_paced(spec),
        _emulated(spec),
        sustainable_rate(queries, result, spec.planning) if known else None,
    )
    write_text(report_page(report), args.report, overwrite=args.overwrite)


def _summarize(args: argparse.Namespace, spec: RunSpec, queries: Sequence[Query], result: RunResult) -> None:
    from decopa.report.run_parts import part_summaries, sustainable_rate
    from decopa.report.run_summary import figures, load_tree, matches_text

    for notice in dict.fromkeys(result.notices):
        tell("note", notice)
    known = _knows_capacity(args, result)
    for part in part_summaries(queries, result, spec.planning, busy=known):
        print(f"\n{load_tree(part, color=sys.stderr.isatty(), width=width())}", file=sys.stderr)
    print(file=sys.stderr)
    sustainable = sustainable_rate(queries, result, spec.planning) if known else None
    for line in figures(result, paced=_is_paced(spec), emulated=_emulated(spec), sustainable=sustainable):
        tell(*line)
    hidden = result.matches.num_rows - PREVIEW_ROWS
    shown = f"; {PREVIEW_ROWS} shown, write all with --out FILE" if spec.output is None and hidden > 0 else ""
    tell("matches", f"{matches_text(result)}{shown}")
    if spec.output is not None:
        tell("output", spec.output.path)
    if args.report is not None:
        tell("report", str(args.report))
