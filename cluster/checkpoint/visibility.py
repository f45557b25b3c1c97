"""Whether all nodes of a cluster see the folder of checkpoints: found out before a run, not after a crash."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.checkpoint.store import CheckpointStore, sees_trial
from decopa.errors import CheckpointError, DecoPaError

_PATIENCE_S = 60.0


def check_seen_by_all(location: str) -> None:
    """Refuses a place for checkpoints that a node of the cluster does not see, or where it cannot write.

    This process writes a file there, which every node must see; then every node writes one, which must be seen here.
    All of them are removed.
    """
    known = ray.nodes()  # type: ignore[no-untyped-call]
    nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in known if node["Alive"]}
    if len(nodes) < 2:
        return
    place = location if "://" in location else str(Path(location).resolve())
    store, nonce = CheckpointStore(place), uuid.uuid4().hex
    store.write_trial(nonce)
    task: Any = ray.remote(num_cpus=0, max_retries=0)(_answer_with_a_file)
    calls = {}
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node, soft=False)
        calls[node] = task.options(scheduling_strategy=there).remote(place, nonce, f"{nonce}-{node}")
    try:
        for node, call in calls.items():
            problem = _result(call)
            if problem is None and not store.take_trial(f"{nonce}-{node}"):
                problem = "what it writes there is not seen here"
            if problem is not None:
                raise CheckpointError(
                    f"node {nodes[node]} does not share the folder of checkpoints '{place}': {problem}; name one that "
                    "all nodes see and may write to (NFS, or a bucket such as s3://bucket/folder)"
                )
    finally:
        for name in (nonce, *(f"{nonce}-{node}" for node in nodes)):
            store.take_trial(name)


def _result(call: Any) -> str | None:
    try:
        return ray.get(call, timeout=_PATIENCE_S)  # type: ignore[no-any-return]
    except RayError as err:
        return f"it does not answer ({type(err).__name__})"


def _answer_with_a_file(location: str, seen: str, answer: str) -> str | None:
    """On a node: what keeps it from seeing the folder or writing to it; None if nothing does."""
    if not sees_trial(location, seen):
        return "it does not see what is written there"
    try:
        CheckpointStore(location).write_trial(answer)
    except (DecoPaError, OSError) as err:
        return str(err)
    return None
