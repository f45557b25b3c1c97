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
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from cluster.edges import place_by_edges
from cluster.options import Placement
from decopa.choices import EDGES
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
        #: Nodes that processes must be on, sinks among them, by name; others go where Ray puts them.
        self.homes = planned_homes(topology, placement)
        bundles = [
            {"CPU": 1.0} | ({f"node:{self.homes[name]}": 0.001} if name in self.homes else {}) for name in self._names
        ]
        strategy = "PACK" if placement.strategy == EDGES else placement.strategy
        patience_s = patience(
            len(topology.units), topology.shufflers, current_cpus(), most_cpus(), wait_for_nodes_s=wait_for_nodes_s
        )
        self._group: PlacementGroup = placement_group(bundles, strategy=strategy)
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

    def sink_options(self, name: str) -> dict[str, Any]:
        """Sinks reserve no place; one that has a home goes there if it can."""
        if name not in self.homes:
            return {"num_cpus": 0}
        node = next((one for one in alive_nodes() if one["NodeManagerAddress"] == self.homes[name]), None)
        if node is None:
            return {"num_cpus": 0}
        return {"num_cpus": 0, "scheduling_strategy": NodeAffinitySchedulingStrategy(node["NodeID"], soft=True)}

    @property
    def intact(self) -> bool:
        """Whether all places are still there: no node that had some of them is lost."""
        return bool(placement_group_table(self._group)["state"] == "CREATED")

    def release(self) -> None:
        remove_placement_group(self._group)


def planned_homes(topology: Topology, placement: Placement) -> dict[str, str]:
    """The nodes, by address, that processes are bound to: those that are pinned; with EDGES all of them."""
    names = [*topology.shuffler_names, *(unit.name for unit in topology.units)]
    operators = {unit.name: unit.operator for unit in topology.units}
    operators |= dict(zip(topology.shuffler_names, topology.shuffler_keys, strict=True))
    pins = dict(placement.pins or {})
    _check_pins(pins, {*names, *operators.values()})
    bound = {name: pins.get(name, pins.get(operators.get(name, ""), "")) for name in names}
    pinned = {name: node for name, node in bound.items() if node}
    if placement.strategy != EDGES:
        return pinned
    if placement.flows is None:
        raise DeployError("placement EDGES goes by rates; give statistics (--stats, or a trace that can be measured)")
    # Matches go to this process in the end, so their sinks live on its node, where they take no place.
    own = ray.get_runtime_context().get_node_id()
    here = next(node["NodeManagerAddress"] for node in alive_nodes() if node["NodeID"] == own)
    sinks = dict.fromkeys(topology.sink_names, here)
    room = free_cpus()
    room[here] = room.get(here, 0) + len(sinks)
    try:
        return place_by_edges([*names, *sinks], placement.flows, room, pinned | sinks)
    except DeployError as err:
        raise NoRoom(str(err)) from err


def free_cpus() -> dict[str, int]:
    """CPUs of each node that nobody has reserved, by address. Ray has no public call for this."""
    addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in alive_nodes()}
    available = ray._private.state.available_resources_per_node()  # type: ignore[no-untyped-call]
    return {addresses[node]: int(free.get("CPU", 0)) for node, free in available.items() if node in addresses}


def alive_nodes() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


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
    nodes = {node["NodeManagerAddress"] for node in alive_nodes()}
    for name, node in pins.items():
        if name not in known:
            raise DeployError(f"cannot pin '{name}': no process or operator of the plan is called that")
        if node not in nodes:
            raise DeployError(f"cannot pin '{name}' to '{node}': the cluster's nodes are {', '.join(sorted(nodes))}")
