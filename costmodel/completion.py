"""How often a NEXT completes: matches of its first pattern whose successors all come within the window.

Successors of a stream of independent events come after exponential times, so a chain takes the sum of them. Unlike the
match rate of a SEQ, that of a NEXT is at most the rate of its first pattern.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from costmodel.logarithms import LOG_ZERO, clamped, log_of, value_of

#: A position with more candidates per window is reached at once, as far as any prediction is concerned.
_AT_ONCE = 1e6
#: Below, completing is proportional to the rate.
_RARE = 1e-6


class Rate(Protocol):
    """A match rate as a function of the scaling factor."""

    def log_at(self, log_scaling: float = 0.0) -> float: ...


@dataclass(frozen=True, slots=True)
class ChainRate:
    """Matches of a NEXT per window. `head` is the rate of its first pattern; `log_followers` are the candidates per
    window of each further position, `log_decided` the share of chosen events that pass the deciding conditions."""

    head: Rate
    log_followers: tuple[float, ...]
    log_decided: float = 0.0

    def log_at(self, log_scaling: float = 0.0) -> float:
        reached = log_completion([one + log_scaling for one in self.log_followers])
        return clamped(self.head.log_at(log_scaling) + reached + self.log_decided)


@dataclass(frozen=True, slots=True)
class RunRate:
    """Runs of ITER per window: one for each start and each member that it reaches within the window.

    `log_pair` is the share of neighbours that pass the conditions between them, `log_member` that of runs which fit the
    rest of the match. `log_correction` is added at every c.
    """

    alias: str
    log_events: float
    log_member: float = 0.0
    log_pair: float = 0.0
    log_correction: float = 0.0

    def log_at(self, log_scaling: float = 0.0) -> float:
        log_events = self.log_events + log_scaling
        events, share = value_of(log_events), value_of(self.log_pair)
        if share >= 1 - 1e-12:
            longer = events
        else:
            longer = share / (1 - share) * -math.expm1(-events * (1 - share))
        return clamped(log_events + math.log1p(longer) + self.log_member + self.log_correction)


def log_completion(log_rates: Sequence[float]) -> float:
    """The logarithm of `completion` for rates given as logarithms."""
    rates = [value_of(one) for one in log_rates]
    rare = [one for one in rates if one < _RARE]
    if not rare:
        return log_of(completion(rates))
    # A rare event is as likely as its rate says; where it falls among the others stays the same.
    scaled = completion([max(one, _RARE) for one in rates])
    missing = sum(min(0.0, one - math.log(_RARE)) for one in log_rates)
    return clamped(log_of(scaled) + missing) if scaled > 0 else LOG_ZERO


def completion(rates: Sequence[float]) -> float:
    """The probability that exponential times with these rates per window add up to one window at most.

    >>> round(completion([1.0]), 6)
    0.632121
    """
    slow = [rate for rate in rates if rate < _AT_ONCE]
    if not slow:
        return 1.0
    # Steps from each position to the next, with a common clock of the fastest rate: no term is negative, so that even
    # tiny probabilities are exact.
    fastest = max(slow)
    halvings = max(0, math.ceil(math.log2(max(fastest, 1e-300))) + 2)
    size = len(slow) + 1
    steps = np.zeros((size, size))
    for place, rate in enumerate(slow):
        steps[place, place], steps[place, place + 1] = fastest - rate, rate
    steps[-1, -1] = fastest
    scaled = steps / 2.0**halvings
    term, total = np.eye(size), np.eye(size)
    for count in range(1, 30 + size):
        term = term @ scaled / count
        total = total + term
    total *= math.exp(-fastest / 2.0**halvings)
    for _ in range(halvings):
        total = total @ total
    return min(1.0, float(total[0, -1]))
