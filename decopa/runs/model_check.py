"""Predicted against measured: the load of every operator of a plan, the time its units are busy, the rate it sustains.

Predictions are those of `decopa.planning.predict`; the busy time is `Capacity.busy`. A stream that is played faster
brings more events per second and the same comparisons for each, so that loads are linear in the rate.
"""

from __future__ import annotations

import statistics as summary
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from actors.reports import OperatorReport
from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.planning.plan import Plan
from decopa.planning.predict import Prediction, Total, predict
from shuffler.routing.topology import Topology

QUANTITIES = ("ingested", "comparisons", "emitted")


@dataclass(frozen=True, slots=True)
class LoadCheck:
    """One quantity of one operator over a run; `error` is (predicted - measured) / measured, None without a measure."""

    query: str
    operator: str
    sub_query: str
    quantity: str
    predicted: float
    measured: float
    rough: bool = False
    interval: tuple[float, float] | None = None

    @property
    def covered(self) -> bool | None:
        """Whether what was measured lies in the interval that was told for it, or off it by less than one count; None
        if none was told."""
        return None if self.interval is None else self.interval[0] - 1 <= self.measured <= self.interval[1] + 1

    @property
    def error(self) -> float | None:
        return Total(self.predicted).error(self.measured)


def check_loads(
    plan: Plan,
    statistics: Sequence[Statistics],
    span_us: float,
    reports: Sequence[Mapping[str, OperatorReport]],
    capacity: Capacity | None = None,
    busy_s: Mapping[tuple[int, str], float] | None = None,
) -> list[LoadCheck]:
    """Every operator of every part of a plan, over `span_us` of event time; `reports` are by part and operator.

    With a capacity and `busy_s`, the measured seconds by part and operator, busy time is checked, too.
    """
    found = []
    for part, (query_plan, known, mine) in enumerate(zip(plan.parts, statistics, reports, strict=True)):
        expected = predict(query_plan, known, round(span_us))
        for name, report in mine.items():
            totals = (expected[name].ingested, expected[name].comparisons, expected[name].emitted)
            measured = (report.ingested, report.comparisons, report.emitted)
            head = (query_plan.query.name, name, report.sub_query)
            found += [
                LoadCheck(
                    *head, quantity, total.value, count, total.rough, total.interval if quantity == "emitted" else None
                )
                for quantity, total, count in zip(QUANTITIES, totals, measured, strict=True)
            ]
            if capacity is not None and busy_s is not None and (part, name) in busy_s:
                busy = _busy_s(expected[name], capacity.per_second_at(query_plan.query.window_us))
                rough = any(total.rough for total in totals)
                found.append(LoadCheck(*head, "busy_s", busy, busy_s[part, name], rough))
    return found


def median_error(checks: Iterable[LoadCheck], quantity: str, *, least: float = 0.0) -> float | None:
    """The median size of the relative errors of one quantity, over operators that did at least so much."""
    errors = [abs(one.error) for one in checks if one.quantity == quantity and one.error is not None
              and one.measured >= least]  # fmt: skip
    return summary.median(errors) if errors else None


def predicted_busy_s(
    plan: Plan, statistics: Sequence[Statistics], span_us: float, capacity: Capacity
) -> dict[str, float]:
    """Seconds that each process is busy with `span_us` of event time, by its name."""
    topology = Topology(plan)
    expected = [predict(part, known, round(span_us)) for part, known in zip(plan.parts, statistics, strict=True)]
    busy = {}
    for process in topology.units:
        busy[process.name] = 0.0
        for unit in process.units:
            part = plan.parts[unit.part]
            per_second = capacity.per_second_at(part.query.window_us)
            active = part.roles(part.operator(unit.operator)).active_units
            busy[process.name] += _busy_s(expected[unit.part][unit.operator], per_second) / active / part.slices
    return busy


def predicted_shares(
    plan: Plan, statistics: Sequence[Statistics], span_us: float, seconds: float, capacity: Capacity
) -> list[dict[str, float]]:
    """The share of a run of `seconds` that the busiest unit of each operator is busy, by part and operator; operators
    that share a process share its time."""
    busy = predicted_busy_s(plan, statistics, span_us, capacity)
    shares: list[dict[str, float]] = [{} for _ in plan.parts]
    for process in Topology(plan).units:
        for unit in process.units:
            mine = shares[unit.part]
            mine[unit.operator] = max(mine.get(unit.operator, 0.0), busy[process.name] / seconds)
    return shares


def predicted_rate(
    plan: Plan, statistics: Sequence[Statistics], span_us: float, events: int, capacity: Capacity
) -> tuple[float, str | None]:
    """The largest rate (events/s) at which no process is busy all the time, and the process that is first."""
    busy = predicted_busy_s(plan, statistics, span_us, capacity)
    slowest = max(busy, key=lambda name: busy[name], default=None)
    if slowest is None or busy[slowest] <= 0:
        return float("inf"), None
    return events / busy[slowest], slowest


def _busy_s(expected: Prediction, per_second: Capacity) -> float:
    """Of all units of an operator together."""
    return per_second.busy(expected.ingested.value, expected.comparisons.value, expected.emitted.value)
