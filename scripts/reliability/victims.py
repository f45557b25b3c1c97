"""What chaos can do to a run: kill processes of every role, lose a node, tear checkpoint files."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path
from typing import Any

import ray

#: Roles and how often each is drawn.
ROLES = {"unit": 5, "shuffler": 3, "sink": 2, "driver": 2, "node": 1, "torn": 1}


class Chaos:
    """Draws what to do next and does it; `done` counts what was really done, by role."""

    def __init__(self, seed: int, cluster: Any, checkpoints: Path) -> None:
        self._draw, self._cluster, self._checkpoints = random.Random(seed), cluster, checkpoints
        self.done: dict[str, int] = dict.fromkeys(ROLES, 0)
        self._node: Any = None

    def strike(self, driver: subprocess.Popen[bytes]) -> str | None:
        """Does one thing; None if what was drawn was not there to be hit."""
        role = self._draw.choices(list(ROLES), list(ROLES.values()))[0]
        hit = {
            "driver": lambda: self._driver(driver),
            "node": self._lose_node,
            "torn": lambda: self._tear(driver),
        }.get(role, lambda: self._actor(role))()
        if hit is not None:
            self.done[role] += 1
        return hit

    def pause_s(self, longest: float) -> float:
        return self._draw.uniform(0.1, longest)

    def _actor(self, role: str) -> str | None:
        actors = [one for one in ray.util.list_named_actors(all_namespaces=True) if _role(one["name"]) == role]
        if not actors:
            return None
        chosen = self._draw.choice(actors)
        try:
            handle = ray.get_actor(chosen["name"], namespace=chosen["namespace"])
            os.kill(ray.get(handle.pid.remote(), timeout=5), signal.SIGKILL)
        except (ray.exceptions.RayError, ValueError, ProcessLookupError):
            return None  # gone already
        return str(chosen["name"])

    def _driver(self, driver: subprocess.Popen[bytes]) -> str | None:
        if driver.poll() is not None:
            return None
        driver.kill()
        return "driver"

    def _lose_node(self) -> str | None:
        """The second node is gone with all that ran on it; another one takes its place."""
        if self._node is not None:
            self._cluster.remove_node(self._node, allow_graceful=False)
        lost = self._node is not None
        self._node = self._cluster.add_node(num_cpus=8)
        return "second node" if lost else None

    def add_node(self) -> None:
        self._node = self._cluster.add_node(num_cpus=8)

    def _tear(self, driver: subprocess.Popen[bytes]) -> str | None:
        """The driver dies, and a file of the newest checkpoint turns out to be damaged."""
        if driver.poll() is not None:
            return None
        driver.kill()
        driver.wait()
        complete = sorted(path.parent for path in self._checkpoints.glob("checkpoint-*/manifest.json"))
        if len(complete) < 2:
            return "driver"
        torn = self._draw.choice(sorted(complete[-1].iterdir()))
        torn.write_bytes(torn.read_bytes()[: self._draw.randrange(100)])
        return f"driver, and {torn.parent.name}/{torn.name} is torn"


def _role(name: str) -> str:
    if name.startswith("shuffler/"):
        return "shuffler"
    return "sink" if name.endswith("/sink") else "unit"
