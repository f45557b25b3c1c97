"""PlanChanges: the plan of a run on Ray becomes another while it runs.

A second deployment is started beside the running one. It is fed with the last windows of events, or takes over what
the running one holds (`cluster.change.deployed.successor`). When it is level, both are cut between two blocks, with
the same watermark: a barrier tells every process of both where the cut is. The next block goes to the new one. The
old one hands over the matches before the cut and ends; those of the new one repeat them and are dropped. Until the
cut a failure of the new side leaves no trace.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import ray

from actors.reports import OperatorReport
from actors.sinks.outlet import check_rows_only
from cluster.change.cut import reported
from cluster.change.deployed.cutting import Cutting
from cluster.change.deployed.successor import FedBlock, Running, Successor
from cluster.change.history import DEFAULT_MAX_BYTES, BlockRing, HistoryGone
from cluster.change.outcome import ChangeAbandoned, Switched
from cluster.change.staying import carried_parts, with_sources
from cluster.checkpoint.coordinator import Side
from cluster.checkpoint.notes import NoNotes, Notes
from cluster.checkpoint.store import Manifest
from cluster.deploy.beginning import Building
from cluster.deploy.deployment import Deployment
from cluster.deploy.kept_actors import kept_actors
from cluster.deploy.spares import Spares
from cluster.feeding import FeedBlock
from cluster.ray_runtime import operator_reports
from cluster.ray_session import is_started_here
from cluster.session import Session
from decopa.errors import DecoPaError, DeployError
from decopa.planning.history import history_us, history_windows
from decopa.planning.plan import Plan
from decopa.planning.validate import check_structure
from shuffler.routing.table import END_OF_STREAM, NOTHING_YET

_LOG = logging.getLogger("decopa")
#: A plan that has not come nearer to the running one for so long is given up.
PATIENCE_S = 60.0
_LOOK_S = 0.005
#: How long a stream that waits for its new plan waits for places, which others may hold for long.
_PLACING_S = 2.0
#: A new plan is fed again with events that came within this time: that takes less than to deal out what units hold.
CARRY_AFTER_S = 2.0
#: Where some parts are built from events and others carried over, processes begin twice, which takes so much longer.
_BEGIN_TWICE = 4


@dataclass
class _Request:
    plan: Plan
    begin_us: Mapping[str, int]
    result: Future[Switched] = field(default_factory=Future)
    asked_s: float = field(default_factory=time.monotonic)

    def fail(self, reason: str, cause: BaseException | None = None) -> None:
        """The change was not made; whoever has cancelled it knows."""
        if not self.result.cancelled():
            failure = ChangeAbandoned(reason)
            failure.__cause__ = cause
            self.result.set_exception(failure)


@dataclass
class _Retiring:
    """The side that was cut off: it has handed over its matches before it ends."""

    old: Session
    request: _Request
    cut_s: float
    passing: list[Any]
    switched: Switched
    stall_s: float | None = None
    stopped: bool = False


class PlanChanges:
    """Follows a session (see `cluster.session.Following`) and makes the changes that anyone asks for, one at a time.

    With `waits` the stream stands still while a new plan is built: for stored traces that are not paced there is no
    latency to protect, and less work in total. Without, and where nobody else uses this Ray, processes for a new plan
    are started ahead, for `most_units` if that is more than the plan has. `told` hears how a change goes, with the
    actors that this is about: new ones are "starting" and "warming" up, then the old ones are "cutting", and then
    "retiring". A plan that has the same operators on other units takes over what they hold if the events that it would
    have to work on again came within more than `carry_after_s`, or are not here any more.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        waits: bool = False,
        keep_us: int = 0,
        max_history_bytes: int = DEFAULT_MAX_BYTES,
        patience_s: float = PATIENCE_S,
        most_units: int = 0,
        carry_after_s: float = CARRY_AFTER_S,
        told: Callable[[str, Deployment], None] = lambda phase, deployment: None,
    ) -> None:
        self._plan, self._waits, self._keep_us, self._patience_s = plan, waits, keep_us, patience_s
        self._max_bytes, self._most_units, self._told = max_history_bytes, most_units, told
        self._carry_after_s = carry_after_s
        self._requests: deque[_Request] = deque()
        self._ring: BlockRing[FedBlock] | None = None
        self._successor: tuple[Successor, _Request] | None = None
        self._retiring: _Retiring | None = None
        #: A change that a loss has met between its cut and its end: what the run continues with decides about it.
        self._interrupted: _Retiring | None = None
        self._stopping: list[threading.Thread] = []
        self._began_s = time.monotonic()
        #: The changes that were made.
        self.made: list[Switched] = []
        #: What the operators of the plans before did.
        self.earlier: list[OperatorReport] = []

    # ------------------------------------------------------------- for those who change the plan

    @property
    def plan(self) -> Plan:
        return self._plan

    def change(self, plan: Plan, begin_us: Mapping[str, int] | None = None) -> Future[Switched]:
        request = _Request(plan, begin_us or {})
        if not self.is_idle:
            _LOG.warning("a change of plan waits until the one under way is made")
        self._requests.append(request)
        return request.result

    def keep(self, reach_us: int) -> None:
        """Keeps events that far back, at least."""
        self._keep_us = max(self._keep_us, reach_us)
        if self._ring is not None:
            self._ring.reach_us = max(self._ring.reach_us, reach_us)

    @property
    def is_idle(self) -> bool:
        """Whether no change is under way or waits for its turn."""
        return self._successor is None and self._retiring is None and not self._requests

    @property
    def is_counted(self) -> bool:
        """Whether all that plans before the present one did is in `earlier`."""
        return self._retiring is None and not any(thread.is_alive() for thread in self._stopping)

    # ------------------------------------------------------------- for the runtime

    same_queries = True

    @property
    def notes(self) -> Notes:
        return NoNotes()

    def begin_from(self, manifest: Manifest | None, plan: Plan) -> Plan:
        return plan

    def follow(self, session: Session, cutting: Cutting, deploy: Callable[[Plan], Deployment]) -> None:
        """Begins with a session; `deploy` makes the actors of a plan, which are not started yet."""
        self._session, self._cutting, self._deploy = session, cutting, deploy
        self._plan, self._ring = session.deployment.topology.plan, None
        self._began_s = time.monotonic()
        session.follower = self
        self._prepare()
        if self._interrupted is not None:
            interrupted, self._interrupted = self._interrupted, None
            if interrupted.request.plan == self._plan:
                self._complete(interrupted)
            else:
                interrupted.request.fail("the plan was not changed: a process was lost while the new plan took over")

    def leave(self) -> None:
        """The session is over: what is under way is given up, and no actor is left of it."""
        if self._successor is not None:
            self._abandon("the run ended or was taken up again before the new plan took over")
        if self._retiring is not None:
            self._interrupted, self._retiring = self._retiring, None
            self._interrupted.old.deployment.stop()
            self._spares(Spares.resume)
        for thread in self._stopping:
            thread.join()
        self._stopping = []

    def close(self) -> None:
        """The run is over."""
        self.leave()
        if self._interrupted is not None:
            interrupted, self._interrupted = self._interrupted, None
            interrupted.request.fail("the run ended while the plan changed")
        while self._requests:
            self._requests.popleft().fail("the run ended before the change was made")

    # ------------------------------------------------------------- while it runs

    def fed(self, block: FeedBlock, ordinal: int, number: int) -> None:
        one = FedBlock(block, ordinal, number, time.monotonic())
        if self._ring is None:
            # Where a run was taken up in the middle of the stream, what came before is not here.
            gone_us = NOTHING_YET if ordinal == 0 else block.first_ts
            self._ring = BlockRing(self._reach_us, self._max_bytes, from_us=gone_us)
        self._ring.add(one, block.last_ts, one.size)
        if self._successor is not None:
            self._successor[0].add(one)

    @property
    def _reach_us(self) -> int:
        """How far back events are kept: as far as any plan of the same queries looks."""
        queries = [part.query for part in self._plan.parts]
        return max([self._keep_us, *(history_windows(one, sliced=True) * one.window_us for one in queries)])

    def between_blocks(self, next_us: int | None = None) -> None:
        # A cut between events of one time would leave matches of equal times to both sides, in no certain order.
        tied = next_us is not None and next_us == self._session.last_ts
        if self._successor is None and self._retiring is None and self._requests:
            self._begin(self._requests.popleft())
        began_s = time.perf_counter()
        while self._successor is not None:
            successor, request = self._successor
            self._cutting.wanted = successor.is_near or successor.is_reading
            if request.result.cancelled():
                self._abandon("nobody wants it any more")
            elif successor.failure is not None:
                self._abandon(str(successor.failure), successor.failure)
            elif self._cutting.obstacle is not None:
                self._abandon(self._cutting.obstacle)
            elif self._cutting.can_cut and successor.can_take_states:
                successor.take_states()
            elif not tied and self._cutting.can_cut and successor.can_take_over:
                self._cut(successor, request, began_s)
            elif successor.stuck_s > self._patience_s:
                self._abandon(f"the new plan has not come nearer to the running one for {self._patience_s:.0f} s")
            elif self._waits and not tied and (successor.is_placed or successor.age_s < _PLACING_S):
                self._session.idle(_LOOK_S)
            else:
                return

    def holds(self, block: FeedBlock) -> bool:
        """No block waits for a change that changes nothing but who works on it."""
        return False

    def step(self) -> None:
        self._cutting.look()
        retiring = self._retiring
        if retiring is None:
            return
        if not retiring.stopped:
            retiring.old.check_actors()
        if retiring.stall_s is None:
            ready, _ = ray.wait(retiring.passing, num_returns=len(retiring.passing), timeout=0, fetch_local=False)
            if len(ready) == len(retiring.passing):
                retiring.stall_s = time.monotonic() - retiring.cut_s
        old = retiring.old.deployment
        if not retiring.stopped and self._cutting.is_done_with(old):
            retiring.stopped = True
            self._told("retiring", old)
            ran_s, self._began_s = retiring.cut_s - self._began_s, retiring.cut_s
            self._later(lambda: self._stop(old, ran_s))
        if retiring.stopped and self._cutting.is_settled:
            self._complete(retiring)

    def ended(self) -> None:
        if self._successor is not None:
            self._abandon("the stream ended before the new plan took over")
        while self._retiring is not None or not self._cutting.is_settled:
            self._session.idle(_LOOK_S)

    def _begin(self, request: _Request) -> None:
        plan = request.plan
        if request.result.cancelled():
            return
        try:
            if not plan.reported:
                raise ChangeAbandoned("the plan was not changed: the new one has no query")
            check_structure(plan)
            check_rows_only(plan, "a run whose plan may change")
            self._cutting.check(self._plan, plan)
            carried, history = self._seed(plan, request.begin_us)
            deployment, place = self._deploy(plan), self._session.place
            built = frozenset(plan.keys) - carried
            absorbing = reported(self._plan).keys() & reported(plan).keys() & built
            deployment.build(Building(frozenset(absorbing), carried - with_sources(plan, built)))
            running = Running(self._session, self._cutting, carried, not built) if carried else None
            successor = Successor(deployment, history, place, self._told, tuple(self._stopping), running)
            self._successor = successor, request
            self._spares(Spares.pause)
        except DecoPaError as err:
            request.result.set_exception(err)

    def _seed(self, plan: Plan, begin_us: Mapping[str, int]) -> tuple[frozenset[str], list[FedBlock]]:
        """The keys of the parts that take over what units of the running plan hold, and the events that the others are
        built from, with all that these take matches from."""
        everything, carried = frozenset(plan.keys), carried_parts(self._plan, plan)
        try:
            history = self._events_for(plan, begin_us, everything)
        except HistoryGone:
            if not carried:
                raise
        else:
            long_s = time.monotonic() - history[0].at_s if history else 0.0
            pays_after_s = self._carry_after_s * (1 if carried == everything else _BEGIN_TWICE)
            if not carried or long_s <= pays_after_s:
                return frozenset(), history
        return carried, self._events_for(plan, begin_us, with_sources(plan, everything - carried))

    def _events_for(self, plan: Plan, begin_us: Mapping[str, int], keys: frozenset[str]) -> list[FedBlock]:
        reached_us = self._session.last_ts
        parts = ((key, part) for key, part in zip(plan.keys, plan.parts, strict=True) if key in keys)
        earliest_us = min(
            (begin_us.get(key, reached_us - history_us(Plan((part,)))) for key, part in parts), default=END_OF_STREAM
        )
        if earliest_us > reached_us or not self._session.events:
            return []
        if self._ring is None:
            raise HistoryGone("the run has just been taken up, and no event is here that the plan could be built from")
        return list(self._ring.since(earliest_us))

    def _cut(self, successor: Successor, request: _Request, began_s: float) -> None:
        request.result.set_running_or_notify_cancel()  # from here on it is made
        new, side = successor.hand_over()
        place, watermark_us = self._session.place, self._session.last_ts
        passing = self._cutting.cut(place, watermark_us, self._taking_over(request.result, side, watermark_us))
        self._session.exchange(new)
        self._plan, self._successor, self._cutting.wanted = request.plan, None, False
        if self._ring is not None:
            self._ring.reach_us = max(self._ring.reach_us, self._reach_us)
        now_s = time.monotonic()
        switched = Switched(
            place.events,
            watermark_us,
            successor.seeded,
            warm_up_s=now_s - request.asked_s,
            pause_s=time.perf_counter() - began_s,
            carried=successor.carries,
        )
        self._retiring = _Retiring(new, request, now_s, passing, switched)
        self._told("cutting", new.deployment)

    def _taking_over(self, result: Future[Switched], side: Side, watermark_us: int) -> Side:
        """The side that takes over, which somebody asked for with this result."""
        return side

    def _complete(self, retiring: _Retiring) -> None:
        self._retiring, before = None, retiring.switched
        stall_s = time.monotonic() - retiring.cut_s if retiring.stall_s is None else retiring.stall_s
        made = replace(before, stall_s=stall_s)
        self.made.append(made)
        retiring.request.result.set_result(made)
        self._prepare()

    def _prepare(self) -> None:
        """Has processes started ahead for the next plan."""
        self._spares(Spares.resume)
        if not self._waits and is_started_here():
            topology = self._session.deployment.topology
            self._spares(lambda spares: spares.want(topology, units=self._most_units))

    @staticmethod
    def _spares(do: Callable[[Spares], None]) -> None:
        """Does something with the processes that are started ahead, if there may be any."""
        keeping = kept_actors()
        if keeping is not None:
            do(keeping.spares)

    def _stop(self, old: Deployment, ran_s: float) -> None:
        """Lets go of the actors of a plan that has been replaced, once they have told what they did."""
        try:
            self.earlier += operator_reports(old.topology, old.statuses(), ran_s)
        except DeployError:  # one has died just now; nobody needs it any more
            old.stop()
        except BaseException:
            old.stop()
            raise
        else:
            old.retire()  # a plan that returns finds its processes there

    def _later(self, stop: Callable[[], None]) -> None:
        """Stops actors in a thread: it takes some calls to Ray, for which no event need wait."""
        thread = threading.Thread(target=stop, name="decopa-stopping", daemon=True)
        thread.start()
        self._stopping = [*(one for one in self._stopping if one.is_alive()), thread]

    def _abandon(self, reason: str, cause: BaseException | None = None) -> None:
        assert self._successor is not None
        (successor, request), self._successor = self._successor, None
        self._cutting.wanted = False
        self._spares(Spares.resume)
        self._later(successor.abandon)
        request.fail(f"the plan was not changed: {reason}", cause)
