"""Runs on a real Ray whose plan changes, with a strike at a given phase of the change."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray

from actors.group import Limits
from cluster.change.deployed.plan_changes import PlanChanges
from cluster.change.deployed.ray_run import ChangingRayRuntime
from cluster.change.outcome import Switched
from cluster.checkpoint.output import PublishedMatches
from cluster.checkpoint.recovery import CheckpointedRun, CheckpointedRuntime
from cluster.checkpoint.store import CheckpointStore
from cluster.deploy.deployment import Deployment
from cluster.feeding import TraceBlocks
from cluster.options import Checkpoints, RayOptions
from cluster.session import Session
from decopa.api import as_workload
from decopa.planning.plan import Plan
from decopa.runs.result import result_table
from scripts.reliability.jobs import QUERIES, plans_of
from shuffler.source.pacing import Replay
from shuffler.source.trace import open_trace

QUERY = QUERIES[2]
PHASES = ("starting", "warming", "cutting", "retiring")
VICTIMS = ("unit", "shuffler", "sink")
#: The old plan and the new one.
PLANS = plans_of(QUERY, 2)
BLOCK_ROWS = 64


class DriverDied(BaseException):
    """The driver is gone in the middle of what it does."""


@dataclass
class Strike:
    """Kills a process of the old or the new side, or the driver, when a change comes to a phase; once."""

    victim: str
    side: str
    phase: str
    struck: list[str] = field(default_factory=list)
    #: The actors of both sides, by side.
    known: dict[str, Deployment] = field(default_factory=dict)
    died: threading.Event = field(default_factory=threading.Event)

    def told(self, phase: str, deployment: Deployment) -> None:
        self.known["new" if phase in ("starting", "warming") else "old"] = deployment
        if phase != self.phase or self.struck:
            return
        self.struck.append(phase)
        if self.victim == "driver":
            self.died.set()
            if phase in ("cutting", "retiring"):  # told in the driver's own thread
                raise DriverDied
            return
        actor = self._actor(self.known[self.side])
        os.kill(ray.get(actor.pid.remote()), signal.SIGKILL)

    def _actor(self, deployment: Deployment) -> Any:
        actors = {"unit": deployment.units, "shuffler": deployment.shufflers, "sink": deployment.sinks}[self.victim]
        return next(iter(actors.values()))


class Asking(PlanChanges):
    """Asks for the other plan once so many events have been fed, and again if that was abandoned. A trace that is paced
    is not once the plan has changed: nobody waits for the rest of it."""

    def __init__(
        self, plan: Plan, at: int, strike: Strike | None = None, *, to: Plan = PLANS[1], **options: Any
    ) -> None:
        super().__init__(plan, told=strike.told if strike else lambda phase, deployment: None, **options)
        self._at, self._strike, self._to, self._hurried = at, strike, to, False
        self.asked: list[Future[Switched]] = []

    def follow(self, session: Session, cutting: Any, deploy: Any) -> None:
        super().follow(session, cutting, deploy)
        if self._strike is not None:
            self._strike.known["old"] = session.deployment

    def step(self) -> None:
        if self._strike is not None and self._strike.died.is_set():
            raise DriverDied
        super().step()

    def between_blocks(self, next_us: int | None = None) -> None:
        due = self._session.events >= self._at and self.is_idle and self.plan != self._to
        if due and (not self.asked or self._session.events >= self._at + 100):
            self._at = self._session.events
            self.asked.append(self.change(self._to))
        super().between_blocks(next_us)
        if self.made and not self._hurried:
            self._hurried = True
            self._session.replay_from_here(self._session.last_ts, Replay())


def plain_run(
    trace: Path, changes: PlanChanges, replay: Replay, block_rows: int = BLOCK_ROWS, query: str = QUERY
) -> pa.Table:
    options = RayOptions(replay=replay, metrics=False, shufflers=2)
    source = TraceBlocks(open_trace(trace), block_rows)
    found = ChangingRayRuntime(changes.plan, source, changes, limits=Limits(), options=options).run()
    return result_table(as_workload(query), found.matches)


def checkpointed_run(trace: Path, folder: Path, changes: PlanChanges, query: str = QUERY) -> CheckpointedRun:
    """Begins a run in a folder, or takes it up, as `decopa resume` does: with the plan of the last checkpoint."""
    queries, location = as_workload(query), str(folder / "checkpoints")
    manifest = CheckpointStore(location).latest_manifest()
    return CheckpointedRuntime(
        changes.plan if manifest is None else Plan.from_json(manifest.plan),
        TraceBlocks(open_trace(trace), BLOCK_ROWS),
        merge=lambda tables: result_table(queries, list(tables.values())),
        output=PublishedMatches(folder / "out"),
        checkpoints=Checkpoints(location, every_s=0.3),
        limits=Limits(),
        options=RayOptions(replay=Replay(rate=1_000.0), metrics=False),
        changes=changes,
    ).run()


def left_behind() -> list[object]:
    """Actors and places that are still there after a while."""
    from ray.util.placement_group import placement_group_table

    deadline = time.monotonic() + 15
    while True:
        places = [group["name"] for group in placement_group_table().values() if group["state"] != "REMOVED"]
        found = [*ray.util.list_named_actors(all_namespaces=True), *places]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)
