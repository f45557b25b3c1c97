"""Polars: the time-bucket rewrite as lazy joins on the streaming engine, on one thread.

As in `duckdb_peer`, the last event keeps its bucket and every other is copied into the buckets where its partners may
lie. Polars joins on equality only, so what is left of the conditions filters the joined rows. Groups of KL have no
counterpart.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from scripts.benchmarks.single_core.workload import CLOSENESS, Workload

# Read when Polars is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")


def polars_rows(workload: Workload) -> Callable[[], int] | None:
    """Collects one row of ids per match; None for a query that has no such form, or without Polars."""
    try:
        import polars as pl
    except ImportError:
        return None
    if workload.family == "kleene":
        return None
    events = pl.from_arrow(workload.events).with_columns(pl.col("type").cast(pl.String)).lazy()
    window, family = workload.window_us, workload.family
    bucket_us = (window + 1) // 2 if family == "key4" else window
    shifts = {"and3": [-1, 0, 1], "key4": [0, 1, 2]}.get(family, [0, 1])
    keys = ["bucket", "k"] if family == "key4" else ["bucket"]

    def side(alias: str, copied: bool) -> pl.LazyFrame:
        frame = events.filter(pl.col("type") == alias.upper()).drop("type")
        frame = frame.with_columns(bucket=pl.col("ts") // bucket_us)
        if copied:
            frame = frame.with_columns(shift=pl.lit(shifts)).explode("shift")
            frame = frame.with_columns(bucket=pl.col("bucket") + pl.col("shift")).drop("shift")
        return frame.rename({name: f"{alias}_{name}" for name in frame.collect_schema().names() if name not in keys})

    def within(alias: str, joined: list[str]) -> pl.Expr:
        ts = pl.col(f"{alias}_ts")
        if family == "and3":
            fits = pl.lit(value=True)
            for other in joined:
                apart, x = (ts - pl.col(f"{other}_ts")).abs(), pl.col(f"{alias}_x") - pl.col(f"{other}_x")
                fits = fits & (apart <= window) & (x.abs() < CLOSENESS)
            return fits
        fits = (ts < pl.col(f"{joined[0]}_ts")) & (pl.col(f"{joined[-1]}_ts") <= ts + window)
        if family == "seq3":
            fits = fits & (pl.col(f"{alias}_x") < pl.col(f"{joined[0]}_x"))
            if alias == "a":
                fits = fits & (pl.col("a_y") < pl.col("c_y"))
        return fits

    def run() -> int:
        aliases = list(workload.aliases)
        frame, joined = side(aliases[-1], copied=False), [aliases[-1]]
        for alias in reversed(aliases[:-1]):
            frame = frame.join(side(alias, copied=True), on=keys).filter(within(alias, joined))
            joined.insert(0, alias)
        return frame.select([f"{alias}_id" for alias in aliases]).collect(engine="streaming").height

    return run
