"""Real brokers under a cluster whose processes die at any moment, the NATS server among them: nothing lost or twice.

The cluster is simulated (`tests.support.crashing`), the sources are not: after each crash they connect anew and go on
from the position in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.columnar.jit import interpreted
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan
from decopa.planning.spread import spread_units
from decopa.planning.strategies.left_deep import left_deep
from shuffler.source.trace import TraceSource, open_trace
from tests.support.brokers import KafkaBroker, json_payloads, nats_server
from tests.support.brute_force import brute_force, canonical
from tests.support.crashing_stream import CrashingStream
from tests.support.engine import matches_of, table_of

QUERY = parse("PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k WITHIN 30 us")
PLAN = Plan((spread_units(left_deep(QUERY), 4),))
EVENTS = [{"id": n, "ts": n, "type": "ABC"[n * 7 % 3], "k": n % 2} for n in range(150)]
TABLE = table_of(EVENTS)
OPTIONS = "until=end&schema=id%3Dint,ts%3Dint,type%3Dstring,k%3Dint"
#: How often each source is run through; the slow test has the rest of the ten.
SOME, MORE = range(2), range(2, 10)


def check(opened: Callable[[], TraceSource], seed: int, crashed: Callable[[], None] = lambda: None) -> int:
    """Runs with crashes, compares row by row, and says how many there were."""
    chaos = Random(seed)
    with interpreted():
        cluster = CrashingStream(PLAN, TABLE, opened, shufflers=2, chaos=chaos, crashes=5, crashed=crashed)
        found = sorted(map(canonical, matches_of(QUERY, cluster.run([QUERY]))))
    assert found == sorted(map(canonical, brute_force(QUERY, EVENTS)))
    return cluster.recoveries


def on_kafka(seeds: range, folder: Path) -> int:
    broker, chaos, crashes = KafkaBroker(), Random(1), 0
    for seed in seeds:
        places = pa.array([chaos.randrange(4) for _ in EVENTS])
        for partition in range(4):
            broker.send(f"t{seed}", json_payloads(TABLE.filter(pa.compute.equal(places, partition))), partition)
        crashes += check(lambda topic=f"t{seed}": open_trace(broker.address(topic, OPTIONS)), seed)  # type: ignore[misc]
    return crashes


def on_nats(seeds: range, folder: Path) -> int:
    crashes = 0
    with nats_server(folder) as server:

        def restart() -> None:
            server.kill()
            server.start()

        for seed in seeds:
            server.make_stream(f"S{seed}")
            server.send(f"S{seed}", json_payloads(TABLE))
            address = f"nats://{server.servers}/S{seed}?{OPTIONS}"
            crashes += check(lambda one=address: open_trace(one), seed, restart)  # type: ignore[misc]
    return crashes


def on_a_folder(seeds: range, folder: Path) -> int:
    for start in range(0, len(EVENTS), 40):
        pq.write_table(TABLE.slice(start, 40), folder / f"{start:03d}.parquet")
    return sum(check(lambda: open_trace(f"folder://{folder}?{OPTIONS}"), seed) for seed in seeds)


@pytest.mark.parametrize("source", [on_kafka, pytest.param(on_nats, marks=pytest.mark.slow), on_a_folder])
def test_crashes_lose_nothing_and_repeat_nothing(source: Callable[[range, Path], int], tmp_path: Path) -> None:
    assert source(SOME, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("source", [on_kafka, on_nats, on_a_folder])
def test_many_crashes_lose_nothing_and_repeat_nothing(source: Callable[[range, Path], int], tmp_path: Path) -> None:
    assert source(MORE, tmp_path) >= len(MORE)
