"""`import decopa`: what stands in its way is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["actors", "cluster", "costmodel", "shuffler"])
def test_a_module_of_the_user_that_hides_a_package_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("x = 1\n")
    script = tmp_path / "script.py"
    script.write_text("import decopa\n")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError") and f"{name}.py' hides decopa's package '{name}'; rename it" in last
