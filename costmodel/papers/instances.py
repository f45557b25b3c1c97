"""What MCEP counts: the partial matches that a plan holds at a time (MCEP 3.3 and appendix C).

Rates are events per unit of time, windows are in the same unit. Orders count the instances of every state behind the
initial one; trees count their leaves, too, so that the two are never compared with each other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

Pair: TypeAlias = tuple[str, str]
#: A binary tree over types: a type, or two trees.
TypeTree: TypeAlias = "str | tuple[TypeTree, TypeTree]"


def instances(
    types: Collection[str], window: float, rates: Mapping[str, float], selectivities: Mapping[Pair, float]
) -> float:
    """Partial matches over some types within a window: the product of their rates and of all selectivities between
    them, that of a type with itself included."""
    found = window ** len(types) * math.prod(rates[one] for one in types)
    pairs = itertools.combinations_with_replacement(sorted(types), 2)
    return found * math.prod(selectivities.get(pair, 1.0) for pair in pairs)


def order_instances(
    order: Sequence[str], window: float, rates: Mapping[str, float], selectivities: Mapping[Pair, float]
) -> float:
    """Instances of a chain of states that takes events in this order."""
    return sum(instances(order[:length], window, rates, selectivities) for length in range(1, len(order) + 1))


def tree_instances(
    tree: TypeTree, window: float, rates: Mapping[str, float], selectivities: Mapping[Pair, float]
) -> float:
    """Instances of the nodes of a tree, leaves included."""
    return sum(instances(leaves_of(node), window, rates, selectivities) for node in nodes_of(tree))


def nodes_of(tree: TypeTree) -> Iterator[TypeTree]:
    """The nodes of a tree, each after those below it."""
    if not isinstance(tree, str):
        for child in tree:
            yield from nodes_of(child)
    yield tree


def leaves_of(tree: TypeTree) -> tuple[str, ...]:
    return (tree,) if isinstance(tree, str) else (*leaves_of(tree[0]), *leaves_of(tree[1]))


def trees_over(leaves: int) -> int:
    """How many binary trees there are over so many types, whatever the order of children: (2n - 3)!!"""
    return math.prod(range(2 * leaves - 3, 1, -2)) if leaves > 1 else 1


def event_cost(
    held: Sequence[float],
    verification: Sequence[float],
    selectivities: Sequence[float],
    *,
    access: float,
    create: float,
    remove: float,
) -> tuple[float, float]:
    """What processing (CP) and removing (CR) one event costs: it is verified against the instances of every state that
    waits for its type, and some of them become instances of the next state.

    Verification and selectivity are those of the way to the *next* state; print says that of the state before, which
    does not have the type on it.
    """
    rows = list(zip(held, verification, selectivities, strict=True))
    processing = sum(count * (access + verified + share * create) for count, verified, share in rows)
    return processing, sum(count * share * remove for count, _, share in rows)
