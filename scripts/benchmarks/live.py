"""Detection latency of a live run: from the moment a record is written to its pipe to the moment its match can be read.

`decopa run --trace -` runs as a user would run it. Every tenth event completes a match. First events come at a steady
rate, then in bursts with pauses, after which the last match of a burst must not wait for the next one.

Beside it a process that only sleeps for a millisecond at a time tells how long the machine itself stood still, or was
taken away by its host: a latency below that pause says nothing about decopa.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import multiprocessing.connection
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import numpy as np

QUERY = "PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 1 s"
#: Events are written in ticks, as a producer that flushes every millisecond would.
_TICK_S = 0.001
_EVENTS_PER_MATCH = 10
#: Until the first match is out, plans are made, processes started and loops compiled.
_START_S = 180.0
#: On Ray, with a pause after any burst, the last match should be out within this time.
_BURST_GOAL_MS = 100.0


class Pauses:
    """How late a process wakes up that does nothing but sleep: what the machine takes from everybody."""

    def __init__(self) -> None:
        self._here, there = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(target=_sleep_late, args=(there,), daemon=True)
        self._process.start()
        self.longest_ms()

    def longest_ms(self) -> float:
        """The longest pause since the last call."""
        self._here.send(None)
        return float(self._here.recv())

    def close(self) -> None:
        self._process.terminate()
        self._process.join()


def _sleep_late(there: multiprocessing.connection.Connection) -> None:
    longest_s = 0.0
    while True:
        asked = time.perf_counter()
        time.sleep(_TICK_S)
        longest_s = max(longest_s, time.perf_counter() - asked - _TICK_S)
        if there.poll():
            there.recv()
            there.send(1e3 * longest_s)
            longest_s = 0.0


@dataclass(frozen=True)
class Figures:
    """Milliseconds; of the bursts, from the last record to the last match. `pause` and `burst_pause` are the longest
    ones of the machine meanwhile, the latter during the slowest burst."""

    matches: int
    p50: float
    p99: float
    most: float
    burst_p50: float
    burst_most: float
    pause: float
    burst_pause: float
    over: int

    def __str__(self) -> str:
        return (
            f"{self.matches:,} matches: p50 {self.p50:.1f} ms, p99 {self.p99:.1f} ms, max {self.most:.1f} ms; "
            f"last match of a burst: median {self.burst_p50:.1f} ms, max {self.burst_most:.1f} ms "
            f"({self.over} above {_BURST_GOAL_MS:g} ms); the machine stood still for up to {self.pause:.1f} ms, "
            f"in the slowest burst {self.burst_pause:.1f} ms"
        )


class LiveBench:
    """A run with a writer and a reader around it."""

    def __init__(self, runtime: str, units: int) -> None:
        command = [sys.executable, "-m", "decopa", "run", QUERY, "--trace", "-", "--runtime", runtime, "--quiet"]
        self._process = subprocess.Popen(
            [*command, "--units", str(units)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ)
        )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin
        self._sent: list[float] = []
        #: (id of the last event, when its line was read)
        self._read: list[tuple[int, float]] = []
        self._arrived = threading.Condition()
        threading.Thread(target=self._reading, daemon=True).start()

    def send(self, count: int) -> None:
        """Writes events; the last of every ten completes a match with the first of them."""
        first, now_us = len(self._sent), time.time_ns() // 1000
        lines = []
        for number in range(first, first + count):
            place = number % _EVENTS_PER_MATCH
            kind = "A" if place == 0 else "B" if place == _EVENTS_PER_MATCH - 1 else "C"
            lines.append(f'{{"id":{number},"ts":{now_us},"type":"{kind}","k":{number // _EVENTS_PER_MATCH}}}\n')
            now_us += 1
        self._sent += [time.perf_counter()] * count
        self._pipe.write("".join(lines).encode())
        self._pipe.flush()

    def steadily(self, rate: float, seconds: float) -> tuple[int, int]:
        """Writes at a rate; returns the range of the events."""
        first, begun = len(self._sent), time.perf_counter()
        while (elapsed := time.perf_counter() - begun) < seconds:
            due = int(elapsed * rate) - (len(self._sent) - first)
            if due > 0:
                self.send(due)
            time.sleep(_TICK_S)
        self.send(-len(self._sent) % _EVENTS_PER_MATCH)
        return first, len(self._sent)

    def await_last(self, patience_s: float) -> float:
        """Waits until every match is out; returns how long that took from the last record, in seconds.

        Units find matches beside each other, so that of the last event need not be the last to come.
        """
        expected = len(self._sent) // _EVENTS_PER_MATCH
        with self._arrived:
            done = self._arrived.wait_for(lambda: len(self._read) >= expected, patience_s)
        if not done:
            raise SystemExit(f"{len(self._read):,} of {expected:,} matches within {patience_s:g} s")
        return self._read[-1][1] - self._sent[-1]

    def latencies_ms(self, first: int, end: int) -> np.ndarray:
        return np.array([1e3 * (read - self._sent[last]) for last, read in self._read if first <= last < end])

    def close(self) -> None:
        self._pipe.close()
        self._process.wait()

    def _reading(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            now = time.perf_counter()
            with self._arrived:
                self._read.append((json.loads(line)["b"], now))
                self._arrived.notify_all()


def measure(runtime: str, *, units: int, rate: float, seconds: float, bursts: int, pause_s: float) -> Figures:
    bench, pauses = LiveBench(runtime, units), Pauses()
    try:
        bench.send(_EVENTS_PER_MATCH)
        bench.await_last(_START_S)
        bench.steadily(rate, 2.0)  # connections are opened, caches filled
        bench.await_last(60.0)
        pauses.longest_ms()
        first, end = bench.steadily(rate, seconds)
        bench.await_last(60.0)
        pause = pauses.longest_ms()
        found = bench.latencies_ms(first, end)
        if len(found) != (end - first) // _EVENTS_PER_MATCH:
            raise SystemExit(f"{len(found):,} matches of {(end - first) // _EVENTS_PER_MATCH:,}")
        last, paused = [], []
        for size in np.random.default_rng(0).integers(1, 200, bursts):
            pauses.longest_ms()
            bench.send(int(size) * _EVENTS_PER_MATCH)
            last.append(1e3 * bench.await_last(60.0))
            paused.append(pauses.longest_ms())
            time.sleep(pause_s)
    finally:
        bench.close()
        pauses.close()
    p50, p99 = np.quantile(found, (0.5, 0.99))
    over = sum(one > _BURST_GOAL_MS for one in last)
    slowest = paused[int(np.argmax(last))]
    return Figures(len(found), p50, p99, found.max(), float(np.median(last)), max(last), pause, slowest, over)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtimes", default="local,ray", help="which to measure (default: %(default)s)")
    parser.add_argument("--units", type=int, default=2, help="of the plan (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=10_000, help="events per second (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="of steady events (default: %(default)s)")
    parser.add_argument("--bursts", type=int, default=30, help="with a pause after each (default: %(default)s)")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds (default: %(default)s)")
    args = parser.parse_args()
    for runtime in args.runtimes.split(","):
        options = {"rate": args.rate, "seconds": args.seconds, "bursts": args.bursts, "pause_s": args.pause}
        print(f"{runtime:<6} {measure(runtime, units=args.units, **options)}", flush=True)


if __name__ == "__main__":
    main()
