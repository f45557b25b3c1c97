"""Nodes that are about to leave the cluster: `ray drain-node`, an autoscaler, or a cloud that takes a machine back."""

from __future__ import annotations

import time

import ray

_LOOK_EVERY_S = 1.0


def draining_nodes() -> frozenset[str]:
    """The ids of nodes that take no new work and will end. Ray has no public call for this."""
    return frozenset(ray._private.state.state.get_draining_nodes())


class DrainWatch:
    """Tells of the first node among `nodes` that is about to leave; looks once a second at most."""

    def __init__(self, nodes: frozenset[str]) -> None:
        self._nodes = nodes
        self._looked_s = 0.0

    def leaving(self) -> str | None:
        """The address of a node that is leaving, in words."""
        now = time.monotonic()
        if now - self._looked_s < _LOOK_EVERY_S:
            return None
        self._looked_s = now
        going = self._nodes & draining_nodes()
        if not going:
            return None
        known = ray.nodes()  # type: ignore[no-untyped-call]
        addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in known}
        return "draining node " + ", ".join(sorted(addresses.get(node, node) for node in going))
