"""Successor: another plan that is built beside the running one, in a thread of its own.

It begins with the last windows of events, or, where it has the operators of the running plan on other units, with what
those hold: then it need not work on any event again, however long the windows are.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cluster.change.cutting import Telling
from cluster.checkpoint.coordinator import Side
from cluster.checkpoint.restoring import Snapshot, restored
from cluster.deploy.deployment import Deployment
from cluster.deploy.draining import DrainWatch
from cluster.feeding import FeedBlock
from cluster.session import Session, StreamPlace
from shuffler.source.pacing import Replay
from shuffler.source.stored_rows import StoredRows

#: How long to wait for the thread of a successor that nobody wants any more.
_LEAVE_S = 10.0
#: How often to look whether states are there.
_LOOK_S = 0.005
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
    """The plan that runs, and who can have it tell what its processes hold."""

    session: Session
    telling: Telling


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
        """`place` is where the running plan is, after the blocks of the history. If that is `running`, it begins with
        what that holds instead. `told` hears that the actors are "starting", and that the plan is "warming" up. It
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
        """Whether it begins with what the running plan holds."""
        return self._running is not None

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
            self.wants_states, self.is_reading = False, True
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
            if self._running is not None:
                self._carry_over(session, self._running)
            session.go_on_from(*self._begins)
            self._least_waiting, self._nearer_s = len(self._waiting), time.monotonic()
            self._told("warming", self._deployment)
            while (fed := self._next()) is not None:
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
        except _Unwanted:
            pass
        except BaseException as err:
            with self._changed:
                self._failure = err
                self._changed.notify_all()
        if self._abandoned:
            self._deployment.stop()

    def _carry_over(self, session: Session, running: Running) -> None:
        """Has the actors, which are up, begin with what those of the running plan hold."""
        running.telling.prepare_states(running.session.deployment)
        with self._changed:
            self.wants_states = True
            self._changed.wait_for(lambda: self._left or self._states is not None)
        self._check_wanted()
        assert self._states is not None
        while not self._states.done():
            self._check_wanted()
            time.sleep(_LOOK_S)
        snapshot = self._states.result()
        found = restored(snapshot, self._deployment.topology, self._deployment.form, counted=False)
        self.is_reading = False
        self._begins = snapshot.place.events, snapshot.place.blocks
        self._deployment.begin_with(found)
        session.await_actors()

    def _next(self) -> FedBlock | None:
        """The next block to feed; None once nobody wants it any more."""
        with self._changed:
            if not self._waiting:
                self._idle = True
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._left or self._waiting)
            return None if self._left else self._waiting[0]

    def _check_wanted(self) -> None:
        if self._left:
            raise _Unwanted


class _Unwanted(Exception):
    """Nobody wants the plan any more."""
