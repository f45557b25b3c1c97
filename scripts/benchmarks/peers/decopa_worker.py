"""decopa itself: in this process, or on a Ray that is started here with one unit per operator.

The plan joins rare types first, as a planner that knows the rates would. The clock runs from the Arrow table, checks
and split by type included, to the columns of all matches in memory; or it is that of a whole call of `decopa.run`,
which makes a table in canonical order, a folder of Parquet files, or a number.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import decopa
from actors.group import Limits
from actors.sinks.outlet import OutletSpec
from cluster.local import DEFAULT_BATCH_SIZE, LocalRuntime
from decopa.choices import Order
from decopa.planning.plan import Plan
from decopa.planning.strategies.left_deep import left_deep
from scripts.benchmarks.peers.job import Job, Outcome, worker
from scripts.benchmarks.peers.ladder import repeated
from scripts.benchmarks.peers.query import SequenceQuery
from shuffler.source.trace import open_trace

UNLIMITED = Limits(max_matches=10**9, max_state_bytes=2**40)
WARM_UP_EVENTS = 20_000


def run(job: Job) -> Outcome:
    trace = pq.read_table(job.trace)
    plan = rare_first(job.query, trace)
    if not job.form.startswith("ray"):
        pa.set_cpu_count(1)
        batch_size = job.batch_events or DEFAULT_BATCH_SIZE

        def run_here(events: int) -> Outcome:
            part = trace.slice(0, events)
            return run_local(plan, part, batch_size) if job.form == "local" else run_whole(plan, part, job)

        run_here(WARM_UP_EVENTS)
        return repeated(run_here, run_here(trace.num_rows), limit_s=job.limit_s, repeat=job.repeat)
    if job.form == "ray-all-cores":
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    from cluster.ray_session import ray_session

    with ray_session(cpus=8, dashboard=False):
        _run_on_ray(plan, trace.slice(0, WARM_UP_EVENTS))
        first = _run_on_ray(plan, trace)
        return repeated(
            lambda events: _run_on_ray(plan, trace.slice(0, events)),
            first,
            limit_s=job.limit_s,
            repeat=job.repeat,
            least_s=0,  # every run starts its actors, which takes seconds that do not count
        )


def rare_first(query: SequenceQuery, trace: pa.Table) -> Plan:
    """One unit per operator, left-deep from the rarest type on."""
    parsed = decopa.parse(query.text)
    counts = Counter(trace.column("type").to_pylist())
    order = sorted(parsed.aliases, key=lambda alias: counts[parsed.position(alias).type])
    return Plan((left_deep(parsed, order),))


def run_whole(plan: Plan, trace: pa.Table, job: Job) -> Outcome:
    """As a user calls it; the folder is removed when the clock has stopped."""
    place = Path(tempfile.mkdtemp(prefix="bench_peers"))
    began = time.perf_counter()
    result = decopa.run_detailed(
        job.query.text,
        trace,
        runtime="local",
        planning=decopa.Planning(plan=plan),
        limits=UNLIMITED,
        count=job.form == "count",
        out=place / "matches" if job.form == "folder" else None,
    )
    seconds = time.perf_counter() - began
    outcome = Outcome(result.match_count, trace.num_rows, seconds)
    del result
    shutil.rmtree(place)
    gc.collect()
    return outcome


def run_local(plan: Plan, trace: pa.Table, batch_size: int = DEFAULT_BATCH_SIZE) -> Outcome:
    """The engine alone: matches are found, and their columns stay where they were written."""
    outlet = OutletSpec(Order.ANY)
    began = time.perf_counter()
    runtime = LocalRuntime(plan, open_trace(trace), limits=UNLIMITED, outlet=outlet, batch_size=batch_size)
    runtime.run()
    seconds = time.perf_counter() - began
    outcome = Outcome(runtime.matches, trace.num_rows, seconds)
    # A runtime refers to itself: until it is collected the next run has to take fresh memory from the system.
    del runtime
    gc.collect()
    return outcome


def _run_on_ray(plan: Plan, trace: pa.Table) -> Outcome:
    from cluster.feeding import TraceBlocks
    from cluster.options import RayOptions
    from cluster.ray_runtime import RayRuntime

    result = RayRuntime(plan, TraceBlocks(open_trace(trace)), limits=UNLIMITED, options=RayOptions()).run()
    return Outcome(result.matches[0].num_rows, trace.num_rows, result.seconds)


if __name__ == "__main__":
    worker(run)
