"""A cluster up, runs and jobs on it, closed to those without its token."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess

import pytest

from tests.support.launched import Launched, rows, wait_until
from tests.support.machines import LAPTOP

pytestmark = pytest.mark.launch
RUN = ["run", "query.txt", "--trace", "/shared/rides.parquet", "--units", "6"]
#: What listens on a node beside sshd, as docs/security.md lists it; workers' own ports lie from 10100 to 10999.
OPEN_ON_WORKERS = {8076, 8077, 8078, 8079, 8090, 52365}
OPEN_ON_HEAD = {*OPEN_ON_WORKERS, 6379, 10001, 44217, 44227}
#: Of these, metrics answer without a token; nothing can be done through them.
METRICS = {8090, 44217, 44227}
#: Prints the addresses of the nodes that executors of a Spark are on.
EXECUTORS = """
import json, ray
from ray.util.state import list_actors, list_nodes
nodes = {node.node_id: node.node_ip for node in list_nodes(limit=1000)}
print(json.dumps([nodes[actor.node_id] for actor in list_actors(filters=[("state", "=", "ALIVE")], limit=1000)
                  if actor.class_name.endswith("RayDPExecutor")]))
"""


def test_every_node_is_there(cluster: Launched) -> None:
    shown = [line.split()[:2] for line in cluster.up_output.splitlines()[1:]]
    assert shown == [["10.77.0.1", "head"], *([f"10.77.0.{number}", "worker"] for number in (2, 3, 4))]
    assert cluster.decopa(LAPTOP, ["cluster", "status", cluster.file]).stdout == cluster.up_output


def test_a_second_up_of_the_same_cluster_is_refused(cluster: Launched) -> None:
    done = cluster.decopa(LAPTOP, ["cluster", "up", cluster.file], check=False)
    assert done.returncode == 2
    assert "a Ray runs on 10.77.0.1 already" in done.stderr


def test_the_token_is_its_owners_and_nowhere_else(cluster: Launched) -> None:
    machines = cluster.machines
    token = machines.run(LAPTOP, "cat ~/.ray/auth_token").stdout.strip()
    assert len(token) >= 32
    for name in machines.names:
        assert machines.run(name, "stat -c %a ~/.ray/auth_token").stdout.strip() == "600"
        searched = "grep -rIl -f - /tmp ~ --exclude-dir=.cache 2>/dev/null | grep -v '/.ray/auth_token$' || true"
        assert machines.run(name, searched, stdin=token).stdout == ""
        assert token not in machines.run(name, "ps axww -o args", user="root").stdout


@pytest.mark.slow
def test_without_the_token_nothing_answers(cluster: Launched) -> None:
    head = "10.77.0.1"
    cluster.machines.run(
        LAPTOP, f"! timeout 5 bash -c 'exec 3<>/dev/tcp/{head}/8265'"
    )  # the dashboard is not reachable
    asked = "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8265/api/v0/nodes"
    assert cluster.machines.run("n1", asked).stdout == "401"
    # A fifth machine cannot join.
    python = cluster.machines.python()
    start = f"{python} -W ignore -m ray.scripts.scripts start --address={head}:6379"
    join = f"unset RAY_AUTH_MODE; HOME=/tmp timeout 90 {start}"
    done = cluster.machines.run(LAPTOP, join, check=False, timeout_s=120)
    assert done.returncode != 0
    assert "10.77.0.254" not in cluster.decopa(LAPTOP, ["cluster", "status", cluster.file]).stdout


@pytest.mark.parametrize(("name", "listed"), [("n1", OPEN_ON_HEAD), ("n2", OPEN_ON_WORKERS)])
def test_what_listens_is_what_the_documents_say(name: str, listed: set[int], cluster: Launched) -> None:
    found = cluster.machines.run(name, "ss -tlnH | awk '{print $4}'", user="root").stdout.split()
    ports = {int(one.rpartition(":")[2]) for one in found if not one.startswith("127.") and not one.endswith(":22")}
    assert {port for port in ports if not 10100 <= port <= 10999} == listed


@pytest.mark.slow
def test_no_port_does_anything_for_who_has_no_token(cluster: Launched) -> None:
    """From the laptop, with a home that has no token: a run, a job, an actor through the client port, a call to the
    head's store of clusters. Workers' own ports want the token of their cluster, too."""
    machines, python = cluster.machines, cluster.machines.python()
    token = machines.run(LAPTOP, "cat ~/.ray/auth_token").stdout.strip()

    def without(program: str) -> subprocess.CompletedProcess[str]:
        line = f"mkdir -p /tmp/stranger; export HOME=/tmp/stranger; unset RAY_AUTH_MODE RAY_AUTH_TOKEN; {program}"
        return machines.run(LAPTOP, line, check=False, timeout_s=120)

    client = "import ray; ray.init('ray://10.77.0.1:10001'); print(ray.get(ray.remote(lambda: 42).remote()))"
    done = without(f"timeout 60 {python} -W ignore -c {shlex.quote(client)}")
    assert done.returncode != 0
    assert "42" not in done.stdout
    calls = {
        6379: "ray.rpc.NodeInfoGcsService/GetAllNodeInfo",
        8077: "ray.rpc.NodeManagerService/GetNodeStats",
        8078: "ray.rpc.ReporterService/GetTraceback",
        52365: None,
    }
    for port, method in calls.items():
        if method is None:
            asked = f"curl -s -o /dev/null -w '%{{http_code}}' http://10.77.0.1:{port}/api/job_agent/jobs/"
            assert without(asked).stdout in ("401", "403", "404"), port
            continue
        call = f"""import grpc
