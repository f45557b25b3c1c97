"""StreamChanges: the plan of a stream follows it, between two micro-batches.

When a micro-batch is done, the loop looks at what the actors have counted. The actors of another plan are started in a
thread, while the stream goes on. Once they are up, and a micro-batch is done, they are built as those of a restart are:
from the events that are kept, with the matches of that dropped. The next micro-batch goes to them. A change writes
nothing into the stream's log, so that a crash at any moment is one like any other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from actors.sinks.outlet import check_rows_only
from cluster.change.deployed.successor import Successor
from cluster.change.loop import Adaptable, AdaptLoop
from cluster.change.outcome import ChangeAbandoned, Switched
from cluster.session import StreamPlace
from cluster.spark.failures import innermost_cause
from cluster.spark.streams.events import StreamEvents
from cluster.spark.streams.plans import StreamPlans
from cluster.spark.streams.stream_log import Progress
from costmodel.drift.readings import Reading
from costmodel.sampling.events import EventColumns
from decopa.errors import DecoPaError, DeployError, StatisticsError
from decopa.planning.plan import Plan
from decopa.planning.validate import check_structure

#: Actors that are not up by then are given up.
PATIENCE_S = 60.0

LoopOf = Callable[[Adaptable], AdaptLoop]


@dataclass(frozen=True)
class _Asked:
    """A change that was asked for, whose actors are being started."""

    successor: Successor
    result: Future[Switched] = field(default_factory=Future)
    asked_s: float = field(default_factory=time.monotonic)


class StreamChanges:
    """Makes the changes that its loop asks for; `progress` is what the stream has done."""

    def __init__(
        self, plans: StreamPlans, events: StreamEvents, progress: Callable[[], Progress], loop_of: LoopOf
    ) -> None:
        self._plans, self._events, self._progress = plans, events, progress
        self._asked: _Asked | None = None
        self._leaving: list[threading.Thread] = []
        self._delay_s: float | None = None
        self.loop = loop_of(self)

    # ------------------------------------------------------------- for the stream

    def before_batch(self) -> None:
        """A micro-batch has come and is not worked on yet: actors that came up in the meantime take over."""
        self._advance()

    def after_batch(self, took_s: float) -> None:
        """A micro-batch is done, and its matches are out; so long after it began they were."""
        self._delay_s = took_s
        self._advance()
        if self._progress().handed_us is not None:
            self.loop.step(self._reached_us)

    def close(self) -> None:
        """The stream is over: what is under way is given up."""
        if self._asked is not None:
            wanted = not self._asked.result.cancelled()
            self._abandon("the stream ended before the new plan took over")
            if wanted:
                self.loop.step(self._reached_us)  # hears of it
        for thread in self._leaving:
            thread.join()

    # ------------------------------------------------------------- as `Adaptable`

    @property
    def plan(self) -> Plan:
        return self._plans.at_work.plan

    @property
    def events(self) -> int:
        return self._progress().events

    def counters(self, at_s: float) -> Reading | None:
        """Nothing is under way between two micro-batches, so that all processes answer at once."""
        try:
            return self._plans.at_work.reading(at_s, self._delay_s)
        except DeployError:  # who was lost is told when the next micro-batch needs it
            return None

    def last_events(self, span_us: int, most: int) -> EventColumns:
        try:
            return self._events.last(self._progress(), span_us, most)
        except DecoPaError:
            raise
        except Exception as err:  # of Spark or Ray: a plan that cannot be questioned stays
            raise StatisticsError(f"the last events could not be measured: {innermost_cause(str(err))}") from err

    def change(self, plan: Plan, begin_us: Mapping[str, int] | None = None) -> Future[Switched]:
        """Starts the actors of a plan, which take over between two micro-batches."""
        try:
            if self._asked is not None:
                raise ChangeAbandoned("the plan was not changed: another change is under way")
            check_structure(plan)
            check_rows_only(plan, "a stream")
            deployment = self._plans.deployment(plan)
        except DecoPaError as err:
            refused: Future[Switched] = Future()
            refused.set_exception(err)
            return refused
        self._leaving = [one for one in self._leaving if one.is_alive()]
        self._asked = _Asked(Successor(deployment, (), StreamPlace(), lambda phase, actors: None, self._leaving))
        return self._asked.result

    @property
    def _reached_us(self) -> int:
        """Events up to this time have been worked on; a change is asked for after the first ones only."""
        reached_us = self._progress().handed_us
        assert reached_us is not None
        return reached_us

    # ------------------------------------------------------------- the change

    def _advance(self) -> None:
        """Between two micro-batches: goes on with the change that was asked for."""
        if self._asked is None:
            return
        successor = self._asked.successor
        if self._asked.result.cancelled():
            self._abandon("nobody wants it any more")
        elif successor.failure is not None:
            self._abandon(str(successor.failure), successor.failure)
        elif successor.is_level():  # its actors are up; nothing was fed to them
            self._take_over(self._asked)
        elif successor.age_s > PATIENCE_S:
            self._abandon(f"its actors were not up within {PATIENCE_S:.0f} s")

    def _take_over(self, asked: _Asked) -> None:
        if not asked.result.set_running_or_notify_cancel():
            self._abandon("nobody wants it any more")
            return
        began_s, done = time.monotonic(), self._progress()
        session, _ = asked.successor.hand_over()
        session.watch = None  # it looked whether anybody still wanted these actors
        try:
            new, rebuilt = self._plans.built(session, done)
        except Exception as err:  # of Ray or Spark, whatever it is: the plan at work has not noticed
            self._abandon(str(err) if isinstance(err, DecoPaError) else innermost_cause(str(err)), err)
            return
        self._plans.replace(new)
        now_s, self._asked = time.monotonic(), None
        made = Switched(done.events, self._reached_us, rebuilt, now_s - asked.asked_s, now_s - began_s)
        asked.result.set_result(made)

    def _abandon(self, why: str, cause: BaseException | None = None) -> None:
        """The old plan stays. The actors of the new one end in a thread: Ray may be about to start them."""
        assert self._asked is not None
        asked, self._asked = self._asked, None
        thread = threading.Thread(target=asked.successor.abandon, name="decopa-stopping", daemon=True)
        thread.start()
        self._leaving.append(thread)
        if not asked.result.cancelled():
            failure = ChangeAbandoned(f"the plan was not changed: {why}")
            failure.__cause__ = cause
            asked.result.set_exception(failure)
