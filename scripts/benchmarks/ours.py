"""The engine under test, behind one function."""

import time
from dataclasses import dataclass

import pyarrow as pa

from scripts.benchmarks.workload import Workload

COMPARISONS_KEY = b"decopa.comparisons"


@dataclass(frozen=True)
class OursResult:
    """Matches found, wall-clock seconds from Arrow table to Arrow table, candidate pairs examined (0: not reported)."""

    matches: int
    seconds: float
    comparisons: int


def run_ours(workload: Workload) -> OursResult:
    """Runs the query on the events with one unit."""
    began = time.perf_counter()
    table = _run(workload)
    seconds = time.perf_counter() - began
    metadata = table.schema.metadata or {}
    return OursResult(table.num_rows, seconds, int(metadata.get(COMPARISONS_KEY, 0)))


def match_rows(workload: Workload) -> list[tuple[object, ...]]:
    """Matches as sorted tuples of ids, a sorted tuple of ids for the Kleene alias; for checks on small inputs."""
    table = _run(workload)
    columns = [table.column(alias).to_pylist() for alias in workload.aliases]
    rows = zip(*columns, strict=True)
    return sorted(tuple(tuple(sorted(cell)) if isinstance(cell, list) else cell for cell in row) for row in rows)


def _run(workload: Workload) -> pa.Table:
    # Imported here so that --skip-ours runs without the engine.
    import decopa

    return decopa.run(workload.query_text, workload.events)
