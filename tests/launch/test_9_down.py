"""The cluster down: nothing of it is left on any machine."""

from __future__ import annotations

import pytest

from tests.support.launched import Launched
from tests.support.machines import LAPTOP

pytestmark = pytest.mark.launch


def test_down_leaves_nothing(cluster: Launched) -> None:
    done = cluster.decopa(LAPTOP, ["cluster", "down", cluster.file], check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for name in cluster.machines.names:
        assert cluster.machines.run(name, "ls /tmp/ray/cluster-* 2>/dev/null || true").stdout == ""
        found = cluster.machines.run(name, "readlink /proc/[0-9]*/exe || true", user="root").stdout
        assert "raylet" not in found
        assert "gcs_server" not in found


@pytest.mark.slow
def test_status_of_a_cluster_that_is_down_says_so(cluster: Launched) -> None:
    done = cluster.decopa(LAPTOP, ["cluster", "status", cluster.file], check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
