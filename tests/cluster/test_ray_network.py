"""Network plans on a Ray of four nodes (A13); each test has a cluster of its own, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.ray

ROOT = Path(__file__).resolve().parents[2]


def run(*mode: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.support.network_on_ray", *mode],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def check_same(query: str) -> None:
    """Rows of every edge and all matches are those of the run in one process, for both plans of a query."""
    told = run("same", query).splitlines()
    assert len(told) == 2, told
    for line in told:
        assert "edges=True matches=True nodes=4" in line, told


def test_four_nodes_carry_the_rows_and_find_the_matches_of_the_run_in_one_process() -> None:
    check_same("seq")


@pytest.mark.slow
def test_the_same_holds_for_and() -> None:
    check_same("and")


@pytest.mark.slow
def test_the_command_line_runs_a_plan_on_ray() -> None:
    assert "status=0 matches=True" in run("command")


@pytest.mark.slow
@pytest.mark.parametrize(("query", "strategy"), [("seq", "search"), ("and", "amuse")])
def test_twenty_kills_of_sources_and_hosts_change_no_match(query: str, strategy: str) -> None:
    told = run("kill", "20", query, strategy)
    assert "kills=20" in told
    assert "matches=True" in told


@pytest.mark.slow
def test_a_partitioned_plan_sustains_three_times_what_operator_placement_does() -> None:
    """Check A14, on units of a declared capacity."""
    found = {}
    for line in run("emulated").splitlines():
        strategy, *fields = line.split()
        found[strategy] = {name: float(value) for name, value in (field.split("=") for field in fields)}
    ours, oop = found["search"], found["oop"]
    assert (ours["sinks"], oop["sinks"]) == (4, 1)
    assert ours["matches"] == oop["matches"] > 0
    assert ours["rate"] >= 3 * oop["rate"]
    assert ours["p50"] < oop["p50"]
    assert ours["p99"] < oop["p99"]
    assert ours["heartbeats"] <= 0.05
