"""Deployment: the actors of a plan, from their creation to their end."""

from __future__ import annotations

import time
import uuid
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayTaskError

from actors.columnar.jit import is_interpreted
from actors.emulation import Emulation
from actors.group import Limits
from actors.ray_unit import UNIT_CLASSES, Sink, SinkSetup, SinkStatus, StateStore, UnitSetup, UnitStatus
from actors.sinks.outlet import OutletSpec
from cluster.deploy.beginning import Building, Restored
from cluster.deploy.kept_actors import Ensemble, kept_actors
from cluster.deploy.living import LOSSES, living
from cluster.deploy.placement import Places, alive_nodes
from cluster.deploy.spares import kinds_of
from cluster.options import RayOptions
from costmodel.capacity import Capacity
from decopa.choices import EDGES
from decopa.errors import DecoPaError, DeployError
from decopa.planning.roles import Rule
from shuffler.exchange.ray_links import PeerFailed
from shuffler.exchange.ray_shell import as_actor
from shuffler.exchange.ray_shuffler import Shuffler, ShufflerSetup, ShufflerStatus
from shuffler.routing.topology import Topology, UnitProcess
from shuffler.rows.events import EventFormat

#: How long to wait for the actor that failed to say so, once its peers have noticed.
_CAUSE_PATIENCE_S = 5.0
#: Units that a message names of a process with many.
_MOST_NAMED = 4


class ActorLost(DeployError):
    """An actor, or the node it was on, is gone; `process` is its name."""

    def __init__(self, message: str, process: str) -> None:
        super().__init__(message)
        self.process = process

    def __reduce__(self) -> tuple[Any, ...]:
        return ActorLost, (str(self), self.process)


