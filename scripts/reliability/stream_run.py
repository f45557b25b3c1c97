"""A run on a live stream and all that it needs, as processes that can be killed: broker, feed, driver and actors."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from scripts.reliability.jobs import Job
from scripts.reliability.victims import Chaos

KINDS = ("kafka", "nats", "folder")
#: What can be struck. The Kafka broker would forget everything if it died, so it is cut off for a while.
ROLES = {
    "kafka": ("unit", "shuffler", "broker", "sink", "driver", "restart"),
    "nats": ("unit", "shuffler", "broker", "sink", "driver", "restart"),
    "folder": ("unit", "shuffler", "sink", "driver", "restart"),
}
#: How long anything may take before it counts as a hang.
PATIENCE_S = 180.0


class StreamRun:
    """Runs a job on a stream of `kind` until all events are sent and every match is out, whatever is struck.

    `feed` plays the job's trace at the job's rate. The driver is started again whenever it has died.
    """

    def __init__(self, kind: str, job: Job, ray_address: str, every_s: float) -> None:
        self.kind, self.job = kind, job
        self._ray_address, self._every_s = ray_address, every_s
        self._folder = job.folder / "feed"
        self._server: subprocess.Popen[bytes] | None = None
        self._feed: subprocess.Popen[bytes] | None = None
        self.driver: subprocess.Popen[bytes] | None = None
        self.driver_starts = 0

    def __enter__(self) -> StreamRun:
        self._folder.mkdir(parents=True)
        if self.kind == "nats":
            self._port = _free_port()
            (self._folder / "server").write_text(f"127.0.0.1:{self._port}")
            self._start_server()
        command = ["scripts.reliability.feeds", self.kind, str(self.job.trace), str(self.job.rate), str(self._folder)]
        self._feed = self._start(command)
        _await(lambda: (self._folder / "address").exists(), "the feed does not start")
        self.address = (self._folder / "address").read_text()
        self._start_driver()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in (self.driver, self._feed, self._server):
            if process is not None:
                process.kill()
                process.wait()

    @property
    def sent(self) -> bool:
        """Whether the feed has sent all events."""
        return (self._folder / "sent").exists()

    def processes(self) -> dict[str, int]:
        """Processes that are not actors, by role."""
        found = {"driver": self.driver, "feed": self._feed, "broker": self._server}
        return {name: process.pid for name, process in found.items() if process is not None}

    def strike(self, role: str, chaos: Chaos) -> bool:
        """Kills one of that role, or stops the run in order to start it again; says whether there was one."""
        assert self.driver is not None
        if role == "broker":
            self._strike_broker(chaos.pause_s(1.0))
            return True
        if role == "restart":
            self._stop_driver()
            return True
        return chaos.strike(role, self.job, self.driver) is not None

    def keep_going(self) -> None:
        """Starts the driver again if it has ended."""
        assert self.driver is not None
        status = self.driver.poll()
        if status is None:
            return
        self._check(status)
        self._start_driver()

    def finish(self) -> None:
        """Stops the run in order, and goes on with it to the end of the stream."""
        _await(lambda: self.sent, "the feed does not end")
        self._stop_driver()
        while True:
            self._start_driver("until=end")
            assert self.driver is not None
            status = self.driver.wait(PATIENCE_S)
            if status == 0:
                return
            self._check(status)

    # ------------------------------------------------------------- processes

    def _strike_broker(self, away_s: float) -> None:
        if self._server is None:
            assert self._feed is not None
            self._feed.send_signal(signal.SIGUSR1)
            time.sleep(away_s)
            self._feed.send_signal(signal.SIGUSR2)
            return
        self._server.kill()
        self._server.wait()
        time.sleep(away_s)
        self._start_server()

    def _stop_driver(self) -> None:
        """SIGTERM ends a driver with a checkpoint; one that has not begun yet just ends."""
        assert self.driver is not None
        with contextlib.suppress(ProcessLookupError):
            self.driver.send_signal(signal.SIGTERM)
        self._check(self.driver.wait(PATIENCE_S))

    def _check(self, status: int) -> None:
        """0 after an orderly stop, 2 after an error that has a message; both signals are sent from here."""
        if status not in (0, 2, -signal.SIGTERM, -signal.SIGKILL):
            raise RuntimeError(f"the driver ended with status {status}; see {self.job.folder}/log")

    def _start_driver(self, option: str = "") -> None:
        address = self.address + (f"?{option}" if option else "")
        job = self.job
        command = ["scripts.reliability.stream_driver", str(job.number), str(job.folder), str(job.trace), address]
        self.driver = self._start([*command, str(self._every_s), str(time.time())])
        self.driver_starts += 1

    def _start_server(self) -> None:
        binary = Path(sys.executable).parent / "nats-server"
        command = [str(binary), "-a", "127.0.0.1", "-p", str(self._port), "-js", "-sd", str(self._folder / "nats")]
        self._server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _start(self, module: list[str]) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "RAY_ADDRESS": self._ray_address}
        with (self.job.folder / "log").open("ab") as log:
            command = [sys.executable, "-W", "ignore", "-m", *module]
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def _await(done: Any, problem: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > until:
            raise RuntimeError(problem)
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
