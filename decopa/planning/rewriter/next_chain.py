"""Where to put the brackets in a chain of NEXT: the paper's dynamic program, and one that misses no optimum.

The paper's program (Fig. 5, with j = i+l-1) keeps the cheapest tree of each run of operands. But what comes later also
depends on the size of a tree's bursts, so from four operands on a cheap tree may be the wrong one to keep. The burst
rate of a tree depends only on where its topmost cut is, and all later costs grow with its burst size; so it is enough
to keep, for each run and topmost cut, the trees that no other one beats in both cost and burst size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from costmodel.papers.next_cost import After, Expression, Profile, after, profile


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tree with its profile."""

    tree: Expression
    profile: Profile


def run_index(first: int, last: int, operands: int) -> int:
    """The place of the run of operands `first`..`last` (from 0) in the paper's list: shorter runs come first."""
    longer = last - first
    return longer * operands - longer * (longer - 1) // 2 + first


def as_printed(operands: Sequence[Expression], rates: Mapping[str, float]) -> Candidate:
    """The paper's program: one tree for each run, the first of equals."""
    best = {(place, place): Candidate(one, profile(one, rates)) for place, one in enumerate(operands)}
    for length in range(2, len(operands) + 1):
        for first in range(len(operands) - length + 1):
            last = first + length - 1
            options = [_joined(best[first, cut], best[cut + 1, last]) for cut in range(first, last)]
            best[first, last] = min(options, key=lambda one: one.profile.cost)
    return best[0, len(operands) - 1]


def cheapest(operands: Sequence[Expression], rates: Mapping[str, float]) -> Candidate:
    """The cheapest tree of all."""
    fronts = {(place, place): [Candidate(one, profile(one, rates))] for place, one in enumerate(operands)}
    for length in range(2, len(operands) + 1):
        for first in range(len(operands) - length + 1):
            last = first + length - 1
            fronts[first, last] = [
                kept
                for cut in range(first, last)
                for kept in _front([_joined(x, y) for x in fronts[first, cut] for y in fronts[cut + 1, last]])
            ]
    return min(fronts[0, len(operands) - 1], key=lambda one: one.profile.cost)


def _joined(left: Candidate, right: Candidate) -> Candidate:
    return Candidate(After(left.tree, right.tree), after(left.profile, right.profile))


def _front(candidates: list[Candidate]) -> list[Candidate]:
    """Those that no other one beats in cost and burst size."""
    kept: list[Candidate] = []
    for one in sorted(candidates, key=lambda one: (one.profile.cost, one.profile.burst_size)):
        if not kept or one.profile.burst_size < kept[-1].profile.burst_size * (1 - 1e-12):
            kept.append(one)
    return kept
