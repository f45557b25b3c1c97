"""The processes of a network plan on Ray: started receivers first, pinned to their nodes, stopped together.

After a loss, processes that live begin anew with another setup: only the lost ones have to be started.
"""

from __future__ import annotations

from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError

from actors.columnar.jit import is_interpreted
from actors.emulation import Emulation
from actors.group import Limits
from cluster.checkpoint.store import Manifest
from cluster.network.options import NetworkRayOptions
from cluster.network.ray_actors import HostActor, ProcessSetup, SourceActor
from shuffler.exchange.link_emulation import LinkSpeed
from shuffler.exchange.ray_shell import as_actor
from shuffler.exchange.wall_clock import ClockReading, clock_offset, machine_time_s
from shuffler.routing.network import NetworkTopology
from shuffler.rows.events import EventFormat

_CLOCK_READINGS = 3
#: A process that does not say anything for this long is taken for lost.
_ANSWER_S = 20.0


class NetworkProcesses:
    """Actors by name: `<node>/source`, and `<node>/<level>` for hosts. Sources that nobody reads are left out."""

    def __init__(
        self,
        topology: NetworkTopology,
        form: EventFormat,
        attributes: tuple[str, ...],
        limits: Limits,
        options: NetworkRayOptions,
    ) -> None:
        self._topology, self._form, self._attributes = topology, form, attributes
        self._limits, self._options = limits, options
        plan = topology.plan
        sinks = {sink.name for part in range(len(plan.queries)) for sink in plan.sinks(part)}
        self._node_of = {host.name: host.node for host in topology.hosts}
        self._with_sinks = [host.name for host in topology.hosts if sinks & set(host.vertices)]
        self.actors: dict[str, Any] = {}
        #: Calls that return when a process is ready.
        self._begun: list[Any] = []

    @property
    def sources(self) -> dict[str, Any]:
        """The source of each node that has one."""
        names = self._topology.sources
        return {node: self.actors[name] for node, name in names.items() if name in self.actors}

    @property
    def hosts(self) -> list[Any]:
        """The hosts in the order of the topology: lower levels first."""
        return [self.actors[host.name] for host in self._topology.hosts]

    @property
    def sinks(self) -> list[Any]:
        """The hosts that find matches of whole queries."""
        return [self.actors[name] for name in self._with_sinks]

    def start(self, attempt: int, manifest: Manifest | None) -> None:
        """Starts everything, or begins anew with what lives; hosts have what they held at the checkpoint. Senders need
        the handles of receivers, so higher levels come first and sources last."""
        self._drop_lost()
        self._begun = []
        store, available = self._options.checkpoints, ray.cluster_resources()  # type: ignore[no-untyped-call]
        for host in sorted(self._topology.hosts, key=lambda one: -one.level):
            state = None if manifest is None or store is None else store.read_state(manifest, host.name)
            self._add(HostActor, host.name, host.node, attempt, available, state)
        for node, name in self._topology.sources.items():
            if self._topology.outgoing(name):
                self._add(SourceActor, name, node, attempt, available, None)
        ray.get(self._begun)
        ray.get([one.greet.remote() for one in self.actors.values()])
        self._set_clocks()

    def _drop_lost(self) -> None:
        """Forgets the processes that are gone, or do not answer."""
        asked = {name: actor.pid.remote() for name, actor in self.actors.items()}
        for name, call in asked.items():
            try:
                ray.get(call, timeout=_ANSWER_S)
            except (RayActorError, GetTimeoutError):
                ray.kill(self.actors.pop(name), no_restart=True)

    def close(self) -> None:
        """Ends all processes."""
        for one in self.actors.values():
            ray.kill(one, no_restart=True)
        self.actors = {}

    def _add(
        self, kind: Any, name: str, node: str, attempt: int, available: dict[str, float], state: bytes | None
    ) -> None:
        targets, options = self._topology.outgoing(name), self._options
        setup = ProcessSetup(
            name,
            node,
            self._topology,
            self._form,
            self._attributes,
            {target: self.actors[target] for target in targets},
            self._limits,
            options.policy,
            options.window,
            attempt,
            is_interpreted(),
            speeds={target: self._speed(node, target) for target in targets},
            emulation=self._emulation(node) if kind is HostActor else None,
            store=options.checkpoints,
            state=state,
        )
        if name in self.actors:
            self._begun.append(self.actors[name].reset.remote(setup))
            return
        place = f"net-{node}"
        pinned = {"resources": {place: 0.001}} if place in available else {}
        self.actors[name] = as_actor(kind).options(num_cpus=0, **pinned).remote(setup)
        self._begun.append(self.actors[name].idle.remote())

    def _set_clocks(self) -> None:
        """Hosts with sinks, whose times are compared with this process's, go by its clock."""
        for sink in self.sinks:
            readings = []
            for _ in range(_CLOCK_READINGS):
                sent_s = machine_time_s()
                readings.append(ClockReading(sent_s, ray.get(sink.clock.remote()), machine_time_s()))
            correction_s = clock_offset(readings).correction_s
            if correction_s:
                ray.get(sink.set_clock.remote(correction_s))

    def _speed(self, node: str, target: str) -> LinkSpeed:
        """Of the link between the node of a sender and that of a process which it sends to."""
        network, other = self._options.network, self._node_of[target]
        if network is None or node == other or not {node, other} <= set(network.nodes):
            return LinkSpeed()
        link = network.link(node, other)
        return LinkSpeed(link.bytes_per_s, link.latency_ms / 1_000)

    def _emulation(self, node: str) -> Emulation | None:
        capacity, network = self._options.emulate, self._options.network
        if capacity is None:
            return None
        units = network.units_at(node) if network is not None and node in network.rates else 1
        return Emulation(capacity.for_window(1_000_000).times(units))
