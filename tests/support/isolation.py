"""Unit tests start no Ray and never sleep: both raise here."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import NoReturn

import pytest


def _forbidden(*_: object, **__: object) -> NoReturn:
    raise AssertionError("a unit test neither starts Ray nor sleeps; put this test under tests/integration")


@pytest.fixture(scope="module", autouse=True)
def no_ray_and_no_sleep() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", _forbidden)
        if "ray" in sys.modules:
            patch.setattr(sys.modules["ray"], "init", _forbidden)
        else:
            patch.setitem(sys.modules, "ray", None)  # makes `import ray` fail
        yield
