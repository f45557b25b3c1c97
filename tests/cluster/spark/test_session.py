"""Spark on Ray: sized to what the cluster has, set to keep order and time, refused in words when it cannot start."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cluster.spark.session import Executors, spark_settings, start_spark
from decopa.errors import DeployError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GIB = 2**30


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([{"CPU": 2, "memory": 8 * GIB}], Executors(1, 1, 2 * GIB)),
        ([{"CPU": 1, "memory": GIB}], Executors(1, 1, GIB // 2)),
        ([{"CPU": 64, "memory": 256 * GIB}], Executors(1, 4, 8 * GIB)),
        ([{"CPU": 16, "memory": 64 * GIB}, {"CPU": 6, "memory": 16 * GIB}], Executors(2, 3, 4 * GIB)),
    ],
)
def test_executors_leave_half_of_the_smallest_node_free(nodes: list[dict[str, float]], expected: Executors) -> None:
    assert Executors.fitting(nodes) == expected


@pytest.mark.parametrize("wrong", [(0, 1, GIB), (1, 0, GIB), (1, 1, GIB // 4)])
def test_executors_that_cannot_work_are_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(DeployError, match="512 MiB at least"):
        Executors(*wrong)


def test_all_three_java_processes_get_the_options_and_partitions_stay() -> None:
    settings = spark_settings(Executors(1, 1, GIB), one_machine=True)
    opened = [name for name, value in settings.items() if "--add-opens" in value]
    assert len(opened) == 3
    assert settings["spark.sql.adaptive.enabled"] == "false"
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.host" not in spark_settings(Executors(2, 1, GIB), one_machine=False)


def test_importing_decopa_imports_no_spark_and_no_ray() -> None:
    code = (
        "import sys, decopa, decopa.commands.cli; print([m for m in ('pyspark', 'raydp', 'ray') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_spark_without_ray_is_refused() -> None:
    ray = pytest.importorskip("ray")
    if ray.is_initialized():
        pytest.skip("another test has started Ray")
    with pytest.raises(DeployError, match=r"Ray is not running; call prepare_java\(\) and ray.init\(\)"):
        start_spark()


@pytest.mark.spark
def test_settings_reach_the_running_spark(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.adaptive.enabled") == "false"
    assert spark.conf.get("spark.executor.instances") == "1"
    assert spark.sparkContext.uiWebUrl is None


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_second_spark_in_one_process_is_refused() -> None:
    with pytest.raises(DeployError, match="there can be but one; stop it first"):
        start_spark()
