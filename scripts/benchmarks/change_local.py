"""How long a stream is held up while its plan changes, in one process; other ways to change in the same table.

A live stream comes in batches. Between two batches a plan is changed in three ways: beside the running plan, in steps
of 10 ms (what `--adapt` does on live streams); at once, with the stream waiting (as stopping and restoring would); and
by running both plans for a window, until the new one has seen all that it needs. Times are those of this thread, so
that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

import decopa
from cluster.change.cut import reported
from cluster.change.history import BlockRing
from cluster.change.local import ChangingPipeline
from cluster.change.runtime import BUILD_S, LONGER
from cluster.pipeline import Pipeline
from decopa.planning.history import history_us
from decopa.planning.plan import Plan
from decopa.planning.spread import spread_units
from decopa.planning.strategies.left_deep import left_deep
from decopa.report.table import markdown_table
from shuffler.source.trace import TraceSource, open_trace

WINDOW_US = 1_000_000
TEXT = "PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k WITHIN 1 s"
#: A is rare, or C is: another pair is joined first.
_RATES = ({"A": 1.0, "B": 900.0, "C": 900.0}, {"A": 900.0, "B": 900.0, "C": 1.0})


@dataclass
class Held:
    """Of one way to change: how long the stream was held up between two batches, in all and at most; the time from the
    request to the cut, in batches; and the work on batches meanwhile, against the same before."""

    longest_s: list[float] = field(default_factory=list)
    total_s: list[float] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    share: list[float] = field(default_factory=list)


def events_table(events: int, per_second: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(events),
            "ts": np.sort(rng.integers(0, events * 1_000_000 // per_second, events)),
            "type": pa.array(["A", "B", "C"]).take(pa.array(rng.integers(0, 3, events))),
            "k": rng.integers(0, per_second // 20, events),
        }
    )


def plans() -> dict[str, tuple[Plan, Plan]]:
    """Two plans each that are changed back and forth: another split, and other units."""
    query = decopa.parse(TEXT)
    known = [decopa.Statistics.of(WINDOW_US, rates, {("A", "B"): 0.01, ("B", "C"): 0.01}) for rates in _RATES]
    split = [decopa.plan(query, one, units=1) for one in known]
    wide = [Plan((spread_units(left_deep(query), units),)) for units in (2, 6)]
    return {"another split": (split[0], split[1]), "2 and 6 units": (wide[0], wide[1])}


def measure(source: TraceSource, several: Sequence[Plan], rows: int, changes: int, way: str) -> Held:
    """Changes the plan every few windows."""
    pipe = ChangingPipeline(several[0], source.format, source.strings, BlockRing(max(map(history_us, several))))
    pipe.warm_up()
    held, made, spent = Held(), 0, _Spent()
    steady: list[float] = []
    dual: Pipeline | None = None
    next_us, begun, holds, working, budget_s = 4 * WINDOW_US, 0, [0.0], [0.0], BUILD_S
    for events in source.batches(["k"], rows):
        worked_s = spent.on(lambda batch=events: pipe.feed(batch))
        pipe.take()
        if dual is not None:  # both plans work on every batch
            held_s = spent.on(lambda new=dual, batch=events: new.feed(batch))
        elif pipe.changing:
            budget_s *= LONGER
            held_s = spent.on(lambda seconds=budget_s: pipe.step(seconds))
        elif pipe.watermark_us >= next_us and made < changes:
            begun, holds, working, budget_s = 0, [], [], BUILD_S
            plan = several[(made + 1) % 2]
            if way == "both plans for a window":
                dual, held_s = Pipeline(plan, source.format, source.strings), 0.0
                until_us = pipe.watermark_us + WINDOW_US
            elif way == "at once":
                held_s = spent.on(lambda chosen=plan: pipe.switch(chosen))
            else:
                held_s = spent.on(lambda chosen=plan: pipe.begin(chosen))
        else:
            steady.append(worked_s)
            continue
        holds.append(held_s)
        working.append(worked_s)
        begun += 1
        if pipe.changing or (dual is not None and pipe.watermark_us < until_us):
            continue
        dual, made, next_us = None, made + 1, pipe.watermark_us + 2 * WINDOW_US
        held.longest_s.append(max(holds))
        held.total_s.append(sum(holds))
        held.batches.append(begun)
        held.share.append(float(np.median(steady)) * len(holds) / (sum(holds) + sum(working)))
    return held


def built(table: pa.Table, plan: Plan, rows: int, rounds: int = 5) -> tuple[float, float, int, int]:
    """Processor time and comparisons that it takes to build a plan from some windows: without looking for matches that
    no later event can complete, and with."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    compared: dict[bool, int] = {}
    for absorbs in (True, False) * (rounds + 1):
        source = open_trace(table)
        pipe = Pipeline(plan, source.format, source.strings)
        pipe.warm_up()
        if absorbs:
            pipe.absorb(reported(pipe.plan))
        batches = list(source.batches(["k"], rows))
        began_s = time.thread_time()
        for events in batches:
            pipe.feed(events)
        seconds[absorbs].append(time.thread_time() - began_s)
        compared[absorbs] = sum(report.comparisons for report in pipe.reports())
    less, whole = (float(np.median(seconds[absorbs][1:])) for absorbs in (True, False))
    return less, whole, compared[True], compared[False]


