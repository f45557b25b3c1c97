"""`decopa run` on a live stream: its matches, out as they happen, until it ends or is stopped."""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from decopa.commands.terminal import Progress, Silence, progress_line, tell, width
from decopa.lean import load_arrow, load_numba

if TYPE_CHECKING:
    from decopa.query.query import Query
    from decopa.runs.preparation.prepare import Prepared
    from decopa.runs.result import RunResult
    from decopa.runs.spec import RunSpec
    from decopa.runs.streams.live import LiveRun, LiveSummary
    from decopa.runs.streams.outlets import Outlet
    from shuffler.source.stopping import Stop

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_live(args: argparse.Namespace, spec: RunSpec, queries: Sequence[Query]) -> int:
    """Runs until the stream ends (status 0), a signal stops it (128 and its number: 130, 143), or the reader of the
    matches has gone (0). What was certain by then is out, and the summary says how far it came."""
    load_arrow()
    from decopa.runs.preparation.prepare import prepare
    from decopa.runs.streams.live import LiveRun
    from decopa.runs.streams.outlets import LineStream, outlet_for
    from shuffler.source.json_lines import JsonLines
    from shuffler.source.stopping import Stop, StreamStopped

    progress = progress_line(quiet=args.quiet)
    outlet: Outlet = LineStream(sys.stdout)
    if args.out is not None:
        every_s = None if args.part_every is None else args.part_every / 1e6
        outlet = outlet_for(args.out, overwrite=args.overwrite, part_rows=args.part_rows, part_s=every_s)
    run: LiveRun | None = None
    prepared: Prepared | None = None
    with Stop() as stop, Signals(stop) as signals:
        try:
            progress.phase("waiting for the first events")
            arriving = None
            if spec.trace.path is None:
                # The first lines take a while to show their columns; libraries are loaded meanwhile.
                loading = threading.Thread(target=load_numba)
                loading.start()
                arriving = JsonLines(sys.stdin.fileno(), ts=spec.trace.columns.ts, kinds=spec.trace.kinds, stop=stop)
                loading.join()
            prepared = prepare(spec, queries, arriving, phase=progress.phase, stop=stop)
            with _ray_for(prepared, progress, quiet=args.quiet):
                signals.install()  # Ray has its own idea of what to do
                run = LiveRun(prepared, stop, changed=_teller(args, progress))
                outlet.write(run.nothing)
                progress.phase("running" if prepared.spec.runtime == "local" else "starting the units")
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
        if run is None or prepared is None:
            tell("stopped", "before the first event")
        else:
            _summarize(args, prepared, run.summary())
    return signals.status


def _teller(args: argparse.Namespace, progress: Progress) -> Callable[[str], None]:
    """Tells of each change of the plan."""

    def changed(line: str) -> None:
        if not args.quiet:
            progress.clear()
            tell("change", line)

    return changed


@contextmanager
def _ray_for(prepared: Prepared, progress: Progress, *, quiet: bool) -> Iterator[None]:
    """A Ray for the run, if it runs on Ray: started before signals are taken over."""
    if prepared.spec.runtime == "local":
        yield
        return
    from cluster.deploy.placement import places_needed
    from cluster.ray_session import ray_session
    from decopa.runs.runtimes.adapting import places_to_adapt
    from shuffler.routing.topology import Topology

    address = prepared.spec.ray.address
    progress.phase("connecting to Ray" if address else "starting Ray")
    places = places_to_adapt(prepared, places_needed(Topology(prepared.plan, prepared.spec.ray.shufflers)))
    with ray_session(address=address, cpus=places) as dashboard:
        if dashboard is not None and not quiet:
            progress.clear()
            tell("dashboard", f"{dashboard} (while this runs)")
        yield


def _publish(run: LiveRun, outlet: Outlet, progress: Progress) -> None:
    from decopa.runs.streams.outlets import quiet_stream

    gc.collect()
    gc.freeze()  # what is loaded stays; looking for garbage in it takes longer than a match should
    with run:
        try:
            for matches in run:
                outlet.write(matches)
                progress(run.events, run.matches)
        except BrokenPipeError:  # whoever read the matches has seen enough
            quiet_stream(sys.stdout)


def _summarize(args: argparse.Namespace, prepared: Prepared, summary: LiveSummary) -> None:
    from decopa.report.run_parts import part_summaries
    from decopa.report.run_summary import load_tree, span_text, time_text

    for notice in summary.notices:
        tell("note", notice)
    if summary.operators:
        for part in part_summaries(prepared.queries, _result(prepared, summary), prepared.spec.planning):
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
    for number, switch in enumerate(summary.switches, 1):
        tell(f"change {number}", str(switch))
    several = f" ({', '.join(f'{name} {count:,}' for name, count in summary.matches.items())})"
    tell("matches", f"{sum(summary.matches.values()):,}{several if len(summary.matches) > 1 else ''}")
    if args.out is not None:
        tell("output", str(args.out))


def _result(prepared: Prepared, summary: LiveSummary) -> RunResult:
    """The run as the summary of stored traces knows it, without its matches, which are out."""
    import pyarrow as pa

    from decopa.runs.result import RunResult

    return RunResult(
        pa.table({}),
        summary.events,
        summary.seconds,
        summary.operators,
        summary.plan or prepared.plan,
        statistics=prepared.statistics,
        switches=summary.switches,
        latency=summary.latency,
    )


def _moment(us: int) -> str:
    """A time of the stream: as a date where it can be one since 1980, else as microseconds."""
    if 315_532_800_000_000 <= us < 253_402_300_800_000_000:
        return f"{datetime.fromtimestamp(us / 1e6, UTC).isoformat(sep=' ', timespec='milliseconds')[:-6]} ({us:,} us)"
    return f"{us:,} us"


class Signals:
    """While it is open, SIGINT and SIGTERM ask a run to stop; a second one does what it would have done without."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._before: dict[int, Any] = {}
        self.status = 0

    def __enter__(self) -> Signals:
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
