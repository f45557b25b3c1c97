"""What a process of decopa's own does not load, though others would."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def load_lean() -> None:
    """Loads pyarrow and Numba without pandas and SciPy, which they would load if these are installed: 0.4 s of a
    processor in each process that starts.

    Only for processes in which no code of users runs: the command line and actors. There pyarrow loads pandas after
    all when somebody asks it for a frame, and compiled loops do no linear algebra, which is what Numba has SciPy for.
    Does nothing about what is loaded already.
    """
    load_arrow()
    load_numba()


def load_arrow() -> None:
    """Loads pyarrow without pandas."""
    with _hidden("pandas"):
        import pyarrow as pa

        pa.array([0])  # it looks for pandas when it is first given values without a type


def load_numba() -> None:
    """Loads Numba without SciPy."""
    with _hidden("scipy"):
        import numba.np.arraymath  # noqa: F401  # looks for SciPy when it is loaded, as the first compiled loop does


@contextmanager
def _hidden(name: str) -> Iterator[None]:
    """Inside, a library counts as not installed."""
    finder = _NotInstalled(name)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _NotInstalled(MetaPathFinder):
    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == self._name:
            raise ModuleNotFoundError(f"{fullname} is not loaded here", name=fullname)
        return None
