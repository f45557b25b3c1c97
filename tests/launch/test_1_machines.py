"""`decopa cluster check` names what is wrong with machines, quickly, and changes nothing. No Ray runs here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.support.launched import Launched
from tests.support.machines import LAPTOP, Machines

pytestmark = pytest.mark.launch
Change = Callable[[Machines], None]


def check(files: Launched) -> tuple[int, str, float]:
    began = time.monotonic()
    done = files.decopa(LAPTOP, ["cluster", "check", files.file], check=False)
    return done.returncode, done.stdout + done.stderr, time.monotonic() - began


def test_machines_that_are_ready_pass(files: Launched) -> None:
    status, text, _ = check(files)
    assert status == 0, text
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["10.77.0.1", "10.77.0.2", "10.77.0.3", "10.77.0.4"]


@contextmanager
def changed(machines: Machines, name: str, do: str, undo: str) -> Iterator[None]:
    machines.run(name, do, user="root")
    try:
        yield
    finally:
        machines.run(name, undo, user="root")


FAULTS = {
    "wrong key": (
        "mv /home/ray/.ssh/authorized_keys /home/ray/.ssh/away",
        "mv /home/ray/.ssh/away /home/ray/.ssh/authorized_keys",
        "10.77.0.2 refuses the login of ray",
    ),
    "no rsync": ("mv /usr/bin/rsync /usr/bin/away", "mv /usr/bin/away /usr/bin/rsync", "10.77.0.2 has no rsync"),
    "name at loopback": (
        "cp /etc/hosts /etc/away; sed -i 's/^10.77.0.2/127.0.1.1/' /etc/hosts",
        "cp /etc/away /etc/hosts",
        "10.77.0.2 takes its own name 'n2' for 127.0.1.1",
    ),
    "folder not shared": ("mount -t tmpfs none /shared", "umount /shared", "10.77.0.2 does not see what 10.77.0.1"),
    "disk full": (
        "mount -t tmpfs -o size=2g none /home/ray/../../tmp",
        "umount /tmp",
        "10.77.0.2 has 2.0 GB left in /tmp",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_with_its_machine_and_remedy(fault: str, files: Launched) -> None:
    do, undo, said = FAULTS[fault]
    with changed(files.machines, "n2", do, undo):
        status, text, seconds = check(files)
    assert status == 1
    assert said in text
    lines = [line for line in text.splitlines() if line.startswith("decopa: ")]
    if fault == "disk full":  # a checkout in /tmp lies under the full disk, with its Python
        lines = [line for line in lines if " has no /tmp/" not in line]
    assert len(lines) == 1, text
    assert seconds < 60  # 15 s on an idle machine, most of which is the start of Python


def test_a_port_that_is_taken_is_named(files: Launched) -> None:
    listener = files.machines.start(
        "n2", f"exec {files.machines.python()} -c 'import socket; socket.create_server((\"10.77.0.2\", 8076)).accept()'"
    )
    try:
        files.machines.run("n2", "for i in $(seq 100); do grep -q :1F8C /proc/net/tcp && break; sleep 0.1; done")
        status, text, _ = check(files)
    finally:
        files.machines.kill("n2", "create_server")
        listener.communicate()
    assert status == 1
    assert "10.77.0.2 has port 8076 taken" in text


@pytest.mark.parametrize(
    ("python", "ray", "said"), [("3.10", "2.60.0", "Python 3.10 in"), ("3.11", "2.59.0", "has Ray 2.59.0 in")]
)
def test_other_versions_are_named(python: str, ray: str, said: str, files: Launched) -> None:
    """A program that answers as such a Python would stands where setup-node makes its environment."""
    script = f"""#!/bin/bash
case $2 in *version_info*) echo python {python} ;; *metadata*) echo ray {ray} ;; *) echo decopa yes ;; esac"""
    machines = files.machines
    machines.run(
        "n3", "mkdir -p ~/.decopa/bin; cat > ~/.decopa/bin/python; chmod +x ~/.decopa/bin/python", stdin=script
    )
    files.write_file("--name", "other")
    machines.run(LAPTOP, f"sed -i 's/DECOPA_PYTHON=[^ ]* //' {files.file}")
    try:
        status, text, _ = check(files)
    finally:
        machines.run("n3", "rm -r ~/.decopa")
        files.write_file()
    assert status == 1
    assert "10.77.0.3 has" in text
    assert said in text


def test_nothing_is_left_on_machines_that_were_examined(files: Launched) -> None:
    def listing() -> dict[str, str]:
        find = "find /home/ray /tmp /shared -type f -newermt '2000-01-01' | sort"
        return {name: files.machines.run(name, find).stdout for name in files.nodes}

    before = listing()
    check(files)
    assert listing() == before


def test_a_machine_that_does_not_answer_keeps_the_cluster_from_starting(files: Launched) -> None:
    files.machines.run("n4", "kill -STOP $(cat /run/sshd.pid)", user="root")
    try:
        done = files.decopa(LAPTOP, ["cluster", "up", files.file], check=False)
    finally:
        files.machines.run("n4", "kill -CONT $(cat /run/sshd.pid)", user="root")
    assert done.returncode == 1
    assert "10.77.0.4" in done.stderr
    assert "10.77.0.3" not in done.stderr


def test_a_file_that_is_wrong_is_refused_before_any_machine_is_asked(files: Launched) -> None:
    files.machines.run(LAPTOP, f"sed 's/worker_ips/worker_ip/' {files.file} > wrong.yaml")
    done = files.decopa(LAPTOP, ["cluster", "up", "wrong.yaml"], check=False)
    assert done.returncode == 2
    assert "did you mean 'worker_ips'" in done.stderr
    assert "Traceback" not in done.stderr
