"""What `--adapt` costs where there is nothing to adapt to: a stationary trace with and without it, in turns.

Runs are made long enough by a trial run; the ratio of throughputs is told for each pair and as a median.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import decopa
from decopa import Adapt, RayOptions, RunResult
from decopa.choices import RUNTIMES
from decopa.report.table import markdown_table
from scripts.reliability.jobs import write_trace

QUERY = "PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k WITHIN 10 ms"
#: Events of the trial run, and how many there are in a second of the trace.
_TRIAL, _RATE = 1_000_000, 10_000


def measured(trace: Path, runtime: str, units: int, *, adapts: bool) -> RunResult:
    adapt = Adapt() if adapts else None
    options = RayOptions(metrics=False)
    return decopa.run_detailed(QUERY, trace, runtime=runtime, units=units, ray=options, adapt=adapt)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.adaptation.stationary", description=__doc__)
    parser.add_argument("--runtime", choices=RUNTIMES, default="ray")
    parser.add_argument("--units", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=12.0, help="of a run, about (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=4, help="runs with and without (default: %(default)s)")
    args = parser.parse_args(arguments)
    rows, ratios = [], []
    with TemporaryDirectory() as folder, ExitStack() as open_:
        if args.runtime == "ray":
            open_.enter_context(decopa.session(places=6 * (args.units + 1)))
        trace = Path(folder) / "trace.parquet"
        write_trace(trace, events=_TRIAL, rate=_RATE, seed=1)
        seconds = min(measured(trace, args.runtime, args.units, adapts=False).seconds for _ in range(2))
        events = int(_TRIAL * args.seconds / seconds)
        write_trace(trace, events=events, rate=_RATE, seed=1)
        for pair in range(args.pairs):
            order = (False, True) if pair % 2 == 0 else (True, False)
            runs = {adapts: measured(trace, args.runtime, args.units, adapts=adapts) for adapts in order}
            ratios.append(runs[False].seconds / runs[True].seconds)
            rows.append(
                [
                    str(pair + 1),
                    *(f"{runs[adapts].seconds:.2f} s" for adapts in (False, True)),
                    f"{ratios[-1]:.3f}",
                    str(len(runs[True].switches)),
                ]
            )
    print(f"{events:,} events, {args.runtime}, {args.units} units")
    print(markdown_table(("pair", "without", "with --adapt", "throughput with / without", "changes"), rows))
    print(f"median {statistics.median(ratios):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
