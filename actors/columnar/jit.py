"""Generated kernels: source text -> compiled module, cached on disk.

Kernels are written by `actors.columnar.probe` from typed trees; no text of a query gets into them. A kernel's source is
stored in the user's cache folder under the hash of its text and imported from there, which lets Numba keep the
machine code beside it: the same query shape never compiles twice, whatever its constants, and all units of an
operator share one kernel. `DECOPA_CACHE_DIR` moves the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from types import ModuleType

from decopa.caches import cache_folder
from decopa.files import replacing

_interpreted = False
_modules: dict[tuple[str, bool], ModuleType] = {}

_COMPILED_HEAD = '''"""Written by decopa; safe to delete."""
import numpy as np
from numba import njit

NULL = -9223372036854775808
jit = njit(cache=True, error_model="numpy", nogil=True)
'''
_INTERPRETED_HEAD = '''"""Written by decopa; safe to delete."""
import numpy as np

NULL = -9223372036854775808


def jit(function):
    def quietly(*arguments):
        with np.errstate(all="ignore"):
            return function(*arguments)

    return quietly
'''


@contextlib.contextmanager
def interpreted() -> Iterator[None]:
    """Inside, kernels run as plain Python: slow, but without the seconds that compiling a new shape takes."""
    global _interpreted
    before, _interpreted = _interpreted, True
    try:
        yield
    finally:
        _interpreted = before


def is_interpreted() -> bool:
    return _interpreted


def load(body: str, *, helpers: str = "") -> ModuleType:
    """The module with the functions of `body`, each decorated with `@jit`; compiled on its first call.

    Functions in `helpers` can be called from `body`; they have a module of their own, so that they compile once.
    """
    found = _modules.get((body, _interpreted))
    if found is None:
        lines = [_INTERPRETED_HEAD if _interpreted else _COMPILED_HEAD]
        if helpers:
            names = re.findall(r"^def (\w+)", helpers, re.MULTILINE)
            lines.append(f"from {load(helpers).__name__} import {', '.join(names)}")
        found = _modules[body, _interpreted] = _import("\n\n".join([*lines, body]))
    return found


def _import(source: str) -> ModuleType:
    name = "decopa_kernel_" + hashlib.sha256(source.encode()).hexdigest()[:32]
    path = cache_folder("kernels") / f"{name}.py"
    if not path.exists() or path.read_text() != source:
        with replacing(path) as temporary:  # a process that starts at the same moment never reads half a file
            temporary.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
