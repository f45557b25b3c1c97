"""Equivalent trees: all ways to put brackets into a chain of NEXT, and how many there are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from costmodel.papers.next_cost import After, Expression, cost


def bracketings(operands: Sequence[Expression]) -> Iterator[Expression]:
    """Every tree over the operands in their order: NEXT is associative, not commutative."""
    if len(operands) == 1:
        yield operands[0]
    for cut in range(1, len(operands)):
        for left in bracketings(operands[:cut]):
            for right in bracketings(operands[cut:]):
                yield After(left, right)


def bracketing_count(operators: int) -> int:
    """Catalan's number: trees with that many NEXTs."""
    return math.comb(2 * operators, operators) // (operators + 1)


def union_pattern_count(operators: int) -> int:
    """Patterns with that many unions, which commute as well: (2n)!/n!."""
    return math.factorial(2 * operators) // math.factorial(operators)


def cheapest_bracketings(
    operands: Sequence[Expression], rates: Mapping[str, float]
) -> tuple[float, tuple[Expression, ...], int]:
    """The least cost over all trees, the trees that have it, and how many trees there are."""
    best, count = math.inf, 0
    found: list[Expression] = []
    for tree in bracketings(operands):
        count += 1
        value = cost(tree, rates)
        if value < best * (1 - 1e-12):
            best, found = value, []
        if value <= best * (1 + 1e-12):
            found.append(tree)
    return best, tuple(sorted(found, key=str)), count
