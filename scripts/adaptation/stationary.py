"""What `--adapt` costs where there is nothing to adapt to: the same stationary events with and without it, in turns.

Processor time is that of all processes of the run, Ray's own included: unlike the time on the clock it hardly depends
on what else the machine does. Which of a pair comes first alternates, and the first pair, which compiles and starts
processes, does not count. With --queries instead: the 22 queries without KL and NOT of `scripts/model_check` on Poisson
input, in this process; their plans must not change.

Examples: python -m scripts.adaptation.stationary --runtime local --pairs 20
          python -m scripts.adaptation.stationary --queries --events 300000
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

import decopa
from decopa import Adapt, Limits, RayOptions
from decopa.choices import RUNTIMES
from decopa.report.table import markdown_table
from scripts.benchmarks.model.model_cases import Case, plain_cases, table_of
from scripts.benchmarks.processes import processor_s, processor_times
from scripts.reliability.jobs import write_trace

QUERY = "PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k WITHIN 10 ms"
#: Events of the trial run, and how many there are in a second of the trace.
_TRIAL, _RATE = 1_000_000, 10_000
#: Of the throughput without --adapt, at least.
GOAL = 0.99
_LIMITS = Limits(max_matches=10**9)


@dataclass(frozen=True)
class Spent:
    """Of one run: seconds on the clock, processor seconds of all processes, and how often its plan was changed."""

    seconds: float
    processor_s: float
    switches: int


def measured(trace: Path, runtime: str, units: int, *, adapts: bool) -> Spent:
    adapt = Adapt() if adapts else None
    options = RayOptions(metrics=False)
    before = processor_times()
    done = decopa.run_detailed(QUERY, trace, runtime=runtime, units=units, ray=options, adapt=adapt, limits=_LIMITS)
    return Spent(done.seconds, sum(processor_s(before, processor_times()).values()), len(done.switches))


def spread(ratios: Sequence[float]) -> str:
    """The median, the middle half, and between which values the median of all such runs is, with 95 %.

    The last goes by rank alone (binomial): nothing is assumed about how runs differ.
    """
    ordered = np.sort(ratios)
    low, high = np.quantile(ordered, (0.25, 0.75))
    at = rank_of_median(len(ordered))
    sure = "too few for a range" if at is None else f"{ordered[at]:.3f} to {ordered[-1 - at]:.3f} with 95 %"
    return f"median {np.median(ordered):.3f} ({sure}), middle half {low:.3f} to {high:.3f}"


def rank_of_median(count: int, confidence: float = 0.95) -> int | None:
    """The largest i for which the median lies between the i-th value from below and from above (from 0); None if even
    the outermost ones are not far enough apart."""
    tail, found = 0.0, None
    for rank in range(count // 2):
        tail += math.comb(count, rank) / 2**count
        if 2 * tail > 1 - confidence:
            break
        found = rank
    return found


def cost(args: argparse.Namespace) -> int:
    rows, clock, processor, switches = [], [], [], 0
    with TemporaryDirectory() as folder, ExitStack() as open_:
        if args.runtime == "ray":
            open_.enter_context(decopa.session(places=6 * (args.units + 1)))
        trace = Path(folder) / "trace.parquet"
        write_trace(trace, events=_TRIAL, rate=_RATE, seed=1)
        seconds = min(measured(trace, args.runtime, args.units, adapts=False).seconds for _ in range(2))
        events = int(_TRIAL * args.seconds / seconds)
        write_trace(trace, events=events, rate=_RATE, seed=1)
        for pair in range(args.pairs + 1):
            order = (False, True) if pair % 2 == 0 else (True, False)
            runs = {adapts: measured(trace, args.runtime, args.units, adapts=adapts) for adapts in order}
            without, adapting = runs[False], runs[True]
            switches += adapting.switches
            if pair == 0:
                continue
            clock.append(without.seconds / adapting.seconds)
            processor.append(without.processor_s / adapting.processor_s)
            both = (without, adapting)
            cells = [*(f"{one.seconds:.2f} s" for one in both), *(f"{one.processor_s:.2f} s" for one in both)]
            rows.append([str(pair), *cells, f"{clock[-1]:.3f}", f"{processor[-1]:.3f}", str(adapting.switches)])
            print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    header = ("pair", "without", "with --adapt", "processor without", "with", "without / with", "processor", "changes")
    print(f"{events:,} events, {args.runtime}, {args.units} units")
    print(markdown_table(header, rows))
    print(f"- time without / with: {spread(clock)}")
    print(f"- processor time without / with: {spread(processor)}; goal {GOAL} or more")
    print(f"- {switches} changes of plan; goal 0")
    return 0 if statistics.median(processor) >= GOAL and not switches else 1


def poisson(table: pa.Table, ts: str, events: int, seed: int) -> pa.Table:
    """So many events that are drawn from those of a trace, at random times, as many per second as there: what types and
    attributes there are, and nothing that changes."""
    rng = np.random.default_rng(seed)
    times = table.column(ts).cast(pa.int64()).to_numpy()
    length = (times.max() - times.min()) * events / table.num_rows
    drawn = table.take(pa.array(rng.integers(0, table.num_rows, events)))
    moments = np.sort(rng.integers(0, int(length), events)) + times.min()
    drawn = drawn.set_column(drawn.schema.get_field_index(ts), ts, pa.array(moments).cast(table.schema.field(ts).type))
    ids = pa.array(np.arange(events))  # one event may be drawn more than once
    return drawn.drop_columns([name for name in ("id",) if name in drawn.column_names]).append_column("id", ids)


def quiet(case: Case, shared: Path, events: int) -> tuple[int, int, int]:
    """Events, matches and changes of plan of one query."""
    table = poisson(table_of(case, shared), "ts", events, seed=1)
    done = decopa.run_detailed(case.query, table, units=4, runtime="local", adapt=Adapt(), limits=_LIMITS, count=True)
    return table.num_rows, done.match_count, len(done.switches)


def queries(args: argparse.Namespace) -> int:
    rows, changed = [], 0
    for case in plain_cases():
        if case.is_real and not (args.shared / "data").is_dir():
            rows.append([case.name, "-", "-", f"skipped: no {args.shared}/data"])
            continue
        events, matches, switches = quiet(case, args.shared, args.events)
        changed += switches
        rows.append([case.name, f"{events:,}", f"{matches:,}", str(switches)])
        print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    print(markdown_table(("query", "events", "matches", "changes"), rows))
    print(f"- {changed} changes of plan in {len(rows)} queries; goal 0")
    return 0 if not changed else 1


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.adaptation.stationary",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runtime", choices=RUNTIMES, default="ray")
    parser.add_argument("--units", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=12.0, help="of a run, about (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=12, help="runs with and without (default: %(default)s)")
    parser.add_argument("--queries", action="store_true", help="count changes of plan in the queries of model_check")
    parser.add_argument("--events", type=int, default=200_000, help="of each of these queries (default: %(default)s)")
    parser.add_argument("--shared", type=Path, default=Path("../shared"), help="folder with data/ (default: ../shared)")
    args = parser.parse_args(arguments)
    return queries(args) if args.queries else cost(args)


if __name__ == "__main__":
    sys.exit(main())
