"""Machines out of namespaces: each has its own network, processes, root, name, users and sshd.

A bridge in a namespace of its own joins them, so that no packet leaves. The process namespace is not optional: `ray up`
runs `ray stop`, which ends every Ray that it can see.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAPTOP = "laptop"
_NETWORK = "10.77.0"
_CGROUP = Path("/sys/fs/cgroup/cpu")
_PERIOD_US = 50_000
_READY_S = 20.0
#: Several sets of machines may run at once; the process that made them is in their names.
_NUMBERS = itertools.count()


def why_not() -> str | None:
    """Why machines cannot be made here; None if they can."""
    if os.geteuid() != 0:
        return "machines out of namespaces need root"
    for program in ("/usr/sbin/sshd", "rsync", "ssh", "ip", "unshare", "nsenter", "tc"):
        if shutil.which(program) is None:
            return f"no {program}: install openssh-server, rsync and iproute2"
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "this kernel has no overlay filesystem"
    made = subprocess.run(["unshare", "-m", "-p", "-u", "-i", "-n", "--fork", "true"], capture_output=True, text=True)
    return None if made.returncode == 0 else f"namespaces are not allowed here: {made.stderr.strip()}"


class Machines:
    """Context manager: inside, the machines run; afterwards nothing of them is left. `laptop` is the user's, the others
    are called n1, n2, ... and have the addresses 10.77.0.1, 10.77.0.2, ...

    `folder` is for keys and logs; `shared` is `/shared` in all of them. The project and its environment lie, read-only,
    where they lie here.
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._folder, self.names = folder, tuple(names)
        self._prefix = f"dm{os.getpid()}.{next(_NUMBERS)}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.shared = folder / "shared"

    def __enter__(self) -> Machines:
        self.shared.mkdir(parents=True)
        self.shared.chmod(0o777)
        _sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self._folder / "key")
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _start(self) -> None:
        _remove_orphans()
        switch = self._namespace("sw")
        _sh("ip", "netns", "add", switch)
        _sh("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        _sh("ip", "-n", switch, "link", "set", "br0", "up")
        for name in self.names:
            self._plug(name, switch)
            self.boot(name)
        for name in self.names:
            self.await_ssh(name)
        self.run(LAPTOP, "umask 077; cat > ~/.ssh/id_ed25519", stdin=(self._folder / "key").read_text())

    def _plug(self, name: str, switch: str) -> None:
        space, cable = self._namespace(name), self._cable(name)
        _sh("ip", "netns", "add", space)
        _sh("ip", "link", "add", "eth0", "netns", space, "type", "veth", "peer", "name", cable, "netns", switch)
        _sh("ip", "-n", space, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
        _sh("ip", "-n", space, "link", "set", "eth0", "up")
        _sh("ip", "-n", switch, "link", "set", cable, "master", "br0", "up")

    def boot(self, name: str) -> None:
        """Starts a machine that is not running; its network is there already."""
        work = self._folder / name
        work.mkdir(exist_ok=True)
        folders = dict.fromkeys(str(path) for path in (ROOT, Path(sys.prefix).resolve(), Path(sys.base_prefix)))
        spaces = ["unshare", "-m", "-p", "-u", "-i", "--fork", "--kill-child=KILL", "--propagation", "private"]
        script = ["bash", str(ROOT / "tests" / "support" / "machine.sh"), name, self.address(name)]
        line = [*spaces, *script, str(work), str(self.shared), *folders]
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                # Machines end with this process, however it ends.
                ["setpriv", "--pdeathsig=KILL", "ip", "netns", "exec", self._namespace(name), *line],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"},
            )

    def await_ssh(self, name: str) -> None:
        deadline = time.monotonic() + _READY_S
        attempt = ["bash", "-c", f"exec 3<>/dev/tcp/{self.address(name)}/22"]
        while _quiet("ip", "netns", "exec", self._namespace(name), *attempt):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} does not boot: {(self._folder / f'{name}.log').read_text()[-500:]}")
            time.sleep(0.1)

    def _namespace(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def _cable(self, name: str) -> str:
        return f"v{name}"

    def address(self, name: str) -> str:
        return f"{_NETWORK}.254" if name == LAPTOP else f"{_NETWORK}.{int(name.removeprefix('n'))}"

    # ------------------------------------------------------------- inside

    def first_process(self, name: str) -> int:
        """The id, here, of the machine's process 1."""
        outer = self._processes[name].pid
        children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
        return int(children[0])

    def command(self, name: str, line: str, *, user: str = "ray") -> list[str]:
        """The command that runs a line of shell inside a machine, in a login shell of the user's."""
        inside = ["nsenter", "-t", str(self.first_process(name)), "-m", "-p", "-u", "-i", "-n", "--"]
        variables = ["TERM=xterm", "LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"]
        home = "/root" if user == "root" else f"/home/{user}"
        line = f"cd {home}; export PYTHONPATH={ROOT} HOME={home} USER={user}; {line}"
        return [*inside, "env", "-i", *variables, "setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups",
                "bash", "-c", line]  # fmt: skip

    def run(
        self, name: str, line: str, *, user: str = "ray", stdin: str = "", timeout_s: float = 60.0, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(name, line, user=user), input=stdin, capture_output=True, text=True, timeout=timeout_s
        )
        if check and done.returncode:
            raise AssertionError(
                f"{name}: {line}: status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            )
        return done

    def start(self, name: str, line: str, *, user: str = "ray") -> subprocess.Popen[str]:
        """Runs a line of shell inside a machine and does not wait for it."""
        return subprocess.Popen(
            self.command(name, line, user=user), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def python(self) -> str:
        """The Python of the tests, which machines have, too."""
        return sys.executable

    # ------------------------------------------------------------- what happens to machines

    def pull_cable(self, name: str) -> None:
        _sh("ip", "-n", self._namespace("sw"), "link", "set", self._cable(name), "down")

    def plug_in(self, name: str) -> None:
        _sh("ip", "-n", self._namespace("sw"), "link", "set", self._cable(name), "up")

    def bytes_sent(self) -> dict[str, int]:
        """Bytes that each machine has sent: what the switch has received on its cable."""
        shown = _sh("ip", "-n", self._namespace("sw"), "-s", "-j", "link")
        received = {link["ifname"]: link["stats64"]["rx"]["bytes"] for link in json.loads(shown)}
        return {name: received[self._cable(name)] for name in self.names}

    def limit_rate(self, name: str, mbit: float) -> None:
        """What a machine sends and what it receives is slowed down to this rate."""
        shape = ("root", "tbf", "rate", f"{mbit}mbit", "burst", "256k", "latency", "50ms")
        for space, device in ((self._namespace(name), "eth0"), (self._namespace("sw"), self._cable(name))):
            _sh("ip", "netns", "exec", space, "tc", "qdisc", "replace", "dev", device, *shape)

    def limit_cores(self, name: str, cores: float) -> None:
        """All processes of a machine, those to come included, get this many cores."""
        group = _CGROUP / self._namespace(name)
        group.mkdir(exist_ok=True)
        (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(int(cores * _PERIOD_US)))
        for process in self.processes(name):
            try:
                (group / "cgroup.procs").write_text(str(process))
            except ProcessLookupError:
                continue

    def throttled(self, name: str) -> tuple[int, int]:
        """Periods so far, and those in which the machine wanted more than its cores."""
        lines = (_CGROUP / self._namespace(name) / "cpu.stat").read_text().split()
        return int(lines[lines.index("nr_periods") + 1]), int(lines[lines.index("nr_throttled") + 1])

    def processes(self, name: str) -> list[int]:
        """The ids, here, of everything that runs on a machine."""
        space = os.readlink(f"/proc/{self.first_process(name)}/ns/pid")
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "ns" / "pid") == space:
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def kill(self, name: str, part_of_command: str, number: int = signal.SIGKILL) -> int:
        """Ends the processes of one machine whose command has this in it; says how many."""
        killed = 0
        for process in self.processes(name):
            try:
                if part_of_command.encode() in Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" "):
                    os.kill(process, number)
                    killed += 1
            except OSError:
                continue
        return killed

    def power_off(self, name: str) -> None:
        """Ends a machine: the kernel ends everything in its process namespace with process 1."""
        process = self._processes.pop(name)
        try:
            os.kill(self.first_process_of(process), signal.SIGKILL)
        except (OSError, IndexError):
            process.kill()
        process.wait(10)

    @staticmethod
    def first_process_of(process: subprocess.Popen[bytes]) -> int:
        return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])

    # ------------------------------------------------------------- afterwards

    def stop(self) -> None:
        for name in list(self._processes):
            self.power_off(name)
        for name in (*self.names, "sw"):
            _quiet("ip", "netns", "del", self._namespace(name))
            group = _CGROUP / self._namespace(name)
            deadline = time.monotonic() + 5
            while group.is_dir() and time.monotonic() < deadline:
                try:
                    group.rmdir()
                except OSError:  # the kernel has not buried the last process yet
                    time.sleep(0.1)

    def left(self) -> list[str]:
        """What is left of the machines here: namespaces, mounts, cgroups, processes."""
        found = [line for line in _sh("ip", "netns", "list").splitlines() if self._prefix in line]
        found += [line for line in Path("/proc/mounts").read_text().splitlines() if str(self._folder) in line]
        found += [str(path) for path in _CGROUP.glob(f"{self._prefix}-*")]
        found += [str(process.pid) for process in self._processes.values() if process.poll() is None]
        return found


def _remove_orphans() -> None:
    """Network namespaces of machines whose process has been killed: nothing runs in them any more."""
    for line in _sh("ip", "netns", "list").splitlines():
        found = re.match(r"dm(\d+)\.", line)
        if found is not None and not Path(f"/proc/{found[1]}").exists():
            _quiet("ip", "netns", "del", line.split()[0])


def _sh(*words: object) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


def _quiet(*words: object) -> int:
    return subprocess.run([str(word) for word in words], capture_output=True).returncode
