"""Which actors live, and can begin anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ray
from ray.exceptions import ActorUnschedulableError, ObjectLostError, RayActorError, RayTaskError

#: What tells that an actor is gone, or that the node is that it had to be on, or a result with its node.
LOSSES = (RayActorError, ActorUnschedulableError, ObjectLostError)
#: An actor that has not finished what it is doing by then is not kept for another attempt.
_PATIENCE_S = 2.0


def living(actors: Mapping[str, Any]) -> dict[str, Any]:
    """Those that live, once they have finished what they were doing; others are stopped."""
    if not actors:
        return {}
    calls = {actor.idle.remote(): name for name, actor in actors.items()}
    ready, busy = ray.wait(list(calls), num_returns=len(calls), timeout=_PATIENCE_S, fetch_local=False)
    found = {}
    for call in ready:
        try:
            ray.get(call)
        except (RayTaskError, *LOSSES):
            continue
        found[calls[call]] = actors[calls[call]]
    for call in busy:
        ray.kill(actors[calls[call]], no_restart=True)
    return found
