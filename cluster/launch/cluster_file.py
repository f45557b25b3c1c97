"""A cluster file as decopa reads it: which machines, which user, which key, where checkpoints go."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from decopa.errors import DeployError

#: A cluster file is written by hand: a larger file is something else.
_MAX_BYTES = 2**20


@dataclass(frozen=True)
class NodeSetup:
    """What the file's `setup-node` command asks for."""

    checkpoints: str | None = None
    python: str | None = None


@dataclass(frozen=True)
class ClusterFile:
    """A file for `ray up`. `head` and `workers` are known for machines that exist already (`provider: local`)."""

    path: Path
    text: str
    document: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.document.get("cluster_name", "default"))

    @property
    def provider(self) -> Mapping[str, Any]:
        return _mapping(self.document.get("provider"))

    @property
    def kind(self) -> str:
        return str(self.provider.get("type", ""))

    @property
    def head(self) -> str | None:
        head = self.provider.get("head_ip")
        return None if head is None else str(head)

    @property
    def workers(self) -> tuple[str, ...]:
        workers = self.provider.get("worker_ips")
        return tuple(map(str, workers)) if isinstance(workers, list) else ()

    @property
    def machines(self) -> tuple[str, ...]:
        return () if self.head is None else (self.head, *self.workers)

    @property
    def user(self) -> str:
        return str(_mapping(self.document.get("auth")).get("ssh_user", ""))

    @property
    def key(self) -> Path | None:
        key = _mapping(self.document.get("auth")).get("ssh_private_key")
        return None if key is None else Path(str(key)).expanduser()

    @property
    def setup(self) -> NodeSetup:
        return node_setup(self.commands("setup_commands"))

    def commands(self, key: str) -> tuple[str, ...]:
        found = self.document.get(key)
        return tuple(map(str, found)) if isinstance(found, list) else ()


def read_cluster_file(path: Path) -> ClusterFile:
    """The file, if it is YAML with keys at its top; what they mean is checked by `cluster.launch.schema`."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise DeployError(f"'{path}' is too large for a cluster file")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        why = err.strerror if isinstance(err, OSError) else "it is not text"
        raise DeployError(f"cannot read the cluster file '{path}': {why}; make one with `decopa cluster init`") from err
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as err:
        mark = getattr(err, "problem_mark", None)
        where = "" if mark is None else f" line {mark.line + 1}, column {mark.column + 1}:"
        raise DeployError(f"'{path}':{where} {getattr(err, 'problem', None) or 'is not YAML'}") from err
    if not isinstance(document, dict):
        raise DeployError(f"'{path}' is no cluster file: it has no keys; make one with `decopa cluster init`")
    return ClusterFile(path, text, document)


def node_setup(commands: tuple[str, ...]) -> NodeSetup:
    """What the `setup-node` among these commands is told: its options, and the Python that DECOPA_PYTHON names."""
    for command in commands:
        try:
            words = shlex.split(command)
        except ValueError:
            continue
        if not any(word.endswith("setup-node") for word in words):
            continue
        named = re.search(r"\bDECOPA_PYTHON=(\S+)", command)
        return NodeSetup(_after("--checkpoints", words), None if named is None else named[1])
    return NodeSetup()


def _after(option: str, words: list[str]) -> str | None:
    for word, following in zip(words, [*words[1:], ""]):
        if word == option:
            return following or None
    return None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
