"""Where actors run: one placement group for a whole plan, so that it gets all its places or none."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import ray
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from cluster.deploy.autoscaler import launch_failures, most_cpus
from cluster.deploy.draining import draining_nodes
from cluster.deploy.edges import Work, place_by_edges
from cluster.deploy.refusals import REMEDY
from cluster.options import Placement
from decopa.choices import EDGES
from decopa.errors import DeployError
from shuffler.routing.topology import Topology

#: How long to wait for places that others hold.
PATIENCE_S = 60.0
#: How long to wait for nodes that an autoscaler has to start: clouds take minutes.
NODE_PATIENCE_S = 600.0
_LOOK_EVERY_S = 0.5
#: How often to ask, while waiting, whether the cloud has refused a node.
_ASK_EVERY_S = 5.0


class NoRoom(DeployError):
    """The cluster has too few places, or others hold them."""


def places_needed(topology: Topology) -> int:
    """CPUs that a plan reserves: one for each unit and each shuffler. Sinks work little and reserve none."""
    return len(topology.units) + topology.shufflers


class Places:
    """The reserved places of a plan; `options` are those of an actor's."""

    def __init__(self, topology: Topology, placement: Placement, wait_for_nodes_s: float | None = None) -> None:
        self._names = [*topology.shuffler_names, *(unit.name for unit in topology.units)]
        patience_s = patience(
            len(topology.units), topology.shufflers, current_cpus(), most_cpus(), wait_for_nodes_s=wait_for_nodes_s
        )
        deadline = time.monotonic() + patience_s
        #: Nodes that processes must be on, sinks among them, by name; others go where Ray puts them.
        self.homes = _homes_by(deadline, topology, placement)
        bundles = [
            {"CPU": 1.0} | ({f"node:{self.homes[name]}": 0.001} if name in self.homes else {}) for name in self._names
        ]
        strategy = "PACK" if placement.strategy == EDGES else placement.strategy
        self._group: PlacementGroup = placement_group(bundles, strategy=strategy)
        try:
            self._await(deadline, f"{len(topology.units)} units and {topology.shufflers} shufflers", placement.strategy)
        except NoRoom:
            self.release()
            raise

    def _await(self, deadline: float, what: str, strategy: str) -> None:
        """Returns when all places are there; NoRoom at the deadline, or as soon as a cloud says that it has no more."""
        began_s, began = time.time(), time.monotonic()
        while not self._group.wait(max(1.0, min(_ASK_EVERY_S, deadline - time.monotonic()))):
            failures = launch_failures(began_s)
            shown = "; ".join(map(str, failures))
            if any(failure.final for failure in failures):
                raise NoRoom(f"the cloud does not start the nodes that the plan needs: {shown}; {REMEDY} (--units)")
            if time.monotonic() >= deadline:
                raise NoRoom(
                    f"the cluster has no room for the plan: {len(self._names)} CPUs ({what}, placed {strategy}) did "
                    f"not become free within {time.monotonic() - began:.0f} s; use fewer --units, another "
                    "--placement, or wait for other jobs to end"
                    + (f". Nodes could not be started: {shown}" if failures else "")
                )

    def options(self, name: str) -> dict[str, Any]:
        place = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=self._names.index(name))
        return {"num_cpus": 1, "scheduling_strategy": place}

    def sink_options(self, name: str) -> dict[str, Any]:
        """Sinks reserve no place; one that has a home goes there, unless that node is lost.

        A wish would not do (`soft`): Ray puts actors without a CPU on any node then.
        """
        if name not in self.homes:
            return {"num_cpus": 0}
        node = next((one for one in alive_nodes() if one["NodeManagerAddress"] == self.homes[name]), None)
        if node is None:
            return {"num_cpus": 0}
        return {"num_cpus": 0, "scheduling_strategy": NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)}

    @property
    def intact(self) -> bool:
        """Whether all places are still there: no node that had some of them is lost."""
        return bool(placement_group_table(self._group)["state"] == "CREATED")

    def release(self) -> None:
        remove_placement_group(self._group)


def _homes_by(deadline: float, topology: Topology, placement: Placement) -> dict[str, str]:
    """The nodes that processes are bound to, as soon as there is room for all of them."""
    while True:
        try:
            return planned_homes(topology, placement)
        except NoRoom:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_EVERY_S)


def planned_homes(topology: Topology, placement: Placement) -> dict[str, str]:
    """The nodes, by address, that processes are bound to: those that are pinned; with EDGES all of them."""
    names = [*topology.shuffler_names, *(unit.name for unit in topology.units)]
    operators = {unit.name: unit.operator for unit in topology.units}
    operators |= dict(zip(topology.shuffler_names, topology.shuffler_keys, strict=True))
    pins = dict(placement.pins or {})
    everyone = [*names, *topology.sink_names]
    _check_pins(pins, {*everyone, *operators.values()})
    bound = {name: pins.get(name, pins.get(operators.get(name, ""), "")) for name in everyone}
    pinned = {name: node for name, node in bound.items() if node}
    if placement.strategy != EDGES:
        return pinned
    if placement.flows is None:
        raise DeployError("placement EDGES goes by rates; give statistics (--stats, or a trace that can be measured)")
    # Matches go to this process in the end, so their sinks live on its node, where they take no place.
    here = own_address()
    sinks = {name: pinned.get(name, here) for name in topology.sink_names}
    room = free_cpus()
    for node in sinks.values():
        room[node] = room.get(node, 0) + 1
    try:
        work = Work(placement.loads or {}, placement.speeds or {})
        return place_by_edges([*names, *sinks], placement.flows, room, pinned | sinks, work)
    except DeployError as err:
        raise NoRoom(str(err)) from err


def without_lost_pins(placement: Placement) -> Placement:
    """Leaves out pins to nodes that are gone or about to leave: what was pinned there goes elsewhere."""
    nodes = {node["NodeManagerAddress"] for node in staying_nodes()}
    pins = {name: node for name, node in (placement.pins or {}).items() if node in nodes}
    return replace(placement, pins=pins or None)


def free_cpus() -> dict[str, int]:
    """CPUs that nobody has reserved, by the address of a node that stays. Ray has no public call for this."""
    addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in staying_nodes()}
    available = ray._private.state.available_resources_per_node()  # type: ignore[no-untyped-call]
    return {addresses[node]: int(free.get("CPU", 0)) for node, free in available.items() if node in addresses}


def alive_nodes() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def staying_nodes() -> list[dict[str, Any]]:
    """The nodes that take new work: those that are not about to leave."""
    leaving = draining_nodes()
    return [node for node in alive_nodes() if node["NodeID"] not in leaving]


def own_address() -> str:
    """The address of the node that this process is on."""
    own = ray.get_runtime_context().get_node_id()
    return next(str(node["NodeManagerAddress"]) for node in alive_nodes() if node["NodeID"] == own)


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
    return int(sum(node["Resources"].get("CPU", 0) for node in staying_nodes()))


def _check_pins(pins: Mapping[str, str], known: set[str]) -> None:
    nodes = {node["NodeManagerAddress"] for node in alive_nodes()}
    for name, node in pins.items():
        if name not in known:
            raise DeployError(f"cannot pin '{name}': no process or operator of the plan is called that")
        if node not in nodes:
            raise DeployError(f"cannot pin '{name}' to '{node}': the cluster's nodes are {', '.join(sorted(nodes))}")
