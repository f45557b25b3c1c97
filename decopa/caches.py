"""The folders in which what is expensive to make is kept for the next process: compiled kernels and parsers.

What they hold is executed, so only their owner may write there. `DECOPA_CACHE_DIR` moves them.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_private: list[tempfile.TemporaryDirectory[str]] = []


def cache_folder(name: str) -> Path:
    """The user's cache folder of this name; one of this process's own if the user's cannot be written to, or can be by
    others."""
    chosen = os.environ.get("DECOPA_CACHE_DIR")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "decopa"
    folder = base / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        if not os.access(folder, os.W_OK) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise PermissionError
    except OSError:
        folder = Path(_private_folder()) / name
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _private_folder() -> str:
    if not _private:
        _private.append(tempfile.TemporaryDirectory(prefix="decopa-cache-"))
    return _private[0].name
