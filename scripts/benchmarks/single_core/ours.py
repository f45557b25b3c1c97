"""The engine under test, behind one function."""

import time
from collections import Counter
from dataclasses import dataclass

import pyarrow as pa

import decopa
from actors.group import Limits
from actors.sinks.outlet import OutletSpec
from cluster.local import LocalRuntime
from decopa.choices import Order
from decopa.planning.plan import Plan
from decopa.planning.strategies.left_deep import left_deep
from scripts.benchmarks.single_core.workload import Workload
from shuffler.source.trace import open_trace

UNLIMITED = Limits(max_matches=10**9, max_state_bytes=2**40)


@dataclass(frozen=True)
class OursResult:
    """Matches found and candidate pairs examined.

    `seconds` is what the peers do too: from the Arrow table, checks and split by type included, to the columns of all
    matches in memory. `table_seconds` is a whole `decopa.run`: the matches in canonical order, as an Arrow table.
    """

    matches: int
    seconds: float
    table_seconds: float
    comparisons: int


def run_ours(workload: Workload, *, with_table: bool = True) -> OursResult:
    """Runs the query on the events in one process, rare types joined first as the bare loop does."""
    plan = plan_for(workload)
    began = time.perf_counter()
    runtime = LocalRuntime(plan, open_trace(workload.events), limits=UNLIMITED, outlet=OutletSpec(Order.ANY))
    runtime.run()
    seconds = time.perf_counter() - began
    matches, comparisons = runtime.matches, sum(report.comparisons for report in runtime.reports())
    del runtime
    began = time.perf_counter()
    if with_table:
        decopa.run(workload.query_text, workload.events, limits=UNLIMITED, planning=decopa.Planning(plan=plan))
    table_seconds = time.perf_counter() - began
    return OursResult(matches, seconds, table_seconds, comparisons)


def plan_for(workload: Workload) -> Plan:
    """One unit per operator, left-deep from the rarest type on; what a planner that knows the rates would choose."""
    query = decopa.parse(workload.query_text)
    counts = Counter(workload.events.column("type").to_pylist())
    order = sorted(query.aliases, key=lambda alias: counts[query.position(alias).type])
    return Plan((left_deep(query, order),))


def match_rows(workload: Workload) -> list[tuple[object, ...]]:
    """Matches as sorted tuples of ids, a sorted tuple of ids for the Kleene alias; for checks on small inputs."""
    table: pa.Table = decopa.run(workload.query_text, workload.events)
    columns = [table.column(alias).to_pylist() for alias in workload.aliases]
    rows = zip(*columns, strict=True)
    return sorted(tuple(tuple(sorted(cell)) if isinstance(cell, list) else cell for cell in row) for row in rows)
