"""Readings of a running plan: counters of shufflers and units as the monitor wants them, in one process and on Ray."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from actors.reports import OperatorReport
from costmodel.drift.readings import Counts, OperatorKey, Reading
from shuffler.routing.counts import FeedCounts

if TYPE_CHECKING:
    from actors.ray_unit import UnitStatus
    from shuffler.exchange.ray_shuffler import ShufflerStatus


def local_reading(at_s: float, counts: FeedCounts, part_reports: Sequence[Sequence[OperatorReport]]) -> Reading:
    """Of a plan in one process, which shares a processor: nobody measures how busy its units are."""
    operators = {
        (part, report.name): Counts(report.ingested, report.comparisons, report.emitted)
        for part, reports in enumerate(part_reports)
        for report in reports
    }
    return Reading(at_s, counts.last_ts, counts.types, counts.leaves, operators)


def deployed_reading(
    at_s: float, shufflers: Iterable[ShufflerStatus], units: Iterable[UnitStatus], delay_s: float | None = None
) -> Reading:
    """Of a plan on Ray; `delay_s` is how far its sinks are behind the stream."""
    statuses = list(units)
    counts = FeedCounts.united(status.counts for status in shufflers)
    operators: dict[OperatorKey, Counts] = {}
    for status in statuses:
        for unit in status.units:
            key = (unit.part, unit.operator)
            done = Counts(unit.ingested, unit.comparisons, unit.emitted)
            operators[key] = operators.get(key, Counts()) + done
    busy_s = {status.name: status.busy_s for status in statuses}
    return Reading(at_s, counts.last_ts, counts.types, counts.leaves, operators, busy_s, delay_s)
