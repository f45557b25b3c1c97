"""What machines did while a rate was offered: bytes that left each, and how often each wanted more than its CPU.

The kernel counts both; an actor on every node reads the counters. Reading what the kernel says needs no Ray.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.deploy.placement import alive_nodes

_NETWORK = Path("/proc/net/dev")
_OWN_GROUPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
#: Columns of /proc/net/dev after the name of a device: eight of what it received, then bytes that it sent.
_SENT = 8


@dataclass(frozen=True, slots=True)
class Counters:
    """What the kernel has counted so far: bytes sent by all network devices but loopback, periods of a limited CPU, and
    those in which the limit was reached (none of either without a limit)."""

    sent_bytes: int = 0
    periods: int = 0
    throttled: int = 0


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """What a machine did in between two readings; `throttled` is the share of periods in which its CPU limit was
    reached, None if it has no limit."""

    sent_bytes: int
    throttled: float | None

    @classmethod
    def between(cls, before: Counters, after: Counters) -> MachineLoad:
        periods = after.periods - before.periods
        share = (after.throttled - before.throttled) / periods if periods > 0 else None
        return cls(after.sent_bytes - before.sent_bytes, share)


def sent_bytes(devices: str) -> int:
    """Bytes sent, from the text of /proc/net/dev."""
    lines = [line.partition(":") for line in devices.splitlines() if ":" in line]
    return sum(int(counts.split()[_SENT]) for name, _, counts in lines if name.strip() != "lo")


def cpu_statistics(own: str, root: Path) -> tuple[int, int]:
    """Periods and throttled periods of the group that limits this process's CPU; `own` is /proc/self/cgroup."""
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "cpu", "cpu,cpuacct"):  # none: the one tree of version 2
            file = root / controllers / path.lstrip("/") / "cpu.stat"
            found = _numbers(file)
            if found.get("nr_periods"):
                return found["nr_periods"], found["nr_throttled"]
    return 0, 0


def _numbers(file: Path) -> dict[str, int]:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    return {name: int(value) for name, _, value in (line.partition(" ") for line in lines) if value.isdigit()}


def counters() -> Counters:
    """Of this machine; zeros where the kernel does not tell."""
    try:
        sent, own = sent_bytes(_NETWORK.read_text()), _OWN_GROUPS.read_text()
    except OSError:
        return Counters()
    return Counters(sent, *cpu_statistics(own, _GROUPS))


class _Meter:
    """An actor that reads the counters of its node."""

    def read(self) -> Counters:
        return counters()


class MachineMeters:
    """Context manager: one meter on every node. They take no CPU and no place."""

    def __init__(self) -> None:
        self._meters: dict[str, Any] = {}

    def __enter__(self) -> MachineMeters:
        meter = ray.remote(_Meter)
        for node in alive_nodes():
            place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            options = {"num_cpus": 0, "scheduling_strategy": place}
            self._meters[node["NodeManagerAddress"]] = meter.options(**options).remote()
        return self

    def __exit__(self, *error: object) -> None:
        for meter in self._meters.values():
            ray.kill(meter)
        self._meters = {}

    def read(self) -> dict[str, Counters]:
        """By address; a node that is gone is left out."""
        found = {}
        for address, call in {address: meter.read.remote() for address, meter in self._meters.items()}.items():
            try:
                found[address] = ray.get(call)
            except ray.exceptions.RayError:
                continue
        return found


def loads_between(before: Mapping[str, Counters], after: Mapping[str, Counters]) -> dict[str, MachineLoad]:
    """What each machine did in between, by address."""
    return {address: MachineLoad.between(before[address], last) for address, last in after.items() if address in before}
