"""Plans on more than one Ray node; each test has a cluster of its own, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.ray

ROOT = Path(__file__).resolve().parents[2]


def run(mode: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.support.two_nodes", mode],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow  # tests/launch spreads units over machines
def test_units_spread_over_two_nodes_find_the_same_matches() -> None:
    assert "nodes=2 same=True" in run("spread")


@pytest.mark.slow
def test_a_lost_node_ends_the_run_with_a_clear_message() -> None:
    assert "died" in run("lose")


def test_a_pinned_sink_is_where_it_was_pinned_to_unless_that_node_is_lost() -> None:
    assert run("pin").splitlines() == ["left=True", "pinned=True"]
