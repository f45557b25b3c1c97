"""Whoever dies, at whatever point of a checkpoint: what is published in the end are the matches, each once."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import actors.node
import decopa
from actors.columnar.jit import interpreted
from actors.group import Limits
from cluster.checkpoint.output import PublishedMatches
from cluster.checkpoint.recovery import CheckpointedRuntime
from cluster.feeding import TraceBlocks
from cluster.options import Checkpoints, RayOptions
from decopa.api import as_workload, make_plan
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan
from decopa.planning.spread import spread_units
from decopa.planning.strategies.left_deep import left_deep
from decopa.runs.result import result_table
from scripts.reliability.jobs import rows_of, write_trace
from shuffler.source.pacing import Replay
from shuffler.source.trace import open_trace
from tests.cluster.checkpoint.test_recovery import QUERY as RAY_QUERY
from tests.cluster.checkpoint.test_recovery import published
from tests.support.brute_force import brute_force, canonical
from tests.support.crashing import UnalignedInbox
from tests.support.dying_store import DyingStore
from tests.support.engine import matches_of, table_of
from tests.support.fault_matrix import MOMENTS, ROLES, FaultyCluster

QUERY = parse("PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k WITHIN 30 us")
PLAN = Plan((spread_units(left_deep(QUERY), 4),))
EVENTS = [{"id": n, "ts": n, "type": "ABC"[n * 7 % 3], "k": n % 2} for n in range(60)]
EXPECTED = sorted(map(canonical, brute_force(QUERY, EVENTS)))


def found_after(fault: tuple[str, str], folder: Path, seed: int) -> tuple[FaultyCluster, list[object]]:
    with interpreted():
        cluster = FaultyCluster(PLAN, QUERY, table_of(EVENTS), folder, fault, Random(seed))
        return cluster, sorted(map(canonical, matches_of(QUERY, cluster.run([QUERY]))))


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("role", ROLES)
def test_a_death_loses_nothing_and_repeats_nothing(role: str, moment: str, tmp_path: Path) -> None:
    for seed in range(2):
        cluster, found = found_after((role, moment), tmp_path / str(seed), seed)
        assert cluster.struck, "that point was never reached"
        assert cluster.recoveries == 1
        assert found == EXPECTED
        # Whoever looked at that moment saw matches of an undisturbed run, each at most once.
        assert cluster.seen is not None
        seen = sorted(map(canonical, matches_of(QUERY, cluster.seen)))
        assert len(set(map(repr, seen))) == len(seen)
        assert set(map(repr, seen)) <= set(map(repr, EXPECTED))
        assert 0 < len(seen) < len(EXPECTED)


def test_a_barrier_that_does_not_align_is_caught(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(actors.node, "Inbox", UnalignedInbox)
    faults = [(role, "after") for role in ("coordinator", "driver")]
    results = [found_after(fault, tmp_path / f"{fault}{seed}", seed)[1] for fault in faults for seed in range(4)]
    assert any(found != EXPECTED for found in results)


def actor_processes() -> dict[str, int]:
    import ray

    actors = ray.util.list_named_actors(all_namespaces=True)
    handles = {one["name"]: ray.get_actor(one["name"], namespace=one["namespace"]) for one in actors}
    return {name: ray.get(handle.pid.remote()) for name, handle in handles.items()}


@pytest.mark.ray
@pytest.mark.slow
def test_units_that_die_while_they_write_their_state_on_ray(ray_cluster: None, tmp_path: Path) -> None:
    """Two deaths in one run: before a state is written, and after one is and before the checkpoint is complete."""
    trace = tmp_path / "trace.parquet"
    write_trace(trace, events=1_200, rate=1_000, seed=4)
    source, queries = open_trace(trace), as_workload(RAY_QUERY)
    (tmp_path / "marks").mkdir()
    processes: list[dict[str, int]] = []
    with interpreted():
        runtime = CheckpointedRuntime(
            make_plan(queries, units=3),
            TraceBlocks(source, 64),
            merge=lambda tables: result_table(queries, list(tables.values())),
            output=PublishedMatches(tmp_path / "out"),
            checkpoints=Checkpoints(str(tmp_path / "checkpoints"), every_s=0.3),
            limits=Limits(),
            options=RayOptions(replay=Replay(rate=250.0), metrics=False),
            recovered=lambda _: processes.append(actor_processes()),
        )
        deaths = ((2, "before"), (4, "after"))
        runtime._store = DyingStore(str(tmp_path / "checkpoints"), deaths, tmp_path / "marks")
        result = runtime.run()
    assert len(list((tmp_path / "marks").iterdir())) == len(deaths)
    assert len(result.recoveries) == len(deaths)
    # Only the unit that died has another process afterwards.
    (before, after) = processes
    assert len(before.items() - after.items()) == 1
    found = pa.Table.from_pylist(published(tmp_path / "out"))
    assert rows_of(found) == rows_of(decopa.run(RAY_QUERY, trace))
