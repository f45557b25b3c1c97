"""What processes of a run take: processor time, and memory where pages that several share are counted once."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import psutil
import ray

#: Actors that have not answered by then are starting, or have just ended.
_ANSWER_S = 0.5


def processor_times() -> dict[int, tuple[str, float]]:
    """This process and all that come of it: what they are called, and their processor seconds so far."""
    me = psutil.Process()
    found = {}
    for process in [me, *me.children(recursive=True)]:
        try:
            used, name = process.cpu_times(), (process.cmdline() or [process.name()])[0]
        except psutil.Error:
            continue
        kind = "driver" if process.pid == me.pid else name.split(".")[0] if name.startswith("ray::") else "Ray itself"
        found[process.pid] = kind, used.user + used.system
    return found


def processor_s(before: dict[int, tuple[str, float]], after: dict[int, tuple[str, float]]) -> dict[str, float]:
    """Processor seconds between two readings, by kind of process; those that have ended in between do not count."""
    spent: dict[str, float] = {}
    for pid, (name, seconds) in after.items():
        spent[name] = spent.get(name, 0.0) + seconds - before.get(pid, (name, 0.0))[1]
    return spent


def pss_bytes(pid: int) -> int:
    """The proportional set size of a process: pages that n processes share count 1/n. 0 if it has ended."""
    with contextlib.suppress(OSError):
        return pss_of(Path(f"/proc/{pid}/smaps_rollup").read_text())
    return 0


def pss_of(rollup: str) -> int:
    """The bytes that a text of /proc/PID/smaps_rollup tells."""
    sizes = [line.split() for line in rollup.splitlines() if line.startswith("Pss:")]
    return sum(int(size) * {"kB": 1024}[unit] for _, size, unit in sizes)


def answers(method: str) -> dict[str, Any]:
    """What all actors of this Ray answer to a call, by name and namespace; those that do not answer soon are left out.

    Those of a plan that was replaced and is kept for its return are among them.
    """
    calls = {}
    for one in ray.util.list_named_actors(all_namespaces=True):
        with contextlib.suppress(ValueError):  # it has ended
            handle: Any = ray.get_actor(one["name"], namespace=one["namespace"])
            calls[getattr(handle, method).remote()] = f"{one['namespace']}/{one['name']}"
    if not calls:
        return {}
    ready, _ = ray.wait(list(calls), num_returns=len(calls), timeout=_ANSWER_S)
    found = {}
    for call in ready:
        with contextlib.suppress(ray.exceptions.RayError):
            found[calls[call]] = ray.get(call)
    return found
