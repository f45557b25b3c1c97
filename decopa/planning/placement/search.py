"""Finding a placement: greedy as printed, better by moves of one and two operators, exact where it is small."""

from __future__ import annotations

import itertools
import math
import random

from decopa.errors import PlanError
from decopa.planning.placement.deployment import Deployment, Placement

#: Placements that an exact search looks at; beyond, moves decide.
MAX_EXACT = 70_000
_STARTS = 4
METHODS = ("best", "greedy", "moves", "exact")


def place(deployment: Deployment, method: str = "best", *, seed: int = 0) -> dict[str, str]:
    """A node for each operator. `best` is `exact` where few placements are possible, else `moves`."""
    if not deployment.nodes:
        raise PlanError("there is no node to place operators on")
    match method:
        case "greedy":
            return greedy(deployment)
        case "moves":
            return by_moves(deployment, seed=seed)
        case "exact":
            return exact(deployment)
        case "best":
            small = len(deployment.useful_nodes) ** len(deployment.operators) <= MAX_EXACT // 16
            return exact(deployment) if small else by_moves(deployment, seed=seed)
    raise PlanError(f"unknown way to place operators '{method}'; use one of {', '.join(METHODS)}")


def greedy(deployment: Deployment) -> dict[str, str]:
    """Bottom-up, each operator on the node with the least cost term given what is placed; the first of equals."""
    placed: dict[str, str] = {}
    for operator in deployment.operators:
        placed[operator.name] = min(
            deployment.nodes,
            key=lambda node, one=operator: deployment.term(one, node, placed),  # type: ignore[misc]
        )
    return placed


def by_moves(deployment: Deployment, *, seed: int = 0) -> dict[str, str]:
    """The best that one- and two-operator moves reach from the greedy placement, from everything on one node, and
    from a few random placements."""
    rng = random.Random(seed)
    nodes, names = deployment.useful_nodes, [one.name for one in deployment.operators]
    together = min((dict.fromkeys(names, node) for node in nodes), key=deployment.cost)
    starts = [greedy(deployment), together]
    starts += [{name: rng.choice(nodes) for name in names} for _ in range(_STARTS)]
    return min((_improved(deployment, start) for start in starts), key=deployment.cost)


def exact(deployment: Deployment) -> dict[str, str]:
    """The cheapest placement of all; the first of equals."""
    names = [one.name for one in deployment.operators]
    if len(deployment.useful_nodes) ** len(names) > MAX_EXACT:
        raise PlanError(
            f"{len(names)} operators on {len(deployment.useful_nodes)} nodes have too many placements to look at them "
            "all; use `moves`"
        )
    choices = itertools.product(deployment.useful_nodes, repeat=len(names))
    return min((dict(zip(names, choice, strict=True)) for choice in choices), key=deployment.cost)


def _improved(deployment: Deployment, start: Placement) -> dict[str, str]:
    """Goes to the best neighbour until none is better; looks at pairs of moves only where single ones end."""
    placed, now = dict(start), deployment.cost(start)
    moves = 1
    while True:
        better = min(deployment.neighbours(placed, moves), key=deployment.cost, default=placed)
        reached = deployment.cost(better)
        if reached < now - 1e-12 * max(1.0, math.fabs(now)):
            placed, now, moves = better, reached, 1
        elif moves == 1:
            moves = 2
        else:
            return placed
