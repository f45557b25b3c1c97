"""Readings out of what shufflers and units tell: counts add up over processes."""

from __future__ import annotations

from actors.ray_unit import UnitStatus
from actors.reports import OperatorReport, UnitReport
from cluster.readings import deployed_reading, local_reading
from costmodel.drift.readings import Counts
from shuffler.exchange.ray_shuffler import ShufflerStatus
from shuffler.routing.counts import FeedCounts


def shuffler(events: int, last_ts: int) -> ShufflerStatus:
    return ShufflerStatus(events, 0.1, 0.0, 0, 3, events, FeedCounts({"A": events}, {(0, "a"): events}, last_ts))


def unit(name: str, operator: str, number: int, counts: Counts, busy_s: float) -> UnitStatus:
    report = UnitReport(operator, number, 0, counts.ingested, counts.comparisons, counts.emitted, 0, 0)
    return UnitStatus(name, (report,), busy_s, 0.0, 0, 0)


def test_counts_of_all_processes_add_up() -> None:
    units = [
        unit("q/o/0", "o", 0, Counts(10, 20, 3), 0.5),
        unit("q/o/1", "o", 1, Counts(11, 22, 4), 0.75),
        unit("q/p/0", "p", 0, Counts(7, 1, 0), 0.25),
    ]
    reading = deployed_reading(8.0, [shuffler(30, 500), shuffler(40, 400)], units, delay_s=0.2)
    assert (reading.types, reading.ts_us) == ({"A": 70}, 500)
    assert reading.operators == {(0, "o"): Counts(21, 42, 7), (0, "p"): Counts(7, 1, 0)}
    assert reading.rows_sent == 28
    assert reading.busy_s["q/o/1"] == 0.75
    assert reading.delay_s == 0.2


def test_a_plan_in_one_process_is_read_by_its_reports() -> None:
    report = OperatorReport("q", "o", "SEQ(A,B)", 2, 5, 6, 7, 0)
    reading = local_reading(1.0, FeedCounts({"A": 3}, {(1, "a"): 2}, 9), [(), (report,)])
    assert reading.operators == {(1, "o"): Counts(5, 6, 7)}
    assert reading.leaves == {(1, "a"): 2}
    assert (reading.busy_s, reading.delay_s) == ({}, None)
