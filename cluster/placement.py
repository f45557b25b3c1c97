"""Where actors run: one placement group for a whole plan, so that it gets all its places or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ray
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from cluster.options import Placement
from decopa.errors import DeployError
from shuffler.routing.topology import Topology

#: How long to wait for places that others hold.
PATIENCE_S = 60.0
#: How long to wait for nodes that an autoscaler has to start: clouds take minutes.
NODE_PATIENCE_S = 600.0


class NoRoom(DeployError):
    """The cluster has too few places, or others hold them."""


def places_needed(topology: Topology) -> int:
    """CPUs that a plan reserves: one for each unit and each shuffler. Sinks work little and reserve none."""
    return len(topology.units) + topology.shufflers


class Places:
    """The reserved places of a plan; `options` are those of an actor's."""

    def __init__(self, topology: Topology, placement: Placement, wait_for_nodes_s: float | None = None) -> None:
        self._names = [*topology.shuffler_names, *(unit.name for unit in topology.units)]
        operators = {unit.name: unit.operator for unit in topology.units}
        pins = dict(placement.pins or {})
        _check_pins(pins, {*self._names, *operators.values()})
        bundles = []
        for name in self._names:
            bundle = {"CPU": 1.0}
            node = pins.get(name, pins.get(operators.get(name, "")))
            if node is not None:
                bundle[f"node:{node}"] = 0.001
            bundles.append(bundle)
        patience_s = patience(
            len(topology.units), topology.shufflers, current_cpus(), most_cpus(), wait_for_nodes_s=wait_for_nodes_s
        )
        self._group: PlacementGroup = placement_group(bundles, strategy=placement.strategy)
        if not self._group.wait(patience_s):
            self.release()
            failures = launch_failures()
            raise NoRoom(
                f"the cluster has no room for the plan: {len(bundles)} CPUs ({len(topology.units)} units and "
                f"{topology.shufflers} shufflers, placed {placement.strategy}) did not become free within "
                f"{patience_s:.0f} s; use fewer --units, another --placement, or wait for other jobs to end"
                + (f". Nodes could not be started: {failures}" if failures else "")
            )

    def options(self, name: str) -> dict[str, Any]:
        place = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=self._names.index(name))
        return {"num_cpus": 1, "scheduling_strategy": place}

    @property
    def intact(self) -> bool:
        """Whether all places are still there: no node that had some of them is lost."""
        return bool(placement_group_table(self._group)["state"] == "CREATED")

    def release(self) -> None:
        remove_placement_group(self._group)


def patience(units: int, shufflers: int, cpus: int, most: int | None, *, wait_for_nodes_s: float | None) -> float:
    """How long to wait for the places of a plan; NoRoom if the cluster will never have them.

    `cpus` is what the cluster has, `most` what its autoscaler may let it grow to (None without one).
    """
    needed = units + shufflers
    if needed <= cpus:
        return max(PATIENCE_S, wait_for_nodes_s or 0.0)
    if wait_for_nodes_s is not None:
        return wait_for_nodes_s
    if most is not None and needed <= most:
        return NODE_PATIENCE_S
    fewer = max(cpus, most or 0) - shufflers
    advice = f"use --units {fewer} or fewer" if fewer >= 1 else "use a cluster with more CPUs"
    grows = "" if most is None or most <= cpus else f" and can grow to {most}"
    raise NoRoom(
        f"the plan needs {needed} CPUs ({units} units and {shufflers} shufflers) but the cluster has {cpus}{grows}; "
        f"{advice}, or add nodes and wait for them with --wait-for-nodes"
    )


def current_cpus() -> int:
    return int(ray.cluster_resources().get("CPU", 0))  # type: ignore[no-untyped-call]


def most_cpus() -> int | None:
    """The CPUs that an autoscaler may let the cluster grow to; None if it has none, or one that cannot tell.

    Ray has no public call for this; Ray Data uses the same one.
    """
    most = ray._private.state.state.get_max_resources_from_cluster_config()
    return None if most is None else int(most.get("CPU", 0)) or None


def launch_failures() -> str:
    """Why the autoscaler could not start nodes lately, as the cloud told it; empty if it could."""
    from ray.autoscaler.v2.sdk import get_cluster_status

    try:
        status = get_cluster_status(ray.get_runtime_context().gcs_address)
    except Exception:  # an older autoscaler, or none: there is nothing to tell then
        return ""
    failed = {" ".join(str(one.details).split())[:300] for one in status.failed_launches}
    return "; ".join(sorted(failed))


def _check_pins(pins: Mapping[str, str], known: set[str]) -> None:
    known_nodes = ray.nodes()  # type: ignore[no-untyped-call]
    nodes = {node["NodeManagerAddress"] for node in known_nodes if node["Alive"]}
    for name, node in pins.items():
        if name not in known:
            raise DeployError(f"cannot pin '{name}': no process or operator of the plan is called that")
        if node not in nodes:
            raise DeployError(f"cannot pin '{name}' to '{node}': the cluster's nodes are {', '.join(sorted(nodes))}")