class Deployment:
    """Context manager: inside, the actors run; afterwards none of them is left, nor their places, unless a session
    keeps them for the next run."""

    def __init__(
        self,
        topology: Topology,
        form: EventFormat,
        limits: Limits,
        options: RayOptions,
        *,
        attempt: int = 0,
        store: StateStore | None = None,
        restored: Restored | None = None,
        outlet: OutletSpec | None = None,
    ) -> None:
        self._outlet = outlet
        self.topology, self._form, self._limits, self._options = topology, form, limits, options
        self._attempt, self._store, self._restored = attempt, store, restored or Restored({}, {})
        self._building = Building()
        self._places: Places | None = None
        self._namespace = f"decopa-{uuid.uuid4().hex[:12]}"
        self.sinks: dict[str, Any] = {}
        self.units: dict[str, Any] = {}
        self.shufflers: dict[str, Any] = {}
        self._watches: dict[Any, str] = {}
        self._kept: frozenset[str] = frozenset()
        #: Those of the actors that can become any other, by name; others are of a class that the dashboard shows.
        self._spares: dict[str, Any] = {}
        self._recycles = False
        self._created_at = 0.0

    def __enter__(self) -> Deployment:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if error and error[0] is None:
            self.retire()
        else:
            self.stop()

    @property
    def form(self) -> EventFormat:
        return self._form

    @property
    def actors(self) -> dict[str, Any]:
        return {**self.sinks, **self.units, **self.shufflers}

    def _start(self) -> None:
        keeping = kept_actors()
        kept = None if keeping is None else keeping.take(self._shape)
        if kept is not None:
            self._places, self._attempt = kept.places, kept.attempt + 1
            self.sinks, self.units, self.shufflers = dict(kept.sinks), dict(kept.units), dict(kept.shufflers)
            self._renew(living(self.actors))
            return
        self._places = Places(self.topology, self._options.placement, self._options.wait_for_nodes_s)
        if keeping is not None:
            self._spares = living(keeping.spares.take(self.topology))
            # Where nobody waits for the return of this very plan, processes that it starts are for the next one, too.
            self._recycles = keeping.spares.are_wanted and self._shape is None
        self._renew(dict(self._spares))

    @property
    def _shape(self) -> Hashable:
        """Equal where another run can have the same actors; None where no other can, because attempts are counted or
        places depend on the plan."""
        placement = self._options.placement
        if self._store is not None or placement.strategy == EDGES:
            return None
        topology = self.topology
        units = tuple((process.name, self._rule_of(process)) for process in topology.units)
        pins = tuple(sorted((placement.pins or {}).items()))
        return topology.sink_names, units, topology.shuffler_names, placement.strategy, pins

    def _hand_over(self) -> None:
        """Leaves the actors to whoever comes next in this session, if it keeps any."""
        keeping, shape = kept_actors(), self._shape
        if keeping is None or shape is None or self._places is None:
            return
        for actor in self.actors.values():
            actor.rest.remote()
        keeping.put(Ensemble(shape, self._places, self.sinks, self.units, self.shufflers, self._attempt))
        self.sinks, self.units, self.shufflers, self._places = {}, {}, {}, None

    def renew(self, attempt: int, restored: Restored | None) -> bool:
        """Another attempt: actors that live begin anew, those that are gone are replaced. False if nothing is done
        because places are gone, too.

        Most of a recovery would else be the start of processes.
        """
        assert self._places is not None
        if not self._places.intact:
            return False
        self._watches = {}
        self._attempt, self._restored, self._building = attempt, restored or Restored({}, {}), Building()
        self._renew(living(self.actors))
        return True

    def build(self, building: Building) -> None:
        """Actors that are started after this begin like that."""
        self._building = building

    def begin_with(self, restored: Restored) -> None:
        """The actors, which are up, forget what they did and begin with what they or others held."""
        if not self.renew(self._attempt, restored):
            raise DeployError("a place of the plan was lost")

    def _renew(self, kept: Mapping[str, Any]) -> None:
        """Actors for this attempt: those that live are reset, the others are made."""
        assert self._places is not None
        topology, options = self.topology, self._options
        self._created_at = time.time()
        resets: dict[Any, str] = {}
        kinds = kinds_of(topology) if self._recycles else {}

        def actor(name: str, kind: Any, setup: Any, settings: Mapping[str, Any]) -> Any:
            if name in kept:
                resets[kept[name].reset.remote(setup)] = name
                return kept[name]
            # A name is free again only some time after its actor has died, so that each attempt has its own.
            named = {"name": name, "namespace": f"{self._namespace}-{self._attempt}"}
            if name in kinds:  # outside of the places, which go with the plan
                self._spares[name] = as_actor(kinds[name]).options(num_cpus=0, **named).remote(setup)
                return self._spares[name]
            return kind.options(**settings, **named).remote(setup)

        for name in topology.sink_names:
            sink = SinkSetup(name, topology, self._form, self._limits, self._attempt, options.metrics, self._outlet)
            self.sinks[name] = actor(name, as_actor(Sink), sink, self._places.sink_options(name))
        # Receivers first, since senders are given their handles.
        for process in topology.receivers_first():
            name = process.name
            unit = self._unit_setup(process)
            self.units[name] = actor(
                name, as_actor(UNIT_CLASSES[self._rule_of(process)]), unit, self._places.options(name)
            )
        for number, name in enumerate(topology.shuffler_names):
            shuffler = ShufflerSetup(
                number,
                topology,
                self._form,
                self._handles(name),
                tuple(self.sinks.values()),
                options.replay,
                options.batch_size,
                options.policy,
                options.window,
                self._attempt,
                options.metrics,
                self._restored.shufflers.get(name),
                self._building.silent,
            )
            self.shufflers[name] = actor(name, as_actor(Shuffler), shuffler, self._places.options(name))
        for call, name in resets.items():  # before anything else is asked, or it would be told of the attempt before
            self._check(call, name)
        self._kept = frozenset(kept)
        self._watches = {actor.watch.remote(): name for name, actor in self.actors.items()}

    def _unit_setup(self, process: UnitProcess) -> UnitSetup:
        options = self._options
        capacity = self._emulated_capacity(process.name)
        return UnitSetup(
            process.name,
            self.title(process),
            self.topology,
            self._form,
            self._handles(process.name),
            self._limits,
            options.policy,
            options.window,
            None if capacity is None else Emulation(capacity.for_window(1_000_000)),
            is_interpreted(),
            self._attempt,
            options.metrics,
            None if self._building.silent else self._store,
            self._restored.units.get(process.name),
            self._outlet,
            self._building.absorbing,
        )

    def _emulated_capacity(self, name: str) -> Capacity | None:
        emulate = self._options.emulate
        return emulate.get(name, emulate.get(""))

    @property
    def emulated(self) -> list[str]:
        """The processes that pretend to have a declared capacity."""
        return [name for name in self.units if self._emulated_capacity(name) is not None]

    def _rule_of(self, process: UnitProcess) -> Rule | None:
        """The rule of the one operator in a process; None if it has several."""
        if len(process.units) > 1:
            return None
        plan = self.topology.plan.parts[process.units[0].part]
        return plan.rule(plan.operator(process.units[0].operator))

    def title(self, process: UnitProcess) -> str:
        """What a process is called in messages."""
        shown = []
        for part, _, operator, number in process.units[:_MOST_NAMED]:
            plan = self.topology.plan.parts[part]
            shown.append(f"unit {number} of operator {plan.text(plan.operator(operator))}")
        more = len(process.units) - len(shown)
        return ", ".join(shown) + (f" and {more:,} more units" if more else "")

    def _handles(self, name: str) -> dict[str, Any]:
        return {target: self.sinks.get(target) or self.units[target] for target in self.topology.outgoing(name)}

    # ------------------------------------------------------------- while it runs

    def wait_for(self, call: Any, timeout_s: float | None = None) -> bool:
        """Waits for a call to an actor, or for `timeout_s`; says whether it is done. Raises if any actor fails."""
        return self.first_of([call], timeout_s) is not None

    def first_of(self, calls: Sequence[Any], timeout_s: float | None = None) -> Any | None:
        """The first of some calls to actors that is done; None if none is within `timeout_s`. Raises if any actor
        fails. May be called from several threads."""
        while True:
            ready, _ = ray.wait([*calls, *list(self._watches)], num_returns=1, timeout=timeout_s, fetch_local=False)
            if not ready or ready[0] in calls:
                return ready[0] if ready else None
            name = self._watches.pop(ready[0], None)
            if name is not None:  # else another thread has seen it first
                self._check(ready[0], name)  # that actor has ended as it should, or this raises

    def result(self, call: Any, name: str) -> Any:
        """What a call returned; a failure is told by its cause."""
        return self._check(call, name)

    def _check(self, call: Any, name: str) -> Any:
        try:
            return ray.get(call)
        except (RayTaskError, *LOSSES) as err:
            raise self._cause(err, name) from None

    def _cause(self, error: Exception, name: str) -> DecoPaError:
        """The failure behind an error: where an actor failed because its peer did, the peer's."""
        found = self._failure(error, name)
        if not isinstance(found, PeerFailed):
            return found
        waiting = list(self._watches)
        while waiting:
            ready, waiting = ray.wait(waiting, num_returns=1, timeout=_CAUSE_PATIENCE_S)
            if not ready:
                break
            try:
                ray.get(ready[0])
            except (RayTaskError, *LOSSES) as err:
                other = self._failure(err, self._watches[ready[0]])
                if not isinstance(other, PeerFailed):
                    return other
        return found

    def _failure(self, error: Exception, name: str) -> DecoPaError:
        if isinstance(error, RayTaskError):
            cause = error.cause
            return cause if isinstance(cause, DecoPaError) else DeployError(f"{name} failed: {cause}")
        process = self.topology.process_of.get(name)
        title = name if process is None else f"{self.title(process)} ({name})"
        return ActorLost(
            f"{title} died: {_first_line(error)}; the run was stopped and nothing was written: run it again, with "
            "--checkpoint to survive this; if memory was short use more units or a smaller --max-state-mb",
            name,
        )

    def senders_first(self) -> list[str]:
        """The units' processes, each after all that send to it."""
        return [process.name for process in reversed(self.topology.receivers_first())]

    def process_start_s(self) -> float:
        """How long it took until the last process of this attempt was there, with all that it imports."""
        calls = {actor.born.remote(): name for name, actor in self.actors.items() if name not in self._kept}
        born = [self._check(call, name) for call, name in calls.items()]
        return max(0.0, max(born, default=self._created_at) - self._created_at)

    def statuses(self) -> list[UnitStatus]:
        """What every unit's process did so far."""
        return self._ask(self.units, "status")

    def sink_statuses(self) -> list[SinkStatus]:
        return self._ask(self.sinks, "status")

    def shuffler_statuses(self) -> list[ShufflerStatus]:
        return self._ask(self.shufflers, "status")

    def node_ids(self) -> frozenset[str]:
        """The nodes that actors of this run are on."""
        return frozenset(self._ask(self.actors, "node_id"))

    def homes(self) -> dict[str, str]:
        """The addresses of the nodes that actors of this run are on, by their names."""
        addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in alive_nodes()}
        found = zip(self.actors, self._ask(self.actors, "node_id"), strict=True)
        return {name: addresses[node] for name, node in found if node in addresses}

    def _ask(self, actors: Mapping[str, Any], method: str) -> list[Any]:
        """What each actor answers; one that is gone is told as such."""
        calls = {getattr(actor, method).remote(): name for name, actor in actors.items()}
        return [self._check(call, name) for call, name in calls.items()]

    def retire(self) -> None:
        """Nobody needs this plan any more, and nothing is under way in its actors: they end, or are left to the next
        plan or run that has the same, if the session keeps any."""
        self._hand_over()
        self._give_back()
        self.stop()

    def _give_back(self) -> None:
        """Leaves actors that can become any other to the next plan, whichever that is."""
        keeping, mine = kept_actors(), self.actors
        spares = {name: actor for name, actor in self._spares.items() if mine.get(name) is actor}
        if keeping is None or not spares:
            return
        for actors in (self.sinks, self.units, self.shufflers):
            for name in spares.keys() & actors.keys():
                del actors[name]
        self._watches = {}
        keeping.spares.give_back(self.topology, spares)

    def stop(self) -> None:
        for actor in self.actors.values():
            ray.kill(actor, no_restart=True)
        self.sinks, self.units, self.shufflers, self._watches = {}, {}, {}, {}
        if self._places is not None:
            self._places.release()
            self._places = None


def _first_line(error: Exception) -> str:
    if isinstance(error, GetTimeoutError):
        return "it did not answer"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
