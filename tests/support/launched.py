"""A cluster on machines out of namespaces, started from the laptop the way a user would."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.machines import LAPTOP, Machines

#: Each machine sees all memory and cores of this one, so Ray is told what to take.
RAY_OPTIONS = "--num-cpus=4 --object-store-memory=200000000 --memory=2000000000"
QUERY = "QUERY chain PATTERN SEQ(ShortY a, LongC b, VLongY c) WHERE a.end_station = b.start_station WITHIN 2 h"
_ACTORS = """
import json, ray
from ray.util.state import list_actors, list_nodes
nodes = {node.node_id: node.node_ip for node in list_nodes(limit=1000)}
print(json.dumps({actor.name: nodes.get(actor.node_id) for actor in list_actors(
    filters=[("state", "=", "ALIVE")], limit=1000) if actor.name and "/" in actor.name}))
"""


class Launched:
    """The cluster of the machines n1 (head), n2, ...; `file` is its cluster file on the laptop."""

    file = "cluster.yaml"

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.nodes = tuple(name for name in machines.names if name != LAPTOP)
        #: What `decopa cluster up` printed.
        self.up_output = ""

    def write_file(self, *more: str, ray_options: str = RAY_OPTIONS) -> None:
        head, *workers = [self.machines.address(name) for name in self.nodes]
        options = ["--head", head, "--workers", ",".join(workers), "--user", "ray", "--key", "~/.ssh/id_ed25519"]
        options += ["--checkpoints", "/shared", "--node-python", self.machines.python(), "--ray-options", ray_options]
        self.decopa(LAPTOP, ["cluster", "init", "local", *options, *more], to=self.file)

    def command(self, words: list[str]) -> str:
        return f"{self.machines.python()} -W ignore -m decopa {shlex.join(words)}"

    def decopa(
        self, name: str, words: list[str], *, to: str | None = None, timeout_s: float = 180.0, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs a decopa command on a machine, on a node with the environment of the cluster."""
        line = self.command(words) + (f" > {to}" if to else "")
        if name != LAPTOP:
            line = f". ~/.decopa-env; {line}"
        return self.machines.run(name, line, timeout_s=timeout_s, check=check)

    def start(self, name: str, words: list[str]) -> subprocess.Popen[str]:
        line = self.command(words)
        return self.machines.start(name, line if name == LAPTOP else f". ~/.decopa-env; exec {line}")

    def actors(self) -> dict[str, str]:
        """The addresses of the nodes that actors of runs are on, by the actors' names."""
        line = f". ~/.decopa-env; {self.machines.python()} -W ignore -c {shlex.quote(_ACTORS)}"
        return dict(json.loads(self.machines.run("n1", line, timeout_s=60).stdout.splitlines()[-1]))

    def machine_at(self, address: str) -> str:
        return next(name for name in self.nodes if self.machines.address(name) == address)


def rows(path: Path) -> list[tuple[object, ...]]:
    """The matches of a file, or of a folder of parts, sorted; a match that is there twice stays twice."""
    files = sorted(path.glob("part-*.parquet")) if path.is_dir() else [path]
    tables = [pq.read_table(file) for file in files]
    table = pa.concat_tables([one.select(tables[0].schema.names) for one in tables])
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


def wait_until(done: Callable[[], bool], timeout_s: float = 60.0, every_s: float = 0.2) -> None:
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline:
            raise AssertionError(f"it did not happen within {timeout_s:.0f} s")
        time.sleep(every_s)


def longest_gap_s(folder: Path) -> float:
    """The longest time between two parts of a published result."""
    times = sorted(path.stat().st_mtime for path in folder.glob("part-*.parquet"))
    return max((later - earlier for earlier, later in pairwise(times)), default=0.0)


def recoveries(text: str) -> list[tuple[float, float]]:
    """Seconds of each recovery that a run told of, and how many of them passed until it was noticed."""
    found = re.findall(r"back at checkpoint \d+ in ([\d.]+) s(?:, ([\d.]+) s of them until it was noticed)?", text)
    return [(float(seconds), float(noticed or 0)) for seconds, noticed in found]
