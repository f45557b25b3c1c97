"""Cluster files as a user would fill them in, for tests."""

from __future__ import annotations

from pathlib import Path

import yaml

from cluster.launch.cluster_file import ClusterFile, read_cluster_file
from cluster.launch.templates import SETUP_NODE, blanks, fill, template

VALUES = {
    "head": "10.0.0.1",
    "workers": "10.0.0.2,10.0.0.3",
    "key": "~/.ssh/some_key",
    "setup_node": str(SETUP_NODE),
    "checkpoints": "/shared/checkpoints",
    "image": "ami-12c6146b",
    "head_profile": "arn:aws:iam::123456789012:instance-profile/head",
    "worker_profile": "arn:aws:iam::123456789012:instance-profile/worker",
}


def filled(kind: str) -> str:
    """The file of this kind; where VALUES has nothing, with the sample that it comes with."""
    text = template(kind)
    for blank in [*blanks(text)]:
        if any(one.name == blank.name for one in blanks(text)):
            value = VALUES.get(blank.name, blank.sample)
            text = fill(text, {blank.name: value})
    return text


def file_of(text: str, tmp_path: Path) -> ClusterFile:
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    return read_cluster_file(path)


def changed(kind: str, tmp_path: Path, change: object) -> ClusterFile:
    """The file after `change` has worked on its document."""
    document = yaml.safe_load(filled(kind))
    assert callable(change)
    change(document)
    return file_of(yaml.safe_dump(document), tmp_path)
