"""A driver of `decopa.stream` that kills itself with SIGKILL at a given point of a given micro-batch.

    python -m tests.support.killed_stream FOLDER UNITS [POINT BATCH]

FOLDER has `in` (Parquet files), `schema.parquet` and `query.txt`; matches and checkpoints go beside them. Points:
`handed` (the plan has the events, nothing is published), `published` (before the batch is declared done), `done`
(before Spark commits the batch); of a stream that follows its load, and then whatever the batch, `built` (another plan
is ready to take over) and `replaced` (it has). Without a point it works on everything that is there, and ends.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray

import decopa
from actors.columnar.jit import interpreted
from cluster.change.deployed.successor import Successor
from cluster.spark.session import Executors, prepare_java, spark_on_ray
from cluster.spark.streams.plans import StreamPlans
from cluster.spark.streams.stream_log import StreamLog
from shuffler.source.checks import TraceColumns
from tests.support.sessions import OBJECT_STORE_BYTES, QUICK_START

#: Points of a change of plan, and a stream that is quick to make one.
CHANGES = ("built", "replaced")
EAGER = decopa.Adapt(every_s=1e-6, overhead=1.0, horizon_s=1e6, cool_down_s=0.1)


def main(folder: Path, units: int, point: str | None, batch: int) -> None:
    if point is not None:
        arm(point, batch)
    os.environ.setdefault("JDK_JAVA_OPTIONS", QUICK_START)
    prepare_java()
    ray.init(num_cpus=16, object_store_memory=OBJECT_STORE_BYTES, include_dashboard=False, log_to_driver=False)
    with spark_on_ray(executors=Executors(1, 1, 2**30), configs={"spark.sql.shuffle.partitions": "2"}) as spark:
        schema = spark.read.parquet((folder / "schema.parquet").as_uri()).schema
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", "1")
        with interpreted():
            stream = decopa.stream(
                reader.parquet((folder / "in").as_uri()),
                (folder / "query.txt").read_text(),
                out=folder / "out",
                checkpoint=folder / "checkpoint",
                units=units,
                trigger={"availableNow": True},
                trace=decopa.TraceOptions(columns=TraceColumns(id="id")),
                adapt=EAGER if point in CHANGES else None,
            )
            assert stream.await_termination()
    ray.shutdown()


def arm_change(point: str) -> None:
    """The stream waits for the actors of the new plan, as it would if there were always more to come."""
    is_level, built, replaced = Successor.is_level, StreamPlans.built, StreamPlans.replace

    def dead(work: Callable[..., Any]) -> Callable[..., Any]:
        def then_die(self: StreamPlans, *arguments: Any) -> Any:
            begun = self._at_work is not None
            found = work(self, *arguments)
            if begun:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        return then_die

    Successor.is_level = lambda self, patience_s=60.0: is_level(self, patience_s)  # type: ignore[method-assign]
    if point == "built":
        StreamPlans.built = dead(built)  # type: ignore[method-assign]
    else:
        StreamPlans.replace = dead(replaced)  # type: ignore[method-assign]


def arm(point: str, batch: int) -> None:
    if point in CHANGES:
        arm_change(point)
        return
    publish, commit = StreamLog.publish, StreamLog.commit

    def dying(work: Callable[..., None], *, before: bool) -> Callable[..., None]:
        def die_or(self: StreamLog, *arguments: Any) -> None:
            first = arguments[0]
            mine = (first if isinstance(first, int) else first.batch_id) == batch
            if mine and before:
                os.kill(os.getpid(), signal.SIGKILL)
            work(self, *arguments)
            if mine:
                os.kill(os.getpid(), signal.SIGKILL)

        return die_or

    if point == "handed":
        StreamLog.publish = dying(publish, before=True)  # type: ignore[method-assign]
    elif point == "published":
        StreamLog.publish = dying(publish, before=False)  # type: ignore[method-assign]
    else:
        StreamLog.commit = dying(commit, before=False)  # type: ignore[method-assign]


if __name__ == "__main__":
    killed = len(sys.argv) > 3
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if killed else None, int(sys.argv[4]) if killed else -1)