with grpc.insecure_channel("10.77.0.1:{port}") as channel:
    try:
        channel.unary_unary("/{method}")(b"", timeout=10)
        print("answered")
    except grpc.RpcError as err:
        print(err.code().name)"""
        assert without(f"{python} -W ignore -c {shlex.quote(call)}").stdout.strip() == "UNAUTHENTICATED", port
    job = """curl -s -o /dev/null -w '%{http_code}' -X POST -H 'Content-Type: application/json' \
        -d '{"entrypoint": "id"}' http://127.0.0.1:8265/api/jobs/"""
    assert machines.run("n1", job).stdout == "401"
    for port in METRICS:  # what they show is counts and names
        assert token not in machines.run(LAPTOP, f"curl -s http://10.77.0.1:{port}/metrics || true").stdout


@pytest.mark.slow
def test_a_run_on_the_head_spreads_and_finds_what_a_local_one_does(cluster: Launched) -> None:
    out = cluster.machines.shared / "spread.parquet"
    shared = ["run", "/shared/query.txt", *RUN[2:], "--address", "auto", "--out", "/shared/spread.parquet"]
    before = cluster.machines.bytes_sent()
    cluster.decopa("n1", shared)
    after = cluster.machines.bytes_sent()
    assert rows(out) == rows(cluster.machines.shared / "expected.parquet")
    # Units that were at work elsewhere have sent what they found.
    assert sum(after[name] - before[name] > 10_000 for name in cluster.nodes) == 4


@pytest.mark.slow
def test_spark_has_executors_on_several_nodes_and_the_run_finds_the_same(cluster: Launched) -> None:
    """A Spark on the cluster's Ray reads and measures the trace; places are left for it."""
    words = ["run", "/shared/query.txt", "--trace", "/shared/rides.parquet", "--units", "4", "--spark"]
    run = cluster.start("n1", [*words, "--address", "auto", "--out", "/shared/spark.parquet", "--overwrite"])
    look = f". ~/.decopa-env; {cluster.machines.python()} -W ignore -c {shlex.quote(EXECUTORS)}"
    homes: set[str] = set()
    while run.poll() is None:
        seen = cluster.machines.run("n1", look, timeout_s=60, check=False).stdout.splitlines()
        homes |= set(json.loads(seen[-1])) if seen else set()
    out, told = run.communicate(timeout=10)
    assert run.returncode == 0, told[-3000:]
    print(f"executors on {sorted(homes)}")
    assert len(homes) >= 2
    assert rows(cluster.machines.shared / "spark.parquet") == rows(cluster.machines.shared / "expected.parquet")
    predicted = re.search(r"predicted: ([\d.,]+)", out + told)
    assert predicted is not None
    assert float(predicted[1].rstrip(".,").replace(",", "")) > 0


@pytest.mark.slow
def test_a_driver_elsewhere_is_told_to_submit(cluster: Launched) -> None:
    done = cluster.decopa(LAPTOP, [*RUN, "--address", "10.77.0.1:6379"], check=False)
    assert done.returncode == 2
    assert "this machine is no node of the Ray cluster" in done.stderr
    assert "decopa submit" in done.stderr


