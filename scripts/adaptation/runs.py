"""One run of the experiment: a stream, a plan, and who decides when it changes. Rows are counted by the units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

import decopa
from cluster.change.history import BlockRing
from cluster.change.local import ChangingPipeline
from cluster.readings import local_reading
from costmodel.capacity import Capacity
from costmodel.drift.readings import Reading
from costmodel.drift.watch import Suspicion
from costmodel.statistics import Statistics
from decopa.planning.change.candidates import candidate_plans
from decopa.planning.change.monitor import Adaptation, Monitor
from decopa.planning.change.pricing import Pricing
from decopa.planning.change.proposal import SwitchRules
from decopa.planning.change.thesis import ThesisScheme
from decopa.planning.history import history_us
from decopa.planning.plan import Plan
from decopa.planning.planner import plan_workload
from decopa.query.query import Query
from scripts.adaptation.stream import Drift
from shuffler.rows.events import EventBatch
from shuffler.source.trace import open_trace

WINDOW_US = 2_000_000
#: Events have one of so many keys, and matches equal ones.
KEYS = 1_000
#: What the new plan must sustain of the inflated load, for it to be called enough.
ROOM = 2.0
#: Every saving counts here, as in the thesis; by default a switch must save 30 % of the rows.
RULES = SwitchRules(fewer_rows=0.1)

#: Takes the time (s), the events of the last second and the counters; returns a plan to change to.
Decider = Callable[[float, EventBatch, Reading], Plan | None]


@dataclass(frozen=True)
class Result:
    """Rows that went to units, `replayed` of them to build a new plan from history; the times (s) of changes; matches
    found."""

    rows: int
    replayed: int
    changes: tuple[float, ...]
    matches: int


@dataclass(frozen=True)
class Case:
    """An operator over types, on some units; `one_unit` sizes units so that a single one sustains the inflated load,
    else so that all of them do and one does not."""

    operator: str
    drift: Drift
    units: int
    one_unit: bool

    @cached_property
    def query(self) -> Query:
        names = [name for name in self.drift.before if name != "C"]
        types = ", ".join(f"{name} {name.lower()}" for name in (*names, "C"))
        equal = " AND ".join(f"{name.lower()}.k = c.k" for name in names)
        return decopa.parse(f"PATTERN {self.operator}({types}) WHERE {equal} WITHIN 2 s")

    def statistics(self, rates: Mapping[str, float]) -> Statistics:
        """Rates are events a second; a key has one of KEYS values."""
        names = list(rates)
        pairs = {(one, "C"): 1 / KEYS for one in names if one != "C"}
        per_window = {name: rate * WINDOW_US / 1e6 for name, rate in rates.items()}
        return replace(Statistics.of(WINDOW_US, per_window, pairs), default_selectivity=1.0)

    @cached_property
    def capacity(self) -> Capacity:
        """Comparisons limit a unit: `ROOM` times what it must make at the inflated rates."""
        endless = Capacity.per_second(1e9, 1e9)
        known = self.statistics(self.drift.after)
        units = 1 if self.one_unit else self.units
        plan = plan_workload([self.query], known, endless, units=max(units, len(self.drift.before) - 1)).plan
        sustained = Pricing(endless).value(plan, [known]).scaling_factor
        return Capacity.per_second(1e9, 1e9 * ROOM / sustained)

    @cached_property
    def plan(self) -> Plan:
        """The plan for the rates before inflation, which deals out C."""
        known = self.statistics(self.drift.before)
        return plan_workload([self.query], known, self.capacity, units=self.units).plan


def play(case: Case, table: pa.Table, decide: Decider | None = None) -> Result:
    """Runs a case over its events, a second at a time; `decide` is asked after each."""
    source = open_trace(table)
    pipeline = ChangingPipeline(case.plan, source.format, source.strings, BlockRing(10 * WINDOW_US))
    changes: list[float] = []
    replayed = 0
    for second, events in _seconds(source.batches(["k"], 1 << 20), case.drift.length_s):
        if len(events):
            pipeline.feed(events)
        reading = local_reading(second, pipeline.counts, pipeline.part_reports())
        plan = None if decide is None else decide(second, events, reading)
        if plan is not None:
            pipeline.switch(plan)
            replayed += local_reading(second, pipeline.counts, pipeline.part_reports()).rows_sent
            changes.append(second)
    pipeline.finish()
    matches = sum(found.num_rows for found in pipeline.take().values())
    return Result(sum(report.ingested for report in pipeline.reports()), replayed, tuple(changes), matches)


def _seconds(batches: Iterator[EventBatch], length_s: int) -> Iterator[tuple[float, EventBatch]]:
    """The events of each second, with the time at its end."""
    for events in batches:
        ends = np.searchsorted(events.ts, np.arange(1, length_s + 1) * 1_000_000)
        begin = 0
        for second, end in enumerate(ends, 1):
            yield float(second), events.slice(begin, int(end))
            begin = int(end)


def by_thesis(case: Case) -> Decider:
    """The thesis' scheme: the plan with one unit, eight seconds after five violations in a row."""
    scheme = ThesisScheme(case.plan)
    due: list[tuple[float, Plan]] = []

    def decide(second: float, events: EventBatch, reading: Reading) -> Plan | None:
        codes = {name: code for code, name in enumerate(events.type_names)}
        times = {name: events.ts[events.type_codes == code] / 1e6 for name, code in codes.items()}
        decision = scheme.look(second, times)
        if decision is not None:
            due.append((decision.cut_s, decision.plan))
        return due.pop()[1] if due and second >= due[0][0] else None

    return decide


def by_monitor(case: Case) -> tuple[Decider, Monitor]:
    """Our monitor, on the counters of the run; rates as counted, selectivities as its operators show them."""
    monitor = Monitor(case.plan, Pricing(case.capacity), history_us=history_us, rules=RULES)

    def measure(suspicion: Suspicion) -> list[Statistics]:
        known = case.statistics(case.drift.before)
        return [replace(known, rates={name: max(1e-3, suspicion.rates[name]) for name in known.rates})]

    def replan(known: Sequence[Statistics], speed: float) -> list[Plan]:
        return candidate_plans(monitor.plan, known, monitor.pricing, units=case.units, speed=speed)

    adaptation = Adaptation(monitor, measure, replan)

    def decide(second: float, events: EventBatch, reading: Reading) -> Plan | None:
        decision = adaptation.look(reading)
        if decision is None:
            return None
        monitor.switched(decision, second)
        return decision.plan

    return decide, monitor
