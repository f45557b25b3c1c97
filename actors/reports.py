"""What the units of an operator did, summed up for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from actors.unit import ProcessingUnit
from decopa.planning.plan import PlanOperator, QueryPlan


@dataclass(frozen=True, slots=True)
class UnitReport:
    """Counters of one unit of a part of the plan; `busy_s` is the time its process spent on its work, 0 where nobody
    measured it."""

    operator: str
    unit: int
    copy: int
    ingested: int
    comparisons: int
    emitted: int
    state_rows: int
    state_bytes: int
    busy_s: float = 0.0
    most_spilled_bytes: int = 0
    part: int = 0


@dataclass(frozen=True, slots=True)
class OperatorReport:
    """What the units of one operator did; `busiest` is the largest share of the run that one of them was busy."""

    query: str
    name: str
    sub_query: str
    units: int
    ingested: int
    comparisons: int
    emitted: int
    state_bytes: int
    busiest: float = 0.0
    most_spilled_bytes: int = 0


def unit_reports(units: Mapping[tuple[str, int], ProcessingUnit], copy: int, part: int = 0) -> tuple[UnitReport, ...]:
    return tuple(
        UnitReport(
            operator,
            number,
            copy,
            unit.counters.ingested,
            unit.counters.comparisons,
            unit.counters.emitted,
            unit.logic.state_rows,
            unit.logic.state_bytes,
            most_spilled_bytes=unit.memory.most_on_disk,
            part=part,
        )
        for (operator, number), unit in units.items()
    )


def operator_report(
    plan: QueryPlan, operator: PlanOperator, units: Iterable[UnitReport], seconds: float = 0.0
) -> OperatorReport | None:
    """The sum over an operator's units in all copies of its part, of which `units` are; None for a leaf, which has
    none."""
    mine = [unit for unit in units if unit.operator == operator.name]
    if not mine:
        return None
    return OperatorReport(
        plan.query.name,
        operator.name,
        operator.sub_query.text(plan.query),
        operator.units * plan.slices,
        sum(unit.ingested for unit in mine),
        sum(unit.comparisons for unit in mine),
        sum(unit.emitted for unit in mine),
        sum(unit.state_bytes for unit in mine),
        max(unit.busy_s for unit in mine) / seconds if seconds > 0 else 0.0,
        max(unit.most_spilled_bytes for unit in mine),
    )
