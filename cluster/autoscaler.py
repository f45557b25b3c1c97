"""What Ray's autoscaler may start, and why it could not start it: for whoever waits for nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass

import ray

from cluster.refusals import is_final

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

    Ray has no public call for this; Ray Data uses the same one.
    """
    most = ray._private.state.state.get_max_resources_from_cluster_config()
    return None if most is None else int(most.get("CPU", 0)) or None


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
