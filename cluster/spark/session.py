"""Spark on the Ray that is running, through RayDP: started with settings that keep order and time, stopped cleanly.

There is one Spark per process. Its executors are Ray actors that hold their CPUs and memory until Spark stops, so a
plan's units find only what is left.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.java import JAVA_OPTIONS, find_java, prepare_java
from decopa.errors import DeployError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Executors", "prepare_java", "spark_on_ray", "start_spark", "stop_spark"]

_GIB = 2**30
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
#: Seconds until the first executor must have come up; a Java worker takes up to 20 on a busy laptop.
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 20.0
#: Rows in one record batch of a block, as many as a source converts together.
ARROW_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Executors:
    """How many executors, each with so many cores (threads, and CPUs held in Ray) and so much memory."""

    count: int
    cores: int
    memory_bytes: int

    def __post_init__(self) -> None:
        if self.count < 1 or self.cores < 1 or self.memory_bytes < _GIB // 2:
            raise DeployError(
                f"Spark needs an executor with a core and 512 MiB at least, got {self.count} with {self.cores} cores "
                f"and {self.memory_bytes // 2**20} MiB"
            )

    @classmethod
    def fitting(cls, nodes: Sequence[Mapping[str, float]]) -> Executors:
        """One on each node, with half of the smallest node's CPUs (at most 4) and a quarter of its memory."""
        if not nodes:
            raise DeployError("Ray has no node that is alive; start it again")
        cpus = min(node.get("CPU", 0.0) for node in nodes)
        memory = min(node.get("memory", 0.0) for node in nodes)
        return cls(len(nodes), int(min(max(cpus // 2, 1), 4)), int(min(max(memory // 4, _GIB // 2), 8 * _GIB)))


@contextmanager
def spark_on_ray(
    *,
    app_name: str = "decopa",
    executors: Executors | None = None,
    configs: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A Spark session on the running Ray for the time of a `with` block; stopped at its end, also after an error."""
    spark = start_spark(app_name=app_name, executors=executors, configs=configs)
    try:
        yield spark
    finally:
        stop_spark()


def start_spark(
    *,
    app_name: str = "decopa",
    executors: Executors | None = None,
    configs: Mapping[str, str] | None = None,
) -> SparkSession:
    """Starts Spark on the Ray that this process is connected to; `configs` go over the settings made here.

    Without `executors`, see `Executors.fitting`. DeployError if Ray does not run, has no Java or no room, or if Spark
    runs in this process already.
    """
    import ray

    if not ray.is_initialized():
        raise DeployError("Ray is not running; call prepare_java() and ray.init() before starting Spark")
    prepare_java()
    import raydp
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        raise DeployError("Spark runs in this process already, and there can be but one; stop it first")
    nodes = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    wanted = executors or Executors.fitting([node["Resources"] for node in nodes])
    _check_java_on_nodes([node["NodeID"] for node in nodes])
    _check_room(wanted)
    addresses = {node["NodeManagerAddress"] for node in nodes}
    made = spark_settings(wanted, one_machine=len(addresses) == 1) | dict(configs or {})
    this_node: Any = ray._private.worker._global_node  # RayDP's own way to Ray's logs; no public one names the folder
    log = Path(this_node.get_logs_dir_path()) / f"spark-driver-{os.getpid()}.log"
    try:
        with _driver_log(log):
            spark: SparkSession = raydp.init_spark(
                app_name, wanted.count, wanted.cores, f"{wanted.memory_bytes // 2**20}m", configs=made
            )
        _await_executor(spark, log.parent)
    except Exception as err:
        stop_spark()
        if isinstance(err, DeployError):
            raise
        reason = next(iter(str(err).splitlines()), type(err).__name__)
        raise DeployError(f"Spark did not start on Ray: {reason}; see {log}") from err
    return spark


def stop_spark() -> None:
    """Stops the Spark of this process; when this returns, its executors are gone, and blocks not yet fetched with them.

    Does nothing if none runs.
    """
    import ray
    import raydp

    raydp.stop_spark()
    # RayDP does not wait for its actors to end, but they hold their names and resources until they have.
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while ray.is_initialized() and time.monotonic() < deadline and any(map(_is_raydp, ray.util.list_named_actors())):
        time.sleep(0.05)


def _is_raydp(actor_name: str) -> bool:
    return actor_name.endswith("_SPARK_MASTER") or actor_name.startswith("raydp-executor-")


def spark_settings(executors: Executors, *, one_machine: bool) -> dict[str, str]:
    """Spark's settings: partitions and times stay as they are asked for, and little is printed."""
    options = " ".join(JAVA_OPTIONS)
    settings = {
        # All three: with any of them missing, a Java process dies at the first exchange of data.
        "spark.driver.extraJavaOptions": options,
        "spark.executor.extraJavaOptions": options,
        "spark.ray.raydp_app_master.extraJavaOptions": options,
        # Adaptive execution merges partitions, and with them the blocks that are made of them.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(max(4, 2 * executors.count * executors.cores)),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_BATCH_ROWS),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log4j.config.file.name": str(_LOG_SETTINGS),
    }
    if one_machine:
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return settings


@contextmanager
def _driver_log(path: Path) -> Iterator[None]:
    """What the driver's JVM prints goes to this file instead of the terminal, if it starts within the `with` block.

    RayDP offers no way to say so; PySpark does, to whoever calls `launch_gateway`, so this passes it on.
    """
    import pyspark.context

    context: Any = pyspark.context
    launch = context.launch_gateway
    with path.open("ab") as log:
        context.launch_gateway = partial(launch, popen_kwargs={"stdout": log, "stderr": log})
        try:
            yield
        finally:
            context.launch_gateway = launch


def _check_java_on_nodes(node_ids: Sequence[str]) -> None:
    """Refuses nodes whose Ray was started without a fitting Java: Java actors would wait there for ever."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task = ray.remote(num_cpus=0)(_java_of_node)
    asked = [
        task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False)).remote()
        for node_id in node_ids
    ]
    for address, found in ray.get(asked):
        if found:
            raise DeployError(
                f"Ray on {address} was started without a Java that Spark runs on ({found}); call prepare_java() before "
                "Ray starts, or start Ray on that node with the environment that it returns"
            )


def _java_of_node() -> tuple[str, str]:
    """The address of this node, and what is wrong with its Java; Ray starts the `java` that is first on its PATH."""
    import ray

    address: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    try:
        find_java({"PATH": os.environ.get("PATH", "")}, packaged=False)
    except DeployError as err:
        return address, str(err).partition(";")[0]
    return address, ""


def _check_room(wanted: Executors) -> None:
    """Refuses executors that Ray has no free place for: Spark would wait for them without a word."""
    import ray

    needed = {"CPU": float(wanted.count * wanted.cores), "memory": float(wanted.count * wanted.memory_bytes)}
    deadline = time.monotonic() + 3.0  # what ended a moment ago may still be counted
    while True:
        free: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
        short = [name for name, amount in needed.items() if free.get(name, 0.0) < amount]
        if not short:
            return
        if time.monotonic() > deadline:
            raise DeployError(
                f"Spark needs {needed['CPU']:g} CPUs and {needed['memory'] / _GIB:.1f} GiB, but Ray has "
                f"{free.get('CPU', 0.0):g} CPUs and {free.get('memory', 0.0) / _GIB:.1f} GiB free; ask for fewer or "
                "smaller executors, or give Ray more"
            )
        time.sleep(0.1)


def _await_executor(spark: Any, logs: Path) -> None:
    """Waits for the first executor, since Spark itself would wait for it without end."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 2:  # the driver counts as one
        if time.monotonic() > deadline:
            raise DeployError(
                f"no Spark executor came up within {START_TIMEOUT_S:g} s; see whether Ray has room for it "
                f"(`ray status`) and what the java-worker logs in {logs} say"
            )
        time.sleep(0.1)
