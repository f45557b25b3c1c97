"""Run by test_ray_nodes in a process of its own: a plan on a Ray of two nodes, one of which may be lost."""

from __future__ import annotations

import sys
import threading
import time

import pyarrow as pa
import ray
from ray.cluster_utils import Cluster

import decopa
from actors.columnar.jit import interpreted
from cluster.deploy.placement import Places, alive_nodes, own_address, without_lost_pins
from cluster.java import prepare_java
from cluster.options import Placement
from decopa.api import make_plan
from decopa.traces.synthetic import SyntheticSpec
from shuffler.routing.topology import Topology

QUERY = "QUERY q PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.k = c.k WITHIN 200 ms"


def main(mode: str) -> None:
    spec = SyntheticSpec(events=1_200, rate_per_s=1000, types=3, keys=10, seed=4)
    events = pa.Table.from_batches(list(spec.batches()))
    prepare_java()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False})
    second = cluster.add_node(num_cpus=4)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    try:
        with interpreted():
            if mode == "spread":
                spread(events)
            elif mode == "pin":
                pin()
            else:
                lose(events, cluster, second)
    finally:
        ray.shutdown()
        cluster.shutdown()


def spread(events: pa.Table) -> None:
    nodes: set[str] = set()

    def look() -> None:
        while not done.wait(0.2):
            for actor in ray.util.list_named_actors(all_namespaces=True):
                try:
                    handle = ray.get_actor(actor["name"], namespace=actor["namespace"])
                    nodes.add(ray.get(handle.node_id.remote(), timeout=5))
                except Exception:
                    continue  # it ended in between

    done = threading.Event()
    watcher = threading.Thread(target=look)
    watcher.start()
    options = decopa.RayOptions(replay=decopa.Replay(rate=400.0))
    found = decopa.run(QUERY, events, units=4, runtime="ray", ray=options)
    done.set()
    watcher.join()
    print(f"nodes={len(nodes)} same={found.equals(decopa.run(QUERY, events))} matches={found.num_rows}")


@ray.remote
class Anybody:
    def node_id(self) -> str:
        return str(ray.get_runtime_context().get_node_id())


def pin() -> None:
    """Both nodes have one address here, so that a pinned sink belongs to the first of them."""
    topology = Topology(make_plan(QUERY, units=2))
    places = Places(topology, Placement(pins={"q/sink": own_address()}))
    actors = [Anybody.options(**places.sink_options("q/sink")).remote() for _ in range(8)]  # type: ignore[attr-defined]
    homes = ray.get([actor.node_id.remote() for actor in actors], timeout=60)
    lost = Placement(pins={"q/sink": own_address(), "q/o1/0": "10.255.255.1"})
    print(f"left={without_lost_pins(lost).pins == {'q/sink': own_address()}}")
    print(f"pinned={set(homes) == {alive_nodes()[0]['NodeID']}}")


def lose(events: pa.Table, cluster: Cluster, node: object) -> None:
    def remove() -> None:
        while not ray.util.list_named_actors(all_namespaces=True):
            time.sleep(0.1)
        time.sleep(3)
        cluster.remove_node(node, allow_graceful=False)

    threading.Thread(target=remove, daemon=True).start()
    try:
        decopa.run(QUERY, events, units=4, runtime="ray", ray=decopa.RayOptions(replay=decopa.Replay(rate=50.0)))
    except decopa.DeployError as err:
        print(f"error={err}")


if __name__ == "__main__":
    main(sys.argv[1])