@pytest.mark.slow
def test_a_driver_without_the_token_is_told_so(cluster: Launched) -> None:
    command = cluster.command(["run", "/shared/query.txt", *RUN[2:], "--address", "auto"])
    line = f". ~/.decopa-env; mkdir -p /tmp/elsewhere; HOME=/tmp/elsewhere {command}"
    done = cluster.machines.run("n1", line, check=False, timeout_s=120)
    assert done.returncode == 2
    assert "token" in done.stderr
    assert "Traceback" not in done.stderr


# ------------------------------------------------------------------ jobs


def submit(*words: str) -> list[str]:
    return ["submit", "--cluster", "../cluster.yaml", *words]


def in_empty_folder(cluster: Launched, words: list[str], *, check: bool = True) -> tuple[int, str, str]:
    line = f"mkdir -p job && cd job && cp ../query.txt . && {cluster.command(words)}"
    done = cluster.machines.run(LAPTOP, line, timeout_s=180, check=check)
    return done.returncode, done.stdout, done.stderr


def test_a_job_brings_its_matches_home(cluster: Launched) -> None:
    status, _, told = in_empty_folder(cluster, submit(*RUN, "--out", "matches.parquet"))
    assert status == 0
    assert "matches.parquet" in told
    cluster.machines.run(LAPTOP, "cp job/matches.parquet /shared/fetched.parquet")
    shared = cluster.machines.shared
    assert rows(shared / "fetched.parquet") == rows(shared / "expected.parquet")


def test_a_job_ends_with_its_own_status(cluster: Launched) -> None:
    wrong_query = ["run", "PATTERN SEQ(A a", "--trace", "/shared/rides.parquet"]
    assert in_empty_folder(cluster, submit(*wrong_query), check=False)[0] == 2
    no_trace = ["run", "query.txt", "--trace", "/shared/none.parquet"]
    status, printed, _ = in_empty_folder(cluster, submit(*no_trace), check=False)
    assert status == 2
    assert "no trace '/shared/none.parquet'" in printed


@pytest.mark.slow
def test_a_job_outlives_its_submitter_and_is_stopped_from_elsewhere(cluster: Launched) -> None:
    slow = submit(*RUN[:-2], "--units", "2", "--rate", "500", "--quiet")
    line = f"cd job && exec {cluster.command(slow)}"
    submitter = cluster.machines.start(LAPTOP, line)
    listed = ["jobs", "--cluster", cluster.file]

    def running() -> list[str]:
        return [text.split()[0] for text in cluster.decopa(LAPTOP, listed).stdout.splitlines() if " running" in text]

    wait_until(lambda: bool(running()), 90)
    (job,) = running()
    cluster.machines.kill(LAPTOP, "decopa submit", signal.SIGINT)
    _, told = submitter.communicate(timeout=60)
    assert submitter.returncode == 130
    assert f"decopa logs --cluster ../cluster.yaml --follow {job}" in told
    assert running() == [job]
    assert job in cluster.decopa(LAPTOP, ["logs", "--cluster", cluster.file, job]).stdout
    cluster.decopa(LAPTOP, ["stop", "--cluster", cluster.file, job])
    wait_until(lambda: not running(), 60)


def test_a_job_that_does_not_exist_is_named(cluster: Launched) -> None:
    for command in ("logs", "stop", "fetch"):
        done = cluster.decopa(LAPTOP, [command, "--cluster", cluster.file, "decopa-none"], check=False)
        assert done.returncode == 2
        assert "has no job 'decopa-none'" in done.stderr


def test_a_token_that_is_wrong_is_told_at_once(cluster: Launched) -> None:
    other = "mkdir -p /tmp/other/.ray /tmp/other/.ssh; echo wrong > /tmp/other/.ray/auth_token; "
    other += "cp ~/.ssh/* /tmp/other/.ssh; sed 's#~/.ssh#/home/ray/.ssh#' cluster.yaml > /tmp/other/cluster.yaml; "
    line = f"{other} export HOME=/tmp/other; cd; {cluster.command(['jobs', '--cluster', 'cluster.yaml'])}"
    done = cluster.machines.run(LAPTOP, line, check=False)
    assert done.returncode == 2
    assert "refuses the token" in done.stderr
    assert "Traceback" not in done.stderr
