"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

OURS = ("numba", "numpy", "pyarrow", "ray")


def describe(constraints: Path) -> dict[str, str]:
    """Lines for the report; the peers' versions are the pinned ones, which `scripts/bench_peers` installs."""
    pinned = [line for line in constraints.read_text().splitlines() if line and not line.startswith("#")]
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "machine": f"{cpu_name()}, {os.cpu_count()} cores of which one is used, {memory_gib:.0f} GiB of memory",
        "system": f"{platform.system()} {platform.release().partition('-')[0]}, Python {platform.python_version()}",
        "decopa with": ", ".join(f"{name} {version(name)}" for name in OURS),
        "peers": ", ".join(line.replace("==", " ") for line in pinned),
    }


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
