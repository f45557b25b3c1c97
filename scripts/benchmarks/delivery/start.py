"""`scripts/bench_start`: from the command, or the call, to the first event.

A command gets its events through a pipe, in which they wait: the time to its first match is that of the start, with all
that Python imports. Within a session it is the time from the call to the first event of a run.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import pyarrow as pa
import ray

import decopa
from cluster.ray_session import ray_session

QUERY = "PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 1 s"
#: The first run compiles, and fills the caches of the file system.
_WARM_UP = 1


def first_match_s(*options: str) -> float:
    """From the start of `decopa run` to the first line that it prints."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "decopa", "run", QUERY, "--trace", "-", "--quiet", *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        now_us = time.time_ns() // 1000
        for number, kind in enumerate("AB"):
            process.stdin.write(f'{{"id":{number},"ts":{now_us + number},"type":"{kind}","k":1}}\n'.encode())
        process.stdin.flush()
        if not process.stdout.readline():
            raise SystemExit(f"no match from {' '.join(command)}")
        seconds = time.perf_counter() - began
        process.stdin.close()
        process.wait()
    return seconds


def in_session_s(units: int) -> float:
    """From a call of `run_detailed` to its first event, on the Ray that this program is connected to."""
    events = pa.table({"id": [1, 2], "ts": [0, 5], "type": ["A", "B"], "k": [1, 1]})
    return decopa.run_detailed(QUERY, events, units=units, runtime="ray").start_s


def _tell(what: str, goal_s: float, measure: Callable[[], float], repeat: int) -> None:
    found = [measure() for _ in range(_WARM_UP + repeat)][_WARM_UP:]
    verdict = "reached" if statistics.median(found) <= goal_s else "MISSED"
    spread = f"{statistics.median(found):.2f} | {min(found):.2f} to {max(found):.2f}"
    print(f"| {what} | {spread} | {goal_s:g} | {verdict} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5, help="runs of each kind, the median counts")
    parser.add_argument("--units", type=int, default=2, help="of the plans on Ray (default: %(default)s)")
    args = parser.parse_args()
    on_ray = ["--runtime", "ray", "--units", str(args.units)]
    print(
        "| from start to first event | s, median | least to most | goal | |\n| --- | --- | --- | --- | --- |",
        flush=True,
    )
    _tell("command, local", 1.2, lambda: first_match_s("--runtime", "local"), args.repeat)
    _tell("command, Ray of its own", 6.0, lambda: first_match_s(*on_ray), args.repeat)
    with ray_session(cpus=16, dashboard=False):
        address = ray.get_runtime_context().gcs_address
        named = [*on_ray, "--address", address]
        _tell("command, running cluster", 1.5, lambda: first_match_s(*named), args.repeat)
        _tell("call, Ray is there", 1.5, lambda: in_session_s(args.units), args.repeat)
        with decopa.session():
            _tell("call within a session", 1.5, lambda: in_session_s(args.units), args.repeat)


if __name__ == "__main__":
    main()
