"""Files for tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.command_line import EVENTS


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A small trace in a directory of its own, so that tests see what else is written."""
    path = tmp_path / "in" / "trace.parquet"
    path.parent.mkdir()
    pq.write_table(EVENTS, path)
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    path = tmp_path / "out"
    path.mkdir()
    return path
