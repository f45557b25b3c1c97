"""Figure 8, with numbers: what four nodes of a declared capacity sustain, and how long matches take, plan by plan.

The query is bound by comparisons. Operator placement makes one node do all of them; a partitioned placement makes each
node do those of its own events. Processes on Ray pretend to have the capacity, so the machine's cores do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cluster.network.options import NetworkRayOptions
from costmodel.capacity import Capacity
from costmodel.networks.network import EventSourcedNetwork
from costmodel.statistics import Statistics
from decopa.language.text.parser import parse
from decopa.planning.network.graphs.graph import NetworkPlan
from decopa.planning.network.planner import NetworkOptions, plan_network
from decopa.runs.networks.network import run_network_on_ray
from scripts.experiments.context import Context, Section, markdown_table
from shuffler.source.trace import open_trace

NAME = "emulated"
NODES = tuple(f"n{number}" for number in range(4))
#: The sum of two draws is below the limit for one pair in a hundred, and no index helps to find it.
TEXT = "PATTERN SEQ(A a, B b) WHERE a.x + b.x < 0.1414 WITHIN 1 s"
QUERY = parse(TEXT)
RATES = {"A": 400.0, "B": 40.0}
SELECTIVITY = 0.01
#: Of one unit, per second: comparisons are what is scarce.
CAPACITY = Capacity.per_second(1e6, 5_000)
STRATEGIES = ("search", "oop")
#: Events per block: few, so that what waits in front of a slow process is little.
_BLOCK_ROWS = 100


@dataclass(frozen=True)
class Measured:
    """One plan: events per second that it sustains, latencies at that load, and the share of heartbeats in bytes."""

    strategy: str
    sinks: int
    events_per_s: float
    p50_s: float
    p99_s: float
    heartbeats: float
    matches: int


def trace(seconds: float, seed: int = 1) -> pa.Table:
    """Poisson arrivals of both types, each event at one of the nodes."""
    rng = np.random.default_rng(seed)
    count = int(seconds * sum(RATES.values()))
    total = sum(RATES.values())
    return pa.table(
        {
            "id": range(count),
            "ts": np.sort(rng.integers(0, int(seconds * 1e6), count)),
            "type": rng.choice(list(RATES), count, p=[rate / total for rate in RATES.values()]).tolist(),
            "x": rng.random(count),
            "home": rng.choice(NODES, count).tolist(),
        }
    )


def plan_of(strategy: str) -> NetworkPlan:
    rates = {node: {name: rate / len(NODES) for name, rate in RATES.items()} for node in NODES}
    network = EventSourcedNetwork(QUERY.window_us, rates)
    statistics = Statistics(QUERY.window_us, {}, default_selectivity=SELECTIVITY)
    return plan_network([QUERY], network, statistics, NetworkOptions(strategy)).plan


def measured(seconds: float) -> list[Measured]:
    """Every strategy, as fast as it goes."""
    events, options = trace(seconds), NetworkRayOptions(block_rows=_BLOCK_ROWS, emulate=CAPACITY)
    found = []
    for strategy in STRATEGIES:
        plan = plan_of(strategy)
        run = run_network_on_ray([QUERY], plan, open_trace(events), "home", options=options)
        total, latency = run.traffic.total, run.latency
        assert latency is not None
        found.append(
            Measured(
                strategy,
                len(plan.sinks(0)),
                run.events / run.seconds,
                latency.p50_s,
                latency.p99_s,
                total.watermark_bytes / (total.bytes + total.watermark_bytes),
                run.matches.num_rows,
            )
        )
    return found


def run(context: Context) -> Section:
    found = measured(5 if context.quick else 10)
    header = ["strategy", "sinks", "events/s", "p50 ms", "p99 ms", "heartbeats, of bytes"]
    rows = [
        (one.strategy, one.sinks, one.events_per_s, 1e3 * one.p50_s, 1e3 * one.p99_s, one.heartbeats) for one in found
    ]
    link = context.write_csv("emulated.csv", header, rows)
    shown = [
        (one.strategy, one.sinks, f"{one.events_per_s:,.0f}", f"{1e3 * one.p50_s:,.0f}", f"{1e3 * one.p99_s:,.0f}",
         f"{100 * one.heartbeats:.1f} %") for one in found
    ]  # fmt: skip
    by_name = {one.strategy: one for one in found}
    gain = by_name["search"].events_per_s / by_name["oop"].events_per_s
    about = (
        f"`{TEXT}` on four nodes, each with one unit of {CAPACITY.max_comparisons:,.0f} comparisons per second, "
        f"emulated on Ray; {sum(RATES.values()):,.0f} events per second of event time. The partitioned plan sustains "
        f"{gain:.2f} times what operator placement does (ideal: 4). Latencies are those of these "
        "runs, in which sources send as fast as they are let. The paper has no numbers here, only that both are "
        "better.\n\n"
    )
    return Section(
        NAME, "Figure 8: throughput and latency on emulated units", f"{about}{markdown_table(header, shown)}\n{link}\n"
    )
