"""`decopa run` on a live stream: its matches, out as they happen, until it ends or is stopped."""

from __future__ import annotations

import argparse
import gc
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from decopa.commands import run_options
from decopa.commands.inputs import capacity_of, columns_of
from decopa.commands.run import Prepared, check_conditions, parts_of, prepared_plan, ray_for
from decopa.commands.source_options import source_of
from decopa.commands.terminal import Progress, Silence, progress_line, tell, width
from decopa.errors import DecoPaError, TraceError

if TYPE_CHECKING:
    from costmodel.statistics import Statistics
    from decopa.planning.plan import Plan
    from decopa.query.query import Query
    from decopa.runs.live import LiveRun, LiveSummary
    from decopa.runs.outlets import Outlet
    from shuffler.source.stopping import Stop
    from shuffler.source.trace import TraceSource

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_live(args: argparse.Namespace, queries: Sequence[Query], given: Plan | None, known: Statistics | None) -> int:
    """Runs until the stream ends (status 0), a signal stops it (128 and its number: 130, 143), or whoever reads the
    matches has gone (0). What was certain by then is out, and the summary says how far it came."""
    from decopa.runs.outlets import LineStream, outlet_for
    from shuffler.source.stopping import Stop, StreamStopped

    if isinstance(args.out, str):
        raise DecoPaError(
            f"matches go to {args.out} with checkpoints only, since they leave with them; add --checkpoint DIR"
        )
    progress = progress_line(quiet=args.quiet)
    outlet: Outlet = LineStream(sys.stdout)
    if args.out is not None:
        every_s = None if args.part_every is None else args.part_every / 1e6
        outlet = outlet_for(args.out, overwrite=args.overwrite, part_rows=args.part_rows, part_s=every_s)
    run: LiveRun | None = None
    with Stop() as stop, _Signals(stop) as signals:
        try:
            source = _opened(args, queries, stop, progress)
            prepared = prepared_plan(args, queries, source, given, known, progress)
            with ray_for(args, prepared.plan, progress):
                signals.install()  # Ray has its own idea of what to do
                run = _made(args, queries, source, prepared, stop)
                outlet.write(run.nothing)
                progress.phase("starting the units" if args.runtime == "ray" else "running")
                if args.out is None and sys.stdout.isatty():  # lines of matches and of progress would mix
                    progress.clear()
                    progress = Silence()
                _publish(run, outlet, progress)
        except StreamStopped:
            pass  # before there was anything to run on
        finally:
            progress.clear()
            outlet.close()
    if not args.quiet:
        if run is None:
            tell("stopped", "before the first event")
        else:
            _summarize(args, queries, prepared, run.summary())
    return signals.status


def _publish(run: LiveRun, outlet: Outlet, progress: Progress) -> None:
    from decopa.runs.outlets import quiet_stream

    gc.collect()
    gc.freeze()  # what is loaded stays; looking for garbage in it takes longer than a match should
    with run:
        try:
            for matches in run:
                outlet.write(matches)
                progress(run.events, run.matches)
        except BrokenPipeError:  # whoever read the matches has seen enough
            quiet_stream(sys.stdout)


def _opened(args: argparse.Namespace, queries: Sequence[Query], stop: Stop, progress: Progress) -> TraceSource:
    # Imported this late because it loads the compiler: an error in the arguments is told at once.
    from shuffler.source.json_lines import JsonLines
    from shuffler.source.trace import open_trace

    progress.phase("waiting for the first events")
    columns, address = columns_of(args), source_of(args)
    if address is None:
        arriving = JsonLines(sys.stdin.fileno(), ts=columns.ts, kinds=args.schema or {}, stop=stop)
    source = open_trace(
        arriving if address is None else address,
        columns=columns,
        nan_as_null=args.nan_as_null,
        lateness=run_options.lateness_of(args),
        bad_rows=run_options.bad_rows_of(args),
        stop=stop,
    )
    _check_first_lines(queries, source)
    check_conditions(queries, source)
    return source


