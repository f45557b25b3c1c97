"""`scripts/scale_outlook`: what a query would take on 10 to 10,000 units, counted from plans, and simulated.

With --measured, the simulation is held against the points of a scaling test (results.json of `decopa scale`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.choices import Objective
from decopa.documents import read_document
from decopa.errors import DecoPaError
from decopa.language.text.parser import parse_workload
from decopa.planning.plan import Plan
from decopa.planning.predict import predict
from decopa.query.binding import bind
from decopa.query.query import Query
from decopa.report.table import markdown_table
from decopa.runs.model_check import predicted_rate
from decopa.runs.preparation.measure import measure
from decopa.runs.preparation.planning import per_part
from decopa.runs.scaling.scale_points import PointKey
from decopa.runs.scaling.scale_test import ScaleSettings, ScaleTest
from scripts.outlook.counting import outlook
from scripts.outlook.simulation import Simulated, simulate
from shuffler.source.trace import TraceSource, open_trace

_TITLES = ("units", "planned in", "events/s, predicted", "simulated", "channels", "shufflers send", "units send",
           "checkpoint", "coordinator, a checkpoint", "driver busy", "recovery")  # fmt: skip
_MEASURED = ("units", "measured/s", "simulated/s", "error", "predicted/s", "error")
#: A scaling test feeds blocks of this many seconds.
_BLOCK_S, _LEAST_ROWS = 0.2, 16
#: Measured points are simulated with so many blocks, offered faster than the model says that a plan can take them.
_BATCHES, _TOO_MUCH = 600, 1.3


@dataclass(frozen=True)
class Case:
    """A query, its trace and what a unit can do."""

    queries: tuple[Query, ...]
    source: TraceSource
    statistics: tuple[Statistics, ...]
    capacity: Capacity

    def plan(self, units: int) -> Plan:
        """As a scaling test plans it."""
        test = ScaleTest(self.queries, self.statistics, self.source, ScaleSettings(self.capacity))
        return test.plan(PointKey("decopa", units))

    @property
    def events(self) -> int:
        return self.source.row_count or 0

    def known(self, plan: Plan) -> list[Statistics]:
        return [one for one in per_part(plan, self.queries, self.statistics) if one is not None]

    def rate(self, plan: Plan) -> float:
        return predicted_rate(plan, self.known(plan), self.source.span_us, self.events, self.capacity)[0]

    def simulated(
        self, plan: Plan, capacity: Capacity, *, shufflers: int, batch: int, batches: int, offered: float | None = None
    ) -> Simulated:
        expected = [
            predict(part, one, self.source.span_us) for part, one in zip(plan.parts, self.known(plan), strict=True)
        ]
        return simulate(
            plan, expected, self.events, capacity, shufflers=shufflers, batch=batch, batches=batches, offered=offered
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/scale_outlook", description=__doc__)
    parser.add_argument("query", type=Path, help="a file with one query")
    parser.add_argument("--trace", type=Path, required=True, help="events to measure rates and selectivities in")
    parser.add_argument("--units", default="10,30,100,300,1000,3000,10000", help="numbers of units")
    parser.add_argument("--iota", type=float, required=True, help="events a unit takes in per second")
    parser.add_argument("--kappa", type=float, required=True, help="comparisons a unit makes per second")
    parser.add_argument("--shufflers-per", type=int, default=16, help="units that one shuffler serves (default: 16)")
    parser.add_argument("--simulate", type=int, default=300, metavar="N", help="simulates up to N units (default: 300)")
    parser.add_argument("--measured", type=Path, metavar="FILE", help="results.json of a scaling test of this query")
    chosen = parser.parse_args(arguments)
    queries, source = parse_workload(chosen.query.read_text()), open_trace(chosen.trace)
    statistics = tuple(one.statistics for one in measure(queries, source))
    capacity = replace(Capacity.per_second(chosen.iota, chosen.kappa), objective=Objective.BUSY)
    case = Case(tuple(queries), source, statistics, capacity)
    if chosen.measured is not None:
        print(markdown_table(_MEASURED, list(measured_rows(case, chosen.measured))))
        return 0
    rows = []
    for units in map(int, chosen.units.split(",")):
        rows.append(
            outlook_row(case, units, max(1, units // chosen.shufflers_per), simulate_it=units <= chosen.simulate)
        )
        print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    print(markdown_table(_TITLES, rows))
    return 0


def outlook_row(case: Case, units: int, shufflers: int, *, simulate_it: bool) -> tuple[str, ...]:
    began = time.perf_counter()
    plan = case.plan(units)
    planned_s = time.perf_counter() - began
    rate, span_us = case.rate(plan), case.source.span_us
    expected = [predict(part, one, span_us) for part, one in zip(plan.parts, case.known(plan), strict=True)]
    bounds = [bind(part.query, case.source.schema) for part in plan.parts]
    counted = outlook(plan, bounds, expected, span_s=span_us / 1e6, events=case.events, rate=rate, shufflers=shufflers)
    simulated = "-"
    if simulate_it:
        found = case.simulated(plan, case.capacity, shufflers=shufflers, batch=32_768, batches=max(40, 4 * shufflers))
        simulated = f"{found.events_per_s:,.0f}"
    return (
        f"{units:,}",
        f"{planned_s:.2f} s",
        f"{rate:,.0f}",
        simulated,
        f"{counted.channels:,}",
        f"{counted.shuffled_bytes_per_s / 1e6:,.1f} MB/s",
        f"{counted.exchanged_bytes_per_s / 1e6:,.1f} MB/s",
        f"{counted.checkpoint_bytes / 1e6:,.1f} MB",
        f"{counted.coordinator_s:.2f} s",
        f"{counted.driver_share:.1%}",
        f"{counted.recovery_s:.0f} s",
    )


def measured_rows(case: Case, results: Path) -> list[tuple[str, ...]]:
    """Simulated against measured, for each point that `decopa` planned."""
    document = read_document(
        results.read_bytes(), format="decopa-scaling-results", version=1, name=str(results), error=DecoPaError,
        remedy="give the results.json of a scaling test",
    )  # fmt: skip
    rows = []
    for point in document.objects("points"):
        if point.value("strategy", str) != "decopa":
            continue
        plan, clock = case.plan(point.value("units", int)), point.number("clock")
        measured = point.number("measured")
        predicted = case.rate(plan)
        batch = int(max(_LEAST_ROWS, predicted * clock * _BLOCK_S))
        offered = _TOO_MUCH * predicted * clock
        found = case.simulated(
            plan, case.capacity.times(clock), shufflers=1, batch=batch, batches=_BATCHES, offered=offered
        )
        simulated = found.events_per_s / clock
        rows.append(
            (
                str(point.value("units", int)),
                f"{measured:,.4g}",
                f"{simulated:,.4g}",
                f"{100 * (simulated - measured) / measured:+.1f} %",
                f"{predicted:,.4g}",
                f"{100 * (predicted - measured) / measured:+.1f} %",
            )
        )
    return rows


if __name__ == "__main__":
    sys.exit(main())
