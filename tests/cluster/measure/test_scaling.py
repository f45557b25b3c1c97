"""Calibration and scaling on a real Ray."""

from __future__ import annotations

import pytest

from actors.columnar.jit import interpreted
from actors.group import Limits
from cluster.measure.calibrate import calibrate_cluster, calibrate_node, calibration_spec
from cluster.measure.scaling import EndlessTrace, RateTest
from cluster.options import RayOptions
from costmodel.capacity import Capacity
from decopa.choices import Objective
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan
from decopa.planning.strategies.baselines import state_parallel
from decopa.runs.preparation.measure import measure
from decopa.runs.scaling.scale_points import PointKey
from decopa.runs.scaling.scale_test import ScaleSettings, ScaleTest
from decopa.traces.synthetic import SyntheticSpec
from shuffler.exchange.channel import Message
from shuffler.exchange.outbox import FlushPolicy
from shuffler.source.trace import open_trace

SPEC = SyntheticSpec(events=20_000, types=2, zipf=0.0, seed=1)
QUERY = parse("PATTERN SEQ(A a, B b) WHERE a.x < b.x * 0.1 WITHIN 100 ms")


def test_a_unit_is_calibrated_in_this_process() -> None:
    spec = calibration_spec(QUERY, open_trace(SPEC.table()), events=2_000, repeats=1)
    shipped: list[Message] = []
    with interpreted():
        node = calibrate_node(spec, "here", shipped.append)
    assert any(message.rows for message in shipped)
    assert node.capacity.max_ingestion > 0
    assert {one.load.split(": ")[1].split(",")[0] for one in node.measurements} >= {"comparisons"}
    assert 0.3 < node.ramps[0].queueing_rate / node.ramps[0].predicted_rate < 3


def test_a_trace_is_played_again_with_times_and_ids_that_go_on() -> None:
    trace = EndlessTrace(open_trace(SyntheticSpec(events=10, types=2, seed=1, timestamps=True).table()), ["x"])
    batches = [trace.take(4) for _ in range(8)]
    assert [batch.num_rows for batch in batches] == [4, 4, 2, 4, 4, 2, 4, 4]
    times = [value for batch in batches for value in batch.column("ts").to_pylist()]
    ids = [value for batch in batches for value in batch.column("id").to_pylist()]
    assert times == sorted(times)
    assert len(set(ids)) == len(ids)
    assert batches[0].schema == batches[-1].schema


@pytest.mark.parametrize("timestamps", [False, True])
def test_an_endless_trace_tells_how_many_events_are_earlier_than_a_time(timestamps: bool) -> None:
    trace = EndlessTrace(open_trace(SyntheticSpec(events=10, types=2, seed=1, timestamps=timestamps).table()), [])
    times = [
        int(value)
        for _ in range(12)
        for value in trace.take(4).column("ts").cast("timestamp[us]").cast("int64").to_numpy()
    ]
    for moment in (times[0], times[3] + 1, times[9], times[10], times[17] + 1, times[-1]):
        assert trace.events_before(moment) == sum(time < moment for time in times)


@pytest.mark.ray
def test_every_node_of_a_cluster_is_calibrated(ray_cluster: None) -> None:
    found = calibrate_cluster(calibration_spec(QUERY, open_trace(SPEC.table()), events=20_000, repeats=1))
    assert len(found.nodes) == 1
    assert found.capacity.max_ingestion > 10_000


@pytest.mark.ray
def test_delays_grow_if_more_comes_than_units_can_do(ray_cluster: None) -> None:
    source = open_trace(SPEC.table())
    capacity = Capacity.per_second(1_000, 100_000_000)  # 1 ms for each event
    test = RateTest(
        Plan((state_parallel(QUERY),)),
        source,
        limits=Limits(),
        options=RayOptions(emulate={"": capacity}, metrics=False, policy=FlushPolicy(interval_s=0.05)),
        warm_up_events=500,
    )
    with test:
        test.offer(500, 1)
        calm, crowded = test.offer(500, 2), test.offer(2_000, 2)
    assert calm.sustained
    assert not crowded.sustained
    assert crowded.growth == pytest.approx(0.5, abs=0.15)
    assert crowded.achieved == pytest.approx(1_000, rel=0.2)
    assert not crowded.disturbed


@pytest.mark.ray
@pytest.mark.slow
def test_an_emulated_unit_sustains_about_what_is_predicted(ray_cluster: None) -> None:
    source = open_trace(SPEC.table())
    statistics = [one.statistics for one in measure([QUERY], source)]
    settings = ScaleSettings(
        Capacity.per_second(100, 10_000), emulate=True, objective=Objective.BUSY, seconds=4, target_rate=2_000,
        precision=0.15, most_trials=5, tolerance=0.1,
    )  # fmt: skip
    point = ScaleTest([QUERY], statistics, source, settings).measure(PointKey("decopa", 2))
    assert point.emulated
    assert point.measured == pytest.approx(point.predicted, rel=0.35)
    comparisons = [one for one in point.loads if one["quantity"] == "comparisons"]
    assert abs(comparisons[0]["error"]) < 0.1
