"""`scripts/chaos` in short, and what it counts."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from scripts.reliability.chaos_report import Strike, Tally, report

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.ray
def test_a_few_kills_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """On a Ray of two nodes, in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "scripts.reliability.chaos", "--rounds", "3", "--seed", "1"]
    command += ["--roles", "unit,shuffler,sink", "--events", "4000", "--keep", str(tmp_path / "chaos")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "**0 lost, 0 duplicated**" in done.stdout


def test_lost_and_repeated_rows_are_counted_and_fail() -> None:
    tally = Tally()
    tally.check_result(0, Counter(a=1, b=2), Counter(a=1, b=1, c=1))
    assert (tally.lost, tally.duplicated, tally.passed) == (1, 1, False)
    tally = Tally()
    tally.check_reader(0, Counter(a=1), Counter(a=1, b=1))
    tally.check_result(0, Counter(a=1, b=1), Counter(a=1, b=1))
    assert tally.passed
    tally.check_reader(0, Counter(a=2), Counter(a=1, b=1))
    assert not tally.passed


def test_a_recovery_belongs_to_the_last_kill_before_it() -> None:
    tally = Tally(strikes=[Strike(0, "unit", "u", 10.0, True), Strike(0, "sink", "s", 11.0, True)])
    tally.take_notes(
        [{"job": 0, "at": 14.0, "lost": "s", "process_start_s": 2.0}, {"job": 0, "at": 15.0, "error": "x"}]
    )
    tally.check_result(0, Counter(), Counter())
    tally.done = {"unit": 1, "sink": 1}
    (recovered,) = tally.recovered
    assert (recovered.role, recovered.seconds, recovered.process_start_s) == ("sink", 3.0, 2.0)
    text = report(tally, argparse.Namespace(rounds=2, seed=1, first=0))
    assert "| sink | 1 | 1 | 3.0 s | 2.0 s | 1.0 s | 3.0 s |" in text
    assert "error message and were taken up again: 1" in text
