"""Processes that were started ahead become those of whichever plan comes next."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import ray

import decopa
from actors.columnar.jit import interpreted
from actors.group import Limits
from cluster.change.deployed.plan_changes import PlanChanges
from cluster.checkpoint.store import CheckpointStore
from cluster.deploy.deployment import Deployment
from cluster.deploy.kept_actors import keeping_actors, kept_actors
from cluster.deploy.spares import Spares
from cluster.options import RayOptions
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan
from decopa.planning.spread import spread_units
from decopa.planning.strategies.left_deep import left_deep
from scripts.reliability.jobs import rows_of, write_trace
from shuffler.routing.topology import Topology
from shuffler.source.pacing import Replay
from shuffler.source.trace import open_trace
from tests.support.engine import table_of
from tests.support.ray_changes import PLANS, QUERY, left_behind, plain_run

pytestmark = pytest.mark.ray
QUERY_OF_TWO = parse("PATTERN SEQ(A a, B b) WITHIN 5 us")


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


def test_no_process_is_started_ahead_while_a_plan_is_built(ray_cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.deploy.spares._CALM_S", 0.0)
    with keeping_actors():
        keeping = kept_actors()
        assert keeping is not None
        keeping.spares.pause()
        keeping.spares.want(Topology(PLANS[0], 2))
        time.sleep(0.3)
        assert not ray.util.list_named_actors(all_namespaces=True) and keeping.spares._starting is None
        keeping.spares.resume()
        await_ready(keeping.spares, 1)
        keeping.spares.pause()  # and nothing waits for ever for those that do not come
    assert left_behind() == []


def test_processes_of_a_plan_with_checkpoints_wait_for_whichever_plan_is_next(
    ray_cluster: None, tmp_path: Path
) -> None:
    """Without checkpoints they wait for the return of their own plan."""
    form = open_trace(table_of([{"id": 1, "ts": 1, "type": "A"}])).format
    options, store = RayOptions(metrics=False), CheckpointStore(tmp_path)
    first, second = (Topology(Plan((spread_units(left_deep(QUERY_OF_TWO), units),))) for units in (2, 1))

    def processes(deployment: Deployment) -> set[int]:
        return {ray.get(actor.pid.remote()) for actor in deployment.actors.values()}

    with keeping_actors():
        keeping = kept_actors()
        assert keeping is not None
        keeping.spares.want(first)
        await_ready(keeping.spares, 4)
        running = Deployment(first, form, Limits(), options, store=store).__enter__()
        there = processes(running)
        ray.kill(running.units.popitem()[1])
        running.retire()
        assert sum(keeping.spares.ready.values()) == 3
        following = Deployment(second, form, Limits(), options, store=store).__enter__()
        assert processes(following) < there and len(following.actors) == 3
        following.retire()
        assert sum(keeping.spares.ready.values()) == 3
    assert left_behind() == []
