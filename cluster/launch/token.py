"""The token that every process of a cluster has to show: a file that only its owner may read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from decopa.errors import DeployError

TOKEN_FILE = Path("~/.ray/auth_token")


def ensure_token(path: Path) -> None:
    """Makes the file, unless it is there; refuses one that others may read."""
    if path.exists():
        mode = path.stat().st_mode & 0o777
        if mode & 0o077:
            raise DeployError(f"others may read the token {path} (mode {mode:o}); chmod 600 {path}")
        if not read_token(path):
            raise DeployError(f"the token {path} is empty; remove it, and a new one is made")
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))


def read_token(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as err:
        raise DeployError(
            f"cannot read the token {path}: {err}; `decopa cluster up` makes it, or copy it from the machine that did"
        ) from err
