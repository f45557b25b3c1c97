"""A cluster up, awaited, and down again, with Ray's own launcher."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cluster.deploy.refusals import REMEDY, is_final
from cluster.launch.checks import machines_of
from cluster.launch.cluster_file import ClusterFile
from cluster.launch.head import Node, dashboard, head_machine, nodes
from cluster.launch.remote import Answer, Machine, on_all
from decopa.errors import DeployError

_POLL_S = 1.0
_DOWN_S = 180.0
_STOP_S = 60.0
#: Lines of Ray's logs that are shown when nodes are missing.
_SHOWN_LINES = 8
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_NOISE = ("Shared connection to", "Full command is", "Fetched IP", "Got IP", "Traceback (most recent", "    ^^^")
_FAILURE = re.compile(r"setup-node: |Error|Exception|[Ff]ailed|timed out|SSH still not")
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Launched:
    """The nodes that are there, and the addresses that are not (with what is known of why)."""

    nodes: tuple[Node, ...]
    wanted: int
    missing: tuple[str, ...] = ()
    log: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        return len(self.nodes) >= self.wanted


@contextlib.contextmanager
def launching_alone(name: str) -> Iterator[None]:
    """No other `decopa cluster up` or `down` of this name runs on this machine meanwhile."""
    folder = Path("~/.ray").expanduser()
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / f"decopa-{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DeployError(f"another `decopa cluster` command works on '{name}'; wait until it has ended") from None
        yield


def wanted_nodes(file: ClusterFile) -> int:
    """How many nodes a cluster has when it is up: the head and the workers it keeps at least."""
    if file.kind == "local":
        return len(file.machines)
    types = file.document["available_node_types"]
    return 1 + sum(
        int(one.get("min_workers", 0)) for name, one in types.items() if name != file.document["head_node_type"]
    )


def launch(file: ClusterFile, *, limit_s: float, tell: Tell) -> Launched:
    """Runs `ray up` and waits until every node is alive, `limit_s` at most."""
    deadline = time.monotonic() + limit_s
    tell("starting the head")
    said = _ray(["up", "-y", "--no-config-cache", str(file.path)], limit_s)
    if said.status:
        lines = tuple(line for line in f"{said.out}\n{said.error}".splitlines() if line.strip())
        refusal = next((line.strip() for line in reversed(lines) if is_final(line)), None)
        if refusal is not None:
            raise DeployError(f"the cloud does not start the head of '{file.name}': {refusal}; {REMEDY}")
        lines = lines[-_SHOWN_LINES:]
        return Launched((), wanted_nodes(file), file.machines or ("the head",), lines)
    return await_nodes(file, head_machine(file), deadline=deadline, tell=tell)


def await_nodes(file: ClusterFile, head: Machine, *, deadline: float, tell: Tell) -> Launched:
    wanted = wanted_nodes(file)
    alive: tuple[Node, ...] = ()
    with dashboard(head) as base:
        while True:
            with contextlib.suppress(DeployError):  # the web interface may come up after `ray up` has returned
                alive = tuple(node for node in nodes(base) if node.alive)
            tell(f"waiting for nodes: {len(alive)} of {wanted} are there")
            if len(alive) >= wanted or time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)
    present = {node.address for node in alive}
    missing = tuple(address for address in file.machines if address not in present)
    if len(alive) >= wanted:
        return Launched(alive, wanted)
    return Launched(alive, wanted, missing, _monitor_lines(head, missing))


def _monitor_lines(head: Machine, missing: tuple[str, ...]) -> tuple[str, ...]:
    """The last lines of the launcher's log on the head that tell something, those about missing machines first."""
    answer = head.shell("tail -n 400 /tmp/ray/session_latest/logs/monitor.out /tmp/ray/session_latest/logs/monitor.err")
    return telling_lines(answer.out, missing)


def telling_lines(log: str, missing: tuple[str, ...]) -> tuple[str, ...]:
    """What a reader of the launcher's log looks for: failures if there are any, else the last steps of the machines
    that are missing."""
    plain = [_COLOURS.sub("", line).strip() for line in log.splitlines()]
    lines = [line for line in plain if line and not any(noise in line for noise in _NOISE)]
    failures = [line for line in lines if _FAILURE.search(line)]
    about = [line for line in lines if any(address in line for address in missing)]
    return tuple(dict.fromkeys(failures or about or lines))[-_SHOWN_LINES:]


def take_down(file: ClusterFile, tell: Tell) -> list[str]:
    """Ends the cluster; returns what is left of it, each with the machine that has it.

    `ray down` stops the head only, and leaves files that the next `ray up` would read.
    """
    tell("stopping the head")
    said = _ray(["down", "-y", str(file.path)], _DOWN_S)
    left = [f"`ray down` failed: {said.last_error}"] if said.status else []
    state = f"cluster-{file.name}.state"
    for folder in {Path("/tmp/ray"), Path(os.environ.get("RAY_TMPDIR", "/tmp")) / "ray"}:
        for path in (folder / state, folder / f"cluster-{file.name}.lock"):
            path.unlink(missing_ok=True)
    if file.kind != "local":
        return left
    tell("stopping the workers")
    stop = (
        "[ ! -f ~/.decopa-env ] || . ~/.decopa-env; ray stop --grace-period 10 >/dev/null 2>&1; "
        f"rm -f /tmp/ray/cluster-{file.name}.state /tmp/ray/cluster-{file.name}.lock; "
        "for process in /proc/[0-9]*; do case $(readlink $process/exe) in */raylet) echo left ;; esac; done"
    )
    answers = on_all(machines_of(file), lambda machine: machine.shell(stop, timeout_s=_STOP_S))
    for address, answer in answers.items():
        if answer.status:
            left.append(f"{address}: {answer.last_error}; what runs there was not stopped")
        elif "left" in answer.out:
            left.append(f"{address}: Ray still runs")
    return left


def _ray(words: list[str], limit_s: float) -> Answer:
    """Ray's own command line, as a program: it keeps state in its modules."""
    command = [sys.executable, "-m", "ray.scripts.scripts", *words]
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONWARNINGS": "ignore"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit_s, stdin=subprocess.DEVNULL, env=environment
        )
    except subprocess.TimeoutExpired as err:
        text = err.stdout.decode(errors="replace") if isinstance(err.stdout, bytes) else ""
        return Answer(124, text, f"`ray {words[0]}` did not end within {limit_s:.0f} s")
    return Answer(done.returncode, done.stdout, done.stderr)
