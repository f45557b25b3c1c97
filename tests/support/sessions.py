"""One real Ray and one real Spark for all tests that need them; registered in tests/conftest.py."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Logical ones: units of a test reserve one each, whatever the machine has.
RAY_CPUS = 32
OBJECT_STORE_BYTES = 512 * 2**20
#: For the five Java processes of a Spark on Ray: half of the time until they are up goes into compiling.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """A local Ray that can run Java workers; its processes end with the tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Ray and its dependencies say while they start is not ours to mend
        import ray

        from cluster.spark.session import prepare_java

        os.environ.setdefault("JDK_JAVA_OPTIONS", QUICK_START)
        prepare_java()
        ray.init(
            address="local",  # or Ray would join one that runs on this machine
            num_cpus=RAY_CPUS,
            object_store_memory=OBJECT_STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
        )
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def spark(ray_cluster: None) -> Iterator[SparkSession]:
    """Spark on that Ray, with one small executor."""
    from cluster.spark.session import Executors, spark_on_ray

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        running = spark_on_ray(
            app_name="tests", executors=Executors(1, 1, 2**30), configs={"spark.sql.shuffle.partitions": "2"}
        )
        session = running.__enter__()
    yield session
    running.__exit__(None, None, None)
