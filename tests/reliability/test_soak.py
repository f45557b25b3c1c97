"""`scripts/soak`: what it calls a leak, and a very short run of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.reliability.soak import Curves

ROOT = Path(__file__).resolve().parents[2]


def curve(mib_per_minute: float, noise: float = 0.0) -> list[tuple[float, float]]:
    """Ten minutes; the first is the start of the process."""
    return [(at, 200 + min(at, 60.0) + mib_per_minute * at / 60 + noise * (at % 3)) for at in map(float, range(600))]


def test_a_process_that_grows_is_named() -> None:
    curves = Curves(memory={"flat": curve(0.0), "noisy": curve(0.0, noise=20.0), "leak": curve(10.0)})
    assert curves.leaks() == ["leak"]
    assert curves.growth("leak")[0] == pytest.approx(50, rel=0.02)


@pytest.mark.ray
@pytest.mark.slow
def test_half_a_minute_with_kills_is_flat_and_complete(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "scripts.reliability.soak", "--minutes", "0.5", "--rate", "1000"]
    done = subprocess.run(
        [*command, "--kill-every", "12", "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert "published matches identical to an undisturbed run" in done.stdout, done.stdout + done.stderr[-2000:]
    assert {"memory.csv", "latency.csv", "soak.png"} <= {path.name for path in tmp_path.iterdir()}
