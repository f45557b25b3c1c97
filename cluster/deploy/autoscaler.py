"""What Ray's autoscaler may start, and why it could not start it: for whoever waits for nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import yaml

from cluster.deploy.refusals import is_final

#: Where `ray up` puts the cluster file on the head.
_BOOTSTRAP = Path("~/ray_bootstrap_config.yaml")
_LOG, _LOG_LINES = "monitor.log", 400
_MOST_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class LaunchFailure:
    """A node that could not be started, and what the cloud said."""

    node_type: str
    cause: str

    @property
    def final(self) -> bool:
        """Whether it would fail again: a quota is reached, or the cloud has no such machine left."""
        return is_final(self.cause)

    def __str__(self) -> str:
        return f"{self.node_type}: {self.cause}" if self.cause else self.node_type


def most_cpus() -> int | None:
    """The CPUs that an autoscaler may let the cluster grow to; None if it has none, or one that cannot tell.

    Ray has no public call for this; Ray Data uses the same one. On a cluster of `ray up` it knows nothing: there the
    file tells that the head's autoscaler works by, to a program on the head.
    """
    most = ray._private.state.state.get_max_resources_from_cluster_config()
    if most is not None:
        return int(most.get("CPU", 0)) or None
    try:
        content = yaml.safe_load(_BOOTSTRAP.expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return None
    return growth(content) if isinstance(content, dict) else None


def growth(config: Mapping[str, Any]) -> int | None:
    """The CPUs of a cluster file's head and of as many workers, the largest first, as it allows; None if it does not
    say how many a worker has."""
    types = config.get("available_node_types") or {}
    head, left = config.get("head_node_type"), int(config.get("max_workers", 0))
    cpus = {name: float((one.get("resources") or {}).get("CPU", 0)) for name, one in types.items()}
    most = cpus.get(str(head), 0.0)
    for name in sorted(types, key=lambda one: -cpus[one]):
        count = 0 if name == head else min(left, int(types[name].get("max_workers", left)))
        most, left = most + count * cpus[name], left - count
    return int(most) or None


def launch_failures(since_s: float) -> list[LaunchFailure]:
    """Nodes that the autoscaler could not start since then; none if there is no autoscaler that tells."""
    from ray.autoscaler.v2.sdk import get_cluster_status

    try:
        status = get_cluster_status(ray.get_runtime_context().gcs_address)
    except Exception:  # an older autoscaler, or none: there is nothing to tell then
        return []
    failed = {one.ray_node_type_name for one in status.failed_launches if (one.failed_ts_s or 0) >= int(since_s)}
    causes = launch_causes(_monitor_log()) if failed else {}
    return [LaunchFailure(name, causes.get(name, "")) for name in sorted(failed)]


def launch_causes(log: str) -> dict[str, str]:
    """What the cloud last said for each type of node, from the autoscaler's log: its status leaves the cause out."""
    found = re.findall(r"Failed to launch \d+ nodes of type ([^\s:]+): (.+)", log)
    return {name: " ".join(cause.split())[:_MOST_CHARACTERS] for name, cause in found}


def _monitor_log() -> str:
    """The last lines of the autoscaler's log, which lies on the head."""
    from ray.util.state import get_log

    head = next((node for node in ray.nodes() if "node:__internal_head__" in node["Resources"]), None)  # type: ignore[no-untyped-call]
    if head is None:
        return ""
    try:
        return "".join(get_log(filename=_LOG, node_id=head["NodeID"], tail=_LOG_LINES))
    except Exception:  # the dashboard does not answer: the failure is told without its cause
        return ""
