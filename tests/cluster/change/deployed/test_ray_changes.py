"""On a real Ray a plan becomes another while it runs, with and without checkpoints, and while processes die."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import ray

import decopa
from actors.columnar.jit import interpreted
from cluster.change.deployed.plan_changes import PlanChanges
from cluster.change.history import HistoryGone
from cluster.change.outcome import ChangeAbandoned
from cluster.checkpoint.store import CheckpointStore
from cluster.deploy.deployment import Deployment
from decopa.api import as_workload
from decopa.planning.plan import Plan
from decopa.planning.spread import spread_units
from decopa.planning.strategies.left_deep import left_deep
from scripts.reliability.jobs import rows_of, write_trace
from shuffler.source.pacing import Replay
from tests.cluster.checkpoint.test_recovery import published
from tests.support.ray_changes import (
    PHASES,
    PLANS,
    QUERY,
    VICTIMS,
    Asking,
    DriverDied,
    Strike,
    checkpointed_run,
    left_behind,
    plain_run,
)

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "trace.parquet"
    write_trace(path, events=3_000, rate=1_000, seed=4)
    return path


@pytest.fixture(scope="module")
def expected(trace: Path) -> pa.Table:
    with interpreted():
        return decopa.run(QUERY, trace)


def test_plans_follow_each_other_in_a_trace_that_is_not_paced(
    ray_cluster: None, trace: Path, expected: pa.Table
) -> None:
    processes: list[dict[str, int]] = []

    def told(phase: str, deployment: Deployment) -> None:
        if phase == "cutting":  # of the plan that has been replaced
            processes.append({name: ray.get(actor.pid.remote()) for name, actor in deployment.actors.items()})

    changes = PlanChanges(PLANS[0], waits=True, told=told)
    one_unit = Plan(tuple(spread_units(part, 1) for part in PLANS[0].parts))
    made = [changes.change(plan) for plan in (PLANS[1], PLANS[0], one_unit)]
    refused = changes.change(Plan(()))
    with interpreted():
        found = plain_run(trace, changes, Replay())
    assert rows_of(found) == rows_of(expected) and found.num_rows > 100
    first, second, third = (one.result() for one in made)
    assert first.at_event <= second.at_event <= third.at_event and first.seeded <= second.seeded <= third.seeded
    assert processes[0].items() & processes[2].items(), "a plan that returns finds its processes there"
    assert not set(processes[0].values()) & set(processes[1].values())
    assert refused.exception() is not None
    assert left_behind() == []


@pytest.mark.slow
def test_a_paced_trace_does_not_stand_still_for_a_change(ray_cluster: None, trace: Path, expected: pa.Table) -> None:
    changes = Asking(PLANS[0], at=300)
    with interpreted():
        found = plain_run(trace, changes, Replay(rate=25.0), block_rows=16)
    assert rows_of(found) == rows_of(expected)
    switched = changes.asked[0].result()
    assert switched.at_event > 300 and 0 < switched.seeded <= 900
    assert switched.pause_s < 1.0 < switched.warm_up_s
    assert changes.plan == PLANS[1]


@pytest.mark.slow
def test_a_change_that_needs_more_history_than_is_kept_is_refused(
    ray_cluster: None, trace: Path, expected: pa.Table
) -> None:
    changes = Asking(PLANS[0], at=600, waits=True, max_history_bytes=1)
    with interpreted():
        found = plain_run(trace, changes, Replay())
    assert isinstance(changes.asked[0].exception(), HistoryGone)
    assert rows_of(found) == rows_of(expected)


def test_other_numbers_of_units_take_over_what_the_old_ones_held(
    ray_cluster: None, trace: Path, tmp_path: Path, expected: pa.Table
) -> None:
    """No event is kept that could be worked on again: without checkpoints, and with."""
    one, four = (Plan(tuple(spread_units(part, units) for part in PLANS[0].parts)) for units in (1, 4))
    plain = PlanChanges(PLANS[0], waits=True, max_history_bytes=1, carry_after_s=0.0)
    made = [plain.change(plan) for plan in (one, four)]
    with interpreted():
        found = plain_run(trace, plain, Replay())
        assert rows_of(found) == rows_of(expected)
        changes = Asking(PLANS[0], at=600, to=four, waits=True, max_history_bytes=1)
        checkpointed_run(trace, tmp_path, changes)
    assert rows_of(pa.Table.from_pylist(published(tmp_path / "out"))) == rows_of(expected)
    for switched in (made[1].result(), changes.asked[0].result()):
        assert switched.carried and switched.seeded == 0 and switched.at_event > 0
    assert plain.plan == four and changes.plan == four


EITHER = """QUERY q PATTERN OR(SEQ(A a, B b, C c), SEQ(B e, C f, D g))
WHERE a.k = b.k AND b.x < c.x * 0.2 AND e.k = f.k AND f.k = g.k AND e.x < g.x * 0.5 WITHIN 150 ms"""


def test_parts_that_stay_keep_what_they_hold_and_others_are_built(
    ray_cluster: None, trace: Path, tmp_path: Path
) -> None:
    """One part of the plan is split differently, the other one gets more units: without checkpoints, and with."""
    one, other = as_workload(EITHER)[0].branches
    begin = Plan((left_deep(one), spread_units(left_deep(other), 2)))
    then = Plan((spread_units(left_deep(one), 2), left_deep(other, tuple(reversed(other.aliases)))))
    plain = Asking(begin, at=1_000, to=then, waits=True, carry_after_s=0.0)
    kept = Asking(begin, at=1_000, to=then, waits=True, carry_after_s=0.0)
    with interpreted():
        expected = rows_of(decopa.run(EITHER, trace))
        assert rows_of(plain_run(trace, plain, Replay(), query=EITHER)) == expected and expected.total() > 100
        checkpointed_run(trace, tmp_path, kept, EITHER)
    assert rows_of(pa.Table.from_pylist(published(tmp_path / "out"))) == expected
    for changes in (plain, kept):
        switched = changes.asked[0].result()
        assert switched.carried and 0 < switched.seeded < 1_000 and changes.plan == then


def check_strike(trace: Path, folder: Path, expected: pa.Table, strike: Strike) -> None:
    """Whoever dies: what is published in the end are the matches, each once."""
    changes = Asking(PLANS[0], at=300, strike=strike, waits=True)
    recoveries = 0
    with interpreted():
        for _ in range(3):
            try:
                recoveries += len(checkpointed_run(trace, folder, changes).recoveries)
                break
            except DriverDied:
                changes.close()
                changes = Asking(changes.plan, at=300, waits=True)
    assert strike.struck == [strike.phase]
    assert all(one.done() for one in changes.asked)
    assert rows_of(pa.Table.from_pylist(published(folder / "out"))) == rows_of(expected)
    if strike.side == "new" and strike.phase in ("starting", "warming"):
        assert recoveries == 0
        assert isinstance(changes.asked[0].exception(), ChangeAbandoned)
    if changes.made:
        manifest = CheckpointStore(folder / "checkpoints").latest_manifest()
        assert manifest is not None and Plan.from_json(manifest.plan) == PLANS[1]
    assert left_behind() == []


@pytest.mark.slow
def test_a_change_with_checkpoints_is_in_the_manifest(
    ray_cluster: None, trace: Path, tmp_path: Path, expected: pa.Table
) -> None:
    changes = Asking(PLANS[0], at=300, waits=True)
    with interpreted():
        result = checkpointed_run(trace, tmp_path, changes)
    assert rows_of(pa.Table.from_pylist(published(tmp_path / "out"))) == rows_of(expected)
    assert not result.recoveries and len(changes.made) == 1
    manifest = CheckpointStore(tmp_path / "checkpoints").latest_manifest()
    assert manifest is not None and Plan.from_json(manifest.plan) == PLANS[1]


#: Of the matrix, what CI tries on every change; the rest is slow.
CHOSEN = [("shuffler", "old", "cutting")]
CELLS = [
    *((victim, side, phase) for phase in PHASES for side in ("old", "new") for victim in VICTIMS),
    *(("driver", "old", phase) for phase in PHASES),
]


@pytest.mark.parametrize(("victim", "side", "phase"), CHOSEN)
def test_a_death_during_a_change_loses_nothing(
    ray_cluster: None, trace: Path, tmp_path: Path, expected: pa.Table, victim: str, side: str, phase: str
) -> None:
    check_strike(trace, tmp_path, expected, Strike(victim, side, phase))


@pytest.mark.slow
@pytest.mark.parametrize(("victim", "side", "phase"), [cell for cell in CELLS if cell not in CHOSEN])
def test_whoever_dies_during_a_change_nothing_is_lost(
    ray_cluster: None, trace: Path, tmp_path: Path, expected: pa.Table, victim: str, side: str, phase: str
) -> None:
    check_strike(trace, tmp_path, expected, Strike(victim, side, phase))