class _Spent:
    """Processor time of this thread."""

    def on(self, work: Callable[[], object]) -> float:
        began_s = time.thread_time()
        work()
        return time.thread_time() - began_s


def stationary(table: pa.Table, turns: int) -> tuple[float, int]:
    """Processor time of runs over a steady stream without `adapt` and with it, in turns: the first as a share of the
    second, in the middle; and how often the plan was changed, which should be never."""
    known = decopa.Planning(statistics=decopa.stats(TEXT, table.slice(0, 200_000)))
    ratios, switches = [], 0
    for turn in range(turns + 1):
        seconds = []
        for adapt in (None, decopa.Adapt()):
            began_s = time.process_time()
            result = decopa.run_detailed(TEXT, table, planning=known, adapt=adapt)
            seconds.append(time.process_time() - began_s)
            switches += len(result.switches)
        if turn:  # the first one compiles
            ratios.append(seconds[0] / seconds[1])
    return float(np.median(ratios)), switches


WAYS = ("in steps of 10 ms", "at once", "both plans for a window")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench_change", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=int, default=100_000, help="events in a second of event time (default 100,000)")
    parser.add_argument("--batch", type=int, default=2_000, help="events in a batch (default 2,000)")
    parser.add_argument("--changes", type=int, default=20, help="of each kind and way (default 20)")
    parser.add_argument("--stationary", type=int, default=0, metavar="TURNS", help="only what --adapt costs, in turns")
    chosen = parser.parse_args(arguments)
    if chosen.stationary:
        share, switches = stationary(events_table(10 * chosen.rate, chosen.rate, 1), chosen.stationary)
        print(f"{share:.3f} of the throughput without --adapt, {switches} changes")
        return 0
    table = events_table((6 + 4 * chosen.changes) * chosen.rate, chosen.rate, 1)
    header = [
        "change",
        "way",
        "changes",
        "held up p50 ms",
        "p95 ms",
        "in all p50 ms",
        "batches to the cut",
        "throughput",
    ]
    rows = []
    for kind, several in plans().items():
        for way in WAYS:
            held = measure(open_trace(table), several, chosen.batch, chosen.changes, way)
            longest, total = (1_000 * np.array(one) for one in (held.longest_s, held.total_s))
            figures = (np.median(longest), np.percentile(longest, 95), np.median(total))
            rows.append(
                [kind, way, str(len(longest)), *(f"{one:.1f}" for one in figures),
                 f"{np.median(held.batches):.0f}", f"{np.median(held.share):.2f}"]
            )  # fmt: skip
            print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    print(markdown_table(header, rows, words=(0, 1)))
    for number, plan in enumerate(plans()["another split"], 1):
        less, whole, few, all_ = built(table.slice(0, 4 * chosen.rate), plan, chosen.batch)
        print(
            f"\nplan {number} built from 4 windows: {1e3 * less:.0f} ms and {few:,} comparisons, {less / whole:.2f} of "
            f"what it takes to look for all matches ({1e3 * whole:.0f} ms, {all_:,})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
