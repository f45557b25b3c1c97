"""Runs with checkpoints on a cluster whose machines fail: every match once, whatever is lost."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from pathlib import Path
from types import TracebackType

import pytest

from tests.support.launched import Launched, longest_gap_s, recoveries, rows, wait_until
from tests.support.machines import LAPTOP

pytestmark = pytest.mark.launch
#: Matches come all the time, so that every checkpoint publishes some: about 60 a second of event time.
QUERY = "QUERY steady PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k WITHIN 200 ms"
TRACE = ["trace", "synthetic", "--events", "120000", "--types", "3", "--zipf", "0", "--keys", "100", "--seed", "5"]
#: Events per second that are played: the run takes about 30 s, and longer where something happens by hand meanwhile.
RATE, SLOW_RATE = 4_000, 1_500
#: Holds so many CPUs, spread over nodes; says "held" when it has them.
HOLD = """
import sys, time, ray
from ray.util.placement_group import placement_group
ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
nodes = [node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]]
ray.get(placement_group([{{"CPU": {cpus}, f"node:{{node}}": 0.001}} for node in nodes]).ready())
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def steady(cluster: Launched) -> Launched:
    """The cluster, with a trace whose matches come all the time, and what is to be found in it."""
    cluster.decopa(LAPTOP, [*TRACE, "--out", "/shared/steady.parquet", "--quiet"])
    cluster.machines.run(LAPTOP, "cat > /shared/steady.txt", stdin=QUERY)
    there = ["run", "/shared/steady.txt", "--trace", "/shared/steady.parquet", "--runtime", "local", "--quiet"]
    cluster.decopa(LAPTOP, [*there, "--out", "/shared/steady-expected.parquet"])
    return cluster


class Run:
    """A run with checkpoints, begun on the head; it ends with the context at the latest."""

    def __init__(self, cluster: Launched, name: str, *more: str, rate: int = RATE) -> None:
        self.cluster, self.out = cluster, cluster.machines.shared / f"out-{name}"
        words = ["run", "/shared/steady.txt", "--trace", "/shared/steady.parquet", "--units", "6", "--address", "auto"]
        words += ["--rate", str(rate), "--checkpoint", f"/shared/cp-{name}", "--out", f"/shared/out-{name}", *more]
        self._process = cluster.start("n1", words)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.cluster.machines.kill("n1", f"--out /shared/{self.out.name}")
            self._process.communicate(timeout=30)

    @property
    def parts(self) -> list[Path]:
        return list(self.out.glob("part-*.parquet"))

    def await_parts(self, number: int) -> None:
        wait_until(lambda: len(self.parts) >= number, 120)

    def end(self, timeout_s: float = 240.0) -> str:
        """Waits for the end of the run; every match must be there once."""
        out, told = self._process.communicate(timeout=timeout_s)
        assert self._process.returncode == 0, told[-3000:]
        assert "Traceback" not in out + told
        assert rows(self.out) == rows(self.cluster.machines.shared / "steady-expected.parquet")
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


@pytest.mark.slow
def test_a_pulled_cable_costs_no_match_and_the_standstill_is_told_in_full(steady: Launched) -> None:
    machines = steady.machines
    with Run(steady, "cable") as run:
        run.await_parts(3)
        found = steady.actors().values()
        victim = next(name for name in ("n4", "n3", "n2") if machines.address(name) in found)
        machines.pull_cable(victim)
        pulled = time.monotonic()
        try:
            told = run.end()
        finally:
            machines.plug_in(victim)
    ((seconds, noticed),) = recoveries(told)
    gap = longest_gap_s(run.out)
    print(f"cable pulled: told {seconds:.1f} s ({noticed:.1f} s to notice), parts {gap:.1f} s apart, ", end="")
    print(f"the run ended {time.monotonic() - pulled:.0f} s after it")
    assert seconds > noticed > 1
    assert abs(gap - seconds) < 2
    assert seconds < 60


