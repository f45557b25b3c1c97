"""Plans as Ray actors: the same matches as in one process, back-pressure, and ends that leave nothing behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

import decopa
from actors.columnar.jit import interpreted
from actors.group import Limits
from cluster.options import Placement, RayOptions
from costmodel.capacity import Capacity
from decopa.errors import DeployError, LimitError, TraceError
from decopa.traces.synthetic import SyntheticSpec
from shuffler.exchange.outbox import FlushPolicy
from shuffler.source.lateness import Lateness
from shuffler.source.pacing import Replay

pytestmark = pytest.mark.ray

#: Every kind of operator, strings that travel and are returned, groups, alternatives.
WORKLOAD = """
QUERY nested PATTERN SEQ(A a, AND(B b, C c)) WHERE a.s = b.s AND a.x < c.x WITHIN 300 ms RETURN a.s, c.x;
QUERY groups PATTERN SEQ(A a, KL(B b), C c) WHERE a.k = b.k AND b.k = c.k WITHIN 120 ms RETURN b.s;
QUERY silence PATTERN SEQ(A a, NOT(B b), C c) WHERE a.k = b.k AND a.k = c.k WITHIN 100 ms;
QUERY either PATTERN SEQ(A a, OR(B b, C c)) WHERE a.k = b.k AND a.k = c.k WITHIN 100 ms;
QUERY one PATTERN A a WHERE a.x > 0.99 WITHIN 1 s RETURN a.s
"""
SMALL = "QUERY small PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.k = c.k WITHIN 200 ms"


@pytest.fixture(scope="module")
def events() -> pa.Table:
    spec = SyntheticSpec(events=1_200, rate_per_s=1000, types=3, keys=10, zipf=0.5, seed=4)
    return pa.Table.from_batches(list(spec.batches()))


def left_behind() -> list[object]:
    import ray
    from ray.util.placement_group import placement_group_table

    places = [group["name"] for group in placement_group_table().values() if group["state"] != "REMOVED"]
    return [*ray.util.list_named_actors(all_namespaces=True), *places]


@pytest.fixture(autouse=True)
def nothing_is_left_behind(ray_cluster: None) -> Iterator[None]:
    yield
    deadline = time.monotonic() + 10
    while left_behind() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left_behind() == []


def test_every_kind_of_operator_finds_on_ray_what_it_finds_here(events: pa.Table) -> None:
    with interpreted():
        here = decopa.run(WORKLOAD, events)
        options = RayOptions(shufflers=2, policy=FlushPolicy(max_rows=64, interval_s=0.001))
        result = decopa.run_detailed(
            WORKLOAD, events, units=6, runtime="ray", ray=options, trace=decopa.TraceOptions(batch_size=100)
        )
    assert result.matches.equals(here)
    assert here.num_rows > 1_000
    assert result.events == events.num_rows


@pytest.mark.parametrize("strategy", ["decopa", "rip"])  # all of them: test_ray_golden.py
def test_every_strategy_finds_the_same_on_ray(strategy: str, events: pa.Table) -> None:
    with interpreted():
        here = decopa.run(SMALL, events)
        found = decopa.run(SMALL, events, units=4, strategy=strategy, runtime="ray")
    assert found.equals(here)


def test_string_ids_and_timestamps_come_back_as_they_were(events: pa.Table) -> None:
    named = events.set_column(0, "id", pa.array([f"e{number}" for number in events["id"].to_pylist()]))
    named = named.set_column(1, "ts", named["ts"].cast(pa.timestamp("us", "UTC")))
    with interpreted():
        here = decopa.run(SMALL, named, units=3, runtime="local")
        for compression in (None, "zstd"):
            options = RayOptions(policy=FlushPolicy(compression=compression))
            found = decopa.run(SMALL, named, units=3, runtime="ray", ray=options)
            assert found.equals(here)
    assert found.schema.field("a").type == pa.string()


def test_a_live_stream_that_pauses_and_is_out_of_order(events: pa.Table) -> None:
    halves = [events.slice(0, 500), events.slice(500)]
    late = halves[0].take(pa.array([*range(490), 491, 490, *range(492, 500)]))

    def stream() -> Iterator[pa.RecordBatch]:
        yield from late.combine_chunks().to_batches()
        time.sleep(0.3)
        yield from halves[1].combine_chunks().to_batches()

    with interpreted():
        here = decopa.run(SMALL, events)
        found = decopa.run(
            SMALL, stream(), units=2, runtime="ray", trace=decopa.TraceOptions(lateness=Lateness(allowed_us=50_000))
        )
    assert found.equals(here)


def test_a_limit_reached_in_a_unit_is_told_with_operator_and_unit(events: pa.Table) -> None:
    with interpreted(), pytest.raises(LimitError, match=r"unit o\d+/[01] of operator o\d+ SEQ\(A,B,C\) holds .* MiB"):
        decopa.run(SMALL, events, units=2, runtime="ray", limits=Limits(max_state_bytes=1000))


def test_a_bad_value_is_told_with_its_row(events: pa.Table) -> None:
    broken = events.set_column(3, "x", pa.array([float("nan") if row == 1_000 else 0.5 for row in range(1_200)]))
    assert events.column_names[3] == "x"
    with interpreted(), pytest.raises(TraceError, match=r"column 'x', row 1001"):
        decopa.run(SMALL, broken, units=2, runtime="ray")


def test_a_unit_that_dies_ends_the_run_with_a_clear_message(events: pa.Table) -> None:
    import ray

    slow = RayOptions(replay=Replay(rate=60.0))
    killed = []

    def kill_a_unit() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not killed:
            for actor in ray.util.list_named_actors(all_namespaces=True):
                if actor["name"].startswith("small/o3"):
                    handle = ray.get_actor(actor["name"], namespace=actor["namespace"])
                    pid = ray.get(handle.pid.remote())
                    time.sleep(0.5)
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                    return
            time.sleep(0.1)

    killer = threading.Thread(target=kill_a_unit)
    killer.start()
    with interpreted(), pytest.raises(DeployError, match=r"unit 0 of operator .*SEQ\(A, ?B\).* died.*nothing was writ"):
        decopa.run(SMALL, events, units=2, strategy="left-deep", runtime="ray", ray=slow)
    killer.join()
    assert killed


def test_too_few_cpus_say_how_many_are_needed(events: pa.Table) -> None:
    with pytest.raises(DeployError, match=r"needs 101 CPUs \(100 units and 1 shufflers\).*has 32; use --units 31"):
        decopa.run(SMALL, events, units=100, runtime="ray")


def test_pins_must_name_a_node_of_the_cluster(events: pa.Table) -> None:
    options = RayOptions(placement=Placement(pins={"o3": "192.0.2.1"}))
    with pytest.raises(DeployError, match=r"cannot pin 'o3' to '192.0.2.1': the cluster's nodes are"):
        decopa.run(SMALL, events, units=2, strategy="left-deep", runtime="ray", ray=options)


def test_a_replay_takes_its_time_and_matches_come_soon_after_their_last_event(events: pa.Table) -> None:
    with interpreted():
        result = decopa.run_detailed(SMALL, events, units=2, runtime="ray", ray=RayOptions(replay=Replay(rate=600.0)))
    assert result.seconds >= 1.9
    assert result.latency.count == result.matches.num_rows
    # Time is no verdict on a busy machine; but no match can have waited for longer than the run took.
    assert 0 < result.latency.p50_s <= result.latency.max_s < result.seconds + 1


def test_a_slow_unit_holds_back_the_source(events: pa.Table) -> None:
    """Everything upstream waits: what is on its way never exceeds what the windows allow."""
    slow = RayOptions(emulate={"small/o5/0": Capacity.per_second(3_000, 1e9)}, window=2, batch_size=100)
    with interpreted():
        here = decopa.run(SMALL, events)
        result = decopa.run_detailed(SMALL, events, units=2, strategy="left-deep", runtime="ray", ray=slow)
    assert result.matches.equals(here)
    (root,) = [report for report in result.operators if report.name == "o5"]
    assert result.seconds > root.ingested / 3_000 * 0.8
