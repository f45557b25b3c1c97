"""DuckDB on one thread: plain join, time-bucket join, ASOF join, and the time-bucket join in micro-batches.

The time-bucket join may become an Arrow table, a Parquet file or a number, too. For the joins the events are loaded
before the clock starts. In micro-batches each batch arrives as an Arrow table with
the events before it that may still matter; Arrow slices cost nothing, so keeping that window is free for DuckDB.
"""

from __future__ import annotations

import tempfile
import threading
import time

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from scripts.benchmarks.peers.job import Job, Outcome, worker
from scripts.benchmarks.peers.ladder import climb, repeated
from scripts.benchmarks.peers.sql import asof_join, bucket_join, plain_join


def run(job: Job) -> Outcome:
    trace = pq.read_table(job.trace)
    connection = connect()
    if job.form == "batches":
        in_batches(connection, job, trace.slice(0, 3 * job.batch_events))  # warm-up
        return repeated(
            lambda events: in_batches(connection, job, trace.slice(0, events)),
            in_batches(connection, job, trace),
            limit_s=job.limit_s,
            repeat=job.repeat,
        )
    sql = (
        plain_join(job.query)
        if job.form == "plain"
        else asof_join(job.query)
        if job.form == "asof"
        else bucket_join(job.query, "duckdb")
    )
    outcome = climb(
        lambda events: _joined(connection, sql, job.form, trace.slice(0, events), 2 * job.limit_s),
        trace.num_rows,
        limit_s=job.limit_s,
        repeat=job.repeat,
    )
    if outcome is None:
        raise SystemExit("not even the shortest beginning of the trace was joined in time")
    return outcome


def connect() -> duckdb.DuckDBPyConnection:
    """One database for all runs, which keeps the memory that one of them has freed for the next."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute("SET preserve_insertion_order = false")
    return connection


def _joined(
    connection: duckdb.DuckDBPyConnection, sql: str, form: str, trace: pa.Table, limit_s: float
) -> Outcome | None:
    """Makes one row of ids per match, in the form that is wanted; None if that takes longer than the limit."""
    connection.register("trace", trace)
    connection.execute("CREATE OR REPLACE TABLE events AS SELECT * FROM trace")
    connection.execute("DROP TABLE IF EXISTS matches")
    alarm = threading.Timer(limit_s, connection.interrupt)
    alarm.start()
    try:
        began = time.perf_counter()
        matches = _delivered(connection, sql, form)
        seconds = time.perf_counter() - began
    except duckdb.InterruptException:
        return None
    finally:
        alarm.cancel()
    return Outcome(_count(connection) if matches is None else matches, trace.num_rows, seconds)


def _delivered(connection: duckdb.DuckDBPyConnection, sql: str, form: str) -> int | None:
    """The number of matches, if it is known; else they are in the temporary table `matches`."""
    match form:
        case "table":
            return int(connection.sql(sql).to_arrow_table().num_rows)
        case "count":
            ((count,),) = connection.execute(f"SELECT count(*) FROM ({sql})").fetchall()
            return int(count)
        case "folder":
            with tempfile.TemporaryDirectory(prefix="bench_peers") as place:
                target = f"'{place}/matches.parquet' (FORMAT parquet)"
                ((count,),) = connection.execute(f"COPY ({sql}) TO {target}").fetchall()
            return int(count)
    connection.execute(f"CREATE TEMP TABLE matches AS {sql}")
    return None


def in_batches(connection: duckdb.DuckDBPyConnection, job: Job, trace: pa.Table) -> Outcome:
    """Batch by batch: the matches that end in the batch; stops at the limit, after a whole batch."""
    ts = trace.column("ts").to_numpy()
    names = ", ".join(f"{alias}_id BIGINT" for alias in job.query.aliases)
    connection.execute("DROP TABLE IF EXISTS matches")
    connection.execute(f"CREATE TEMP TABLE matches ({names})")
    began, done = time.perf_counter(), 0
    while done < trace.num_rows and time.perf_counter() - began < job.limit_s:
        end = min(done + job.batch_events, trace.num_rows)
        oldest = int(np.searchsorted(ts, ts[done] - job.query.window_us, side="left"))
        connection.register("events", trace.slice(oldest, end - oldest))
        connection.execute(f"INSERT INTO matches {bucket_join(job.query, 'duckdb', fresh_from=done)}")
        done = end
    seconds = time.perf_counter() - began
    return Outcome(_count(connection), done, seconds)


def _count(connection: duckdb.DuckDBPyConnection) -> int:
    ((count,),) = connection.execute("SELECT count(*) FROM matches").fetchall()
    return int(count)


if __name__ == "__main__":
    worker(run)
