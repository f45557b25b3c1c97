"""The thesis' condition for several units (its section 3): rates, and inequality (2).

A multi-sink placement leaves the *partitioning* input where it arises and exchanges the others among its sinks. That is
right while R(part) > |ST(sinks)| * sum R(others) + R(match), where ST is the smallest tree that spans the sinks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


def global_rate(local_rate: float, producers: int) -> float:
    """R: what all producers of a type send, each at its local rate."""
    return local_rate * producers


def thesis_match_rate(operator: str, rates: Sequence[float], selectivity: float) -> float:
    """Matches of SEQ or AND over inputs of these rates; AND counts k times as many for k inputs, where k! orders would
    be possible."""
    return selectivity * math.prod(rates) * (len(rates) if operator == "AND" else 1)


@dataclass(frozen=True, slots=True)
class Inequality:
    """Both sides of (2), from global rates; `tree_edges` is |ST|: for u units of one operator, u - 1."""

    partitioning: float
    tree_edges: int
    others: tuple[float, ...]
    matches: float = 0.0

    @property
    def right(self) -> float:
        """R(match) stands outside of the product."""
        return self.tree_edges * math.fsum(self.others) + self.matches

    @property
    def bracketed_right(self) -> float:
        """The other reading of the print, with R(match) inside of the product."""
        return self.tree_edges * (math.fsum(self.others) + self.matches)

    @property
    def holds(self) -> bool:
        """Whether several units are right. Equality is not enough to choose them."""
        return self.partitioning > self.right

    @property
    def violated(self) -> bool:
        """Whether a running placement is harmful. Equality raises no alarm (Algorithm 1)."""
        return self.partitioning < self.right
