"""Operators with a price at every scaling factor: what planners put together and `throughput` judges.

An operator knows the rates of its inputs as formulas of c, so that both readings of c can be asked of it: costs that
are linear in c (its load at 1, times c), and rates that are multiplied by c (its load at c).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from costmodel.costs import (
    InputRate,
    OperatorLoad,
    join_load,
    kleene_binary_load,
    kleene_unary_load,
    measured_load,
    negation_load,
    next_load,
    total_load,
)
from costmodel.formulas import RateFormula
from costmodel.logarithms import log_sum


class PricedOperator(Protocol):
    """Anything whose load at a scaling factor is known."""

    def load(self, log_scaling: float = 0.0) -> OperatorLoad:
        """Load per window if all primitive rates are multiplied by the factor with this logarithm."""
        ...


@dataclass(frozen=True, slots=True)
class Flow:
    """The matches that one operator sends to another: their rate, and whether they are dealt out or broadcast."""

    rate: RateFormula
    partitioned: bool = False

    def at(self, log_scaling: float) -> InputRate:
        return InputRate(self.rate.log_at(log_scaling), self.partitioned)


@dataclass(frozen=True, slots=True)
class Join:
    """SEQ or AND of two inputs; `candidates` are the pairs that are compared, if not all that arrive (5.3.2).
    `matches` is the rate of what the operator puts out, if that counts.
    """

    left: Flow
    right: Flow
    candidates: RateFormula | None = None
    matches: RateFormula | None = None

    def load(self, log_scaling: float = 0.0) -> OperatorLoad:
        log_candidates = None if self.candidates is None else self.candidates.log_at(log_scaling)
        load = join_load(self.left.at(log_scaling), self.right.at(log_scaling), log_candidates)
        return _emitting(load, self.matches, log_scaling, shared=self.left.partitioned or self.right.partitioned)


@dataclass(frozen=True, slots=True)
class KleeneUnary:
    """KL from strip matches; `matches` is the rate of what the operator puts out."""

    strip: Flow
    matches: RateFormula

    def load(self, log_scaling: float = 0.0) -> OperatorLoad:
        load = kleene_unary_load(self.strip.at(log_scaling), self.matches.log_at(log_scaling))
        return _emitting(load, self.matches, log_scaling, shared=self.strip.partitioned)


@dataclass(frozen=True, slots=True)
class KleeneBinary:
    """KL from the rest of the pattern and the events of the Kleene position; `groups` is the rate of KL of these
    events alone, `matches` that of what the operator puts out.
    """

    rest: Flow
    events: Flow
    groups: RateFormula
    matches: RateFormula

    def load(self, log_scaling: float = 0.0) -> OperatorLoad:
        load = kleene_binary_load(
            self.rest.at(log_scaling),
            self.events.at(log_scaling),
            log_group_rate=self.groups.log_at(log_scaling),
            log_match_rate=self.matches.log_at(log_scaling),
        )
        return _emitting(load, self.matches, log_scaling, shared=self.rest.partitioned)


@dataclass(frozen=True, slots=True)
class Negation:
    """NOT: the positive matches and what may block them."""

    positive: Flow
    negated: Flow
    matches: RateFormula | None = None

    def load(self, log_scaling: float = 0.0) -> OperatorLoad:
        load = negation_load(self.positive.at(log_scaling), self.negated.at(log_scaling))
        return _emitting(load, self.matches, log_scaling, shared=self.positive.partitioned)


@dataclass(frozen=True, slots=True)
class Measured:
    """Any operator with the comparisons that the engine is known to make, for statistics that were measured.

    `comparisons` add up. Units share them if an input is dealt out.
    """

    inputs: tuple[Flow, ...]
    comparisons: tuple[RateFormula, ...]
    matches: RateFormula

    def load(self, log_scaling: float = 0.0) -> OperatorLoad:
        flows = [flow.at(log_scaling) for flow in self.inputs]
        log_compared = log_sum(*(one.log_at(log_scaling) for one in self.comparisons))
        shared = any(flow.partitioned for flow in self.inputs)
        return _emitting(measured_load(flows, log_compared), self.matches, log_scaling, shared=shared)


@dataclass(frozen=True, slots=True)
class Next:
    """NEXT: the matches that come first, and those among which each finds its successor."""

    first: Flow
    following: Flow
    matches: RateFormula | None = None

    def load(self, log_scaling: float = 0.0) -> OperatorLoad:
        load = next_load(self.first.at(log_scaling), self.following.at(log_scaling))
        return _emitting(load, self.matches, log_scaling, shared=self.first.partitioned)


@dataclass(frozen=True, slots=True)
class Together:
    """Several operators on the same units: all of them on one is the centralized baseline (7.1)."""

    operators: tuple[PricedOperator, ...]

    def load(self, log_scaling: float = 0.0) -> OperatorLoad:
        return total_load(operator.load(log_scaling) for operator in self.operators)


def _emitting(load: OperatorLoad, matches: RateFormula | None, log_scaling: float, *, shared: bool) -> OperatorLoad:
    return load if matches is None else load.emitting(matches.log_at(log_scaling), shared=shared)
