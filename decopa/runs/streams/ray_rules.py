"""RayRuleEngine: an open run on Ray. Rules share a number of processes, and come and go with changes of the plan."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pyarrow as pa

from cluster.change.cut import held_from, reported
from cluster.change.deployed.driver_cut import DriverCut
from cluster.change.deployed.plan_changes import PlanChanges
from cluster.checkpoint.recovery import failures_told_once
from cluster.deploy.deployment import Deployment
from cluster.deploy.placement import places_needed
from cluster.feeding import BLOCK_ROWS, FeedBlock, TraceBlocks
from cluster.ray_session import ray_session
from cluster.session import Session
from decopa.planning.plan import Plan, QueryPlan
from decopa.planning.workload.packed import packed
from decopa.runs.preparation.prepare import Prepared
from shuffler.routing.table import END_OF_STREAM, NOTHING_YET
from shuffler.routing.topology import Topology

#: Of a stored trace everything is kept that fits into memory: it can be read again, but by the driver only.
_ALL_US = 1 << 62


class RayRuleEngine:
    """Works on a source on Ray, see `RuleEngine`; it is its own pipe.

    A rule is worked on by one of `units` processes, together with all that it takes matches from. A change builds the
    new plan beside the running one while the stream waits. A rule that is over goes with the next change: until then it
    works on, and nobody asks for its matches.
    """

    def __init__(self, prepared: Prepared, plan: Plan, max_history_bytes: int) -> None:
        self._prepared, source = prepared, prepared.source
        self._hosts = prepared.spec.planning.units or 1
        self._attributes = tuple(source.schema.attributes)
        rows = min(BLOCK_ROWS, prepared.spec.trace.batch_size or BLOCK_ROWS)
        self._stopped = threading.Event()
        self._blocks = TraceBlocks(source, rows, stopped=self._stopped)
        self._changes = PlanChanges(
            plan,
            waits=True,
            keep_us=0 if source.row_count is None else _ALL_US,
            max_history_bytes=max_history_bytes,
        )
        self._finals_us: dict[str, int] = {}
        self._nothing: dict[str, pa.Table] = {}
        self._open = ExitStack()
        try:
            self._start(packed(plan.parts, self._hosts))
        except BaseException:
            self._open.close()
            raise

    def _start(self, plan: Plan) -> None:
        address, places = self._prepared.spec.ray.address, places_needed(self._topology(plan))
        self._open.enter_context(ray_session(address=address, cpus=2 * places + 2))
        self._open.enter_context(failures_told_once())
        self._session = session = Session(self._deployment(plan).__enter__())
        self._open.callback(lambda: session.deployment.stop())
        self._open.callback(self._changes.close)
        session.await_actors()
        self._cuts = DriverCut(session.deployment, same_queries=False)
        self._changes.follow(session, self._cuts, self._deployment)
        self._wanted = frozenset(reported(plan))
        self.take()

    def _topology(self, plan: Plan) -> Topology:
        options = self._prepared.spec.ray
        return Topology(plan, options.shufflers, sinks=options.sinks)

    def _deployment(self, plan: Plan) -> Deployment:
        spec = self._prepared.spec
        return Deployment(self._topology(plan), self._prepared.source.format, spec.limits, spec.ray)

    # ------------------------------------------------------------- as `RuleEngine`

    @property
    def pipe(self) -> RayRuleEngine:
        return self

    def keep(self, reach_us: int) -> None:
        self._changes.keep(reach_us)

    def batches(self) -> Iterator[FeedBlock | None]:
        return self._blocks.feed_blocks(self._attributes)

    def feed(self, block: FeedBlock | None) -> None:
        if block is None:
            self._session.pause()
        else:
            self._session.feed(block)

    def switch(self, parts: tuple[QueryPlan, ...], begin_us: Mapping[str, int]) -> None:
        """From the next block on these parts find the matches; returns when they have taken over."""
        plan = packed(parts, self._hosts)
        if set(plan.keys) <= set(self._changes.plan.keys):
            self._wanted = frozenset(reported(plan))
            return
        made = self._changes.change(plan, begin_us)
        while not made.done():
            self._changes.between_blocks()
            if not made.done():
                self._session.idle(0.005)
        made.result()
        self._wanted = frozenset(reported(plan))

    def close(self) -> None:
        self._stopped.set()
        self._open.close()

    # ------------------------------------------------------------- as `ChangingPipeline`

    @property
    def events(self) -> int:
        return self._session.events

    @property
    def watermark_us(self) -> int:
        return self._session.last_ts

    @property
    def finals_us(self) -> dict[str, int]:
        """For each part that reports: no later match ends before this."""
        least_us = min(self._finals_us.values(), default=NOTHING_YET)
        held = held_from(reported(self._changes.plan), least_us)
        return {key: min(final, held.get(key, final)) for key, final in self._finals_us.items() if key in self._wanted}

    def take(self) -> dict[str, pa.Table]:
        """The matches that have come since the last call, by the key of their part."""
        found: dict[str, pa.Table] = {}
        keys = self._changes.plan.keys
        if self._cuts.is_settled:  # else the sinks still have matches from before the cut
            tables, finals_us = self._session.arrived()
            found = {keys[part]: table for part, table in tables.items()}
            self._finals_us = {keys[part]: final_us for part, final_us in finals_us.items()}
        watermark_us = min(self._finals_us.values(), default=NOTHING_YET)
        out = self._cuts.released(found, watermark_us)
        self._nothing |= {key: table.slice(0, 0) for key, table in out.items()}
        return {key: table for key, table in out.items() if key in self._wanted}

    def nothing(self) -> dict[str, pa.Table]:
        missing = self._wanted - self._nothing.keys()
        if missing:  # a sink that is asked for everything shows its columns
            mine = self._session.take_by_key()
            self._cuts.add(mine)
            self._nothing |= {key: table.slice(0, 0) for key, table in mine.items()}
        return {key: self._nothing[key] for key in self._wanted}

    def finish(self) -> None:
        self._session.finish()
        self._finals_us = dict.fromkeys(self._finals_us, END_OF_STREAM)
