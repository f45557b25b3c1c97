"""Rows that a plan sends to its units: what the thesis calls transmission cost, and c does not see."""

from __future__ import annotations

from collections.abc import Sequence

from costmodel.formulas import RateModel
from costmodel.rates import QueryRates, model_for
from costmodel.statistics import Statistics
from decopa.planning.plan import Plan, QueryPlan

#: A copy of a sliced plan gets each of its windows together with the next one.
_WINDOWS_PER_SLICE = 2


def rows_per_window(part: QueryPlan, statistics: Statistics, model: RateModel | None = None) -> float:
    """Rows that go to the units of one part per window: those of an input that is dealt out once, those of one that is
    broadcast once for each unit that works. What leaves for the sink is the same in every plan and not counted."""
    rates = QueryRates(part.query, statistics, model or model_for(statistics))
    rows = 0.0
    for operator in part.operators:
        roles = part.roles(operator)
        for side, source in enumerate(part.inputs(operator)):
            rows += rates.rate(source.sub_query.aliases, source.sub_query.closed) * roles.receivers(side)
    return rows * min(part.slices, _WINDOWS_PER_SLICE)


def rows_per_second(plan: Plan, statistics: Sequence[Statistics], model: RateModel | None = None) -> float:
    """Rows of all parts per second of event time; `statistics` are one for each part."""
    return sum(
        rows_per_window(part, known, model) / (part.query.window_us / 1e6)
        for part, known in zip(plan.parts, statistics, strict=True)
    )
