"""A node that is drained by a change of plan: none of our actors is on it 5 s after the cut.

A Ray of two nodes on this machine, with a plan on both of them. The second node is drained, as a cloud does that takes
a machine back: it takes no new work. Then the plan is changed to another split, which can only go to the first node.
Matches are compared with those of a run whose plan does not change.

Example: python -m scripts.adaptation.drained --rate 500
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import Future
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import ray
from ray.cluster_utils import Cluster

import decopa
from actors.group import Limits
from cluster.change.deployed.plan_changes import PlanChanges
from cluster.change.deployed.ray_run import ChangingRayRuntime
from cluster.change.outcome import Switched
from cluster.deploy.placement import places_needed
from cluster.java import prepare_java
from cluster.options import Placement, RayOptions
from decopa.planning.plan import Plan
from scripts.benchmarks.changing.setting import UntilDone, same_matches
from scripts.reliability.jobs import QUERIES, plans_of, write_trace
from shuffler.routing.topology import Topology
from shuffler.source.pacing import Replay
from shuffler.source.trace import open_trace

#: The node is drained so long after the start, and actors are looked for so long after the cut.
_CALM_S, GOAL_S = 2.0, 5.0
_DRAIN_S = 600.0


class Drain(PlanChanges):
    """Drains a node, asks for another plan, and looks where actors are, until none is on that node or for 5 s."""

    def __init__(self, plans: tuple[Plan, Plan], source: UntilDone, node_id: str) -> None:
        super().__init__(plans[0])
        self._other, self._source, self._node_id = plans[1], source, node_id
        self._first_s: float | None = None
        self._cut_s: float | None = None
        self._look_s = 0.0
        self.asked: Future[Switched] | None = None
        #: Our actors on the node before the change; seconds after the cut and how many there were then.
        self.before = 0
        self.after: list[tuple[float, int]] = []

    def between_blocks(self, next_us: int | None = None) -> None:
        now_s = time.monotonic()
        self._first_s = self._first_s or now_s
        if self.asked is None and now_s - self._first_s >= _CALM_S:
            self.before = actors_on(self._node_id)
            drain(self._node_id)
            self.asked = self.change(self._other)
        elif self._cut_s is not None and now_s >= self._look_s:
            self._look_s = now_s + 0.5
            self.after.append((now_s - self._cut_s, actors_on(self._node_id)))
            self._source.done = now_s - self._cut_s >= GOAL_S
        old = self.plan
        super().between_blocks(next_us)
        if self.plan != old:
            self._cut_s = time.monotonic()


def actors_on(node_id: str) -> int:
    """How many actors are on a node, also such as are too busy to answer. Ray has no public call for this."""
    known: Any = ray._private.state.actors()
    return sum(one["State"] == "ALIVE" and one["Address"]["NodeID"] == node_id for one in known.values())


def drain(node_id: str) -> None:
    """As `ray drain-node` does. Ray has no public call for this."""
    from ray.core.generated import autoscaler_pb2

    client: Any = ray._private.worker.global_worker.gcs_client
    reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    deadline_ms = int((time.time() + _DRAIN_S) * 1000)
    accepted, why = client.drain_node(node_id, reason, "taken back", deadline_ms)
    if not accepted:
        raise SystemExit(f"the node cannot be drained: {why}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.adaptation.drained",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rate", type=float, default=500.0, help="events per second (default: %(default)g)")
    parser.add_argument("--units", type=int, default=3, help="of the first plan (default: %(default)s)")
    args = parser.parse_args(arguments)
    plans = plans_of(QUERIES[2], args.units)
    first, second = (places_needed(Topology(plan)) for plan in plans)
    prepare_java()
    # Each node alone has room for both plans; the first plan is spread over the two.
    places = first + second
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": places, "include_dashboard": False})
    node = cluster.add_node(num_cpus=places)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    try:
        with TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.parquet"
            write_trace(trace, events=int(120 * args.rate), rate=args.rate, seed=1)
            replay = Replay(rate=args.rate)
            source = UntilDone(open_trace(trace), replay)
            changes = Drain(plans, source, node.node_id)
            options = RayOptions(replay=replay, metrics=False, placement=Placement("SPREAD"))
            run = ChangingRayRuntime(plans[0], source, changes, limits=Limits(), options=options).run()
            expected = decopa.run(QUERIES[2], pq.read_table(trace).slice(0, run.events))
    finally:
        ray.shutdown()
        cluster.shutdown()
    (found,) = run.matches
    return tell(changes, same_matches(found, expected))


def tell(changes: Drain, same: bool) -> int:
    made = None if changes.asked is None or not changes.asked.done() else changes.asked.exception()
    empty_s = next((at_s for at_s, count in changes.after if count == 0), None)
    left = changes.after[-1][1] if changes.after else changes.before
    when = "" if empty_s is None else f"; none {empty_s:.1f} s after it"
    checks = [
        (f"{changes.before} actors were on the node before, {left} {GOAL_S:.0f} s after the cut{when}", not left),
        (f"the change was made ({made or 'no failure'})", bool(changes.after) and made is None),
        ("there were actors to move", changes.before > 0),
        ("the matches are those of a plan that does not change", same),
    ]
    for claim, holds in checks:
        print(f"- {'yes' if holds else 'NO'}: {claim}")
    return 0 if all(holds for _, holds in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