@pytest.mark.slow
def test_a_node_that_is_drained_is_left_without_losing_a_match(steady: Launched) -> None:
    await_nodes(steady, 4)  # a cable was pulled before
    with Run(steady, "drain", rate=SLOW_RATE) as run:
        run.await_parts(2)
        victim = next(address for address in steady.actors().values() if address != "10.77.0.1")
        node = node_at(steady, victim)
        drain = f"drain-node --address 10.77.0.1:6379 --node-id {node} --reason DRAIN_NODE_REASON_PREEMPTION"
        ray(steady, f"{drain} --reason-message test --deadline-remaining-seconds 600")
        moved = False

        def left() -> bool:
            nonlocal moved
            homes = set(steady.actors().values())
            moved = bool(homes) and victim not in homes
            return moved

        wait_until(left, 60)
        told = run.end()
    assert f"draining node {victim}" in told
    ((seconds, _),) = recoveries(told)
    print(f"drained: moved within {seconds:.1f} s")
    # The node takes no work any more: start its Ray again.
    steady.machines.kill(steady.machine_at(victim), "/raylet/raylet ")
    await_nodes(steady, 4, gone=node)


@pytest.mark.slow
def test_raylets_that_are_killed_in_turn_cost_no_match(steady: Launched) -> None:
    """All three workers lose theirs in one run, the one with the sink (n3) among them; shuffler and driver are on the
    head, whose loss ends the cluster."""
    pins = ["--pin", "shuffler/0=10.77.0.1", "--pin", "steady/sink=10.77.0.3"]
    with Run(steady, "raylets", *pins, rate=SLOW_RATE) as run:
        for victim in ("n2", "n3", "n4"):
            print(f"{victim} after {len(run.parts)} parts", flush=True)
            run.await_parts(len(run.parts) + 2)  # it works, and a checkpoint has something to go back to
            homes = steady.actors()
            assert victim != "n3" or homes["steady/sink"] == "10.77.0.3"
            assert steady.machines.kill(victim, "/raylet/raylet ") > 0, victim
            if steady.machines.address(victim) in homes.values():
                run.await_parts(len(run.parts) + 1)
        told = run.end()
    for seconds, noticed in recoveries(told):
        print(f"raylet killed: back in {seconds:.1f} s, {noticed:.1f} s to notice")
    assert len(recoveries(told)) >= 2  # n2 and n4 may have been without units when theirs were killed
    await_nodes(steady, 4)


@pytest.mark.slow
def test_a_run_whose_places_are_gone_waits_until_a_node_joins(steady: Launched) -> None:
    """Of 4 CPUs of each node another job holds 2: a run of 7 has one to spare, and one too few without a node."""
    python = f". ~/.decopa-env; exec {steady.machines.python()} -W ignore -c {shlex.quote(HOLD.format(cpus=2))}"
    holder = steady.machines.start("n1", python)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with Run(steady, "rejoin", "--pin", "shuffler/0=10.77.0.1") as run:
            run.await_parts(2)
            assert steady.machines.kill("n3", "/raylet/raylet ") > 0
            told = run.end()
    finally:
        steady.machines.kill("n1", "time.sleep(600)")
        holder.communicate(timeout=30)
    ((seconds, _),) = recoveries(told)
    print(f"waited {seconds:.0f} s for a node to join")
    await_nodes(steady, 4)


def ray(cluster: Launched, words: str) -> subprocess.CompletedProcess[str]:
    line = f". ~/.decopa-env; {cluster.machines.python()} -W ignore -m ray.scripts.scripts {words}"
    return cluster.machines.run("n1", line)


def node_at(cluster: Launched, address: str) -> str:
    """The id of the node with this address that is alive."""
    listed = ray(cluster, f"list nodes --filter node_ip={address} --filter state=ALIVE --format json")
    return str(json.loads(listed.stdout)[0]["node_id"])


def await_nodes(cluster: Launched, number: int, gone: str = "") -> None:
    """The launcher starts the Ray of a machine again that was lost; that takes about a minute."""
    count = "python -W ignore -c 'from ray.util.state import list_nodes; "
    count += 'print(sum(node.state == "ALIVE" and node.node_id != "' + gone + "\" for node in list_nodes(limit=1000)))'"

    def alive() -> bool:
        time.sleep(1)
        done = cluster.machines.run("n1", f". ~/.decopa-env; {count}", check=False)
        return done.stdout.strip() == str(number)

    wait_until(alive, 150)
