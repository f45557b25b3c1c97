"""A Ray that is started here is nobody else's: it listens on loopback only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.ray

#: Connects to the cluster at an address.
DRIVER = """
import sys
import ray
from cluster.ray_session import ray_session

@ray.remote
class Unit:
    def answer(self):
        return 42

with ray_session(address=sys.argv[1]):
    assert ray.get(Unit.remote().answer.remote()) == 42
"""
#: In a process of its own, because there is one Ray in each. Another program can connect to its Ray.
PROGRAM = """
import json, psutil, ray, subprocess, sys
from cluster.ray_session import ray_session

@ray.remote
def work():
    return 1

with ray_session(cpus=2) as dashboard:
    ray.get(work.remote())
    me, found = psutil.Process(), []
    for process in [me, *me.children(recursive=True)]:
        for port in process.net_connections(kind="tcp"):
            if port.status == psutil.CONN_LISTEN:
                found.append([process.name(), port.laddr.ip])
    address = ray.get_runtime_context().gcs_address
    other = subprocess.run([sys.executable, "-W", "ignore", "-c", sys.argv[1], address], check=False, timeout=60)
    print(json.dumps([dashboard, found, other.returncode]))
"""


def test_a_ray_that_is_started_here_listens_on_loopback_only() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, DRIVER], capture_output=True, text=True, timeout=300, check=True
    )
    dashboard, ports, connected = json.loads(done.stdout.splitlines()[-1])
    assert dashboard.startswith("http://127.0.0.1:")
    assert {name for name, _ in ports} >= {"gcs_server", "raylet", "ray::DashboardAgent"}
    assert [port for port in ports if port[1].removeprefix("::ffff:") != "127.0.0.1"] == []
    assert connected == 0, done.stderr[-2000:]


#: A cluster with or without a token, as its second argument says; the program that connects to it has a token at hand.
CLUSTER = """
import os, subprocess, sys
os.environ["RAY_AUTH_MODE"] = sys.argv[2]
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
os.environ.pop("RAY_AUTH_MODE")
print(subprocess.run([sys.executable, "-W", "ignore", "-c", sys.argv[1], cluster.address], check=False).returncode)
cluster.shutdown()
"""


@pytest.mark.slow  # tests/launch has a cluster with a token
@pytest.mark.parametrize("mode", ["disabled", "token"])
def test_a_token_is_shown_to_a_cluster_that_wants_one_and_only_to_such(mode: str, tmp_path: Path) -> None:
    """A driver with a token looks dead to a cluster without one: it refuses the cluster's calls."""
    (tmp_path / "token").write_text("a" * 64)
    there = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    there |= {"RAY_AUTH_TOKEN_PATH": str(tmp_path / "token"), "RAY_raylet_start_wait_time_s": "120"}
    command = [sys.executable, "-W", "ignore", "-c", CLUSTER, DRIVER, mode]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, env=there)
    assert done.stdout.split() == ["0"], done.stderr[-2000:]
