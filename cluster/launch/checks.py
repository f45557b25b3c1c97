"""Whether machines are ready for a cluster: what `probe-node` says of each, judged. Judging needs no machine."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from cluster.launch.cluster_file import ClusterFile
from cluster.launch.remote import Answer, Machine, on_all
from cluster.launch.templates import FOLDER

#: Ports of the shipped start commands that must be free on every machine, and on the head besides.
WORKER_PORTS = (8076, 8077, 8078, 8079, 8090)
HEAD_PORTS = (6379, 8265, *WORKER_PORTS)
LEAST_DISK_KB = 4 * 2**20
LEAST_FILES = 4_096
#: Beyond this, the order of events from two machines and the latencies that are measured mean nothing.
MOST_OFFSET_S = 1.0
_PROBE_S = 10.0


@dataclass(frozen=True)
class Facts:
    """What a machine says of itself. `clock_offset_s` is by how much its clock is ahead of this machine's; it is known
    to within `clock_error_s`, the time that the question and the answer were on their way."""

    values: Mapping[str, tuple[str, ...]]
    clock_offset_s: float = 0.0
    clock_error_s: float = 0.0

    def one(self, name: str) -> str | None:
        found = self.values.get(name)
        return found[0] if found and found[0] else None


@dataclass(frozen=True)
class Expected:
    """The versions that a machine should have: those here."""

    python: str
    ray: str


def read_facts(answer: Answer) -> Facts:
    """The facts in what `probe-node` printed."""
    found: dict[str, list[str]] = {}
    for line in answer.out.splitlines():
        name, _, value = line.partition(" ")
        found.setdefault(name, []).append(value.strip())
    facts = {name: tuple(values) for name, values in found.items()}
    clocks = [float(text) for text in facts.get("clock", ()) if text.replace(".", "", 1).isdigit()]
    if not clocks:
        return Facts(facts)
    # The clock is read first after the question was sent, and last before the answer was here.
    least, most = clocks[-1] - answer.received_s, clocks[0] - answer.sent_s
    return Facts(facts, (least + most) / 2, (most - least) / 2)


def login_problem(machine: Machine, answer: Answer) -> str | None:
    """Why one cannot log in, with the remedy; None if one can."""
    if answer.status == 124:
        return "does not answer by SSH within 10 s; is it switched on, and is port 22 open?"
    if answer.status != 255:
        return None
    said = answer.last_error
    if "Permission denied" in said:
        return (
            f"refuses the login of {machine.user} with the key {machine.key or 'of this user'}; put its public part "
            f"into ~{machine.user}/.ssh/authorized_keys there, or correct auth in the cluster file"
        )
    if "HOST IDENTIFICATION HAS CHANGED" in answer.error or "Host key verification failed" in said:
        return "shows another host key than last time; if the machine was set up anew: ssh-keygen -R ADDRESS"
    return f"cannot be reached by SSH: {said}"


def judge(address: str, facts: Facts, expected: Expected) -> list[str]:
    """What is wrong with a machine, each with its remedy; empty if it is ready."""
    return [
        *_tool_problems(facts),
        *_python_problems(facts, expected),
        *_room_problems(facts),
        *_network_problems(address, facts),
    ]


def _tool_problems(facts: Facts) -> list[str]:
    if facts.one("rsync") in (None, "none"):
        return ["has no rsync, with which `ray up` copies files; install it (apt-get install rsync)"]
    return []


def _python_problems(facts: Facts, expected: Expected) -> list[str]:
    if facts.one("missing") is not None:
        return [f"has no {facts.one('missing')}, which DECOPA_PYTHON in the cluster file names"]
    version, ray = facts.one("python"), facts.one("ray")
    if version is None:  # no environment yet: setup-node makes one
        found = facts.values.get("system_python", ())
        if expected.python in found:
            return []
        shown = ", ".join(dict.fromkeys(found)) or "none"
        return [f"needs Python {expected.python}, as here, and has {shown}; install it, or name one with DECOPA_PYTHON"]
    problems = []
    if version != expected.python:
        problems.append(f"has Python {version} in {facts.one('environment')}, but here it is {expected.python}")
    if ray != expected.ray:
        problems.append(f"has Ray {ray} in {facts.one('environment')}, but here it is {expected.ray}; install that one")
    if facts.one("decopa") != "yes":
        problems.append(f"has no decopa in {facts.one('environment')}; install it there")
    return problems


def _room_problems(facts: Facts) -> list[str]:
    problems = []
    for name, place in (
        ("disk_kb", "the home folder"),
        ("tmp_kb", "/tmp, where Ray keeps its logs and what it spills"),
    ):
        free = facts.one(name)
        if free is not None and int(free) < LEAST_DISK_KB:
            problems.append(f"has {int(free) / 2**20:.1f} GB left in {place}; 4 GB are needed")
    files = facts.one("nofile")
    if files is not None and files != "unlimited" and int(files) < LEAST_FILES:
        problems.append(f"lets a process open {files} files only; raise `nofile` in /etc/security/limits.conf to 65536")
    return problems


def _network_problems(address: str, facts: Facts) -> list[str]:
    problems = []
    named, own = facts.one("name_address"), (facts.one("addresses") or "").split()
    if named is not None and named.startswith("127."):
        problems.append(
            f"takes its own name '{facts.one('host')}' for {named}, and so would Ray; correct that line in /etc/hosts "
            f"to {address}"
        )
    if own and address[0].isdigit() and address not in own:
        problems.append(f"does not have the address {address} itself (it has {', '.join(own)}); name one of those")
    taken = facts.values.get("taken", ())
    if taken and facts.one("raylet") is None:
        ports = ", ".join(taken)
        problems.append(f"has port {ports} taken by another program, which Ray needs; stop that program")
    if abs(facts.clock_offset_s) - facts.clock_error_s > MOST_OFFSET_S:
        where = "ahead of" if facts.clock_offset_s > 0 else "behind"
        problems.append(
            f"has a clock {abs(facts.clock_offset_s):.1f} s {where} this machine's; synchronise it with NTP"
        )
    return problems


# ------------------------------------------------------------------ on machines


def machines_of(file: ClusterFile) -> list[Machine]:
    return [Machine(address, file.user, file.key) for address in file.machines]


def check_machines(file: ClusterFile) -> tuple[dict[str, list[str]], dict[str, Facts]]:
    """Problems and facts of each machine, by address; nothing is changed there."""
    here = ".".join(map(str, sys.version_info[:2]))
    script = (FOLDER / "probe-node").read_text(encoding="utf-8")
    setup = file.setup

    def ports(address: str) -> tuple[int, ...]:
        return HEAD_PORTS if address == file.head else WORKER_PORTS

    def probe(machine: Machine) -> Answer:
        words = ["bash", "-s", "--", setup.python or "", *map(str, ports(machine.address))]
        return machine.run(words, stdin=script, timeout_s=_PROBE_S)

    machines = machines_of(file)
    problems: dict[str, list[str]] = {}
    facts: dict[str, Facts] = {}
    for machine, answer in zip(machines, on_all(machines, probe).values(), strict=True):
        address = machine.address
        refused = login_problem(machine, answer)
        if refused is not None:
            problems[address] = [refused]
            continue
        facts[address] = read_facts(answer)
        if facts[address].one("end") is None:
            problems[address] = [f"cannot be examined: {answer.last_error}"]
            continue
        problems[address] = judge(address, facts[address], Expected(here, version("ray")))
    if setup.checkpoints is not None and "://" not in setup.checkpoints:
        reached = [machine for machine in machines if machine.address in facts]
        for address, problem in shared_folder_problems(reached, setup.checkpoints).items():
            problems[address].append(problem)
    return problems, facts


def shared_folder_problems(machines: Sequence[Machine], folder: str) -> dict[str, str]:
    """Which machines do not see a folder, by address: the first writes a file, all read it, the first removes it."""
    if not machines:
        return {}
    first, nonce = machines[0], uuid.uuid4().hex
    path = f"{folder}/.decopa-{nonce}"
    remedy = "name a folder that all machines share (NFS), or a bucket, with --checkpoints"
    written = first.run(["sh", "-c", 'printf %s "$1" > "$2"', "sh", nonce, path])
    if written.status:
        return {first.address: f"cannot write to '{folder}': {written.last_error}; {remedy}"}
    try:
        answers = on_all(machines, lambda machine: machine.run(["cat", path]))
    finally:
        first.run(["rm", "-f", path])
    return {
        address: f"does not see what {first.address} writes to '{folder}'; {remedy}"
        for address, answer in answers.items()
        if answer.out != nonce
    }
