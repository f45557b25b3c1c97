"""StreamPlans: the plan that works on a stream of micro-batches, and how another one takes its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from actors.group import Limits
from cluster.deploy.deployment import Deployment
from cluster.options import RayOptions
from cluster.readings import deployed_reading
from cluster.session import Session
from cluster.spark.feeding import SparkBlocks
from cluster.spark.streams.events import NAME, StreamEvents
from cluster.spark.streams.handover import Reach
from cluster.spark.streams.stream_log import Progress
from costmodel.drift.readings import Reading
from decopa.planning.plan import Plan
from shuffler.routing.table import NOTHING_YET
from shuffler.routing.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Publishing(Protocol):
    """Decides which matches go out: see `decopa.runs.streams.publication`."""

    def take(self, tables: Sequence[pa.Table], finals_us: Sequence[int]) -> pa.Table: ...


class PlanAtWork:
    """The actors of a plan, and the memory of which of their matches are out."""

    def __init__(self, session: Session, events: StreamEvents, publication: Publishing) -> None:
        self._session, self._events, self._publication = session, events, publication
        self._reach = Reach.of(self.plan)

    @property
    def deployment(self) -> Deployment:
        return self._session.deployment

    @property
    def plan(self) -> Plan:
        return self.deployment.topology.plan

    def work_on(self, frame: DataFrame, handed_us: int) -> tuple[int, pa.Table]:
        """Sends the events of a frame through the plan, until nothing is on its way; later ones are not before
        `handed_us`. Returns how many there were and the matches that are certain now."""
        with self._events.loaded(frame) as trace:
            for block in SparkBlocks(trace.blocks, self._events.form, NAME).feed_blocks(()):
                self._session.feed(block)
            self._session.settle(handed_us)
        return trace.rows, self._publication.take(self._session.take(), self._reach.finals_us(handed_us))

    def rebuild(self, done: Progress) -> int:
        """Makes up for all that was done before this plan was there, from the events that are kept; returns how many
        these are. The matches of that are dropped: they are published."""
        if done.handed_us is None:
            return 0
        return self.work_on(self._events.worked_on(done), done.handed_us)[0]

    def reading(self, at_s: float, delay_s: float | None) -> Reading | None:
        """What its processes have counted; None before the first event."""
        deployment = self.deployment
        found = deployed_reading(at_s, deployment.shuffler_statuses(), deployment.statuses(), delay_s)
        return None if found.ts_us == NOTHING_YET else found


class StreamPlans:
    """Starts actors for plans. One plan at a time is `at_work`."""

    def __init__(
        self, events: StreamEvents, publication_of: Callable[[], Publishing], limits: Limits, options: RayOptions
    ) -> None:
        self._events, self._publication_of, self._limits, self._options = events, publication_of, limits, options
        self._at_work: PlanAtWork | None = None

    @property
    def at_work(self) -> PlanAtWork:
        assert self._at_work is not None, "the stream has not begun"
        return self._at_work

    def deployment(self, plan: Plan) -> Deployment:
        """The actors of a plan, not started yet."""
        topology = Topology(plan, self._options.shufflers, sinks=self._options.sinks)
        return Deployment(topology, self._events.form, self._limits, self._options)

    def begin(self, plan: Plan, done: Progress) -> None:
        """Starts the actors of the first plan, and rebuilds what they held when the last batch was done."""
        deployment = self.deployment(plan).__enter__()
        try:
            session = Session(deployment)
            session.await_actors()
            self._at_work, _ = self.built(session, done)
        except BaseException:
            deployment.stop()
            raise

    def built(self, session: Session, done: Progress) -> tuple[PlanAtWork, int]:
        """Actors that were fed nothing yet, with all that they would hold had they worked on the stream so far; and how
        many events that took. The plan at work does not notice."""
        new = PlanAtWork(session, self._events, self._publication_of())
        return new, new.rebuild(done)

    def replace(self, new: PlanAtWork) -> None:
        """The next events go to this plan; the actors of the one before end."""
        old, self._at_work = self.at_work, new
        old.deployment.retire()

    def close(self) -> None:
        """No actor is left, unless a session keeps them."""
        if self._at_work is not None:
            self._at_work.deployment.retire()
            self._at_work = None
