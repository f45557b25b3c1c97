"""A small trace and query for tests of the command line, and how they call it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from decopa.commands.cli import main

QUERY = "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10 us"
EVENTS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "ts": [0, 4, 8, 30],
        "type": ["A", "A", "B", "B"],
        "x": [0.1, 0.2, 0.3, 0.4],
        "s": list("uvuv"),
    }
)
#: Ray has its own tests, in tests/cluster/test_ray_cli.py.
RUN = ("run", "--runtime", "local")
MATCHES = [{"a": 1, "b": 3}, {"a": 2, "b": 3}]
ROOT = Path(__file__).parents[3]


def fails(capsys: pytest.CaptureFixture[str], *args: str | Path) -> str:
    """The one line with which the command ends; its status is 2 and it prints nothing else."""
    status = main([str(arg) for arg in args])
    captured = capsys.readouterr()
    assert status == 2
    assert captured.out == ""
    assert captured.err.startswith("decopa: error: ")
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("decopa: error: ").rstrip("\n")


def in_new_process(*args: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *args], env=environment, capture_output=True, text=True, check=False)
