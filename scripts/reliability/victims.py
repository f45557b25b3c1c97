"""What chaos can do to a run: kill processes of every role, stop them for a while, lose a node, tear files, fill the
disk."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import ray

from scripts.reliability.jobs import Job

#: Roles, and how often each is struck in a round of the deck. The coordinator lives in the driver's process: to kill it
#: is to kill the driver while a checkpoint is being written. `torn` kills the driver and damages the newest checkpoint.
DECK = {"unit": 6, "shuffler": 3, "sink": 3, "coordinator": 3, "driver": 2, "node": 1, "torn": 1, "disk": 1}
#: How long to wait for an actor that can be killed, or for a checkpoint under way.
PATIENCE_S = 15.0


class Disk:
    """A small filesystem of its own, which can be filled to the last byte."""

    def __init__(self, folder: Path, mib: int = 48) -> None:
        self.folder, self._filler = folder, folder / "filler"
        folder.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder)]
        #: Whether it is; mounting takes rights that not everyone has.
        self.mounted = subprocess.run(command, capture_output=True).returncode == 0

    def fill(self) -> None:
        block = bytes(1 << 16)
        while len(block) > 0:
            try:
                with self._filler.open("ab", buffering=0) as file:
                    while True:
                        file.write(block)
            except OSError:
                block = block[: len(block) // 2]  # then in smaller pieces

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)

    def unmount(self) -> None:
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=False)


class Chaos:
    """Does what the deck says, in an order that follows from the seed; `done` counts what was really done, by role."""

    def __init__(self, seed: int, cluster: Any, disk: Disk | None = None, only: str | None = None) -> None:
        self._draw, self._cluster, self._disk = random.Random(seed), cluster, disk
        self._deck: list[str] = []
        roles = [role for role in DECK if only is None or role in only.split(",")]
        self.done: dict[str, int] = {role: 0 for role in roles if role != "disk" or (disk and disk.mounted)}
        #: Kills of processes; a node counts as one, however many processes go with it.
        self.kills = 0
        #: Processes that were stopped for a while.
        self.delays = 0
        #: Deaths of the coordinator that left a checkpoint half-written, or a complete one whose matches were hidden.
        self.half_written = self.unpublished = 0
        self._node: Any = None

    def next_role(self) -> str:
        if not self._deck:
            self._deck = [role for role in self.done for _ in range(DECK[role])]
            self._draw.shuffle(self._deck)
        return self._deck.pop()

    def chance(self, share: float) -> bool:
        return self._draw.random() < share

    def pause_s(self, longest: float) -> float:
        return self._draw.uniform(0.0, longest)

    def strike(self, role: str, job: Job, driver: subprocess.Popen[bytes]) -> tuple[str, float] | None:
        """Does it; what was hit and when, or None if it was not there to be hit."""
        match role:
            case "driver":
                hit = self._kill_driver(driver)
            case "coordinator":
                hit = self._kill_coordinator(job, driver)
            case "node":
                hit = self._lose_node()
            case "torn":
                hit = self._tear(job, driver)
            case "disk":
                hit = self._fill_disk(job)
            case _:
                hit = self._kill_actor(role)
        if hit is not None:
            self.done[role] += 1
        return hit

    def delay(self) -> None:
        """A process stands still for a moment, as if its machine were overloaded or its network slow."""
        for role in ("unit", "shuffler", "sink"):
            if self.chance(0.5) and (found := self._find(role)) is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(found[1], signal.SIGSTOP)
                    self.delays += 1
                    time.sleep(self.pause_s(0.6))
                    os.kill(found[1], signal.SIGCONT)

    def _kill_actor(self, role: str) -> tuple[str, float] | None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if (found := self._find(role)) is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(found[1], signal.SIGKILL)
                    self.kills += 1
                    return found[0], time.time()
            time.sleep(0.05)
        return None

    def _find(self, role: str) -> tuple[str, int] | None:
        """An actor of the role and its process."""
        try:
            actors = [one for one in ray.util.list_named_actors(all_namespaces=True) if role_of(one["name"]) == role]
            if not actors:
                return None
            chosen = self._draw.choice(sorted(actors, key=lambda one: (one["namespace"], one["name"])))
            handle = ray.get_actor(chosen["name"], namespace=chosen["namespace"])
            return str(chosen["name"]), int(ray.get(handle.pid.remote(), timeout=5))
        except (ray.exceptions.RayError, ValueError):
            return None  # it is gone already

    def _kill_driver(self, driver: subprocess.Popen[bytes]) -> tuple[str, float] | None:
        if driver.poll() is not None:
            return None
        driver.kill()
        driver.wait()
        self.kills += 1
        return "driver", time.time()

    def _kill_coordinator(self, job: Job, driver: subprocess.Popen[bytes]) -> tuple[str, float] | None:
        """Waits until a checkpoint is being written."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and driver.poll() is None:
            pending = _pending(job)
            if pending:
                time.sleep(self.pause_s(0.03))
                hit = self._kill_driver(driver)
                if hit is None:
                    return None
                half, hidden = bool(_pending(job)), bool(list(job.out.glob("_staged/part-*")))
                self.half_written += half
                self.unpublished += hidden and not half
                state = "half-written" if half else "complete, its matches hidden" if hidden else "complete"
                return f"coordinator, checkpoint {state}", hit[1]
            time.sleep(0.002)
        return None

    def _lose_node(self) -> tuple[str, float] | None:
        """The raylet of the second node dies, and all that ran there; another node takes its place."""
        raylet = self._node.all_processes["raylet"][0].process
        raylet.send_signal(signal.SIGKILL)
        self.kills += 1
        at = time.time()
        self._cluster.remove_node(self._node, allow_graceful=False)
        self.add_node()
        return "second node", at

    def add_node(self) -> None:
        self._node = self._cluster.add_node(num_cpus=8)

    def _tear(self, job: Job, driver: subprocess.Popen[bytes]) -> tuple[str, float] | None:
        """The driver dies, and a file of the newest checkpoint turns out to be damaged."""
        hit = self._kill_driver(driver)
        complete = job.manifests()
        if hit is None or len(complete) < 2:
            return hit
        folder = job.checkpoints / f"checkpoint-{complete[-1]:08d}"
        torn = self._draw.choice(sorted(folder.iterdir()))
        torn.write_bytes(torn.read_bytes()[: self._draw.randrange(100)])
        return f"driver, and {torn.parent.name}/{torn.name} is torn", hit[1]

    def _fill_disk(self, job: Job) -> tuple[str, float] | None:
        """No byte can be written for a while; every second time a unit is killed on top of it."""
        assert self._disk is not None
        self._disk.fill()
        before = job.manifests()
        try:
            time.sleep(1.5 + self.pause_s(1.0))
            if job.manifests() != before and len(job.manifests()) > len(before):
                return None  # one was complete just before
            hit = self._kill_actor("unit") if self.chance(0.5) else None
            time.sleep(0.5 if hit else 0.0)
        finally:
            self._disk.free()
        return (f"disk full, and {hit[0]}", hit[1]) if hit else ("disk full", time.time())


def _pending(job: Job) -> list[Path]:
    """Checkpoints of which something has been written, but no manifest."""
    with contextlib.suppress(FileNotFoundError):
        return [path for path in job.checkpoints.glob("checkpoint-*") if not (path / "manifest.json").exists()]
    return []


def role_of(name: str) -> str:
    if "/shuffler/" in name:
        return "shuffler"
    return "sink" if name.endswith("/sink") else "unit"
