"""A live run on Ray whose plan may change: matches leave as they come, whichever plan has found them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from actors.group import Limits
from cluster.change.cut import held_from, reported
from cluster.change.deployed.driver_cut import DriverCut
from cluster.change.deployed.plan_changes import PlanChanges
from cluster.checkpoint.recovery import failures_told_once
from cluster.deploy.deployment import Deployment
from cluster.deploy.kept_actors import keeping_replaced_actors
from cluster.live import NewMatches
from cluster.options import RayOptions
from cluster.ray_live import PATIENCE_S, RayLive
from cluster.ray_runtime import run_report
from cluster.ray_session import is_started_here
from cluster.session import Session
from decopa.planning.plan import Plan
from shuffler.routing.table import END_OF_STREAM, NOTHING_YET
from shuffler.routing.topology import Topology
from shuffler.source.trace import TraceSource

_SHORT_PATIENCE_S = 0.01


class LiveCut(DriverCut):
    """Cuts of a run whose sinks are asked for matches all the time, by another thread than the one that cuts.

    That thread asks the sinks of one plan, `asked`. It turns to those of the next plan once everything before the cut
    has been taken from both, and until then the old actors stay.
    """

    def __init__(self, deployment: Deployment) -> None:
        super().__init__(deployment, same_queries=True)
        self._taking = threading.RLock()
        #: The actors whose sinks are asked; None once nobody wants matches any more.
        self.asked: Deployment | None = deployment

    @property
    def can_cut(self) -> bool:
        return super().can_cut and self.asked in (self._deployment, None)

    def is_done_with(self, deployment: Deployment) -> bool:
        with self._taking:
            return super().is_done_with(deployment) and self.asked is not deployment

    @property
    def next(self) -> Deployment | None:
        """The actors whose sinks are to be asked now, if these are not those that are asked."""
        with self._taking:
            return self._deployment if self.is_settled and self._deployment is not self.asked else None

    def add(self, found: Mapping[str, pa.Table]) -> None:
        with self._taking:
            super().add(found)

    def released(self, found: Mapping[str, pa.Table], watermark_us: int) -> dict[str, pa.Table]:
        with self._taking:
            if self.is_settled:
                return super().released(found, watermark_us)
            self.add(found)  # earlier matches are on their way to the driver
            return {}


class ChangingRayLive(RayLive):
    """As `RayLive`; `changes` may be asked for other plans of the same queries from any thread."""

    def __init__(
        self, plan: Plan, source: TraceSource, changes: PlanChanges, *, limits: Limits, options: RayOptions
    ) -> None:
        super().__init__(plan, source, limits=limits, options=options)
        self._changes = changes
        self._finals_us: dict[str, int] = dict.fromkeys(reported(plan), NOTHING_YET)

    def _deployment(self, plan: Plan) -> Deployment:
        topology = Topology(plan, self._options.shufflers, sinks=self._options.sinks)
        return Deployment(topology, self._source.format, self._limits, self._options)

    def live(self) -> Iterator[NewMatches]:
        with ExitStack() as open_:
            open_.enter_context(failures_told_once())
            open_.enter_context(keeping_replaced_actors(alone=is_started_here()))
            self._session = session = Session(self._deployment(self.topology.plan).__enter__())
            open_.callback(lambda: session.deployment.stop())
            open_.callback(self._changes.close)
            session.await_actors()
            nothing = session.take_by_key()
            self._cuts = cuts = LiveCut(session.deployment)
            self._changes.follow(session, cuts, self._deployment)
            started = time.perf_counter()
            feeder = self._start_feeding(session)
            open_.callback(lambda: self._leave(feeder))
            yield from self._arriving(cuts, nothing)
            tables = nothing | cuts.released(session.take_by_key(), END_OF_STREAM)
            if any(table.num_rows for table in tables.values()):
                yield NewMatches(tuple(tables[key] for key in nothing), (NOTHING_YET,) * len(nothing))
            self.report = run_report(session.deployment, session, time.perf_counter() - started)

    def _leave(self, feeder: threading.Thread) -> None:
        self._cuts.asked = None
        super()._leave(feeder)

    def _arriving(self, cuts: LiveCut, nothing: Mapping[str, pa.Table]) -> Iterator[NewMatches]:
        """Asks all sinks of the running plan at once and hands out what the first one answers, until all is fed."""
        deployment = cuts.asked
        assert deployment is not None
        asked: dict[Any, str] = {}
        while True:
            if not asked:
                if self._fed.is_set():
                    break
                turned = cuts.next
                if turned is not None:
                    cuts.asked = deployment = turned
                asked = {sink.arriving.remote(self._patience_s): name for name, sink in deployment.sinks.items()}
            call = deployment.first_of(list(asked), PATIENCE_S)
            self._raise_failure()
            if call is None:
                continue
            name = asked.pop(call)
            found = self._noted(deployment, name, deployment.result(call, name))
            if not self._fed.is_set() and cuts.next is None:
                asked[deployment.sinks[name].arriving.remote(self._patience_s)] = name
            least_us = min(self._finals_us.values())
            out = cuts.released(found, least_us)
            if any(table.num_rows for table in out.values()):
                held = held_from(reported(deployment.topology.plan), least_us)
                finals = tuple(min(self._finals_us[key], held.get(key, END_OF_STREAM)) for key in nothing)
                yield NewMatches(tuple(out.get(key, nothing[key]) for key in nothing), finals)
        self._raise_failure()

    @property
    def _patience_s(self) -> float:
        """How long a sink waits for matches; while a plan changes, the sinks of the next one have their turn soon."""
        return PATIENCE_S if self._changes.is_idle else _SHORT_PATIENCE_S

    def _noted(self, deployment: Deployment, name: str, answer: Any) -> dict[str, pa.Table]:
        """The matches that a sink has answered with, by the key of their part; notes which later ones to expect."""
        tables, finals_us = answer
        keys = deployment.topology.plan.keys
        told = zip(deployment.topology.sink_parts[name], finals_us, strict=True)
        self._finals_us |= {keys[part]: final_us for part, final_us in told}
        return {keys[part]: table for part, table in tables.items()}

    def _stop_feeding(self, session: Session) -> None:
        self._changes.ended()
        super()._stop_feeding(session)
