"""Processes that were started ahead become those of whichever plan comes next."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import ray

import decopa
from actors.columnar.jit import interpreted
from cluster.change.deployed import PlanChanges
from cluster.deploy.deployment import Deployment
from cluster.deploy.kept_actors import keeping_actors, kept_actors
from cluster.deploy.spares import Spares
from scripts.reliability.jobs import rows_of, write_trace
from shuffler.routing.topology import Topology
from shuffler.source.pacing import Replay
from tests.support.ray_changes import PLANS, QUERY, left_behind, plain_run

pytestmark = pytest.mark.ray


def await_ready(spares: Spares, count: int) -> None:
    deadline = time.monotonic() + 60
    while sum(spares.ready.values()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_plan_begins_in_processes_that_were_started_ahead(ray_cluster: None, tmp_path: Path) -> None:
    trace = tmp_path / "trace.parquet"
    write_trace(trace, events=1_500, rate=1_000, seed=4)
    processes: list[set[int]] = []

    def told(phase: str, deployment: Deployment) -> None:
        if phase == "cutting":  # of the plan that has been replaced
            processes.append({ray.get(actor.pid.remote()) for actor in deployment.actors.values()})

    with keeping_actors():
        keeping = kept_actors()
        assert keeping is not None
        topology = Topology(PLANS[0], 2)
        keeping.spares.want(topology, units=len(topology.units) + 1)
        await_ready(keeping.spares, len(topology.units) + 4)
        spare = [actor for ready in keeping.spares._ready.values() for actor in ready]
        there = {ray.get(actor.pid.remote()) for actor in spare}
        ray.kill(spare[-1])  # one of the shufflers
        changes = PlanChanges(PLANS[0], waits=True, told=told)
        made = changes.change(PLANS[1])
        with interpreted():
            found = plain_run(trace, changes, Replay())
            assert rows_of(found) == rows_of(decopa.run(QUERY, trace))
        assert made.result().at_event < 1_500
        assert len(processes[0]) == len(topology.units) + 3
        assert len(processes[0] & there) == len(processes[0]) - 1
    assert left_behind() == []
