"""A live stream on Ray whose rates are mirrored, with emulated units: how soon its plan follows, and what that saves.

Phase 1 has few A, phase 2 few C, phase 3 few A again (30, 1,000 and 1,000 events a window; iota 6,000, kappa 60,000 a
window, all selectivities 0.01). It is offered at 0.85 of what the right plan is predicted to sustain. Delays are from
the moment at which the last event of a match was due until the match is here. The plan that stays gets two windows of
phase 2 as fast as it takes them; what it takes in the second is compared with the right plan.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

import decopa
from costmodel.statistics import PairSelectivity, Statistics
from decopa import Adapt, Capacity, Planning, RayOptions
from decopa.language.front import read_queries
from decopa.planning.plan import Plan
from decopa.planning.planner import plan_workload
from decopa.report.table import markdown_table
from decopa.runs.model_check import predicted_rate
from decopa.runs.streams.live import LiveRun

RARE_A = {"A": 30.0, "B": 1000.0, "C": 1000.0}
RARE_C = {"A": 1000.0, "B": 1000.0, "C": 30.0}
_SELECTIVITY = 0.01
_BATCH_S = 0.05
_FASTER = 10


def query_text(window_s: float) -> str:
    near = 1 - math.sqrt(1 - _SELECTIVITY)
    pairs = ("abs(a.x - b.x)", "abs(b.y - c.y)", "abs(a.z - c.z)")
    where = " AND ".join(f"{distance} < {near!r}" for distance in pairs)
    return f"QUERY mirrored PATTERN SEQ(A a, B b, C c) WHERE {where} WITHIN {round(1000 * window_s)} ms"


def statistics(window_s: float, rates: Mapping[str, float]) -> Statistics:
    pairs = (PairSelectivity("A", "B", _SELECTIVITY), PairSelectivity("B", "C", _SELECTIVITY))
    return Statistics(round(1e6 * window_s), dict(rates), (pairs[0], PairSelectivity("A", "C", _SELECTIVITY), pairs[1]))


def stream(window_s: float, phases: Sequence[tuple[float, Mapping[str, float]]], seed: int) -> pa.Table:
    """Poisson events: for each phase its windows and the rates in one of them."""
    rng = np.random.default_rng(seed)
    times, types, begin = [], [], 0.0
    for windows, rates in phases:
        for name, rate in rates.items():
            count = rng.poisson(rate * windows)
            times.append(begin + rng.random(count) * windows * window_s)
            types.append(np.full(count, name))
        begin += windows * window_s
    moments, names = np.concatenate(times), np.concatenate(types)
    order = np.argsort(moments, kind="stable")
    columns = {name: rng.random(len(order)) for name in "xyz"}
    ts = (moments[order] * 1e6).astype(np.int64)
    return pa.table({"id": np.arange(len(order)), "ts": ts, "type": pa.array(names[order]), **columns})


class Offered:
    """A table as a live stream: batches of what is due, `speed` seconds of the trace in one of the clock."""

    def __init__(self, events: pa.Table, speed: float) -> None:
        self._events, self._due_s = events, events.column("ts").to_numpy() / 1e6 / speed
        self.speed, self.start_s = speed, 0.0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self.start_s, done = time.monotonic(), 0
        while done < self._events.num_rows:
            time.sleep(max(0.0, _BATCH_S - (time.monotonic() - self.start_s) % _BATCH_S))
            due = int(np.searchsorted(self._due_s, time.monotonic() - self.start_s, side="right"))
            if due > done:
                yield from self._events.slice(done, due - done).combine_chunks().to_batches()
                done = due

    def delays_s(self, matches: pa.Table) -> np.ndarray:
        """How long after the last event of each match was due it is now."""
        due_s = np.asarray(matches.column("end_ts").cast(pa.int64()).to_numpy()) / 1e6 / self.speed
        return time.monotonic() - self.start_s - due_s


def ids_of(matches: pa.Table) -> pa.Table:
    """Which events the matches are made of, in one order; a match that comes twice is there twice."""
    return matches.select(["a", "b", "c"]).sort_by([(alias, "ascending") for alias in "abc"]).combine_chunks()


def followed(run: LiveRun, offered: Offered, window_s: float) -> tuple[pa.Table, dict[int, list[float]]]:
    """All matches, and delays by the window of event time in which matches end."""
    delays: dict[int, list[float]] = {}
    tables = []
    for matches in run:
        ends = matches.column("end_ts").cast(pa.int64()).to_numpy() // round(1e6 * window_s)
        for window, delay in zip(ends.tolist(), offered.delays_s(matches).tolist(), strict=True):
            delays.setdefault(window, []).append(delay)
        tables.append(matches)
    return pa.concat_tables(tables), delays


def capacity_of(window_s: float) -> Capacity:
    return Capacity.per_second(6_000 / window_s, 60_000 / window_s)


def right_plan(window_s: float, rates: Mapping[str, float], units: int) -> tuple[Plan, float]:
    """The plan for some rates, and how many events a second it is predicted to sustain."""
    known, capacity = statistics(window_s, rates), capacity_of(window_s)
    plan = plan_workload(read_queries(query_text(window_s)), known, capacity, units=units, strategy="decopa").plan
    # Over many windows: the first one has fewer partners than those that follow.
    windows = 1_000
    return plan, predicted_rate(
        plan, [known], 1e6 * window_s * windows, round(sum(rates.values()) * windows), capacity
    )[0]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.adaptation.mirrored", description=__doc__)
    parser.add_argument("--window", type=float, default=30.0, metavar="S", help="seconds (default: %(default)s)")
    parser.add_argument("--windows", type=float, default=6.0, help="of each phase (default: %(default)s)")
    parser.add_argument("--units", type=int, default=4)
    parser.add_argument("--load", type=float, default=0.85, help="of what is sustained (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    window_s, text = args.window, query_text(args.window)
    plan, sustained = right_plan(window_s, RARE_A, args.units)
    speed = args.load * sustained / (sum(RARE_A.values()) / window_s)
    events = stream(window_s, [(args.windows, RARE_A), (args.windows, RARE_C), (args.windows, RARE_A)], args.seed)
    planning = Planning(plan=plan, statistics=statistics(window_s, RARE_A), capacity=capacity_of(window_s))
    options = RayOptions(emulate={"": capacity_of(window_s)}, metrics=False)
    print(
        f"{events.num_rows:,} events at {args.load * sustained:.1f} a second, {speed:.2f} times real time", flush=True
    )
    with decopa.session():
        offered = Offered(events, speed)
        run = decopa.watch(
            text, iter(offered), units=args.units, runtime="ray", planning=planning, ray=options, adapt=Adapt()
        )
        matches, delays = followed(run, offered, window_s)
        switches = run.summary().switches
        fixed = fixed_rate(text, plan, window_s, args.seed)
    same = ids_of(matches).equals(ids_of(decopa.run_detailed(text, events).matches))
    print(report(delays, args.windows))
    changed_s = [args.windows * window_s, 2 * args.windows * window_s]
    for switch in switches:
        after = [switch.at_us / 1e6 - at for at in changed_s if at <= switch.at_us / 1e6]
        told = f", {after[-1] / window_s:.2f} windows ({after[-1] / speed:.1f} s) after the change" if after else ""
        print(f"- {switch}{told}")
    print(
        f"- the plan of phase 1 sustains {fixed:.2f} events/s in phase 2, 1/{sustained / fixed:.0f} of the right one's"
    )
    print(f"- {matches.num_rows:,} matches, {'the same as' if same else 'NOT those'} without a change")
    return 0 if same else 1


def fixed_rate(text: str, plan: Plan, window_s: float, seed: int) -> float:
    """Events a second that the plan of phase 1 takes in phase 2 once windows are full: in a run over two windows, those
    of the second. Units are emulated ten times as fast, or it would take too long."""
    per_second = capacity_of(window_s / _FASTER)
    options = RayOptions(emulate={"": per_second}, metrics=False)
    seconds = []
    for windows in (1.0, 2.0):
        events = stream(window_s, [(windows, RARE_C)], seed)
        done = decopa.run_detailed(text, events, planning=Planning(plan=plan), runtime="ray", ray=options)
        seconds.append(done.seconds)
    return sum(RARE_C.values()) / (seconds[1] - seconds[0]) / _FASTER


def report(delays: Mapping[int, Sequence[float]], windows: float) -> str:
    rows = []
    for window in sorted(delays):
        phase = 1 + int(window // windows)
        values = np.array(delays[window])
        rows.append(
            [f"{window}", f"{phase}", f"{len(values):,}", f"{np.median(values):.2f} s", f"{values.max():.2f} s"]
        )
    return markdown_table(["window", "phase", "matches", "delay p50", "most"], rows)


if __name__ == "__main__":
    sys.exit(main())
