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


class NoRoom(DeployError):
    """The cluster has too few places, or others hold them."""


def places_needed(topology: Topology) -> int:
    """CPUs that a plan reserves: one for each unit and each shuffler. Sinks work little and reserve none."""
    return len(topology.units) + topology.shufflers


class Places:
    """The reserved places of a plan; `options` are those of an actor's."""

    def __init__(self, topology: Topology, placement: Placement) -> None:
        self._names = [*topology.shuffler_names, *(unit.name for unit in topology.units)]
        operators = {unit.name: unit.operator for unit in topology.units}
        operators |= dict(zip(topology.shuffler_names, topology.shuffler_keys, strict=True))
        pins = dict(placement.pins or {})
        _check_pins(pins, {*self._names, *operators.values()})
        bundles = []
        for name in self._names:
            bundle = {"CPU": 1.0}
            node = pins.get(name, pins.get(operators.get(name, "")))
            if node is not None:
                bundle[f"node:{node}"] = 0.001
            bundles.append(bundle)
        _check_room(len(topology.units), topology.shufflers)
        self._group: PlacementGroup = placement_group(bundles, strategy=placement.strategy)
        if not self._group.wait(PATIENCE_S):
            self.release()
            raise NoRoom(
                f"the cluster has no room for the plan: {len(bundles)} CPUs ({len(topology.units)} units and "
                f"{topology.shufflers} shufflers, placed {placement.strategy}) did not become free within "
                f"{PATIENCE_S:.0f} s; use fewer --units, another --placement, or wait for other jobs to end"
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


def _check_room(units: int, shufflers: int) -> None:
    resources = ray.cluster_resources()  # type: ignore[no-untyped-call]
    cpus = int(resources.get("CPU", 0))
    needed = units + shufflers
    if needed > cpus:
        fewer = cpus - shufflers
        advice = f"use --units {fewer} or fewer" if fewer >= 1 else "use a cluster with more CPUs"
        raise NoRoom(
            f"the plan needs {needed} CPUs ({units} units and {shufflers} shufflers) but the cluster has {cpus}; "
            f"{advice}, or add nodes"
        )


def _check_pins(pins: Mapping[str, str], known: set[str]) -> None:
    known_nodes = ray.nodes()  # type: ignore[no-untyped-call]
    nodes = {node["NodeManagerAddress"] for node in known_nodes if node["Alive"]}
    for name, node in pins.items():
        if name not in known:
            raise DeployError(f"cannot pin '{name}': no process or operator of the plan is called that")
        if node not in nodes:
            raise DeployError(f"cannot pin '{name}' to '{node}': the cluster's nodes are {', '.join(sorted(nodes))}")
