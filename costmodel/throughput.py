"""The largest scaling factor c that a plan sustains, and which operator and limit binds (4.2, 5.4, 6.1).

Two readings of c. `LINEAR`: costs are c times the costs at 1, as in the paper's formulas; c then has a closed form.
`RATES`: all primitive rates are multiplied by c and the rates of matches follow, which is what happens to a faster
stream; c is found by bisection. The two agree on whether a plan sustains c = 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from costmodel.capacity import Capacity
from costmodel.costs import Load, OperatorLoad
from costmodel.logarithms import LOG_MAX, LOG_ZERO, log_of, log_sum, value_of
from costmodel.pricing import PricedOperator
from decopa.choices import Objective, Reading

#: Scaling factors are searched for up to here; a plan that sustains it is called unlimited.
_LOG_MAX_SCALING = math.log(1e300)
#: How near (relative) the bisection comes to the largest c.
PRECISION = 1e-10
#: Loads may exceed a limit by this share, which is rounding.
_SLACK = 1e-9


class Limit(Enum):
    """What a unit runs out of first."""

    INGESTION = "ingestion"
    COMPARISON = "comparison"
    BUSY = "busy time"


@dataclass(frozen=True, slots=True)
class AssignedOperator:
    """An operator of a plan on its units."""

    name: str
    operator: PricedOperator
    units: int = 1


@dataclass(frozen=True, slots=True)
class Scaling:
    """The largest c, as a natural logarithm, with the operator and the limit that stand in the way of more.

    If nothing does (no operator, or none with anything to do), both are None and c is `MAX_VALUE`.
    """

    log_scaling: float
    operator: str | None = None
    limit: Limit | None = None

    @property
    def scaling_factor(self) -> float:
        return value_of(self.log_scaling)

    @property
    def unlimited(self) -> bool:
        return self.operator is None

    def __str__(self) -> str:
        if self.operator is None or self.limit is None:
            return "c is unlimited"
        return f"c = {self.scaling_factor:.6g}, limited by {self.limit.value} at {self.operator}"


@dataclass(frozen=True, slots=True)
class UnitsNeeded:
    """Processing units that a sub-query asks for: as the formula gives it, and rounded up to at least one."""

    exact: float
    units: int


def load_at(operator: PricedOperator, log_scaling: float, reading: Reading) -> OperatorLoad:
    """The operator's load per window at a scaling factor."""
    if reading is Reading.RATES:
        return operator.load(log_scaling)
    return operator.load().times(log_scaling)


def is_sustainable(ingestion: Iterable[float], comparisons: Iterable[float], capacity: Capacity) -> bool:
    """Definition 6 the right way round: no cost exceeds its capacity; equality is allowed."""
    return max(ingestion, default=0.0) <= capacity.max_ingestion * (1 + _SLACK) and max(
        comparisons, default=0.0
    ) <= capacity.max_comparisons * (1 + _SLACK)


def is_throughput_valid(
    operators: Iterable[AssignedOperator],
    capacity: Capacity,
    scaling_factor: float = 1.0,
    reading: Reading = Reading.LINEAR,
) -> bool:
    """Whether every unit of a plan sustains the scaling factor (Def. 6)."""
    loads = [(load_at(one.operator, log_of(scaling_factor), reading), one.units) for one in operators]
    if capacity.objective is Objective.BUSY:
        return all(room >= -_SLACK for load, units in loads for _, room in _log_room(load, units, capacity))
    return is_sustainable(
        [load.ingestion.per_unit(units) for load, units in loads],
        [load.comparisons.per_unit(units) for load, units in loads],
        capacity,
    )


def largest_scaling(
    operators: Iterable[AssignedOperator], capacity: Capacity, reading: Reading = Reading.LINEAR
) -> Scaling:
    """The largest c for which the plan is throughput valid; of several limits at the same c, the first is named."""
    best = Scaling(_LOG_MAX_SCALING)
    for one in operators:
        best = _lowered_linear(best, one, capacity) if reading is Reading.LINEAR else _lowered(best, one, capacity)
    return best


