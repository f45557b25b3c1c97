"""Networks that cost: what passes between machines, measured at the switch and held against what was predicted."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.launched import Launched
from tests.support.machines import LAPTOP

pytestmark = [pytest.mark.launch, pytest.mark.slow]
MBIT = 20
#: Events/s of the demo's queries on this network when every event passed through the driver.
THROUGH_THE_DRIVER = 41_000
DEMO = """
QUERY far_apart PATTERN SEQ(ShortY sy, LongC lc, AND(ShortO so, LongO lo))
WHERE FORALL (i, j) IN (sy, lc, so, lo): dist_km(i.lat, i.lon, j.lat, j.lon) >= 3
WITHIN 24 h RETURN sy.start_station, lc.start_station
QUERY same_bike PATTERN SEQ(VLongC c, KL(LongO o), LongY y) WHERE c.bike = o.bike AND o.bike = y.bike WITHIN 12 h
RETURN c.bike
"""
#: So many events that what Ray itself sends (starting actors, heartbeats, metrics) is a small share.
TRACE = ["trace", "synthetic", "--events", "600000", "--types", "3", "--zipf", "0", "--keys", "1000", "--seed", "11"]
QUERIES = {
    "pair": "PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 1 s",
    "chain": "PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k WITHIN 500 ms",
    "both": "PATTERN SEQ(A a, AND(B b, C c)) WHERE a.k = b.k AND b.x < c.x AND b.k = c.k WITHIN 500 ms",
}
#: Machines that send less than this are not held to the prediction: most of it is Ray's own.
LEAST_BYTES = 4e6


@pytest.fixture
def slow_network(cluster: Launched) -> Iterator[Launched]:
    for name in cluster.nodes:
        cluster.machines.limit_rate(name, MBIT)
    yield cluster
    for name in cluster.nodes:
        cluster.machines.limit_rate(name, 10_000)


def rate(text: str) -> float:
    found = re.search(r"\(([\d,]+) events/s", text)
    assert found is not None, text
    return float(found[1].replace(",", ""))


def test_shufflers_that_read_for_themselves_are_not_held_up_by_the_drivers_network(slow_network: Launched) -> None:
    machines = slow_network.machines
    slow_network.decopa(
        "n1", ["trace", "rides", "--days", "7", "--seed", "7", "--out", "/shared/week.parquet", "--quiet"]
    )
    machines.run("n1", "cp /shared/week.parquet /tmp/week.parquet; cat > /tmp/demo.txt", stdin=DEMO)
    run = ["run", "/tmp/demo.txt", "--address", "auto", "--units", "6"]
    # Nobody but the driver sees the first trace, and its one shuffler is on another machine.
    away = ["--trace", "/tmp/week.parquet", "--pin", "shuffler/0=10.77.0.2", "--out", "/tmp/fed.parquet"]
    fed = slow_network.decopa("n1", [*run, *away])
    pins = [word for number in range(4) for word in ("--pin", f"shuffler/{number}=10.77.0.{number + 1}")]
    there = ["--trace", "/shared/week.parquet", "--shufflers", "4", *pins, "--out", "/tmp/read.parquet"]
    read = slow_network.decopa("n1", [*run, *there])
    small = slow_network.decopa("n1", [*run, *there, "--compress", "zstd", "--overwrite"])
    print(
        f"{MBIT} Mbit/s: {rate(fed.stderr):,.0f} events/s through the driver, {rate(read.stderr):,.0f} without, "
        f"{rate(small.stderr):,.0f} without and compressed"
    )
    assert rate(small.stderr) >= 4 * THROUGH_THE_DRIVER


@pytest.fixture(scope="module")
def long_trace(cluster: Launched) -> Launched:
    cluster.decopa(LAPTOP, [*TRACE, "--out", "/shared/long.parquet", "--quiet"])
    return cluster


@pytest.mark.parametrize("name", QUERIES)
def test_placement_by_edges_sends_less_and_about_what_was_predicted(
    name: str, long_trace: Launched, slow_network: Launched
) -> None:
    machines = slow_network.machines
    machines.run("n1", f"cat > /tmp/{name}.txt", stdin=QUERIES[name])
    run = ["run", f"/tmp/{name}.txt", "--trace", "/shared/long.parquet", "--address", "auto", "--units", "9", "--quiet"]
    shown = slow_network.decopa("n1", [*run, "--placement", "EDGES", "--dry-run"]).stdout
    predicted = {node: float(size) * 1e6 for node, size in re.findall(r"^(10\.\S+)\s+sends ([\d.]+) MB", shown, re.M)}
    sent = {}
    for placement in ("EDGES", "SPREAD"):
        before = machines.bytes_sent()
        slow_network.decopa("n1", [*run, "--placement", placement, "--out", f"/tmp/{name}-{placement}.parquet"])
        after = machines.bytes_sent()
        sent[placement] = {machines.address(node): float(after[node] - before[node]) for node in slow_network.nodes}
    for node, size in sent["EDGES"].items():
        print(f"{name}: {node} sent {size / 1e6:.2f} MB, predicted {predicted.get(node, 0.0) / 1e6:.2f} MB")
    totals = {placement: sum(sizes.values()) for placement, sizes in sent.items()}
    print(f"{name}: EDGES {totals['EDGES'] / 1e6:.1f} MB, SPREAD {totals['SPREAD'] / 1e6:.1f} MB in all")
    assert totals["EDGES"] < totals["SPREAD"]
    large = [node for node, size in sent["EDGES"].items() if max(size, predicted.get(node, 0.0)) >= LEAST_BYTES]
    assert large
    for node in large:
        assert predicted[node] == pytest.approx(sent["EDGES"][node], rel=0.25)
