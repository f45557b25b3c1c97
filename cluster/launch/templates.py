"""The cluster files that come with decopa, and what a user fills in.

A line to fill in ends with `# FILL IN name`, and perhaps `: why`. The text to replace is the last word before the mark,
without brackets and quotes. After `# FILL IN EVERYWHERE name` that text is replaced in all lines.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from decopa.choices import CLUSTER_KINDS
from decopa.errors import DeployError, did_you_mean

FOLDER = Path(__file__).resolve().parent
SETUP_NODE = FOLDER / "setup-node"

_MARK = re.compile(r"\s*#\s*FILL IN (?P<everywhere>EVERYWHERE )?(?P<name>\w+)(?::\s*(?P<about>.*))?$")
_BRACKETS = "[]{}'\""
#: What would end a value in YAML, or begin another one.
_UNFIT = re.compile(r"[\n\r#]|: |^\s*$")


@dataclass(frozen=True, slots=True)
class Blank:
    """A place to fill in: its line (from 1), the text to replace, and what to know about it."""

    name: str
    line: int
    sample: str
    about: str
    everywhere: bool


def template(kind: str) -> str:
    """The cluster file of this kind, with its lines to fill in."""
    if kind not in CLUSTER_KINDS:
        raise DeployError(f"there is no cluster file '{kind}'{did_you_mean(kind, CLUSTER_KINDS)}")
    return (FOLDER / f"{kind}.yaml").read_text(encoding="utf-8")


def blanks(text: str) -> Iterator[Blank]:
    """The places that are not filled in yet."""
    for number, line in enumerate(text.splitlines(), start=1):
        mark = _MARK.search(line)
        if mark is not None:
            words = line[: mark.start()].split()
            sample = words[-1].strip(_BRACKETS) if words else ""
            yield Blank(mark["name"], number, sample, mark["about"] or "", mark["everywhere"] is not None)


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with these values in their places; marks of what is filled in disappear.

    DeployError for a name that has no place, and for a value that would be more than a value in YAML.
    """
    known = {blank.name for blank in blanks(text)}
    for name, value in values.items():
        if name not in known:
            raise DeployError(f"the cluster file has no place for '{name}'{did_you_mean(name, known)}")
        if _UNFIT.search(value):
            raise DeployError(f"'{value}' cannot stand for {name} in a cluster file; write one value without # or ': '")
        text = _filled(text, name, value)
    return text


def with_node_setup(
    text: str, *, python: str, ray: str, node_python: str | None = None, ray_options: str | None = None
) -> str:
    """The text with these versions, which all machines must have, in its `setup-node` commands.

    `node_python` is a Python on the machines that has decopa already, `ray_options` go to `ray start` on all of them.
    """
    prepared = f"DECOPA_PYTHON={shlex.quote(node_python)} " if node_python else ""
    command = f"- {prepared}bash ~/setup-node --python {python} --ray {ray} "
    text = text.replace("- bash ~/setup-node ", command)
    if ray_options:
        text = text.replace(
            f"{command}--checkpoints", f"{command}--ray-options {shlex.quote(ray_options)} --checkpoints"
        )
    return text


def _filled(text: str, name: str, value: str) -> str:
    lines = text.splitlines(keepends=True)
    everywhere = ""
    for blank in blanks(text):
        if blank.name == name:
            place = blank.line - 1
            kept = _MARK.sub("", lines[place].rstrip("\n"))
            before, _, after = kept.rpartition(blank.sample)
            lines[place] = f"{before}{value}{after}\n"
            everywhere = blank.sample if blank.everywhere else everywhere
    filled = "".join(lines)
    return filled.replace(everywhere, value) if everywhere else filled
