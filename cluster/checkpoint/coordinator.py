"""Coordinator: makes checkpoints of a run, and publishes its matches with them.

A checkpoint begins with a barrier at every shuffler and is complete when every unit has written what it held at the
cut, every shuffler has told where it was, and every sink has handed over the matches before the cut. Then, in this
order: matches are staged, the manifest is written (from here on the checkpoint counts), matches are published. Events
flow all the time.

A checkpoint that cannot be written, because the disk is full, is given up: its matches are published with the next one.

Where another plan takes over, two checkpoints are made at one place in the stream: the last one of the old plan, with
its matches, and the first one of the new plan, with what its units hold and without the matches that repeat those of
the old plan. The manifest of the second names the new plan. Without it a run that is taken up continues with the old
plan.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import ray

from actors.state.codec import ShufflerState, encode_shuffler
from cluster.checkpoint.notes import NoNotes, Notes
from cluster.checkpoint.output import MatchOutput
from cluster.checkpoint.restoring import Snapshot, snapshot_of
from cluster.checkpoint.store import CheckpointStore, Manifest, NotWritten, StoredState
from cluster.deploy.deployment import Deployment
from cluster.matches import joined
from cluster.session import StreamPlace
from decopa.errors import CheckpointError, DecoPaError, DeployError, OutputError
from decopa.planning.history import uncertain_windows
from decopa.planning.plan import Plan
from shuffler.routing.table import NOTHING_YET

_LOG = logging.getLogger("decopa")
#: A checkpoint that could not be written is tried again after the usual interval, then after twice that, and so on.
_LONGEST_WAIT_S = 10.0
#: The share of the usual time after which a run that was taken up again makes its first checkpoint.
_SOON = 0.25

#: The name under which a checkpoint has the position of a live source.
SOURCE = "source"

#: Makes one table of the matches of all parts of a plan, which come by their keys, in the order of the plan's parts.
Merge = Callable[[Mapping[str, pa.Table]], pa.Table]


class NodeLeaving(DeployError):
    """A node with actors of the run is about to leave; everything up to now is in a checkpoint."""


@dataclass(frozen=True)
class Published:
    """What has been published up to a checkpoint."""

    number: int = 0
    parts: tuple[str, ...] = ()
    matches: int = 0


@dataclass(frozen=True)
class Side:
    """A plan (as JSON) that runs, its actors, who knows whether a node that they are on is about to leave, what is kept
    in its checkpoints beside, and matches that it found while it was built and that its sinks have no more."""

    deployment: Deployment
    plan: str
    leaving: Callable[[], str | None] = lambda: None
    notes: Notes = field(default_factory=NoNotes)
    found: Mapping[str, pa.Table] = field(default_factory=dict)


@dataclass
class _Pending:
    number: int
    place: StreamPlace
    calls: dict[Any, str]
    side: Side
    #: What its side's notes held here.
    noted: Any
    #: The parts whose matches before it repeat those of the plan before; None if no plan has taken over here.
    muted: Collection[str] | None = None


class Coordinator:
    def __init__(
        self,
        side: Side,
        store: CheckpointStore,
        output: MatchOutput,
        *,
        merge: Merge,
        attempt: int,
        published: Published,
        every_s: float,
        keep: int,
        retries: int,
        first: int,
        taken_up: bool = False,
        same_queries: bool = True,
    ) -> None:
        """A run that was `taken_up` again makes its first checkpoint soon: matches that were found before the loss wait
        for it, and another loss before it would have the same work done once more. With `same_queries` a plan of other
        queries is refused: `merge` would not know their matches."""
        self._side, self._store, self._output, self._merge = side, store, output, merge
        self._attempt, self._every_s, self._keep, self._retries = attempt, every_s, keep, retries
        self._same_queries = same_queries
        self.published = published
        #: Whether another plan waits for a cut: no checkpoint begins until then.
        self.wanted = False
        #: Whether somebody waits for the next checkpoint, wherever the stream is.
        self.urgent = False
        #: The plan from which the run would be taken up, as JSON.
        self.committed_plan = side.plan
        #: The number of the next checkpoint; a number is never used twice, even if its checkpoint was given up.
        self.next = first
        #: Matches of checkpoints that were given up, by the keys of their parts.
        self._unpublished: dict[str, pa.Table] = {}
        self._failures = 0
        #: What kept checkpoints from being written.
        self.given_up: list[str] = []
        self._begun_at = time.monotonic() - (every_s * (1 - _SOON) if taken_up else 0.0)
        #: Begun and not complete yet, in the order of their numbers: one, or two where plans change.
        self._pending: deque[_Pending] = deque()
        #: The place of the last complete checkpoint; another one there would hold the same.
        self._settled_at: StreamPlace | None = None
        #: How long each checkpoint took, from its barriers to its publication.
        self.durations_s: list[float] = []
        #: When a checkpoint was last completed.
        self.progressed_s = 0.0
        #: The checkpoint after which the run moves away from a node, and that node.
        self._last: tuple[int, str] | None = None
        #: A checkpoint that somebody wants to read, by its number.
        self._asked: tuple[int, Future[Snapshot]] | None = None

    def step(self, place: StreamPlace) -> None:
        """Called now and then with the place in the stream: begins a checkpoint that is due, ends one that is done.

        If a node is about to leave, a checkpoint is made at once; when it is complete, NodeLeaving is raised.
        """
        if self._pending:
            waiting = list(self._pending[0].calls)
            ready, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0, fetch_local=False)
            if len(ready) == len(waiting):
                self._complete()
        elif (node := self._side.leaving()) is not None:
            self._last = self.next, node
            self._begin(place)
        elif not self.wanted and self._is_due(place):
            self._begin(place)

    def _is_due(self, place: StreamPlace) -> bool:
        if self.urgent and not self._failures:
            return True
        return time.monotonic() - self._begun_at >= self._wait_s and (self.urgent or not place.is_at(self._settled_at))

    def checkpoint(self, place: StreamPlace) -> None:
        """Makes a checkpoint here and returns when it is complete; one that is under way is ended first."""
        self.wait_for_pending()
        self._begin(place)
        self.wait_for_pending()

    @property
    def can_cut(self) -> bool:
        """Whether another plan may take over now: nothing is under way, and the last checkpoint could be written."""
        return not self._pending and not self._failures

    @property
    def unanswered_since_s(self) -> float | None:
        """When the checkpoint that is under way was begun: somebody may not have worked since then."""
        return self._begun_at if self._pending else None

    @property
    def obstacle(self) -> str | None:
        """Why no other plan can take over for the time being."""
        return f"checkpoints cannot be written ({self.given_up[-1]})" if self._failures else None

    def check(self, old: Plan, new: Plan) -> None:
        """Raises if one plan cannot follow the other in a run with checkpoints."""
        if self._same_queries and old.queries != new.queries:
            raise CheckpointError("a run with checkpoints keeps its queries; only their plan can change")
        for query in new.queries:
            if uncertain_windows(query):
                raise CheckpointError(
                    f"query {query.name} has NOT inside NOT, or NEXT and a NOT that is open at its end: plans "
                    "differ in when they report its matches, so with checkpoints its plan cannot change"
                )

    def cut(self, place: StreamPlace, watermark_us: int, new: Side) -> list[Any]:
        """From here on `new` runs, whose actors have been fed the same events; no event before the watermark follows.
        Returns the calls that are done when its sinks have passed the cut."""
        before = self._side.deployment.topology.plan
        self._begin(place, watermark_us)
        self._side = new
        calls = self._begin(place, watermark_us, muted=frozenset(before.keys)).calls
        return [call for call, name in calls.items() if name in new.deployment.sinks]

    def prepare_states(self, deployment: Deployment) -> None:
        """Units tell what they hold at every checkpoint."""

    def states(self, place: StreamPlace) -> Future[Snapshot]:
        """Makes a checkpoint here; the result is what it holds."""
        self._asked = self._begin(place).number, Future()
        return self._asked[1]

    def look(self) -> None:
        """Everything happens in `step`."""

    def is_done_with(self, deployment: Deployment) -> bool:
        """Whether nothing is wanted of these actors any more."""
        return self._side.deployment is not deployment and not any(
            pending.side.deployment is deployment for pending in self._pending
        )

    @property
    def is_settled(self) -> bool:
        """Whether the plan that took over is in a checkpoint, or its first one was given up."""
        return all(pending.muted is None for pending in self._pending)

    @property
    def _wait_s(self) -> float:
        return max(self._every_s, min(_LONGEST_WAIT_S, self._every_s * float(2**self._failures)))

    def _begin(
        self, place: StreamPlace, watermark_us: int = NOTHING_YET, *, muted: Collection[str] | None = None
    ) -> _Pending:
        self._begun_at, self.urgent = time.monotonic(), False
        number, deployment = self.next, self._side.deployment
        self.next += 1
        calls = {shuffler.barrier.remote(number, watermark_us): name for name, shuffler in deployment.shufflers.items()}
        calls |= {unit.stored.remote(number): name for name, unit in deployment.units.items()}
        calls |= {sink.matches_before.remote(number): name for name, sink in deployment.sinks.items()}
        self._pending.append(_Pending(number, place, calls, self._side, self._side.notes.taken(), muted))
        return self._pending[-1]

    def wait_for_pending(self) -> None:
        """Ends the checkpoints that are under way, if there are any."""
        while self._pending:
            for call in list(self._pending[0].calls):
                while not self._pending[0].side.deployment.wait_for(call, 0.5):
                    pass
            self._complete()

    def _complete(self) -> None:
        pending = self._pending.popleft()
        deployment = pending.side.deployment
        results: dict[str, Any] = {}
        failure: NotWritten | None = None
        for call, name in pending.calls.items():
            try:
                results[name] = deployment.result(call, name)
            except NotWritten as err:
                failure = err
        topology, muted = deployment.topology, pending.muted or ()
        found = topology.by_key({name: results[name] for name in deployment.sinks})
        if pending.muted is not None:
            found = joined(pending.side.found, found)
        tables = joined(
            self._unpublished, {key: table.slice(0, 0) if key in muted else table for key, table in found.items()}
        )
        try:
            if failure is not None:
                raise failure
            states: dict[str, StoredState] = {name: results[name] for name in deployment.units}
            shufflers = zip(topology.shuffler_names, topology.shuffler_keys, strict=True)
            for number, (name, key) in enumerate(shufflers):
                payload = encode_shuffler(topology.routing, ShufflerState(number, results[name]), topology.titles)
                states[key] = self._store.write_state(pending.number, key, payload, self._attempt)
            position = pending.place.position
            if position is not None:
                states[SOURCE] = self._store.write_state(pending.number, SOURCE, position.encode(), self._attempt)
            manifest, part = self._commit(pending, states, tables)
        except (NotWritten, OutputError) as err:
            self._give_up(pending.number, tables, err)
        else:
            # A live stream may pause for long: then one checkpoint is enough.
            self._settled_at = pending.place
            self._publish(part)
            pending.side.notes.kept(manifest.extra)
            self._answer(pending.number, manifest)
            self.progressed_s = time.monotonic()
            self.durations_s.append(self.progressed_s - self._begun_at)
            if self._last is not None and self._last[0] == pending.number:
                raise NodeLeaving(self._last[1])

    def finish(self, place: StreamPlace, last: Mapping[str, pa.Table]) -> None:
        """The last matches, at the end of the stream."""
        tables = joined(self._unpublished, last)
        while True:
            ending = _Pending(self.next, place, {}, self._side, self._side.notes.taken())
            try:
                manifest, part = self._commit(ending, {}, tables, finished=True)
                break
            except (NotWritten, OutputError) as err:
                self._give_up(self.next, tables, err)
                self.next += 1
                time.sleep(self._wait_s)
        self._publish(part)
        self._side.notes.kept(manifest.extra)
        self._output.finish()

    def _answer(self, number: int, found: Manifest | DecoPaError) -> None:
        """Tells whoever wants to read this checkpoint that it is there, or why not."""
        if self._asked is None or self._asked[0] != number:
            return
        (_, asked), self._asked = self._asked, None
        if isinstance(found, Manifest):
            asked.set_result(snapshot_of(self._store, found))
        else:
            asked.set_exception(found)

    def _give_up(self, number: int, tables: dict[str, pa.Table], failure: CheckpointError | OutputError) -> None:
        """This checkpoint will not be; a few in a row end the run, since memory would not last for ever."""
        self._store.check_attempt(self._attempt)  # or the folder that is removed could be another driver's
        self._unpublished = tables
        self.given_up.append(f"checkpoint {number}: {failure}")
        _LOG.warning("checkpoint %d could not be written, the run goes on without it: %s", number, failure)
        # Only if no manifest can be there any more may its matches go.
        if self._store.discard(number):
            self._output.unstage(number)
        self._failures += 1
        self._answer(number, failure)
        if self._failures > self._retries:
            raise CheckpointError(
                f"{failure}; {self._failures} checkpoints in a row could not be written. Everything up to checkpoint "
                f"{self.published.number} is safe: go on with `decopa resume {self._store.location}`"
            ) from failure

    def _commit(
        self,
        ending: _Pending,
        states: Mapping[str, StoredState],
        tables: Mapping[str, pa.Table],
        *,
        finished: bool = False,
    ) -> tuple[Manifest, str | None]:
        """Stages the matches and completes the checkpoint; returns it, and the name of the part to be published."""
        self._store.check_attempt(self._attempt)  # who was taken for dead must not touch what others have staged
        side, number, place = ending.side, ending.number, ending.place
        matches = self._merge(tables)
        part = self._output.stage(number, matches)
        parts = self.published.parts if part is None else (*self.published.parts, part)
        total = self.published.matches + matches.num_rows
        shufflers = side.deployment.topology.shufflers
        manifest = Manifest(
            number,
            self._attempt,
            side.plan,
            shufflers,
            place.events,
            place.blocks,
            states,
            parts,
            total,
            finished,
            side.notes.with_matches(ending.noted, matches),
        )
        self._store.commit(manifest)
        self.committed_plan = side.plan
        self.published = Published(number, parts, total)
        return manifest, part

    def _publish(self, part: str | None) -> None:
        self._unpublished, self._failures = {}, 0
        if part is not None:
            self._output.publish([part])
        self._store.prune(self._keep)
