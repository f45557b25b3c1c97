"""Successor: another plan that is built beside the running one, in a thread of its own.

It begins with the last windows of events. Parts that have the operators of the running plan, whatever their units, take
over what those hold instead: no event is worked on again for them, however long their windows are. Where a plan has
parts of both kinds, the others are built first, while these are silent. Once they are level with the running plan, both
tell what they hold at the same place in the stream, and the processes begin with all of it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from cluster.change.deployed.cutting import Telling
from cluster.change.deployed.driver_cut import DriverCut
from cluster.checkpoint.coordinator import Side
from cluster.checkpoint.restoring import Snapshot, joined, restored
from cluster.deploy.deployment import Deployment
from cluster.deploy.draining import DrainWatch
from cluster.feeding import FeedBlock
from cluster.session import Session, StreamPlace
from shuffler.routing.table import END_OF_STREAM
from shuffler.source.pacing import Replay
from shuffler.source.stored_rows import StoredRows

#: How long to wait for the thread of a successor that nobody wants any more.
_LEAVE_S = 10.0
#: How often to look whether states are there.
_LOOK_S = 0.005
#: How long the stream may wait between two blocks for a new plan that is about to be level.
_SHORT_WAIT_S = 0.01
#: Bytes of a row that the driver holds a reference to; its size is not known here. And of a place in a file.
_ROW_BYTES, _PLACE_BYTES = 64, 256


@dataclass(frozen=True, slots=True)
class FedBlock:
    """A block that was fed, with the ordinal of its first event and its number, and when (as `time.monotonic`)."""

    block: FeedBlock
    ordinal: int
    number: int
    at_s: float

    @property
    def size(self) -> int:
        content: Any = self.block.content
        if isinstance(content, StoredRows):
            return _PLACE_BYTES
        return int(content.size) if isinstance(content, pa.Buffer) else self.block.rows * _ROW_BYTES


@dataclass(frozen=True, slots=True)
class Running:
    """The plan that runs, who can have it tell what its processes hold, and the keys of the parts that take that over.
    Unless these are `all_parts`, some are built from events."""

    session: Session
    telling: Telling
    carried: frozenset[str]
    all_parts: bool


class Successor:
    """Starts the actors of a plan, feeds them with the last events as fast as they take them, then with those that the
    running plan is fed, until it is level with the running plan.

    The thread that feeds the running plan adds blocks and asks; nothing that it calls waits for an actor.
    """

    def __init__(
        self,
        deployment: Deployment,
        history: Sequence[FedBlock],
        place: StreamPlace,
        told: Callable[[str, Deployment], None],
        after: Sequence[threading.Thread] = (),
        running: Running | None = None,
    ) -> None:
        """`place` is where the running plan is, after the blocks of the history. From `running` it takes over what some
        or all parts hold. `told` hears that the actors are "starting", and that the plan is "warming" up. It
        begins `after` those who let go of the actors of plans before, whose places, or processes, it may need."""
        self._deployment, self._told, self._after, self._running = deployment, told, after, running
        self._waiting = deque(history)
        self._begins = (history[0].ordinal, history[0].number) if history else (place.events, place.blocks)
        self._states: Future[Snapshot] | None = None
        #: Whether it waits for `take_states`, and whether others should not write anything until it has read these.
        self.wants_states = self.is_reading = False
        self._session: Session | None = None
        self._side: Side | None = None
        self._changed = threading.Condition()
        self._idle = self._left = self._settled = self._abandoned = False
        #: Whether there was room for its actors.
        self.is_placed = False
        self._failure: BaseException | None = None
        self._began_s = self._nearer_s = time.monotonic()
        #: The fewest blocks that it was behind since it is up.
        self._least_waiting = 0
        #: Events that it was fed although the running plan had worked on them before it was asked for.
        self.seeded = sum(one.block.rows for one in history)
        self._thread = threading.Thread(target=self._build, name="decopa-successor", daemon=True)
        self._thread.start()

    @property
    def failure(self) -> BaseException | None:
        """Why it cannot be built."""
        return self._failure

    @property
    def is_near(self) -> bool:
        """Whether it was level before, and is a block behind at most."""
        return self._settled and len(self._waiting) < 2

    @property
    def carries(self) -> bool:
        """Whether it begins with what the running plan holds, of all parts or of some."""
        return self._running is not None

    @property
    def can_take_over(self) -> bool:
        """Whether it has all that the running plan has."""
        return not self.wants_states and self.is_level(_SHORT_WAIT_S if self.is_near else 0.0)

    @property
    def can_take_states(self) -> bool:
        """Whether it waits for `take_states` and has all that it builds itself."""
        return self.wants_states and (not self._builds_too or self.is_level(_SHORT_WAIT_S if self.is_near else 0.0))

    @property
    def _builds_too(self) -> bool:
        """Whether it builds some parts and takes over others."""
        return self._running is not None and not self._running.all_parts

    @property
    def age_s(self) -> float:
        return time.monotonic() - self._began_s

    @property
    def stuck_s(self) -> float:
        """For how long it has not come nearer to the running plan."""
        return time.monotonic() - self._nearer_s

    def add(self, fed: FedBlock) -> None:
        """The running plan was fed this block."""
        with self._changed:
            self._waiting.append(fed)
            self._idle = False
            self._changed.notify_all()

    def take_states(self) -> None:
        """It has all that the running plan holds here, between two blocks."""
        assert self._running is not None
        with self._changed:
            self.wants_states, self.is_reading, self._idle = False, True, False
            self._waiting.clear()  # these events are in what the plan holds
            self._states = self._running.telling.states(self._running.session.place)
            self._changed.notify_all()

    def is_level(self, patience_s: float = 0.0) -> bool:
        """Whether it has been fed everything that the running plan was fed, and has worked most of it off."""
        with self._changed:
            return self._changed.wait_for(lambda: self._idle or self._failure is not None, patience_s) and (
                self._failure is None
            )

    def hand_over(self) -> tuple[Session, Side]:
        """Ends the thread of one that is level; its actors run on."""
        self._leave()
        assert self._session is not None and self._side is not None
        return self._session, self._side

    def abandon(self) -> None:
        """Ends it without a trace; may take a while."""
        self._abandoned = True
        self._leave()
        if not self._thread.is_alive():  # else the thread does it, once Ray has answered
            self._deployment.stop()

    def _leave(self) -> None:
        with self._changed:
            self._left = True
            self._changed.notify_all()
        self._thread.join(_LEAVE_S)

    def _build(self) -> None:
        try:
            for leaving in self._after:
                leaving.join(_LEAVE_S)
            self._deployment.__enter__()
            self.is_placed = True
            self._told("starting", self._deployment)
            self._session = session = Session(self._deployment)
            session.watch = self._check_wanted
            session.await_actors()
            self._side = Side(
                self._deployment,
                self._deployment.topology.plan.to_json(),
                DrainWatch(self._deployment.node_ids()).leaving,
            )
            self._told("warming", self._deployment)
            if self._running is not None:
                self._carry_over(session, self._running)
            self._catch_up(session)
        except _Unwanted:
            pass
        except BaseException as err:
            with self._changed:
                self._failure = err
                self._changed.notify_all()
        if self._abandoned:
            self._deployment.stop()

    def _catch_up(self, session: Session, *, until_states: bool = False) -> None:
        """Feeds all that waits, and what comes, until nobody wants it any more, or states have been taken."""
        session.go_on_from(*self._begins)
        self._settled = False
        self._least_waiting, self._nearer_s = len(self._waiting), time.monotonic()
        while (fed := self._next(until_states=until_states)) is not None:
            if session.blocks == self._begins[1]:
                session.replay_from_here(fed.block.first_ts, Replay())
            session.feed(fed.block)
            with self._changed:
                self._waiting.popleft()
            if len(self._waiting) < self._least_waiting:
                self._least_waiting, self._nearer_s = len(self._waiting), time.monotonic()
            if not self._waiting:
                # The first time all its processes catch up; from then on the shufflers pass blocks on at once.
                if self._settled:
                    session.await_shufflers()
                else:
                    session.settle()
                    self._settled = True

    def _carry_over(self, session: Session, running: Running) -> None:
        """Has the actors, which are up, begin with what those of the running plan hold, or with what they themselves
        do, of the parts that they build."""
        running.telling.prepare_states(running.session.deployment)
        topology, form = self._deployment.topology, self._deployment.form
        with self._changed:
            self.wants_states = True
            if running.all_parts:
                self._changed.wait_for(lambda: self._left or self._states is not None)
        if not running.all_parts:
            self._catch_up(session, until_states=True)
        self._check_wanted()
        assert self._states is not None
        built = None if running.all_parts else self._held(running.carried)
        snapshot = self._awaited(self._states)
        if built is None:
            held = restored(snapshot, topology, form, counted=False)
        else:
            held = joined(snapshot, running.carried, built, topology, form)
        self.is_reading = False
        self._begins = snapshot.place.events, snapshot.place.blocks
        self._deployment.begin_with(held)
        session.await_actors()

    def _held(self, carried: frozenset[str]) -> Snapshot:
        """What its own actors hold after all that they were fed. What they found may be wanted: a rule may have begun
        by now."""
        own = DriverCut(self._deployment, same_queries=False)
        own.prepare_states(self._deployment)
        held = self._awaited(own.states(StreamPlace(*self._begins)), own.look)
        found = own.released({}, END_OF_STREAM)
        assert self._side is not None
        self._side = replace(self._side, found={key: found[key] for key in found.keys() - carried})
        return held

    def _awaited(self, states: Future[Snapshot], look: Callable[[], None] = lambda: None) -> Snapshot:
        while not states.done():
            self._check_wanted()
            look()
            time.sleep(_LOOK_S)
        return states.result()

    def _next(self, *, until_states: bool) -> FedBlock | None:
        """The next block to feed; None once nobody wants it any more, or states were taken if it feeds until then."""

        def ends() -> bool:
            return self._left or (until_states and self._states is not None)

        with self._changed:
            if not self._waiting and not ends():
                self._idle = True
                self._changed.notify_all()
            self._changed.wait_for(lambda: ends() or self._waiting)
            return None if ends() else self._waiting[0]

    def _check_wanted(self) -> None:
        if self._left:
            raise _Unwanted


class _Unwanted(Exception):
    """Nobody wants the plan any more."""
