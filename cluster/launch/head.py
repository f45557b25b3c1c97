"""Talking to a running cluster through its head: a tunnel, the token, and Ray's own web interface."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.launch.cluster_file import ClusterFile
from cluster.launch.remote import Answer, Machine
from cluster.launch.token import TOKEN_FILE, read_token
from decopa.documents import read_json
from decopa.errors import DeployError

DASHBOARD_PORT = 8265
_REQUEST_S = 10.0
_HEAD_IP_S = 60.0


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the head sees it."""

    address: str
    alive: bool
    head: bool
    cpus: float
    memory_bytes: float
    draining: bool = False


def head_machine(file: ClusterFile) -> Machine:
    """The machine of the head; clouds are asked for its address."""
    if file.head is not None:
        return Machine(file.head, file.user, file.key)
    command = [sys.executable, "-m", "ray.scripts.scripts", "get-head-ip", str(file.path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_HEAD_IP_S)
    except subprocess.TimeoutExpired:
        raise DeployError(f"the address of the head of '{file.name}' is not known after {_HEAD_IP_S:.0f} s") from None
    words = done.stdout.split()
    if done.returncode or not words:
        said = Answer(done.returncode, "", done.stderr).last_error
        raise DeployError(f"cluster '{file.name}' has no head: {said}; start it with `decopa cluster up {file.path}`")
    return Machine(words[-1], file.user, file.key)


@contextlib.contextmanager
def dashboard(machine: Machine) -> Iterator[str]:
    """The address, on this machine, of the cluster's web interface."""
    with machine.tunnel(DASHBOARD_PORT) as port:
        yield f"http://127.0.0.1:{port}"


def nodes(base: str, token_file: Path = TOKEN_FILE) -> list[Node]:
    """All nodes that the head knows of, those that are gone among them."""
    answer = ask(base, "/api/v0/nodes?detail=1&limit=10000", token_file)
    return [_node(entry) for entry in answer["data"]["result"]["result"]]


def _node(entry: dict[str, Any]) -> Node:
    resources = entry.get("resources_total") or {}
    return Node(
        str(entry["node_ip"]),
        entry["state"] == "ALIVE",
        bool(entry["is_head_node"]),
        float(resources.get("CPU", 0.0)),
        float(resources.get("memory", 0.0)),
        "drain" in str(entry.get("state_message") or "").lower(),
    )


class NotFound(DeployError):
    """The cluster knows nothing of what it was asked for."""


def ask(base: str, path: str, token_file: Path = TOKEN_FILE, *, send: Any = None, method: str | None = None) -> Any:
    """What the web interface answers, as JSON; DeployError says why there is no answer. `send` goes there as JSON."""
    headers = {"Authorization": f"Bearer {read_token(token_file.expanduser())}", "Content-Type": "application/json"}
    data = None if send is None else json.dumps(send).encode()
    request = urllib.request.Request(f"{base}{path}", data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=_REQUEST_S) as response:
            return read_json(response.read(), name="the answer of the head", error=DeployError)
    except urllib.error.HTTPError as err:
        if err.code in (401, 403):
            raise DeployError(
                f"the cluster refuses the token in {token_file}; it was started with another one: copy that from the "
                "machine that started it, or start the cluster anew"
            ) from err
        if err.code == 404:
            raise NotFound(f"the cluster does not know {path}") from err
        raise DeployError(f"the cluster answers with error {err.code}: {err.reason}") from err
    except (OSError, ValueError) as err:
        raise DeployError(f"no Ray answers on the head: {err}; see `decopa cluster status`") from err
