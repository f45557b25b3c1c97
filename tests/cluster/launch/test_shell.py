"""Shell scripts that go to other people's machines are linted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cluster.launch.templates import FOLDER

SCRIPTS = [
    path for path in sorted(FOLDER.iterdir()) if path.is_file() and path.suffix == "" and path.read_bytes()[:2] == b"#!"
]


def test_there_are_scripts_to_lint() -> None:
    assert {path.name for path in SCRIPTS} == {"probe-node", "setup-node"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_has_nothing_to_say(script: Path) -> None:
    shellcheck = Path(sys.executable).parent / "shellcheck"
    done = subprocess.run([shellcheck, "--shell=bash", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
