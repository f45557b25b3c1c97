"""Match rates as functions of the scaling factor c, with the groups of KL positions in them (5.3.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from costmodel.completion import ChainRate, RunRate
from costmodel.kleene import KleenePairs, log_empty_group, log_groups, mean_size
from costmodel.logarithms import LOG_ZERO, clamped, log_of, log_sum, value_of
from costmodel.time_order import TimeOrder, log_time_factor
from decopa.query.pattern import Pattern

#: Logarithms of rates of events between which the one is looked for that explains a number of groups.
_FEWEST, _MOST = -80.0, 40.0


@dataclass(frozen=True, slots=True)
class RateModel:
    """Which reading of 5.3.1 is meant where the paper leaves room; `smallest_group` 0 is the printed bound."""

    kleene_pairs: KleenePairs = KleenePairs.NEIGHBOURS
    smallest_group: int = 1
    time_order: TimeOrder = TimeOrder.PAPER


#: The formulas as printed, errata applied.
PAPER = RateModel()
#: Nearest to what the engine finds: conditions hold for all pairs of a group's members, and orders are counted.
ENGINE = RateModel(kleene_pairs=KleenePairs.ALL, time_order=TimeOrder.COUNTED)


@dataclass(frozen=True, slots=True)
class KleeneGroup:
    """The sum over group sizes for one KL position; logarithms of its rate and of its selectivities.

    `log_member` is that of one member with the rest of the match, `log_pair` that of two members with each other.
    `alias` in `pattern` is the position, for models that count orders: several members under AND may lie on both sides
    of the other events, and in the middle of a SEQ all must lie between two. `log_correction` is added at every c.
    """

    log_events: float
    log_member: float
    log_pair: float
    model: RateModel = PAPER
    alias: str = ""
    pattern: Pattern | None = None
    log_correction: float = 0.0

    def log_at(self, log_scaling: float = 0.0) -> float:
        return _log_groups_at(self, log_scaling)

    def _log_at(self, log_scaling: float) -> float:
        log_events = self.log_events + log_scaling
        if log_events <= 0:  # at most one event per window, which may be too rare for a float
            groups = clamped(log_events + self.log_member)
        else:
            likely = (value_of(log_events), self.log_member, self.log_pair, self.model.kleene_pairs)
            groups = clamped(log_groups(*likely) + self._log_orders(mean_size(*likely)))
        groups = clamped(groups + self.log_correction)
        if self.model.smallest_group == 0:
            return log_sum(groups, log_empty_group(self.log_pair, self.model.kleene_pairs))
        return groups

    def fitted(self, log_groups_at_1: float) -> KleeneGroup:
        """The same with as many groups at c = 1 as were measured.

        The events are those of the even stream that would form that number of groups. So growth with c is that of busy
        windows, in which most groups are. What no number of events explains is left to the correction.
        """
        if log_groups_at_1 <= LOG_ZERO:
            return replace(self, log_correction=LOG_ZERO)
        low, high = _FEWEST, _MOST
        if log_groups_at_1 <= self.log_member:  # less than one event for each match
            low = high = clamped(log_groups_at_1 - self.log_member)
        while high - low > 1e-3:
            middle = (low + high) / 2
            if replace(self, log_events=middle).log_at() < log_groups_at_1:
                low = middle
            else:
                high = middle
        found = replace(self, log_events=low)
        return replace(found, log_correction=log_groups_at_1 - found.log_at())

    def _log_orders(self, size: float) -> float:
        """How many times as many orders groups of this size have as single events, which the pattern's factor counts.

        The mean size stands for all sizes; for AND, where it is a matter of proportion, that is exact.
        """
        if self.pattern is None or self.model.time_order is not TimeOrder.COUNTED:
            return 0.0
        counted = log_time_factor(self.pattern, TimeOrder.COUNTED, {self.alias: size})
        return counted - log_time_factor(self.pattern, TimeOrder.COUNTED)


@lru_cache(maxsize=50_000)
def _log_groups_at(group: KleeneGroup, log_scaling: float) -> float:
    """Remembered, because planners price the same groups thousands of times, and orders take long to count."""
    return group._log_at(log_scaling)


@dataclass(frozen=True, slots=True)
class RateFormula:
    """A match rate as a function of c: all primitive rates are multiplied by c, and the matches follow.

    The part without Kleene closure and NEXT grows with c to the number of its positions.
    """

    log_rest: float
    positions: int = 1
    groups: tuple[KleeneGroup | ChainRate | RunRate, ...] = ()

    def log_at(self, log_scaling: float = 0.0) -> float:
        """The logarithm of the matches per window at the scaling factor with this logarithm."""
        rest = self.log_rest + self.positions * log_scaling
        return clamped(rest + sum(group.log_at(log_scaling) for group in self.groups))

    def times(self, factor: float, positions: int = 0) -> RateFormula:
        """So many times as much at c = 1, which grows with c to that many more positions."""
        return RateFormula(clamped(self.log_rest + log_of(factor)), self.positions + positions, self.groups)

    def at(self, scaling_factor: float = 1.0) -> float:
        """Matches per window, at most `MAX_VALUE`."""
        return value_of(self.log_at(log_of(scaling_factor)))
