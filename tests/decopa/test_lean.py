"""A process of our own starts without what it does not need, and has it when it does."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SHOWN = "import sys; print([name for name in ('pandas', 'scipy') if name in sys.modules])"


def printed(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_pandas_and_scipy_are_not_loaded() -> None:
    array = "import pyarrow as pa; pa.array([1, 2])"
    loop = "import numba; numba.njit(lambda x: x + 1)(1)"
    assert printed(f"from decopa.lean import load_lean; load_lean(); {array}; {loop}; {_SHOWN}") == "[]\n"


def test_pandas_is_there_for_who_asks_for_a_frame() -> None:
    pytest.importorskip("pandas")
    frame = "import pyarrow as pa; print(pa.table({'a': [1, 2]}).to_pandas().a.sum())"
    assert printed(f"from decopa.lean import load_lean; load_lean(); {frame}") == "3\n"


def test_scipy_can_be_imported_afterwards() -> None:
    pytest.importorskip("scipy")
    assert printed("from decopa.lean import load_lean; load_lean(); import scipy.linalg; print('here')") == "here\n"
