"""A run that survives: its checkpoints are where it goes on when an actor, a node or the driver is lost.

What is lost takes the whole graph back to the last complete checkpoint: all actors begin anew with what they held then,
the source plays again from the cut, and messages of the attempt before are told apart by its number. Actors that live
keep their processes, since starting those takes most of the time.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from actors.group import Limits
from actors.sinks.outlet import check_rows_only
from cluster.checkpoint.coordinator import SOURCE, Coordinator, Merge, NodeLeaving, Published, Side
from cluster.checkpoint.notes import NoNotes, Notes
from cluster.checkpoint.output import MatchOutput
from cluster.checkpoint.restoring import can_follow, restored, snapshot_of
from cluster.checkpoint.store import CheckpointStore, Manifest
from cluster.deploy.beginning import Restored
from cluster.deploy.deployment import ActorLost, Deployment
from cluster.deploy.draining import DrainWatch
from cluster.deploy.kept_actors import keeping_replaced_actors
from cluster.deploy.placement import NoRoom, without_lost_pins
from cluster.feeding import BlockSource
from cluster.options import Checkpoints, RayOptions
from cluster.ray_runtime import RayRun, run_report
from cluster.ray_session import is_started_here
from cluster.session import Progress, Recording, Session
from decopa.errors import CheckpointError, DeployError
from decopa.planning.plan import Plan
from decopa.planning.validate import check_structure
from decopa.query.binding import bind
from shuffler.exchange.codecs import needed_attributes
from shuffler.exchange.ray_links import PeerFailed
from shuffler.routing.topology import Topology

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 10.0
#: How long a run that has lost a node waits for places, unless it was told: launchers start lost nodes again.
REJOIN_PATIENCE_S = 300.0


@dataclass(frozen=True)
class Recovery:
    """One time that the run was taken up again: what was lost, how long events stood still, how much of this was the
    start of processes, and how much passed before the loss was noticed."""

    lost: str
    checkpoint: int
    seconds: float
    process_start_s: float = 0.0
    notice_s: float = 0.0


@dataclass
class CheckpointedRun:
    """What a run did; `run` has no matches, they are in the parts."""

    run: RayRun | None
    published: Published
    recoveries: list[Recovery] = field(default_factory=list)
    checkpoint_s: list[float] = field(default_factory=list)
    #: Checkpoints that could not be written, and why; their matches were published with later ones.
    given_up: list[str] = field(default_factory=list)
    #: Whether it was stopped before the end of the stream; it can go on.
    stopped: bool = False
    #: The changes of its plan that it has decided on itself, see `cluster.change.switches`.
    switches: tuple[Any, ...] = ()


@dataclass(frozen=True)
class _Loss:
    """What was lost, when it was last known to work, and when the loss was noticed."""

    process: str
    at_s: float
    noticed_s: float


class Changing(Protocol):
    """Changes the plan of a run, see `cluster.change.deployed.plan_changes`."""

    #: Whether the queries of the plan stay what they are.
    same_queries: bool

    @property
    def notes(self) -> Notes:
        """What it keeps in the checkpoints of the plan that an attempt begins with."""
        ...

    def begin_from(self, manifest: Manifest | None, plan: Plan) -> Plan:
        """An attempt is about to begin at this checkpoint, or at the beginning; returns its plan, `plan` as a rule."""
        ...

    def follow(self, session: Session, cutting: Coordinator, deploy: Callable[[Plan], Deployment]) -> None:
        """Begins with an attempt."""
        ...

    def leave(self) -> None:
        """The attempt is over; what was under way is given up."""
        ...

    def close(self) -> None:
        """The run is over."""
        ...


class CheckpointedRuntime:
    """As `RayRuntime`, with checkpoints. `source` must give the same events every time that it is read; `recovered` is
    told whenever the run has been taken up again. Setting `stop` ends the run with a checkpoint, to go on later. With
    `changes` the plan may become another while it runs, and if that may have other queries, `attributes` are those that
    any of them may need."""

    def __init__(
        self,
        plan: Plan,
        source: BlockSource,
        *,
        merge: Merge,
        output: MatchOutput,
        checkpoints: Checkpoints,
        limits: Limits,
        options: RayOptions,
        recovered: Callable[[Recovery], None] | None = None,
        stop: threading.Event | None = None,
        changes: Changing | None = None,
        attributes: Collection[str] | None = None,
    ) -> None:
        check_structure(plan)
        check_rows_only(plan, "a run with checkpoints")
        if not source.replayable:
            raise CheckpointError(
                "this stream cannot be read again, so a run on it cannot have checkpoints; use a trace that is stored, "
                "a folder that is followed, Kafka or NATS, or leave out the checkpoints"
            )
        self._plan, self._source, self._merge, self._output = plan, source, merge, output
        self._checkpoints, self._limits, self._options, self._recovered = checkpoints, limits, options, recovered
        self._stop_wanted, self._changes = stop, changes
        self._store = CheckpointStore(checkpoints.location)
        self._deployment: Deployment | None = None
        self._next = 0
        #: When the attempt before last got something done; None before the first one did.
        self._progressed_s: float | None = None
        self._recorder: Recording | None = None
        self.topology = self._topology_of(plan)
        schema = source.format.schema
        needed = needed_attributes([bind(part.query, schema) for part in plan.parts], schema)
        self._attributes = needed if attributes is None else attributes

    def _topology_of(self, plan: Plan) -> Topology:
        return Topology(plan, self._options.shufflers, sinks=self._options.sinks)

    def run(self, progress: Progress | None = None, recorder: Recording | None = None) -> CheckpointedRun:
        """Runs to the end of the stream, from the last complete checkpoint if there is one."""
        self._recorder = recorder
        try:
            with failures_told_once(), keeping_replaced_actors(alone=is_started_here()):
                return self._run(progress)
        finally:
            if self._changes is not None:
                self._changes.close()

    def _run(self, progress: Progress | None) -> CheckpointedRun:
        result = CheckpointedRun(None, Published())
        began, failures = time.monotonic(), 0
        lost: _Loss | None = None
        try:
            while True:
                manifest = self._store.latest()
                if manifest is not None and manifest.finished:
                    self._output.prepare(manifest.parts, after=manifest.number)
                    self._output.finish()
                    result.published = Published(manifest.number, manifest.parts, manifest.matches)
                    return result
                if lost is None and manifest is not None:
                    lost = _Loss("driver", began, began)
                before = 0 if manifest is None else manifest.number
                try:
                    self._attempt(manifest, result, progress, lost)
                    return result
                except NodeLeaving as err:
                    now = time.monotonic()
                    lost, failures = _Loss(str(err), now, now), 0
                    self._stop()  # places on that node are of no use any more
                except (ActorLost, PeerFailed, NoRoom) as err:
                    if isinstance(err, NoRoom) and lost is None:
                        raise  # there never was any
                    process = err.process if isinstance(err, ActorLost) else str(err)
                    now = time.monotonic()
                    lost = _Loss(process, min(self._progressed_s or now, now), now)
                    failures = 1 if result.published.number > before else failures + 1
                    if failures > self._checkpoints.retries:
                        raise DeployError(
                            f"{err}; taken up {failures - 1} times without getting further. Everything up to "
                            f"checkpoint {result.published.number} is safe: go on with `decopa resume "
                            f"{self._store.location}`"
                        ) from err
                    if failures > 1:
                        self._stop()  # whatever keeps failing may lie in what was kept
                    time.sleep(min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** (failures - 1)))
        finally:
            self._stop()

    def _attempt(
        self, manifest: Manifest | None, result: CheckpointedRun, progress: Progress | None, lost: _Loss | None
    ) -> None:
        attempt = self._store.begin_attempt()
        published = Published() if manifest is None else Published(manifest.number, manifest.parts, manifest.matches)
        self._output.prepare(published.parts, after=None if manifest is None else manifest.number)
        self._store.discard_after(published.number)
        result.published = published
        saved = None
        if manifest is not None and SOURCE in manifest.states:
            saved = self._store.read_state(manifest, SOURCE)
        found = None
        if self._changes is not None:
            self._plan = self._changes.begin_from(manifest, self._plan)
            self.topology = self._topology_of(self._plan)
        if manifest is not None:
            saved_plan = Plan.from_json(manifest.plan)
            if saved_plan.queries == self._plan.queries and not can_follow(saved_plan, self._plan):
                # The checkpoint of the plan that had taken over is damaged, so its predecessor goes on.
                self._plan, self.topology = saved_plan, self._topology_of(saved_plan)
            found = restored(snapshot_of(self._store, manifest), self.topology, self._source.format)
        deployment = self._deploy(attempt, found, elsewhere=lost is not None)
        session = Session(deployment, progress)
        session.go_on_from(*((0, 0) if manifest is None else (manifest.events, manifest.blocks)))
        session.await_actors()
        self._next = max(self._next, published.number + 1)
        coordinator = Coordinator(
            Side(
                deployment,
                self._plan.to_json(),
                DrainWatch(deployment.node_ids()).leaving,
                NoNotes() if self._changes is None else self._changes.notes,
            ),
            self._store,
            self._output,
            merge=self._merge,
            attempt=attempt,
            published=published,
            every_s=self._checkpoints.every_s,
            keep=self._checkpoints.keep,
            retries=self._checkpoints.retries,
            first=self._next,
            taken_up=lost is not None,
            same_queries=self._changes is None or self._changes.same_queries,
        )
        session.coordinator, session.recorder = coordinator, self._recorder
        if self._changes is not None:
            self._changes.follow(session, coordinator, lambda plan: self._new_deployment(plan, attempt))
        if lost is not None:
            starting_s = deployment.process_start_s()
            stood_still_s = time.monotonic() - lost.at_s
            notice_s = lost.noticed_s - lost.at_s
            result.recoveries.append(Recovery(lost.process, published.number, stood_still_s, starting_s, notice_s))
            if self._recovered is not None:
                self._recovered(result.recoveries[-1])
        started = time.perf_counter()
        try:
            for block in session.blocks_of(self._source, self._attributes, whole_groups=False, saved=saved):
                if block is None:
                    session.pause()
                else:
                    session.feed(block)
                if self._stop_wanted is not None and self._stop_wanted.is_set():
                    session.await_shufflers()
                    coordinator.checkpoint(session.place)
                    result.stopped = True
                    break
            session.await_shufflers()
            coordinator.wait_for_pending()
            session.coordinator = None
            if not result.stopped:
                session.finish()
                coordinator.finish(session.place, session.take_by_key())
        finally:
            if self._changes is not None:
                self._changes.leave()
                self._deployment = session.deployment
                self._plan = Plan.from_json(coordinator.committed_plan)
                self.topology = self._topology_of(self._plan)
            self._progressed_s = max(session.progressed_s, coordinator.progressed_s)
            if coordinator.unanswered_since_s is not None:  # shufflers take events for a while when units are gone
                self._progressed_s = min(self._progressed_s, coordinator.unanswered_since_s)
            self._next = coordinator.next
            result.published = coordinator.published
            result.checkpoint_s += coordinator.durations_s
            result.given_up += coordinator.given_up
        result.run = run_report(session.deployment, session, time.perf_counter() - started)

    def _deploy(self, attempt: int, restored: Restored | None, *, elsewhere: bool) -> Deployment:
        """The actors of an attempt: those of the one before, as far as they live. If their places went with a node,
        they move `elsewhere`, or wait until it is back or another one joins."""
        running = self._deployment
        if running is not None and running.topology == self.topology and running.renew(attempt, restored):
            return running
        self._stop()
        options = self._options
        if elsewhere:
            patience_s = REJOIN_PATIENCE_S if options.wait_for_nodes_s is None else options.wait_for_nodes_s
            options = replace(options, wait_for_nodes_s=patience_s, placement=without_lost_pins(options.placement))
        self._deployment = self._new_deployment(self._plan, attempt, restored, options)
        return self._deployment.__enter__()

    def _new_deployment(
        self, plan: Plan, attempt: int, restored: Restored | None = None, options: RayOptions | None = None
    ) -> Deployment:
        return Deployment(
            self._topology_of(plan),
            self._source.format,
            self._limits,
            options or self._options,
            attempt=attempt,
            store=self._store,
            restored=restored,
        )

    def _stop(self) -> None:
        if self._deployment is not None:
            self._deployment.stop()
            self._deployment = None


@contextlib.contextmanager
def failures_told_once() -> Iterator[None]:
    """What failed is told by its cause; Ray would print the failure of every call that was under way as well."""
    name = "RAY_IGNORE_UNHANDLED_ERRORS"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
