"""A Ray that is started here is nobody else's: it listens on loopback only."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.ray

#: In a process of its own, because there is one Ray in each.
PROGRAM = """
import json, psutil, ray
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
    print(json.dumps([dashboard, found]))
"""


def test_a_ray_that_is_started_here_listens_on_loopback_only() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, timeout=300, check=True
    )
    dashboard, ports = json.loads(done.stdout.splitlines()[-1])
    assert dashboard.startswith("http://127.0.0.1:")
    assert {name for name, _ in ports} >= {"gcs_server", "raylet", "ray::DashboardAgent"}
    assert [port for port in ports if port[1].removeprefix("::ffff:") != "127.0.0.1"] == []
