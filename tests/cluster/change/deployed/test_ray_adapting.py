"""On a real Ray the plan of a run follows its stream: stored, with checkpoints, and live."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import decopa
from decopa import Adapt, Capacity, Checkpoints, Planning, TraceOptions
from decopa.planning.price import plan_units
from scripts.reliability.jobs import rows_of
from tests.cluster.checkpoint.test_recovery import published
from tests.support.mirrored import QUERY, RARE_A, RARE_C, mirrored, stream
from tests.support.ray_changes import left_behind

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("without_compiling")]

#: A block is worked on in a millisecond or two, and counters take about as long to come.
SMALL = TraceOptions(batch_size=8)
OFTEN = Adapt(overhead=1.0)


@pytest.fixture(scope="module")
def events() -> pa.Table:
    return stream([(250, RARE_A), (150, RARE_C)])


@pytest.mark.slow
def test_a_stored_trace_changes_its_plan_and_no_match(ray_cluster: None, events: pa.Table) -> None:
    followed = decopa.run_detailed(QUERY, events, units=2, trace=SMALL, adapt=OFTEN)
    assert followed.matches.equals(decopa.run(QUERY, events))
    made = [one for one in followed.switches if one.given_up is None]
    assert made and "rate of A" in made[0].reason
    assert 250_000_000 <= made[0].at_us <= 370_000_000
    assert followed.plan == made[-1].plan and made[0].replayed and made[0].stall_s > 0
    assert followed.earlier_operators
    assert left_behind() == []


@pytest.mark.slow
def test_mirrored_rates_change_the_plan_both_ways(ray_cluster: None) -> None:
    events = mirrored()
    followed = decopa.run_detailed(QUERY, events, units=2, trace=SMALL, adapt=OFTEN)
    assert followed.matches.equals(decopa.run(QUERY, events))
    first, second = (one for one in followed.switches if one.given_up is None)
    assert 0 <= first.at_us - 360_000_000 <= 120_000_000 and "rate of A" in first.reason
    assert 0 <= second.at_us - 720_000_000 <= 120_000_000 and "rate of C" in second.reason
    assert first.measured and second.measured


@pytest.mark.slow
def test_with_checkpoints_the_plan_follows_the_stream_and_each_match_is_published_once(
    ray_cluster: None, events: pa.Table, tmp_path: Path
) -> None:
    pq.write_table(events, tmp_path / "events.parquet")
    done = decopa.run_with_checkpoints(
        QUERY,
        tmp_path / "events.parquet",
        out=tmp_path / "out",
        checkpoint=Checkpoints(str(tmp_path / "checkpoints"), every_s=0.3),
        units=2,
        trace=SMALL,
        adapt=Adapt(overhead=1.0, log=str(tmp_path / "changes.jsonl")),
    )
    assert rows_of(pa.Table.from_pylist(published(tmp_path / "out"))) == rows_of(decopa.run(QUERY, events))
    assert [one for one in done.switches if one.given_up is None]
    assert '"kind": "plan"' in (tmp_path / "changes.jsonl").read_text()
    assert left_behind() == []


@pytest.mark.slow  # how soon a plan changes depends on how busy the machine is
def test_a_live_stream_changes_its_plan_while_matches_leave(ray_cluster: None) -> None:
    """It is measured once the stream has shown its rates; the first plan goes by the order of the query."""
    fed: list[pa.RecordBatch] = []

    def batches() -> Iterator[pa.RecordBatch]:
        """Waits between two batches until the plan has changed, however long processes take to start."""
        after = 0
        for batch in stream([(6_000, RARE_C)]).to_batches(max_chunksize=32):
            fed.append(batch)
            yield batch
            after += bool(run.summary().switches)
            if after > 60:
                return
            time.sleep(0.0 if after else 0.03)

    run = decopa.watch(QUERY, batches(), units=2, adapt=Adapt(every_s=0.05, overhead=1.0, horizon_s=1e6))
    found = pa.concat_tables(list(run))
    assert rows_of(found) == rows_of(decopa.run(QUERY, pa.Table.from_batches(fed)))
    summary = run.summary()
    made = [one for one in summary.switches if one.given_up is None]
    assert made and "the stream was measured" in made[0].reason
    assert summary.plan == made[-1].plan and made[0].pause_s < 1.0
    assert left_behind() == []


@pytest.mark.slow
def test_the_number_of_units_follows_the_load(ray_cluster: None) -> None:
    low = dict.fromkeys("ABC", 60.0)
    events = stream([(240, low), (240, {name: 5 * rate for name, rate in low.items()}), (240, low)])
    planning = Planning(units=2, capacity=Capacity.per_second(100, 25))
    followed = decopa.run_detailed(
        QUERY,
        events,
        planning=planning,
        trace=TraceOptions(batch_size=8),
        adapt=Adapt(overhead=1.0, units=(2, 8)),
        runtime="ray",
    )
    units = [plan_units(switch.plan) for switch in followed.switches if switch.given_up is None]
    assert max(units) > 4 and units[-1] == 2
    assert followed.matches.equals(decopa.run(QUERY, events))
