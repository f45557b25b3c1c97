"""Everything that is measured: a callable that does the work once and says how many matches it delivered."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import decopa
from actors.sinks.outlet import OutletSpec
from cluster.local import LocalRuntime
from decopa.choices import Order
from decopa.runs.folder import MatchFolder
from decopa.runs.spec import Planning, TraceOptions
from scripts.benchmarks.delivery.polars_peer import polars_rows
from scripts.benchmarks.single_core.duckdb_peer import DuckDBPeer, match_query
from scripts.benchmarks.single_core.ours import UNLIMITED, plan_for
from scripts.benchmarks.single_core.workload import Workload
from shuffler.source.trace import open_trace

#: Does the work once; returns the number of matches.
Work = Callable[[], int]


@contextmanager
def contenders(workload: Workload, *, with_peers: bool) -> Iterator[dict[str, Work]]:
    """By name, all over the same events; folders are removed afterwards."""
    plan = plan_for(workload)
    place = Path(tempfile.mkdtemp(prefix="decopa-delivery-"))

    def engine() -> int:
        runtime = LocalRuntime(plan, open_trace(workload.events), limits=UNLIMITED, outlet=OutletSpec(Order.ANY))
        runtime.run()
        matches = runtime.matches
        runtime.close()  # as a whole call does, or the next contender gets fresh memory and pays for it
        return matches

    def run(batch_size: int | None = None, **options: object) -> decopa.RunResult:
        return decopa.run_detailed(
            workload.query_text,
            workload.events,
            runtime="local",
            limits=UNLIMITED,
            planning=Planning(plan=plan),
            trace=TraceOptions(batch_size=batch_size),
            **options,  # type: ignore[arg-type]
        )

    def folder() -> int:
        result = run(out=place / "ours")
        assert isinstance(result.folder, MatchFolder)
        shutil.rmtree(place / "ours")
        return result.match_count

    works: dict[str, Work] = {
        "engine": engine,
        "table": lambda: run().match_count,
        "folder": folder,
        "count": lambda: run(count=True).match_count,
        "table, batches of 1,000": lambda: run(1_000).match_count,
        "table, batches of 100": lambda: run(100).match_count,
    }
    try:
        if not with_peers:
            yield works
            return
        with DuckDBPeer(workload) as peer:
            sql = match_query(workload.family, workload.window_us)
            works["DuckDB rows"] = lambda: peer.rows(sql)
            works["DuckDB COPY"] = lambda: peer.copied(sql, place / "duckdb.parquet")
            works["DuckDB count"] = lambda: peer.counted(sql)
            rows = polars_rows(workload)
            if rows is not None:
                works["Polars rows"] = rows
            yield works
    finally:
        shutil.rmtree(place, ignore_errors=True)
