"""Settings of the whole suite.

`pyproject.toml` is expected to say: import mode `importlib`, `pythonpath = ["."]`, warnings are errors, strict markers
`ray`, `spark`, `slow`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from actors.columnar.jit import interpreted
from tests.support.sessions import ray_cluster, spark
from tests.support.shared import SHARED

__all__ = ["ray_cluster", "spark"]

# Random plans over random queries are slow to draw, and a first call may compile a kernel: time is no verdict here.
# The plain run draws the same cases every time, so that a red run is the fault of the change at hand; searches for new
# cases set DECOPA_EXAMPLES.
settings.register_profile(
    "default",
    deadline=None,
    derandomize="DECOPA_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("default")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with traces and worked examples beside the repository."""
    if not SHARED.is_dir():
        pytest.skip(f"no {SHARED}: traces and worked examples are not here")
    return SHARED


@pytest.fixture
def without_compiling() -> Iterator[None]:
    """Inside of a test compiled loops are plain Python: a shape that is new takes seconds to compile."""
    with interpreted():
        yield
