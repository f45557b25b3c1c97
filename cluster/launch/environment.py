"""What Ray is started with on every machine: `~/.decopa-env`, which `decopa cluster env` prints there."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

#: `cluster.ray_session` gives a Ray that it starts itself the first two; see there for why.
RAY_SETTINGS = {
    "RAY_max_direct_call_object_size": str(4 * 2**20),
    "RAY_worker_niceness": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    # A node that does not answer is given up after 5 x (1 + 3) s; Ray's own settings take more than a minute. A node
    # that is silent for that long by accident loses its units, which then begin anew at the last checkpoint.
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "5",
}
CHECKPOINTS, RAY_OPTIONS = "DECOPA_CHECKPOINTS", "DECOPA_RAY_OPTIONS"
_OURS = re.compile(rf"^export ({CHECKPOINTS}|{RAY_OPTIONS})=(.*)$", re.MULTILINE)
_SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")


def node_environment(
    java: Mapping[str, str], python: Path, *, checkpoints: str | None = None, ray_options: str | None = None
) -> dict[str, str]:
    """The variables of a node, Java's settings (`cluster.java`) among them; PATH begins with Python's own."""
    path = [str(python.parent), *java.get("PATH", "").split(os.pathsep), *_SYSTEM_PATH]
    settings = {**java, **RAY_SETTINGS, "PATH": os.pathsep.join(dict.fromkeys(part for part in path if part))}
    if checkpoints is not None:
        settings[CHECKPOINTS] = checkpoints
    if ray_options is not None:
        settings[RAY_OPTIONS] = ray_options
    return settings


def exports(settings: Mapping[str, str]) -> str:
    """The variables as lines of shell."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in settings.items())


def kept_settings(text: str) -> dict[str, str]:
    """The variables of decopa's own that an earlier `~/.decopa-env` has."""
    return {name: shlex.split(value)[0] if value else "" for name, value in _OURS.findall(text)}
