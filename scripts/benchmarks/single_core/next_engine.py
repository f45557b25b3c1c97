"""NEXT(A a, B b, C c) on one core: the engine beside its own NOT form, a bare Numba loop and DuckDB's ASOF join.

Every figure is measured in this run, pinned to one core, in processor time. Contenders take turns, after a round that
compiles, and the best turn of each counts, so that what else the machine does hits all of them. The NOT form finds the
same matches by building all pairs first, so it slows down as the window grows; NEXT does not.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
from numba import njit

import decopa
from actors.sinks.outlet import OutletSpec
from cluster.local import LocalRuntime
from decopa.choices import Order
from decopa.planning.plan import Plan
from decopa.planning.strategies.left_deep import left_deep
from scripts.benchmarks.single_core.engine import pin_to_one_core
from scripts.benchmarks.single_core.ours import UNLIMITED
from shuffler.source.trace import open_trace

KEYS = 100
BARE = "bare Numba loop"
NEXT = "PATTERN NEXT(A a, B b, C c)"
KEYED = f"{NEXT} WHERE FILTER(b.k = a.k) AND FILTER(c.k = b.k)"
NOT_FORM = "PATTERN SEQ(A a, NOT(B b2), B b, NOT(C c2), C c)"


@dataclass(frozen=True)
class Timing:
    """The best time of several runs, the matches, and the bytes that units held at the end."""

    seconds: float
    matches: int
    state_bytes: int = 0


def trace(events: int, seed: int) -> pa.Table:
    """Distinct times, three types equally often, 100 keys."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, events).astype(np.int32)
    types = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(["A", "B", "C"]))
    columns = {"id": np.arange(events), "ts": np.arange(events) * 10, "type": types, "k": rng.integers(0, KEYS, events)}
    return pa.table(columns)


@dataclass(frozen=True)
class Contender:
    """Who finds the matches of some events; those with the same `task` must find the same number."""

    name: str
    task: str
    events: int
    run: Callable[[], Timing]


def best_of(repeat: int, contenders: Sequence[Contender]) -> list[Timing]:
    """The best of `repeat` turns of each, after a turn that compiles."""
    best = [one.run() for one in contenders]
    for turn in range(repeat):
        for number, one in enumerate(contenders):
            gc.collect()  # what earlier turns have left behind is free again, for all alike
            timing = one.run()
            if turn == 0 or timing.seconds < best[number].seconds:
                best[number] = timing
    return best


def ours(text: str, window_us: int, events: pa.Table) -> Timing:
    """From the Arrow table to the columns of all matches in memory."""
    plan = Plan((left_deep(decopa.parse(f"{text} WITHIN {window_us} us")),))
    began = time.process_time()
    runtime = LocalRuntime(plan, open_trace(events), limits=UNLIMITED, outlet=OutletSpec(Order.ANY))
    runtime.run()
    seconds = time.process_time() - began
    held = sum(report.state_bytes for report in runtime.reports())
    return Timing(seconds, runtime.matches, held)


@njit(cache=True)
def _chain(types: np.ndarray, ids: np.ndarray, ts: np.ndarray, window: int, out: np.ndarray) -> int:
    """One pass: events that wait for the next B, then for the next C."""
    waiting_a = np.empty(len(ids), np.int64)
    pairs = np.empty((2, len(ids)), np.int64)
    count_a = count_ab = found = 0
    for row in range(len(ids)):
        if types[row] == 0:
            waiting_a[count_a] = row
            count_a += 1
        elif types[row] == 1:
            for place in range(count_a):
                pairs[0, count_ab] = waiting_a[place]
                pairs[1, count_ab] = row
                count_ab += 1
            count_a = 0
        else:
            for place in range(count_ab):
                first = pairs[0, place]
                if ts[row] - ts[first] <= window:
                    out[0, found] = ids[first]
                    out[1, found] = ids[pairs[1, place]]
                    out[2, found] = ids[row]
                    found += 1
            count_ab = 0
    return found