def _check_first_lines(queries: Sequence[Query], source: TraceSource) -> None:
    from decopa.query.predicate import attributes

    conditions = [
        *(one for query in queries for one in query.where),
        *(one for query in queries for one in query.returns),
    ]
    for name in dict.fromkeys(attr.name for condition in conditions for attr in attributes(condition)):
        if name not in source.schema.attributes:
            have = ", ".join(source.schema.attributes)
            raise TraceError(
                f"the first events of the stream have no '{name}', which the query needs (they have {have}); if it "
                f"comes later say what it holds, as in --schema {name}=float"
            )


def _made(
    args: argparse.Namespace, queries: Sequence[Query], source: TraceSource, prepared: Prepared, stop: Stop
) -> LiveRun:
    from decopa.runs.live import LiveRun

    return LiveRun(
        queries,
        source,
        prepared.plan,
        runtime=args.runtime,
        limits=run_options.limits_of(args),
        options=run_options.ray_options(args, capacity_of(args)) if args.runtime == "ray" else None,
        batch_size=args.batch_size,
        stop=stop,
    )


def _summarize(args: argparse.Namespace, queries: Sequence[Query], prepared: Prepared, summary: LiveSummary) -> None:
    from decopa.report.run_summary import load_tree, span_text, time_text

    for notice in dict.fromkeys((*prepared.notices, *summary.notices)):
        tell("note", notice)
    if summary.operators:
        for part in parts_of(args, queries, _result(prepared, summary)):
            print(f"\n{load_tree(part, color=sys.stderr.isatty(), width=width())}", file=sys.stderr)
        print(file=sys.stderr)
    tell("events", f"{summary.events:,} in {span_text(round(summary.seconds * 1e6))}")
    if summary.reached_us is not None:
        how = "the end of the stream" if summary.ended else "stopped"
        tell("reached", f"{_moment(summary.reached_us)}, {how}")
    latency = summary.latency
    if latency.count:
        figures = (
            f"p50 {time_text(latency.p50_s)}",
            f"p99 {time_text(latency.p99_s)}",
            f"max {time_text(latency.max_s)}",
        )
        tell("latency", f"{', '.join(figures)} (from the arrival of a match's last event to the sink)")
    several = f" ({', '.join(f'{name} {count:,}' for name, count in summary.matches.items())})"
    tell("matches", f"{sum(summary.matches.values()):,}{several if len(summary.matches) > 1 else ''}")
    if args.out is not None:
        tell("output", str(args.out))


def _result(prepared: Prepared, summary: LiveSummary) -> Any:
    """The run as the summary of stored traces knows it, without its matches, which are out."""
    import pyarrow as pa

    from decopa.runs.execute import RunResult

    comparisons = sum(report.comparisons for report in summary.operators)
    return RunResult(
        pa.table({}), summary.events, comparisons, summary.seconds, summary.operators, (), prepared.plan,
        prepared.statistics, summary.latency,
    )  # fmt: skip


def _moment(us: int) -> str:
    """A time of the stream: as a date where it can be one since 1980, else as microseconds."""
    if 315_532_800_000_000 <= us < 253_402_300_800_000_000:
        return f"{datetime.fromtimestamp(us / 1e6, UTC).isoformat(sep=' ', timespec='milliseconds')[:-6]} ({us:,} us)"
    return f"{us:,} us"


class _Signals:
    """While it is open, SIGINT and SIGTERM ask a run to stop; a second one does what it would have done without."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._before: dict[int, Any] = {}
        self.status = 0

    def __enter__(self) -> _Signals:
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        self.install()
        return self

    def install(self) -> None:
        if not self._stop.is_set():
            for number in _SIGNALS:
                signal.signal(number, self._handle)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.status = 128 + number
        self._restore()
        self._stop.set()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
