"""Commands on other machines by SSH, several at a time, and tunnels to their ports."""

from __future__ import annotations

import contextlib
import shlex
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from decopa.errors import DeployError

CONNECT_S = 8
_TUNNEL_S = 15.0
_TOGETHER = 32
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command on a machine said; `status` is its own, 255 if SSH failed, 124 if time ran out."""

    status: int
    out: str
    error: str
    #: When the command was sent and when its answer was there, by the clock of this machine.
    sent_s: float = 0.0
    received_s: float = 0.0

    @property
    def last_error(self) -> str:
        lines = [line.strip() for line in self.error.splitlines() if line.strip()]
        return lines[-1] if lines else f"status {self.status}"


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that one can log in to with a key."""

    address: str
    user: str
    key: Path | None

    def ssh(self, *options: str) -> list[str]:
        """The command line of ssh up to the command that it is to run; never asks for anything."""
        identity = () if self.key is None else ("-i", str(self.key), "-o", "IdentitiesOnly=yes")
        quiet = ("-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}", "-o", "StrictHostKeyChecking=accept-new")
        alive = ("-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3")
        return ["ssh", *identity, *quiet, *alive, *options, f"{self.user}@{self.address}"]

    def run(self, command: Sequence[str], *, stdin: str = "", timeout_s: float = 10.0) -> Answer:
        """Runs a command, word by word as given."""
        return self.shell(shlex.join(command), stdin=stdin, timeout_s=timeout_s)

    def shell(self, line: str, *, stdin: str = "", timeout_s: float = 10.0) -> Answer:
        """Runs a line of shell."""
        sent = time.time()
        try:
            done = subprocess.run(
                [*self.ssh(), line], input=stdin, capture_output=True, text=True, timeout=timeout_s, errors="replace"
            )
        except subprocess.TimeoutExpired:
            return Answer(124, "", f"no answer within {timeout_s:.0f} s", sent, time.time())
        except FileNotFoundError:
            raise DeployError("there is no `ssh` on this machine; install OpenSSH's client") from None
        return Answer(done.returncode, done.stdout, done.stderr, sent, time.time())

    def copy_to(self, sources: Sequence[Path], folder: str, *, timeout_s: float = 600.0) -> None:
        """Copies files into a folder of the machine."""
        self._rsync([*map(str, sources), f"{self.user}@{self.address}:{folder}/"], timeout_s)

    def copy_from(self, folder: str, target: Path, *, timeout_s: float = 600.0) -> None:
        """Copies what is in a folder of the machine into a folder here."""
        self._rsync([f"{self.user}@{self.address}:{folder}/", f"{target}/"], timeout_s)

    def _rsync(self, places: Sequence[str], timeout_s: float) -> None:
        shell = shlex.join(self.ssh()[:-1])
        try:
            done = subprocess.run(
                ["rsync", "--archive", "--copy-links", "--protect-args", "-e", shell, *places],
                capture_output=True,
                text=True,
                timeout=timeout_s,
            )
        except FileNotFoundError:
            raise DeployError("there is no `rsync` on this machine; install it") from None
        except subprocess.TimeoutExpired:
            raise DeployError(f"copying to or from {self.address} took longer than {timeout_s:.0f} s") from None
        if done.returncode:
            said = Answer(done.returncode, done.stdout, done.stderr).last_error
            raise DeployError(f"cannot copy to or from {self.address}: {said}")

    @contextlib.contextmanager
    def tunnel(self, port: int) -> Iterator[int]:
        """A port of this machine's loopback that leads to a port of that machine's loopback."""
        here = _free_port()
        forward = f"127.0.0.1:{here}:127.0.0.1:{port}"
        command = self.ssh("-N", "-L", forward, "-o", "ExitOnForwardFailure=yes")
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as ssh:
            try:
                _await_port(here, ssh, self.address)
                yield here
            finally:
                ssh.terminate()


def on_all(machines: Sequence[Machine], action: Callable[[Machine], Result]) -> dict[str, Result]:
    """What an action returns for each machine, by address; many at a time."""
    if not machines:
        return {}
    with ThreadPoolExecutor(min(_TOGETHER, len(machines))) as pool:
        return dict(zip((machine.address for machine in machines), pool.map(action, machines), strict=True))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_port(port: int, ssh: subprocess.Popen[str], address: str) -> None:
    deadline = time.monotonic() + _TUNNEL_S
    while time.monotonic() < deadline:
        if ssh.poll() is not None:
            error = "" if ssh.stderr is None else ssh.stderr.read()
            raise DeployError(f"no tunnel to {address}: {Answer(ssh.returncode, '', error).last_error}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise DeployError(f"no tunnel to {address} within {_TUNNEL_S:.0f} s")
