"""Ingestion and comparison cost of one operator, per window and unit, at scaling factor 1 (5.3.2).

Every cost is a part that each unit bears in full and a part that the units of the operator share; with it, the load
of a unit and the number of units that a limit asks for both have a closed form.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from costmodel.logarithms import LOG_ZERO, clamped, log_of, log_sum, value_of
from decopa.errors import PlanError

#: Each arrival on one side is compared with the window of the other side, and the other way round.
_BOTH_WAYS = math.log(2)


@dataclass(frozen=True, slots=True)
class InputRate:
    """Matches per window (as a natural logarithm) that come into an operator: dealt out among its units, or all of
    them to each.
    """

    log_rate: float
    partitioned: bool = False

    @classmethod
    def of(cls, rate: float, *, partitioned: bool = False) -> InputRate:
        return cls(log_of(rate), partitioned)


@dataclass(frozen=True, slots=True)
class Load:
    """Something per window: what every unit of an operator has to do, and what its units divide among themselves.

    Both are natural logarithms.
    """

    log_each: float = LOG_ZERO
    log_shared: float = LOG_ZERO

    def log_per_unit(self, units: int) -> float:
        if self.log_shared <= LOG_ZERO:
            return self.log_each
        return log_sum(self.log_each, self.log_shared - math.log(units))

    def per_unit(self, units: int) -> float:
        """What each of `units` units does per window, at most `MAX_VALUE`."""
        return value_of(self.log_per_unit(units))

    def times(self, log_factor: float) -> Load:
        return Load(clamped(self.log_each + log_factor), clamped(self.log_shared + log_factor))

    def __add__(self, other: Load) -> Load:
        return Load(log_sum(self.log_each, other.log_each), log_sum(self.log_shared, other.log_shared))


@dataclass(frozen=True, slots=True)
class OperatorLoad:
    """What an operator takes in, compares and puts out per window."""

    ingestion: Load
    comparisons: Load
    emission: Load = Load()

    def times(self, log_factor: float) -> OperatorLoad:
        parts = (self.ingestion, self.comparisons, self.emission)
        return OperatorLoad(*(part.times(log_factor) for part in parts))

    def __add__(self, other: OperatorLoad) -> OperatorLoad:
        return OperatorLoad(
            self.ingestion + other.ingestion, self.comparisons + other.comparisons, self.emission + other.emission
        )

    def emitting(self, log_match_rate: float, *, shared: bool) -> OperatorLoad:
        """The same with matches put out: each unit its share, if an input is dealt out."""
        return OperatorLoad(self.ingestion, self.comparisons, _work(log_match_rate, shared=shared))


def total_load(loads: Iterable[OperatorLoad]) -> OperatorLoad:
    """Several operators on the same units, as when one unit evaluates a whole query (7.1)."""
    return sum(loads, OperatorLoad(Load(), Load()))


def ingestion(*inputs: InputRate) -> Load:
    """Input cost: a partitioned input is shared by the units, any other comes to each of them."""
    each = [one.log_rate for one in inputs if not one.partitioned]
    shared = [one.log_rate for one in inputs if one.partitioned]
    return Load(log_sum(*each), log_sum(*shared))


def join_load(left: InputRate, right: InputRate, log_candidates: float | None = None) -> OperatorLoad:
    """SEQ and AND: a left arrival meets every stored right match, and the other way round, hence twice the product.

    `log_candidates` replaces the product where it is known better (see `QueryRates.candidates`). With both inputs
    partitioned (hashed by a key) the units share everything.
    """
    meetings = clamped(_BOTH_WAYS + left.log_rate + right.log_rate) if log_candidates is None else log_candidates
    return OperatorLoad(ingestion(left, right), _work(meetings, shared=left.partitioned or right.partitioned))


def kleene_unary_load(strip: InputRate, log_match_rate: float) -> OperatorLoad:
    """KL from strip matches: each of them meets every group formed so far (which are not divided, as printed)."""
    return OperatorLoad(ingestion(strip), _work(clamped(strip.log_rate + log_match_rate), shared=strip.partitioned))


def kleene_binary_load(
    rest: InputRate, events: InputRate, *, log_group_rate: float, log_match_rate: float
) -> OperatorLoad:
    """KL from the rest of the pattern and the events of the Kleene position, in three classes of partial matches.

    A match of the rest meets the groups of events (`log_group_rate`); an event meets the rest, the groups, and the
    matches formed so far (`log_match_rate`). Only the rest can be partitioned (Def. 5.3). The printed second factor c
    is left out, so that all costs are linear in c.
    """
    if events.partitioned:
        raise PlanError("the events of a KL position are partitioned, so no unit sees a whole group; broadcast them")
    with_rest = log_sum(rest.log_rate + log_group_rate, events.log_rate + rest.log_rate)
    with_groups = clamped(events.log_rate + log_sum(log_group_rate, log_match_rate))
    comparisons = _work(with_rest, shared=rest.partitioned) + Load(log_each=with_groups)
    return OperatorLoad(ingestion(rest, events), comparisons)


def negation_load(positive: InputRate, negated: InputRate) -> OperatorLoad:
    """NOT, which the paper does not price: like a join, since both inputs are held for a window and one is looked up
    for matches of the other. An upper bound, as the first negated match that blocks ends a look-up. The negated input
    can be partitioned only together with the positive one, by a key.
    """
    if negated.partitioned and not positive.partitioned:
        raise PlanError("the negated input is partitioned, so a unit may miss what blocks a match; broadcast it")
    return join_load(positive, negated)


def measured_load(inputs: Sequence[InputRate], log_compared: float) -> OperatorLoad:
    """Any operator, with comparisons as they were measured."""
    shared = any(one.partitioned for one in inputs)
    return OperatorLoad(ingestion(*inputs), _work(log_compared, shared=shared))


def next_load(first: InputRate, following: InputRate) -> OperatorLoad:
    """NEXT as the engine evaluates it: both inputs are gone through once, in order of time, and each first match is
    compared with its successor. No bursts: waiting matches are decided together.

    With both inputs partitioned (hashed by a key) the units share everything.
    """
    if following.partitioned and not first.partitioned:
        raise PlanError("the input that follows is partitioned, so a unit may miss the next event; broadcast it")
    return OperatorLoad(ingestion(first, following), _work(first.log_rate, shared=first.partitioned))


def _work(log_amount: float, *, shared: bool) -> Load:
    return Load(log_shared=log_amount) if shared else Load(log_each=log_amount)
