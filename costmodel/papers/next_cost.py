"""The cost model of the NEXT CEP paper (4.2, Table 1): rates, detection times, bursts and CPU cost of an expression.

For its tables, for the rewriter that is compared with it, and for `explain`. Plans are made with the engine's own model
(`costmodel.costs.next_load`), which has no bursts. Rates are worst cases: no selectivities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from decopa.errors import StatisticsError


class UnionBursts(Enum):
    """Table 1 prints the burst size of a union as a rate. `WEIGHTED` divides it by the union's burst rate, which makes
    size times rate the rate of events; `PRINTED` keeps the table to the letter."""

    WEIGHTED = "weighted"
    PRINTED = "printed"


@dataclass(frozen=True, slots=True)
class Stream:
    """A source of events."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class After:
    """`left;right`: the immediate successor of left among right."""

    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"({self.left};{self.right})"


@dataclass(frozen=True, slots=True)
class Either:
    """`left|right`: the union."""

    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"({self.left}|{self.right})"


@dataclass(frozen=True, slots=True)
class Unless:
    """`left\\right`: the exception."""

    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"({self.left}\\{self.right})"


@dataclass(frozen=True, slots=True)
class Filtered:
    """Events of an expression that fulfil a condition; worst case, all do."""

    inner: Expression

    def __str__(self) -> str:
        return f"filter({self.inner})"


@dataclass(frozen=True, slots=True)
class Delayed:
    """`inner@t`: a moment t seconds after each event."""

    inner: Expression
    seconds: float

    def __str__(self) -> str:
        return f"({self.inner}@{self.seconds:g})"


Expression: TypeAlias = Stream | After | Either | Unless | Filtered | Delayed


@dataclass(frozen=True, slots=True)
class Profile:
    """What an expression puts out, per second: its rate, the time that it takes to detect (s), size and rate of its
    bursts; and the CPU cost of its topmost operator and of all of its operators."""

    rate: float
    detection_s: float
    burst_size: float
    burst_rate: float
    operator_cost: float = 0.0
    cost: float = 0.0

    @classmethod
    def of_source(cls, rate: float) -> Profile:
        return cls(rate, 1 / rate, 1.0, rate)


def profile(expression: Expression, rates: Mapping[str, float], union: UnionBursts = UnionBursts.WEIGHTED) -> Profile:
    """The profile of an expression over sources with the given rates."""
    match expression:
        case Stream():
            rate = rates.get(expression.name, 0.0)
            if rate <= 0:
                raise StatisticsError(f"no positive rate for the stream '{expression.name}'; add its events per second")
            return Profile.of_source(rate)
        case Filtered() | Delayed():
            inner = profile(expression.inner, rates, union)
            delay = expression.seconds if isinstance(expression, Delayed) else 0.0
            return Profile(
                inner.rate, inner.detection_s + delay, inner.burst_size, inner.burst_rate, inner.rate,
                inner.cost + inner.rate,
            )  # fmt: skip
    left, right = profile(expression.left, rates, union), profile(expression.right, rates, union)
    match expression:
        case After():
            return after(left, right)
        case Either():
            return either(left, right, union)
        case Unless():
            own = left.rate + right.rate
            return Profile(
                left.rate, left.detection_s, left.burst_size, left.burst_rate, own, left.cost + right.cost + own
            )


def after(left: Profile, right: Profile) -> Profile:
    """Left events gather until a right one comes: bursts are what makes the shape of a tree matter.

    The burst size is as printed, although it is below 1 where right events are the more frequent ones.
    """
    gathered = right.detection_s / left.detection_s * left.burst_size * right.burst_size * right.burst_rate
    own = left.rate + gathered + max(right.burst_rate - left.burst_rate, 0.0) * right.burst_size
    return Profile(
        rate=left.rate,
        detection_s=left.detection_s + right.detection_s,
        burst_size=left.burst_size * left.burst_rate * right.detection_s,
        burst_rate=1 / max(left.detection_s, right.detection_s),
        operator_cost=own,
        cost=left.cost + right.cost + own,
    )


def either(left: Profile, right: Profile, union: UnionBursts = UnionBursts.WEIGHTED) -> Profile:
    burst_rate = left.burst_rate + right.burst_rate
    size = left.burst_size * left.burst_rate + right.burst_size * right.burst_rate
    own = left.rate + right.rate
    return Profile(
        rate=own,
        detection_s=1 / burst_rate,
        burst_size=size if union is UnionBursts.PRINTED else size / burst_rate,
        burst_rate=burst_rate,
        operator_cost=own,
        cost=left.cost + right.cost + own,
    )


def cost(expression: Expression, rates: Mapping[str, float]) -> float:
    """The CPU cost of an expression: the sum over its operators."""
    return profile(expression, rates).cost


def operators_of(expression: Expression) -> Iterator[Expression]:
    """Every operator of an expression, inputs before what takes them; streams are none."""
    match expression:
        case Stream():
            return
        case Filtered() | Delayed():
            yield from operators_of(expression.inner)
        case _:
            yield from operators_of(expression.left)
            yield from operators_of(expression.right)
    yield expression
