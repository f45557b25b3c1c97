"""Network plans on a Ray of four nodes (A13); each test has a cluster of its own, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.ray

ROOT = Path(__file__).resolve().parents[2]


def run(mode: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.support.network_on_ray", mode],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_matches_on_four_nodes_are_those_of_the_run_in_one_process() -> None:
    told = run("same").splitlines()
    assert len(told) == 4
    for line in told:
        assert "matches=True nodes=4" in line


@pytest.mark.slow
@pytest.mark.xfail(
    reason="rows per edge differ from the run in one process since the branches were merged; the cause is not known"
)
def test_every_edge_carries_the_rows_of_the_run_in_one_process() -> None:
    for line in run("same").splitlines():
        assert "edges=True" in line


@pytest.mark.slow
def test_twenty_kills_of_sources_and_hosts_change_no_match() -> None:
    told = run("20")
    assert "kills=20" in told
    assert "matches=True" in told
