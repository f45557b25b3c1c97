"""Run by test_ray_network in a process of its own: network plans on a Ray of four nodes, one for each network node."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray
from ray.cluster_utils import Cluster

import decopa
from actors.columnar.jit import interpreted
from cluster.checkpoint.store import CheckpointStore
from cluster.java import prepare_java
from cluster.network.options import NetworkRayOptions
from cluster.network.ray_runtime import RayNetwork
from costmodel.networks.network import EventSourcedNetwork
from costmodel.statistics import Statistics
from decopa.commands.cli import main as main_command
from decopa.language.text.parser import parse
from decopa.planning.network.graphs.graph import NetworkPlan
from decopa.planning.network.planner import NetworkOptions, plan_network
from decopa.query.query import Query
from decopa.runs.networks.network import run_network
from scripts.muse.emulated import measured
from shuffler.source.trace import open_trace

NODES = tuple(f"n{number}" for number in range(4))
QUERIES = {
    "seq": "PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k WITHIN 2 ms",
    "and": "PATTERN AND(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k WITHIN 1 ms",
}


def trace(count: int = 6_000) -> pa.Table:
    rng = np.random.default_rng(8)
    return pa.table(
        {
            "id": range(count),
            "ts": np.sort(rng.integers(0, 100 * count, count)),
            "type": rng.choice(list("ABC"), count, p=[0.1, 0.3, 0.6]).tolist(),
            "k": rng.integers(0, 10, count),
            "home": rng.choice(NODES, count).tolist(),
        }
    )


def plan_of(query: Query, strategy: str) -> NetworkPlan:
    rates = {node: {"A": 0.5, "B": 1.5, "C": 3.0} for node in NODES}
    network = EventSourcedNetwork(query.window_us, rates)
    statistics = Statistics(query.window_us, {}, default_selectivity=0.1)
    options = NetworkOptions(strategy, implied=True, reducers=strategy == "search", boxes=False)
    return plan_network([query], network, statistics, options).plan


def main(mode: str, *arguments: str) -> None:
    """`same QUERY...`, `kill TIMES QUERY STRATEGY`, `emulated` or `command`."""
    prepare_java()
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "include_dashboard": False, "resources": {f"net-{NODES[0]}": 1}},
    )
    for node in NODES[1:]:
        cluster.add_node(num_cpus=2, resources={f"net-{node}": 1})
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    try:
        if mode == "emulated":  # what is measured is compiled
            emulated()
            return
        with interpreted():
            if mode == "command":
                command()
            elif mode == "kill":
                killed(int(arguments[0]), *arguments[1:])
            else:
                same(arguments)
    finally:
        ray.shutdown()
        cluster.shutdown()


def same(names: tuple[str, ...]) -> None:
    """Rows of every edge, and the matches, are those of the run in one process."""
    events = trace()
    for name in names:
        query = parse(QUERIES[name])
        for strategy in ("amuse", "search"):
            plan = plan_of(query, strategy)
            local = run_network([query], plan, open_trace(events), "home")
            homes: set[str] = set()

            def look(blocks: int, actors: Mapping[str, Any], homes: set[str] = homes) -> None:
                if blocks == 1:
                    homes.update(ray.get([actor.node_id.remote() for actor in actors.values()]))

            found = RayNetwork(plan, open_trace(events), "home", options=NetworkRayOptions(block_rows=1_000)).run(look)
            rows = {edge: one.rows for edge, one in found.traffic.edges.items() if one.rows}
            expected = {edge: one.rows for edge, one in local.traffic.edges.items() if one.rows}
            alike = found.matches[0].equals(decopa.run(query, events))
            for edge in sorted({*rows, *expected}):
                if rows.get(edge, 0) != expected.get(edge, 0):
                    print(
                        f"{name} {strategy} {edge}: {rows.get(edge, 0)} rows, not {expected.get(edge, 0)}", flush=True
                    )
            print(f"{name} {strategy} edges={rows == expected and bool(rows)} matches={alike} nodes={len(homes)} "
                  f"found={found.matches[0].num_rows}", flush=True)  # fmt: skip


def killed(kills: int, name: str, strategy: str) -> None:
    """Processes of every kind die, again and again; the matches stay the same."""
    events, query, dice = trace(), parse(QUERIES[name]), random.Random(3)
    plan = plan_of(query, strategy)
    victims: list[str] = []
    with tempfile.TemporaryDirectory() as folder:

        def strike(blocks: int, actors: Mapping[str, Any]) -> None:
            """After some blocks of an attempt, one process: sources and hosts in turn."""
            if len(victims) < kills and blocks == 3 + len(victims) % 3:
                kind = [name for name in actors if name.endswith("source") == (len(victims) % 3 == 0)]
                victims.append(dice.choice(sorted(kind)))
                os.kill(ray.get(actors[victims[-1]].pid.remote()), signal.SIGKILL)

        options = NetworkRayOptions(block_rows=150, checkpoints=CheckpointStore(folder), every_blocks=2, retries=50)
        found = RayNetwork(plan, open_trace(events), "home", options=options).run(strike)
    alike = found.matches[0].equals(decopa.run(query, events))
    kinds = {name.rpartition("/")[2] for name in victims}
    print(f"kills={len(victims)} recoveries={found.recoveries} kinds={sorted(kinds)} matches={alike} "
          f"found={found.matches[0].num_rows} seconds={found.seconds:.0f}", flush=True)  # fmt: skip


def command() -> None:
    """`decopa network run` on links and units that are emulated, at a rate, with checkpoints."""
    events, text = trace(3_000), QUERIES["seq"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stored, out, network = folder / "trace.parquet", folder / "matches.parquet", folder / "net.json"
        pq.write_table(events, stored)
        given = [text, "--trace", str(stored), "--origin", "home"]
        status = main_command(["network", "stats", *given, "--out", str(network), "--quiet"])
        document = json.loads(network.read_text())
        document["links"] = [{"from": "n0", "to": "n1", "bytes_per_s": 1_000_000, "latency_ms": 5}]
        network.write_text(json.dumps(document))
        more = ["--rate", "3000", "--emulate", "--iota", "1e6", "--kappa", "1e7", "--idle-after", "20 ms"]
        places = ["--network", str(network), "--checkpoint", str(folder / "checkpoints"), "--out", str(out)]
        status += main_command(["network", "run", *given, *more, *places])
        print(f"status={status} matches={pq.read_table(out).equals(decopa.run(text, events))}", flush=True)


def emulated() -> None:
    """Units of a declared capacity: what the partitioned plan sustains, beside operator placement (A14)."""
    for one in measured(10):
        print(f"{one.strategy} sinks={one.sinks} rate={one.events_per_s:.0f} p50={one.p50_s:.4f} p99={one.p99_s:.4f} "
              f"heartbeats={one.heartbeats:.4f} matches={one.matches}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
