"""Reading memory that nobody has written shows up in the same way each time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

#: No test uses this value, and as a place in an array it is out of bounds.
POISON = -987_654_321


@contextlib.contextmanager
def poisoned_memory() -> Iterator[None]:
    """Inside, `np.empty` gives arrays full of POISON. For interpreted kernels: compiled ones allocate by themselves."""

    def poisoned(shape: Any, dtype: Any = np.float64, **options: Any) -> np.ndarray:
        kind = np.dtype(dtype)
        return np.full(shape, POISON if kind.kind in "if" and kind.itemsize > 2 else 0, dtype=kind, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "empty", poisoned)
        yield