def bare(window_us: int, events: pa.Table) -> Timing:
    began = time.process_time()
    combined = events.combine_chunks()
    types = combined.column("type").chunk(0).indices.to_numpy()
    ids, ts = (combined.column(name).chunk(0).to_numpy() for name in ("id", "ts"))
    out = np.empty((3, len(ids)), np.int64)
    found = _chain(types, ids, ts, window_us, out)
    return Timing(time.process_time() - began, int(found))


def asof(window_us: int, events: pa.Table) -> Callable[[], Timing]:
    """DuckDB's ASOF join, forward and strict: the closest that SQL has to NEXT."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("trace", events)
    connection.execute("CREATE TABLE events AS SELECT * FROM trace")
    query = f"""
        SELECT ab.a, ab.b, c.id AS c FROM (
          SELECT a.id AS a, a.ts AS first, b.id AS b, b.ts AS ts
          FROM (SELECT * FROM events WHERE type = 'A') a
          ASOF JOIN (SELECT * FROM events WHERE type = 'B') b ON a.ts < b.ts) ab
        ASOF JOIN (SELECT * FROM events WHERE type = 'C') c ON ab.ts < c.ts
        WHERE c.ts - ab.first <= {window_us}"""

    def run() -> Timing:
        connection.execute("DROP TABLE IF EXISTS matches")
        began = time.process_time()
        connection.execute(f"CREATE TEMP TABLE matches AS {query}")
        seconds = time.process_time() - began
        counted = connection.execute("SELECT count(*) FROM matches").fetchone()
        assert counted is not None
        return Timing(seconds, int(counted[0]))

    return run


def contenders_for(events: pa.Table) -> list[Contender]:
    short_us, long_us = 2_400, 24_000  # 80 and 800 candidates of each type in a window
    count = len(events)
    found = [
        Contender(f"NEXT, {us / 30:,.0f} candidates", "all", count, partial(ours, NEXT, us, events))
        for us in (short_us, long_us, 100 * short_us)
    ]
    found += [
        Contender(f"NEXT by key (100), {us / 30:,.0f} candidates", f"keyed {us}", count,
                  partial(ours, KEYED, us, events)) for us in (10 * short_us, 1_000 * short_us)
    ]  # fmt: skip
    found += [
        Contender(BARE, "all", count, partial(bare, short_us, events)),
        Contender("DuckDB ASOF join", "all", count, asof(short_us, events)),
    ]
    for us, share in ((short_us, 10), (long_us, 50)):
        some, task = events.slice(0, count // share), f"NOT {us}"
        form = f"{us / 30:,.0f} candidates, {len(some):,} events"
        found.append(Contender(f"NOT form, {form}", task, len(some), partial(ours, NOT_FORM, us, some)))
        found.append(Contender(f"NEXT, {form}", task, len(some), partial(ours, NEXT, us, some)))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Exit status 1 if contenders disagree on the number of matches."""
    parser = argparse.ArgumentParser(prog="bench_next", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000, help="events (default: 1000000)")
    parser.add_argument("--repeat", type=int, default=5, help="turns of each, the best counts (default: 5)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    pin_to_one_core()
    contenders = contenders_for(trace(options.events, options.seed))
    timings = best_of(options.repeat, contenders)
    rates = [one.events / timing.seconds for one, timing in zip(contenders, timings, strict=True)]
    (loop,) = (rate for one, rate in zip(contenders, rates, strict=True) if one.name == BARE)
    for one, timing, rate in zip(contenders, timings, rates, strict=True):
        speed = f"{rate / 1e6:9.2f} M events/CPU s {rate / loop:8.4f} of the bare loop"
        print(f"{one.name:44} {speed} {timing.matches:9,} matches {timing.state_bytes:9,} bytes held")
    found: dict[str, set[int]] = {}
    for one, timing in zip(contenders, timings, strict=True):
        found.setdefault(one.task, set()).add(timing.matches)
    return 1 if any(len(numbers) > 1 for numbers in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
