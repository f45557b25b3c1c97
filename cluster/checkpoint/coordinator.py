"""Coordinator: makes checkpoints of a run, and publishes its matches with them.

A checkpoint begins with a barrier at every shuffler and is complete when every unit has written what it held at the
cut, every shuffler has told where it was, and every sink has handed over the matches before the cut. Then, in this
order: matches are staged, the manifest is written (from here on the checkpoint counts), matches are published. Events
flow all the time.

A checkpoint that cannot be written, because the disk is full, is given up: its matches are published with the next one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import ray

from actors.state.codec import ShufflerState, encode_shuffler
from cluster.checkpoint.output import MatchOutput
from cluster.checkpoint.store import CheckpointStore, Manifest, NotWritten, StoredState
from cluster.deployment import Deployment
from cluster.session import StreamPlace
from decopa.errors import CheckpointError, DeployError, OutputError

_LOG = logging.getLogger("decopa")
#: A checkpoint that could not be written is tried again after the usual interval, then after twice that, and so on.
_LONGEST_WAIT_S = 10.0

#: The name under which a checkpoint has the position of a live source.
SOURCE = "source"

#: Makes one table of the matches of all parts of a plan.
Merge = Callable[[Sequence[pa.Table]], pa.Table]


class NodeLeaving(DeployError):
    """A node with actors of the run is about to leave; everything up to now is in a checkpoint."""


@dataclass(frozen=True)
class Published:
    """What has been published up to a checkpoint."""

    number: int = 0
    parts: tuple[str, ...] = ()
    matches: int = 0


@dataclass
class _Pending:
    number: int
    place: StreamPlace
    calls: dict[Any, str]


class Coordinator:
    def __init__(
        self,
        deployment: Deployment,
        store: CheckpointStore,
        output: MatchOutput,
        *,
        merge: Merge,
        plan: str,
        attempt: int,
        published: Published,
        every_s: float,
        keep: int,
        retries: int,
        first: int,
        leaving: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._deployment, self._store, self._output, self._merge = deployment, store, output, merge
        self._plan, self._attempt, self._every_s, self._keep, self._retries = plan, attempt, every_s, keep, retries
        self.published = published
        #: The number of the next checkpoint; a number is never used twice, even if its checkpoint was given up.
        self.next = first
        #: Matches of checkpoints that were given up, a table for each sink.
        self._unpublished: list[pa.Table] | None = None
        self._failures = 0
        #: What kept checkpoints from being written.
        self.given_up: list[str] = []
        self._begun_at = time.monotonic()
        self._pending: _Pending | None = None
        #: The place of the last complete checkpoint; another one there would hold the same.
        self._settled_at: StreamPlace | None = None
        #: How long each checkpoint took, from its barriers to its publication.
        self.durations_s: list[float] = []
        #: When a checkpoint was last completed.
        self.progressed_s = 0.0
        self._leaving = leaving
        #: The checkpoint after which the run moves away from a node, and that node.
        self._last: tuple[int, str] | None = None

    def step(self, place: StreamPlace) -> None:
        """Called now and then with the place in the stream: begins a checkpoint that is due, ends one that is done.

        If a node is about to leave, a checkpoint is made at once; when it is complete, NodeLeaving is raised.
        """
        if self._pending is not None:
            waiting = list(self._pending.calls)
            ready, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0, fetch_local=False)
            if len(ready) == len(waiting):
                self._complete()
        elif (node := self._leaving()) is not None:
            self._last = self.next, node
            self._begin(place)
        elif time.monotonic() - self._begun_at >= self._wait_s and not place.is_at(self._settled_at):
            self._begin(place)

    def checkpoint(self, place: StreamPlace) -> None:
        """Makes a checkpoint here and returns when it is complete; one that is under way is ended first."""
        self.wait_for_pending()
        self._begin(place)
        self.wait_for_pending()

    @property
    def _wait_s(self) -> float:
        return max(self._every_s, min(_LONGEST_WAIT_S, self._every_s * float(2**self._failures)))

    def _begin(self, place: StreamPlace) -> None:
        self._begun_at = time.monotonic()
        number, deployment = self.next, self._deployment
        self.next += 1
        calls = {shuffler.barrier.remote(number): name for name, shuffler in deployment.shufflers.items()}
        calls |= {unit.stored.remote(number): name for name, unit in deployment.units.items()}
        calls |= {sink.matches_before.remote(number): name for name, sink in deployment.sinks.items()}
        self._pending = _Pending(number, place, calls)

    def wait_for_pending(self) -> None:
        """Ends the checkpoint that is under way, if there is one."""
        if self._pending is not None:
            for call in list(self._pending.calls):
                while not self._deployment.wait_for(call, 0.5):
                    pass
            self._complete()

    def _complete(self) -> None:
        assert self._pending is not None
        pending, self._pending = self._pending, None
        results: dict[str, Any] = {}
        failure: NotWritten | None = None
        for call, name in pending.calls.items():
            try:
                results[name] = self._deployment.result(call, name)
            except NotWritten as err:
                failure = err
        topology = self._deployment.topology
        tables = self._with_unpublished(topology.by_part(results))
        try:
            if failure is not None:
                raise failure
            states: dict[str, StoredState] = {name: results[name] for name in self._deployment.units}
            shufflers = zip(topology.shuffler_names, topology.shuffler_keys, strict=True)
            for number, (name, key) in enumerate(shufflers):
                payload = encode_shuffler(topology.routing, ShufflerState(number, results[name]), topology.titles)
                states[key] = self._store.write_state(pending.number, key, payload, self._attempt)
            position = pending.place.position
            if position is not None:
                states[SOURCE] = self._store.write_state(pending.number, SOURCE, position.encode(), self._attempt)
            part = self._commit(pending.number, pending.place, states, tables, finished=False)
        except (NotWritten, OutputError) as err:
            self._give_up(pending.number, tables, err)
        else:
            # A live stream may pause for long: then one checkpoint is enough.
            self._settled_at = pending.place
            self._publish(part)
            self.progressed_s = time.monotonic()
            self.durations_s.append(self.progressed_s - self._begun_at)
            if self._last is not None and self._last[0] == pending.number:
                raise NodeLeaving(self._last[1])

    def finish(self, place: StreamPlace, last: Sequence[pa.Table]) -> None:
        """The last matches, at the end of the stream."""
        while True:
            tables = self._with_unpublished(last)
            try:
                part = self._commit(self.next, place, {}, tables, finished=True)
                break
            except (NotWritten, OutputError) as err:
                self._give_up(self.next, tables, err)
                self.next += 1
                last = [table.slice(0, 0) for table in last]
                time.sleep(self._wait_s)
        self._publish(part)
        self._output.finish()

    def _with_unpublished(self, tables: Sequence[pa.Table]) -> list[pa.Table]:
        if self._unpublished is None:
            return list(tables)
        both = zip(self._unpublished, tables, strict=True)
        return [pa.concat_tables(two).unify_dictionaries() for two in both]

    def _give_up(self, number: int, tables: list[pa.Table], failure: CheckpointError | OutputError) -> None:
        """This checkpoint will not be; a few in a row end the run, since memory would not last for ever."""
        self._store.check_attempt(self._attempt)  # or the folder that is removed could be another driver's
        self._unpublished = tables
        self.given_up.append(f"checkpoint {number}: {failure}")
        _LOG.warning("checkpoint %d could not be written, the run goes on without it: %s", number, failure)
        # Only if no manifest can be there any more may its matches go.
        if self._store.discard(number):
            self._output.unstage(number)
        self._failures += 1
        if self._failures > self._retries:
            raise CheckpointError(
                f"{failure}; {self._failures} checkpoints in a row could not be written. Everything up to checkpoint "
                f"{self.published.number} is safe: go on with `decopa resume {self._store.location}`"
            ) from failure

    def _commit(
        self,
        number: int,
        place: StreamPlace,
        states: Mapping[str, StoredState],
        tables: Sequence[pa.Table],
        *,
        finished: bool,
    ) -> str | None:
        """Stages the matches and completes the checkpoint; returns the name of the part that is to be published."""
        self._store.check_attempt(self._attempt)  # who was taken for dead must not touch what others have staged
        matches = self._merge(tables)
        part = self._output.stage(number, matches)
        parts = self.published.parts if part is None else (*self.published.parts, part)
        total = self.published.matches + matches.num_rows
        shufflers = self._deployment.topology.shufflers
        self._store.commit(
            Manifest(
                number, self._attempt, self._plan, shufflers, place.events, place.blocks, states, parts, total, finished
            )
        )
        self.published = Published(number, parts, total)
        return part

    def _publish(self, part: str | None) -> None:
        self._unpublished, self._failures = None, 0
        if part is not None:
            self._output.publish([part])
        self._store.prune(self._keep)
