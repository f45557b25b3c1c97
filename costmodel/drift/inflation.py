"""The thesis' experiment: by how much inputs are inflated (Algorithm 4), and what a repair saves (6.3)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from decopa.errors import StatisticsError

#: The inflation factors of the thesis' tables.
FACTORS = (0.2, 0.5, 0.7, 1.0, 1.3, 1.5, 2.0, 3.0, 4.0, 5.0, 10.0)


class Inflation(Enum):
    """What is brought to alpha times the partitioning rate: the sum of the other rates (as the text has it), or the
    largest of them (as the author's code has it). `PRINTED` is the fraction of the listing, upside down."""

    SUM = "sum"
    MAX = "max"
    PRINTED = "printed"


def inflated(ratios: Sequence[float], alpha: float, inflation: Inflation = Inflation.SUM) -> list[float]:
    """Event ratios with all but the largest, the partitioning one, multiplied by one factor. Those that equal the
    largest stay as they are."""
    top = max(ratios)
    others = [ratio for ratio in ratios if ratio != top]
    if not others or not alpha > 0 or min(ratios) <= 0:
        raise StatisticsError(
            f"inflation needs a positive factor, got {alpha:g}, and positive ratios that differ: {ratios}"
        )
    match inflation:
        case Inflation.SUM:
            factor = alpha * top / sum(others)
        case Inflation.MAX:
            factor = alpha * top / max(others)
        case Inflation.PRINTED:
            factor = sum(others) / (alpha * top)
    return [ratio if ratio == top else ratio * factor for ratio in ratios]


def saving(static: float, adaptive: float) -> float:
    """The saving in percent; below 0 if adapting cost more."""
    return 100 * (1 - adaptive / static)
