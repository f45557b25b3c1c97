"""Makes mistakes with memory show up in small tests, and in the same way each time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from actors.columnar import store
from actors.columnar.probe import ProbeKernel
from actors.operators import closure, join
from actors.sinks import sink

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
        # Blocks of a million rows cost nothing until they are written; poisoned, they would take gigabytes.
        for module in (join, closure):
            patch.setattr(module, "BLOCK", module.CHUNK)
        yield


@contextlib.contextmanager
def small_buffers() -> Iterator[None]:
    """Inside, stores, chunks and result segments are so short that small streams fill them many times."""
    prepare = ProbeKernel.__post_init__

    def prepare_with_little_room(kernel: ProbeKernel) -> None:
        prepare(kernel)
        kernel._room = 2

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_SMALLEST", 2)
        patch.setattr(sink, "SEGMENT", 2)
        for module in (join, closure):
            patch.setattr(module, "CHUNK", 3)
            patch.setattr(module, "BLOCK", 4)
        patch.setattr(ProbeKernel, "__post_init__", prepare_with_little_room)
        yield
