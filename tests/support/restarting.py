"""Micro-batches over a simulated cluster that is stopped and started again, with other plans, at any moment, and whose
plan changes between them.

What decides is the product's own: how far a batch takes the stream, what is kept, what a replay rebuilds, what is
published. Simulated are Spark (batches that come again until they are done) and the network. One seed, one schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pyarrow as pa

from cluster.spark.streams.handover import Reach, handed_after
from decopa.planning.plan import Plan
from decopa.query.query import Query
from decopa.runs.streams.publication import Publication
from shuffler.rows.columns import Place
from tests.support.brute_force import Match, brute_force_by_window, canonical
from tests.support.engine import matches_of
from tests.support.simulation import SimulatedCluster

Event = dict[str, Any]
Rows = list[int]


class Killed(Exception):
    """The driver is gone, wherever it was."""


class RestartingStream:
    """`plan_of()` draws the plan of every start; `table` holds all events, in the order in which they arrive."""

    def __init__(self, query: Query, table: pa.Table, plan_of: Callable[[], Plan], *, allowed_us: int, chaos: Random):
        self._query, self._table, self._plan_of = query, table, plan_of
        self._allowed_us, self._chaos = allowed_us, chaos
        self._ts: list[int] = table["ts"].to_pylist()
        #: What is on disk: up to where events were handed over, the events that are kept, the published batches.
        self.handed_us: int | None = None
        self._kept: Rows = []
        self._done = -1
        self.published: dict[int, pa.Table] = {}
        self.late: set[int] = set()
        self.restarts = self.changes = self.given_up = 0
        self._start()

    def batch(self, number: int, rows: Rows) -> None:
        """A micro-batch, again and again until it is done."""
        while True:
            try:
                self._maybe_die(0.1)
                if number > self._done:
                    self._maybe_change()
                    self._take(number, rows)
                self._maybe_die(0.2)  # done, but Spark has not heard of it: the batch comes again
                return
            except Killed:
                self.restarts += 1
                self._start()

    def found(self) -> list[Match]:
        """All matches that were published so far, one for each row."""
        return [match for table in self.published.values() for match in matches_of(self._query, table)]

    def _start(self) -> None:
        plan, chaos = self._plan_of(), self._chaos
        self._reach = Reach.of(plan)
        self._publication = Publication([self._query], steadily=True)
        self._cluster = SimulatedCluster(
            plan, self._table, shufflers=chaos.choice((1, 2, 3)), batch_size=3, chaos=chaos
        )
        if self.handed_us is not None:
            self._work_on([row for row in self._kept if self._ts[row] <= self.handed_us], self.handed_us)

    def _maybe_change(self) -> None:
        """Between two micro-batches another plan is built, and takes over unless that is given up."""
        if self._chaos.random() < 0.7:
            return
        before = self._reach, self._publication, self._cluster
        self._start()
        if self._chaos.random() < 0.3:
            self._reach, self._publication, self._cluster = before
            self.given_up += 1
        else:
            self.changes += 1

    def _take(self, number: int, rows: Rows) -> None:
        before = self.handed_us
        late = {row for row in rows if before is not None and self._ts[row] < before}
        in_time = [row for row in rows if row not in late]
        if in_time:
            handed_us = handed_after(before, max(self._ts[row] for row in in_time), self._allowed_us)
            held = [row for row in self._kept if before is not None and self._ts[row] > before]
            waiting = [row for row in held + in_time if self._ts[row] <= handed_us]
            matches = self._work_on(waiting, handed_us)
            self._maybe_die(0.1)
            self.published[number] = matches
            self._maybe_die(0.2)  # published, but not done: it will be written again
            from_us = self._reach.kept_from_us(handed_us)
            self.handed_us = handed_us
            self._kept = [row for row in self._kept + in_time if self._ts[row] >= from_us]
        self.late |= late
        self._done = number

    def _work_on(self, rows: Rows, handed_us: int) -> pa.Table:
        cluster, chaos = self._cluster, self._chaos
        rows = sorted(rows, key=lambda row: self._ts[row])
        while rows:
            some, rows = rows[: (cut := chaos.randrange(1, 6))], rows[cut:]
            part = self._table.take(pa.array(some)).combine_chunks().to_batches()[0]
            cluster.feed(part, Place("stream"))
            if chaos.random() < 0.3:
                cluster.flush(self._ts[some[-1]])
                cluster.deliver_some()
            if chaos.random() < 0.1:
                cluster.settle(self._ts[some[-1]])
        cluster.settle(handed_us)
        return self._publication.take(cluster.take(), self._reach.finals_us(handed_us))

    def _maybe_die(self, chance: float) -> None:
        if self._chaos.random() < chance:
            raise Killed


def certain(query: Query, events: Sequence[Event], handed_us: int) -> list[Any]:
    """The matches in the events up to `handed_us` that no later event (at `handed_us` or after) can undo.

    A NOT at the end of its SEQ is decided when the window has passed; where NOTs lie inside each other, a match is
    published when every plan is certain of it.
    """
    by_id = {event["id"]: event for event in events}
    known = [event for event in events if event["ts"] <= handed_us]
    found = set()
    for branch in query.branches:
        for match in brute_force_by_window(branch, known):
            times = [by_id[event_id]["ts"] for group in match.values() for event_id in group]
            if branch.nesting_of_not > 1:
                decided = max(times) + branch.nesting_of_not * branch.window_us < handed_us
            else:
                ends_open = any(not negation.before for negation in branch.negations)
                decided = not ends_open or min(times) + branch.window_us < handed_us
            if decided:
                found.add(canonical(match))
    return sorted(found)
