"""Runs with checkpoints on a cluster whose machines fail: every match once, whatever is lost."""

from __future__ import annotations

import json
import time

import pytest

from tests.support.launched import Launched, longest_gap_s, recoveries, rows, wait_until

pytestmark = [pytest.mark.launch, pytest.mark.slow]
#: 133,460 events: about 33 s.
RATE = 4_000


class Run:
    """A run with checkpoints, begun on the head."""

    def __init__(self, cluster: Launched, name: str, *more: str) -> None:
        self.cluster, self.out = cluster, cluster.machines.shared / f"out-{name}"
        words = ["run", "/shared/query.txt", "--trace", "/shared/rides.parquet", "--units", "6", "--address", "auto"]
        words += ["--rate", str(RATE), "--checkpoint", f"/shared/cp-{name}", "--out", f"/shared/out-{name}", *more]
        self._process = cluster.start("n1", words)

    def await_parts(self, number: int) -> None:
        wait_until(lambda: len(list(self.out.glob("part-*.parquet"))) >= number, 120)

    def end(self, timeout_s: float = 240.0) -> str:
        """Waits for the end of the run; every match must be there once."""
        out, told = self._process.communicate(timeout=timeout_s)
        assert self._process.returncode == 0, told[-3000:]
        assert "Traceback" not in out + told
        assert rows(self.out) == rows(self.cluster.machines.shared / "expected.parquet")
        return told


def test_a_folder_that_nodes_do_not_share_is_refused_before_anything_is_read(cluster: Launched) -> None:
    words = ["run", "/shared/query.txt", "--trace", "/shared/rides.parquet", "--address", "auto"]
    done = cluster.decopa("n1", [*words, "--checkpoint", "/tmp/x", "--out", "/shared/out-refused"], check=False)
    assert done.returncode == 2
    assert "does not share the folder of checkpoints '/tmp/x'" in done.stderr
    assert any(f"node 10.77.0.{number} " in done.stderr for number in (2, 3, 4))
    assert not (cluster.machines.shared / "out-refused").exists()
    for name in ("n2", "n3", "n4"):
        cluster.machines.run(name, "test ! -e /tmp/x")


def test_a_pulled_cable_costs_no_match_and_the_standstill_is_told_in_full(cluster: Launched) -> None:
    run = Run(cluster, "cable")
    run.await_parts(3)
    victim = next(name for name in ("n4", "n3", "n2") if cluster.machines.address(name) in cluster.actors().values())
    cluster.machines.pull_cable(victim)
    try:
        told = run.end()
    finally:
        cluster.machines.plug_in(victim)
    ((seconds, noticed),) = recoveries(told)
    assert seconds > noticed > 1
    assert abs(longest_gap_s(run.out) - seconds) < 3
    await_nodes(cluster, 4)


def test_a_node_that_is_drained_is_left_without_losing_a_match(cluster: Launched) -> None:
    run = Run(cluster, "drain")
    run.await_parts(2)
    actors = cluster.actors()
    victim = next(address for address in actors.values() if address != "10.77.0.1")
    ray = f". ~/.decopa-env; {cluster.machines.python()} -W ignore -m ray.scripts.scripts"
    listed = cluster.machines.run(
        "n1", f"{ray} list nodes --filter node_ip={victim} --filter state=ALIVE --format json"
    )
    node = json.loads(listed.stdout)[0]["node_id"]
    drain = f"{ray} drain-node --address 10.77.0.1:6379 --node-id {node} --reason DRAIN_NODE_REASON_PREEMPTION"
    cluster.machines.run("n1", f"{drain} --reason-message test --deadline-remaining-seconds 600")
    wait_until(lambda: bool(cluster.actors()) and victim not in cluster.actors().values(), 60)
    told = run.end()
    assert f"draining node {victim}" in told
    # The node takes no work any more: start its Ray again.
    cluster.machines.kill(cluster.machine_at(victim), "/raylet/raylet ")
    await_nodes(cluster, 4, gone=node)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["n2", "n3", "n4", "sink"])
def test_a_raylet_that_is_killed_costs_no_match(victim: str, cluster: Launched) -> None:
    run = Run(cluster, f"raylet-{victim}", "--pin", "shuffler/0=10.77.0.1")
    run.await_parts(2)
    if victim == "sink":
        address = next(node for name, node in cluster.actors().items() if name.endswith("/sink"))
        victim = cluster.machine_at(address)
        if victim == "n1":
            pytest.skip("the sink is on the head, whose loss ends the cluster")
    assert cluster.machines.kill(victim, "/raylet/raylet ") > 0
    run.end()
    await_nodes(cluster, 4)


def await_nodes(cluster: Launched, number: int, gone: str = "") -> None:
    """The launcher starts the Ray of a machine again that was lost; that takes about a minute."""
    count = "python -W ignore -c 'from ray.util.state import list_nodes; "
    count += 'print(sum(node.state == "ALIVE" and node.node_id != "' + gone + "\" for node in list_nodes(limit=1000)))'"

    def alive() -> bool:
        time.sleep(1)
        done = cluster.machines.run("n1", f". ~/.decopa-env; {count}", check=False)
        return done.stdout.strip() == str(number)

    wait_until(alive, 150)