def units_needed(
    operator: PricedOperator,
    capacity: Capacity,
    scaling_factor: float = 1.0,
    reading: Reading = Reading.LINEAR,
) -> UnitsNeeded | None:
    """Units with which the operator sustains c (6.1); None if no number of them does, because what each has to do
    alone is already too much.
    """
    load = load_at(operator, log_of(scaling_factor), reading)
    exact = 0.0
    for _, part, limit in _budgets(load, capacity):
        shared, room = value_of(part.log_shared), limit - value_of(part.log_each)
        if room < -_SLACK * limit or (shared > 0 and room < _SLACK * limit):
            return None
        exact = max(exact, shared / room if shared else 0.0)
    return UnitsNeeded(exact, max(1, math.ceil(exact * (1 - _SLACK))))


def _log_room(load: OperatorLoad, units: int, capacity: Capacity) -> list[tuple[Limit, float]]:
    """By how much (as a logarithm) each load could grow until it meets its limit; what is no load has no limit."""
    loads = [(limit, part.log_per_unit(units), most) for limit, part, most in _budgets(load, capacity)]
    return [(limit, math.log(most) - log_load) for limit, log_load, most in loads if log_load > LOG_ZERO / 2]


def _budgets(load: OperatorLoad, capacity: Capacity) -> list[tuple[Limit, Load, float]]:
    """What a unit may run out of: the load and how much of it a unit can take."""
    parts = [
        (Limit.INGESTION, load.ingestion, capacity.max_ingestion),
        (Limit.COMPARISON, load.comparisons, capacity.max_comparisons),
    ]
    if capacity.objective is Objective.LIMITS:
        return parts
    shares = [part.times(-math.log(most)) for _, part, most in parts]
    if capacity.max_emission is not None:
        shares.append(load.emission.times(-math.log(capacity.max_emission)))
    together = Load(log_sum(*(one.log_each for one in shares)), log_sum(*(one.log_shared for one in shares)))
    return [(Limit.BUSY, together, 1.0)]


def _lowered_linear(best: Scaling, one: AssignedOperator, capacity: Capacity) -> Scaling:
    for limit, room in _log_room(one.operator.load(), one.units, capacity):
        if room < best.log_scaling:
            best = Scaling(room, one.name, limit)
    return best


def _lowered(best: Scaling, one: AssignedOperator, capacity: Capacity) -> Scaling:
    """The best so far, or what this operator alone sustains if that is less."""

    def tightest(log_scaling: float) -> tuple[float, Limit | None]:
        rooms = _log_room(one.operator.load(log_scaling), one.units, capacity)
        return min(((room, limit) for limit, room in rooms), key=lambda pair: pair[0], default=(LOG_MAX, None))

    room, limit = tightest(0.0)
    if limit is None:
        return best
    # Loads grow at least linearly in c, so the largest c lies between 1 and the c that linear costs would allow.
    low, high = min(0.0, room), min(max(0.0, room), best.log_scaling)
    if low >= best.log_scaling:
        return best
    room_high, limit = tightest(high)
    if room_high >= 0:
        return best if high == best.log_scaling else Scaling(high, one.name, limit)
    low = max(low, high + room_high)
    room_low, _ = tightest(low)
    for step in itertools.count():
        middle = (low + high) / 2
        if high - low <= PRECISION or room_low <= PRECISION or not low < middle < high:
            return Scaling(low, one.name, limit)
        # Near the end loads are nearly powers of c, so that the chord points at it; a step to the middle now and then
        # bounds the number of steps where they are not, and where the chord is rounded to an end.
        chord = low + (high - low) * room_low / (room_low - room_high)
        if high - low < 1 and step % 3 < 2 and low < chord < high:
            middle = chord
        room, blocking = tightest(middle)
        if room >= 0:
            low, room_low = middle, room
        else:
            high, room_high, limit = middle, room, blocking
            if middle + room > low:  # again: at least linear growth
                low, room_low = middle + room, tightest(middle + room)[0]
    raise AssertionError("unreachable")
