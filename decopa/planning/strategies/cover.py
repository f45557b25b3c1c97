"""How few units sustain a given c: a dynamic program over sets of positions, for all splits of a query at once.

For each set of positions: the least number of units over all ways to join two smaller sets that cover it, which may
share positions. Sets are bit masks; all pairs of one size of set are priced in one go.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from costmodel.capacity import Capacity
from decopa.choices import Objective, Reading
from decopa.planning.split import SplitSpace, Step
from decopa.planning.subquery import SubQuery

Masks = npt.NDArray[np.int64]
#: Up to this many positions pairs may share any number of them, above it one: more hardly ever pays.
_FREE_OVERLAP = 8
_LOG_MAX = 700.0


@dataclass(frozen=True)
class _Level:
    """All pairs (left, right) for the sets of one size; the pairs of one set are consecutive."""

    wholes: Masks
    left: Masks
    right: Masks
    pairs_per_set: int


class JoinCover:
    """Units for joining the given positions, each taken as single events."""

    def __init__(self, space: SplitSpace, aliases: tuple[str, ...], capacity: Capacity, reading: Reading) -> None:
        self.space, self.aliases, self.capacity, self.reading = space, aliases, capacity, reading
        overlap = len(aliases) if len(aliases) <= _FREE_OVERLAP else 1
        self._levels = [_level(len(aliases), size, min(overlap, size)) for size in range(2, len(aliases) + 1)]
        self._formulas = [None] + [
            space.rates.formula(self.sub_query(mask).aliases, ()) for mask in range(1, 1 << len(aliases))
        ]
        self._log_at_1 = np.array([0.0] + [one.log_at() for one in self._formulas[1:] if one is not None])
        #: Logarithms by set: of combinations that meet, relative to the product of rates, and of equal keys in it.
        self._log_met = np.zeros(1 << len(aliases))
        self._log_keys = np.zeros(1 << len(aliases))
        if space.keys is not None:
            for mask in range(1, 1 << len(aliases)):
                self._log_met[mask] = space.rates.log_met(self.sub_query(mask).aliases)
                self._log_keys[mask] = space.keys.log_within(self.sub_query(mask).aliases)

    def sub_query(self, mask: int) -> SubQuery:
        return SubQuery(frozenset(alias for bit, alias in enumerate(self.aliases) if mask >> bit & 1))

    def cheapest(self, log_scaling: float) -> tuple[float, tuple[Step, ...]]:
        """The fewest units that sustain c (infinite if none do), and the steps that take them.

        Steps that two branches share count once in the number returned.
        """
        if len(self.aliases) < 2:
            return 0.0, ()
        units = np.full(1 << len(self.aliases), np.inf)
        units[[1 << bit for bit in range(len(self.aliases))]] = 0
        chosen: dict[int, tuple[int, int, float]] = {}
        log_rates, log_factor = self._log_rates(log_scaling)
        for level in self._levels:
            matches = np.repeat(log_rates[level.wholes], level.pairs_per_set)
            left, right = log_rates[level.left], log_rates[level.right]
            compared = self._log_compared(level, log_rates)
            needed = self._units(left, right, matches, compared, log_factor)
            total = (units[level.left] + units[level.right] + needed).reshape(-1, level.pairs_per_set)
            best = np.argmin(total, axis=1)
            rows = np.arange(len(best))
            units[level.wholes] = total[rows, best]
            places = rows * level.pairs_per_set + best
            for mask, place in zip(level.wholes.tolist(), places.tolist(), strict=True):
                chosen[mask] = (int(level.left[place]), int(level.right[place]), float(needed[place]))
        return self._collected(chosen, units[-1])

    def least_work(self, *, shared: bool) -> tuple[float, tuple[Step, ...]]:
        """The joins with the least sum of work (as shares of a unit's time at c = 1), and that sum.

        Without `shared` no two inputs have a position in common.
        """
        size = len(self.aliases)
        if size < 2:
            return 0.0, ()
        levels = self._levels if shared else [_level(size, count, 0) for count in range(2, size + 1)]
        work = np.zeros(1 << size)
        chosen: dict[int, tuple[int, int, float]] = {}
        rates = self._log_at_1
        for level in levels:
            matches = np.repeat(rates[level.wholes], level.pairs_per_set)
            own = self._work(rates[level.left], rates[level.right], matches, self._log_compared(level, rates))
            total = (work[level.left] + work[level.right] + own).reshape(-1, level.pairs_per_set)
            best = np.argmin(total, axis=1)
            rows = np.arange(len(best))
            work[level.wholes] = np.minimum(total[rows, best], 1e300)
            places = rows * level.pairs_per_set + best
            for mask, place in zip(level.wholes.tolist(), places.tolist(), strict=True):
                chosen[mask] = (int(level.left[place]), int(level.right[place]), float(own[place]))
        return self._collected(chosen, work[-1])

    def _work(self, left: Any, right: Any, matches: Any, log_compared: Any) -> npt.NDArray[np.float64]:
        """The share of a unit's time that each join takes on one unit."""
        capacity = self.capacity
        work = _shares(left, capacity.max_ingestion) + _shares(right, capacity.max_ingestion)
        work = work + _shares(log_compared, capacity.max_comparisons)
        if capacity.max_emission is not None:
            work = work + _shares(matches, capacity.max_emission)
        return np.asarray(np.minimum(work, 1e300))

    def _collected(self, chosen: dict[int, tuple[int, int, float]], total: float) -> tuple[float, tuple[Step, ...]]:
        if not math.isfinite(total):
            return math.inf, ()
        steps: dict[int, Step] = {}
        used = 0.0
        pending = [(1 << len(self.aliases)) - 1]
        while pending:
            mask = pending.pop()
            if mask in steps or mask & (mask - 1) == 0:
                continue
            left, right, needed = chosen[mask]
            steps[mask] = Step(self.sub_query(mask), (self.sub_query(left), self.sub_query(right)))
            used += needed
            pending += [left, right]
        return used, tuple(steps.values())

    def _log_rates(self, log_scaling: float) -> tuple[npt.NDArray[np.float64], float]:
        """Rates of all sets at c, and what costs are multiplied with beyond that."""
        if self.reading is Reading.LINEAR:
            return self._log_at_1, log_scaling
        rates = [one.log_at(log_scaling) for one in self._formulas[1:] if one is not None]
        return np.array([0.0, *rates]), 0.0

    def _log_compared(self, level: _Level, log_rates: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Comparisons of each join: twice the product of the rates, as the paper has it; where statistics were
        measured, the pairs that meet and have equal keys, as in `QueryRates.candidates`."""
        left, right = level.left, level.right
        if self.space.keys is None:
            return np.asarray(math.log(2) + log_rates[left] + log_rates[right])
        whole, shared = np.repeat(level.wholes, level.pairs_per_set), left & right
        alone = log_rates - self._log_met
        alone[0] = 0.0
        keys = self._log_keys
        met = self._log_met[whole] + alone[left] + alone[right] - alone[shared]
        return np.asarray(met + keys[whole] - keys[left] - keys[right] + keys[shared])

    def _units(
        self, left: Any, right: Any, matches: Any, log_compared: Any, log_factor: float
    ) -> npt.NDArray[np.float64]:
        """Units of each join: enough for its comparisons, and for its ingestion with the larger input dealt out."""
        capacity = self.capacity
        larger, smaller = np.maximum(left, right), np.minimum(left, right)
        compared = _shares(log_compared + log_factor, capacity.max_comparisons)
        dealt = _shares(larger + log_factor, capacity.max_ingestion)
        room = 1 - _shares(smaller + log_factor, capacity.max_ingestion)
        if capacity.objective is Objective.BUSY:  # all of it comes out of the same time
            dealt, compared = dealt + compared, 0.0
            if capacity.max_emission is not None:
                dealt = dealt + _shares(matches + log_factor, capacity.max_emission)
        with np.errstate(divide="ignore", over="ignore"):
            in_time = np.where(room > 0, dealt / np.where(room > 0, room, 1.0), np.inf)
        needed = np.maximum(compared, in_time)
        return np.asarray(np.maximum(1.0, np.ceil(needed * (1 - 1e-9))))


def _shares(log_load: Any, limit: float) -> Any:
    return np.exp(np.clip(log_load, -_LOG_MAX, _LOG_MAX)) / limit


@cache
def _level(positions: int, size: int, overlap: int) -> _Level:
    wholes = np.array([mask for mask in range(1 << positions) if mask.bit_count() == size], dtype=np.int64)
    left, right = _local_pairs(size, overlap)
    places = np.array([[bit for bit in range(positions) if mask >> bit & 1] for mask in wholes.tolist()])
    return _Level(wholes, _deposited(left, places), _deposited(right, places), len(left))


def _local_pairs(size: int, overlap: int) -> tuple[Masks, Masks]:
    """Pairs of proper subsets of `size` positions that cover them, each pair once."""
    full = (1 << size) - 1
    pairs = []
    for left in range(1, full):
        missing = full ^ left
        shared = left
        while True:  # all subsets of left
            right = missing | shared
            if left > right and shared.bit_count() <= overlap and right != full:
                pairs.append((left, right))
            if shared == 0:
                break
            shared = (shared - 1) & left
    found = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _deposited(local: Masks, places: Masks) -> Masks:
    """Local masks as masks over all positions, for each row of places."""
    result = np.zeros((len(places), len(local)), dtype=np.int64)
    for bit in range(places.shape[1]):
        result |= ((local >> bit) & 1)[None, :] << places[:, bit][:, None]
    return result.reshape(-1)
