"""A process of our own starts without what it does not need, and has it when it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

_SHOWN = "import sys; print([name for name in ('pandas', 'scipy') if name in sys.modules])"


def printed(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_pandas_and_scipy_are_not_loaded() -> None:
    array = "import pyarrow as pa; pa.array([1, 2])"
    loop = "import numba; numba.njit(lambda x: x + 1)(1)"
    assert printed(f"from decopa.lean import load_lean; load_lean(); {array}; {loop}; {_SHOWN}") == "[]\n"


def test_a_run_of_the_command_line_starts_without_them(tmp_path: Path) -> None:
    trace, query = tmp_path / "trace.parquet", tmp_path / "query.txt"
    pq.write_table(pa.table({"id": [1, 2], "ts": [1, 2], "type": ["A", "B"], "x": [0.5, 1.5]}), trace)
    query.write_text("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10 us")
    run = ["run", str(query), "--trace", str(trace), "--runtime", "local", "--out", "none", "--quiet"]
    assert printed(f"from decopa.commands.cli import main; main({run!r}); {_SHOWN}").endswith("[]\n")


def test_pandas_is_there_for_who_asks_for_a_frame() -> None:
    pytest.importorskip("pandas")
    frame = "import pyarrow as pa; print(pa.table({'a': [1, 2]}).to_pandas().a.sum())"
    assert printed(f"from decopa.lean import load_lean; load_lean(); {frame}") == "3\n"


def test_scipy_can_be_imported_afterwards() -> None:
    pytest.importorskip("scipy")
    assert printed("from decopa.lean import load_lean; load_lean(); import scipy.linalg; print('here')") == "here\n"
