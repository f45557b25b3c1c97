"""Polars on one thread: the time-bucket join, lazy, streaming; as a data frame, a Parquet file or a number.

The last event keeps its bucket, every other is copied into the buckets where the last one may lie. Polars joins on
equality only: what is left of the conditions filters the joined rows.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from scripts.benchmarks.peers.job import Job, Outcome, worker
from scripts.benchmarks.peers.ladder import climb
from scripts.benchmarks.peers.query import SequenceQuery

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # read when Polars is imported
import polars as pl

_COMPARED = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "=": "eq"}


def run(job: Job) -> Outcome:
    trace = pq.read_table(job.trace)
    outcome = climb(
        lambda events: _joined(job, trace.slice(0, events)), trace.num_rows, limit_s=job.limit_s, repeat=job.repeat
    )
    if outcome is None:
        raise SystemExit("not even the shortest beginning of the trace was joined in time")
    return outcome


def _joined(job: Job, trace: pa.Table) -> Outcome:
    """The events are loaded before the clock starts."""
    events = pl.from_arrow(trace)
    assert isinstance(events, pl.DataFrame)
    frame = bucket_join(job.query, events.with_columns(pl.col("type").cast(pl.String)).lazy())
    with tempfile.TemporaryDirectory(prefix="bench_peers") as place:
        file = Path(place) / "matches.parquet"
        began = time.perf_counter()
        if job.form == "folder":
            frame.sink_parquet(file, engine="streaming")
        elif job.form == "count":
            matches = frame.select(pl.len()).collect(engine="streaming").item()
        else:
            matches = frame.collect(engine="streaming").height
        seconds = time.perf_counter() - began
        if job.form == "folder":
            matches = pq.read_metadata(file).num_rows
    return Outcome(int(matches), trace.num_rows, seconds)


def bucket_join(query: SequenceQuery, events: pl.LazyFrame) -> pl.LazyFrame:
    """One row of ids per match."""
    bucket_us = -(-query.window_us // query.buckets_per_window)
    shifts = list(range(query.buckets_per_window + 1))
    keys = ["bucket"] if query.key is None else ["bucket", query.key]
    last = query.aliases[-1]

    def side(alias: str, type_name: str) -> pl.LazyFrame:
        attributes = [name for name in query.attributes_of(alias) if name not in keys]
        found = events.filter(pl.col("type") == type_name).with_columns(bucket=pl.col("ts") // bucket_us)
        if alias != last:
            found = found.with_columns(shift=pl.lit(shifts)).explode("shift")
            found = found.with_columns(bucket=pl.col("bucket") + pl.col("shift"))
        kept = ["id", "ts", *attributes]
        return found.select(*keys, *(pl.col(name).alias(f"{alias}_{name}") for name in kept))

    types = dict(query.positions)
    frame, joined = side(last, types[last]), [last]
    for alias in reversed(query.aliases[:-1]):
        fits = pl.col(f"{alias}_ts") < pl.col(f"{joined[0]}_ts")
        fits = fits & (pl.col(f"{last}_ts") <= pl.col(f"{alias}_ts") + query.window_us)
        for first, left, operator, second, right in query.comparisons:
            if first == alias and second in joined and not (left == right == query.key and operator == "="):
                compared = getattr(pl.col(f"{first}_{left}"), _COMPARED[operator])
                fits = fits & compared(pl.col(f"{second}_{right}"))
        frame = frame.join(side(alias, types[alias]), on=keys).filter(fits)
        joined.insert(0, alias)
    return frame.select(f"{alias}_id" for alias in query.aliases)


if __name__ == "__main__":
    worker(run)
