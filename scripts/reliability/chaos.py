"""Random kills against a run with checkpoints, until enough have hit; then its output is compared, row by row.

The run is a driver process on a Ray of two nodes. Struck are its units, shufflers and sinks (SIGKILL), the driver
itself (taken up again with `decopa resume`), the second node (its raylet, with all that runs there), and files of the
newest checkpoint. The events are replayed at a fixed rate, so that there is always something under way to lose.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import decopa
from cluster.spark.java import prepare_java
from decopa.synthetic import SyntheticSpec
from scripts.reliability.victims import Chaos

QUERY = """QUERY q PATTERN SEQ(A a, AND(B b, C c), NOT(D d))
WHERE a.x < b.x * 0.1 AND a.y < c.y * 0.1 AND a.s = c.s AND a.k = d.k WITHIN 300 ms RETURN a.s"""
EVENTS_PER_S = 1_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="kills (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--every", type=float, default=4.0, help="seconds between kills, at most (default: %(default)s)"
    )
    parser.add_argument("--units", type=int, default=4)
    parser.add_argument("--limit", type=float, default=7200, help="give up after so many seconds")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="leave checkpoints, output and logs here")
    args = parser.parse_args()
    folder = args.keep or Path(tempfile.mkdtemp(prefix="decopa-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return run(args, folder)
    finally:
        if args.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def run(args: argparse.Namespace, folder: Path) -> int:
    import ray
    from ray.cluster_utils import Cluster

    trace = folder / "trace.parquet"
    # Long enough that the stream does not end before the last kill.
    events = int(args.rounds * (args.every / 2 + 10) * EVENTS_PER_S)
    spec = SyntheticSpec(events=events, rate_per_s=EVENTS_PER_S, types=4, keys=20, zipf=0.3, seed=args.seed)
    pq.write_table(pa.Table.from_batches(list(spec.batches())), trace)
    expected = in_order(decopa.run(QUERY, trace))
    print(f"{events:,} events, {expected.num_rows:,} matches in an undisturbed run", flush=True)

    prepare_java()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 8, "include_dashboard": False})
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    chaos = Chaos(args.seed, cluster, folder / "checkpoints")
    chaos.add_node()
    started, drivers = time.monotonic(), 1
    driver = start_driver(args, folder, cluster.address, resume=False)
    try:
        while True:
            if driver.poll() is not None:
                if driver.returncode == 0:
                    break
                driver = start_driver(args, folder, cluster.address, resume=True)
                drivers += 1
            if sum(chaos.done.values()) < args.rounds:
                hit = chaos.strike(driver)
                if hit is not None:
                    print(f"{time.monotonic() - started:7.1f} s  kill {sum(chaos.done.values()):>3}: {hit}", flush=True)
            elif not (folder / "fast").exists():
                (folder / "fast").touch()  # enough: the rest of the stream need not be replayed slowly
                driver.kill()
            time.sleep(chaos.pause_s(args.every))
            if time.monotonic() - started > args.limit:
                print("gave up: the run does not end")
                return 1
    finally:
        driver.kill()
        ray.shutdown()
        cluster.shutdown()
    return compare(folder, expected, chaos, drivers, time.monotonic() - started)


def start_driver(args: argparse.Namespace, folder: Path, address: str, *, resume: bool) -> subprocess.Popen[bytes]:
    """The run in a process of its own, connected to the cluster."""
    log = (folder / "driver.log").open("ab")
    command = [sys.executable, "-m", "scripts.reliability.chaos_driver", str(folder), str(args.units)]
    environment = {**os.environ, "RAY_ADDRESS": address}
    return subprocess.Popen([*command, "resume" if resume else "run"], env=environment, stdout=log, stderr=log)


def compare(folder: Path, expected: pa.Table, chaos: Chaos, drivers: int, seconds: float) -> int:
    parts = sorted((folder / "out").glob("part-*.parquet"))
    found = in_order(pa.concat_tables([pq.read_table(part) for part in parts]).unify_dictionaries())
    log = folder / "recoveries.jsonl"
    times = [json.loads(line)["seconds"] for line in log.read_text().splitlines()] if log.exists() else []
    print(f"\n{sum(chaos.done.values())} kills in {seconds:,.0f} s: {chaos.done}; {drivers} drivers")
    if times:
        print(f"recovered {len(times)} times: median {statistics.median(times):.2f} s, most {max(times):.2f} s")
    keys = ["a", "b", "c"]
    distinct = found.select(keys).group_by(keys).aggregate([]).num_rows
    known = expected.select(keys).join(found.select(keys), keys, join_type="left semi").num_rows
    print(
        f"published {found.num_rows:,} matches in {len(parts)} parts: {expected.num_rows - known:,} lost, "
        f"{found.num_rows - distinct:,} duplicated"
    )
    same = found.equals(expected)
    print("identical to the undisturbed run, row by row" if same else "DIFFERENT from the undisturbed run")
    return 0 if same else 1


def in_order(matches: pa.Table) -> pa.Table:
    """The matches in one order, as plain columns."""
    plain = matches.set_column(0, "query", matches["query"].cast(pa.string()))
    return plain.sort_by([(name, "ascending") for name in ("a", "b", "c")]).combine_chunks()


if __name__ == "__main__":
    sys.exit(main())
